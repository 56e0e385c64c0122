"""Eight bits give nearly the same logits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import translate
from torch import nn

from onmt_exhird import stream
from onmt_exhird.bridge.quantised import QuantisedCopyGenerator, quantised
from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn.copying import CopyGenerator

PAD = 1


def test_the_mixture_is_nearly_the_same_and_padding_stays_out() -> None:
    torch.manual_seed(3)
    generator = CopyGenerator(7, 2500, PAD)  # more than one part
    eight_bits = QuantisedCopyGenerator(generator)
    hidden, attention = torch.randn(5, 7), torch.rand(5, 3).softmax(1)
    source = torch.randint(4, 2503, (5, 3))
    full = generator.log_mixture(hidden, attention, source, 2503)
    ours = eight_bits.log_mixture(hidden, attention, source, 2503)
    assert ours[:, PAD].eq(-torch.inf).all() and full[:, PAD].eq(-torch.inf).all()
    finite = full.isfinite()
    assert torch.equal(finite, ours.isfinite())
    assert (full - ours)[finite].abs().max() < 0.02
    assert not torch.equal(full, ours)
    assert ours.exp().sum(1).tolist() == pytest.approx([1.0] * 5, abs=1e-4)
    wanted = source[:, :1]
    assert torch.equal(
        eight_bits.score(hidden, attention, source, wanted), generator.score(hidden, attention, source, wanted)
    )


def test_a_linear_layer_is_nearly_the_same() -> None:
    torch.manual_seed(3)
    linear, x = nn.Linear(7, 5), torch.randn(3, 7)
    linear.weight.data[2] = 0.0
    assert (quantised(linear)(x) - linear(x)).abs().max() < 0.05


def test_another_output_layer_is_refused() -> None:
    with pytest.raises(ExhirdError, match="one -model"):
        quantised(nn.ReLU())


def test_torchs_own_engine_stays_what_it_was() -> None:
    before = torch.backends.quantized.engine
    quantised(nn.Linear(3, 2))
    assert torch.backends.quantized.engine == before


@pytest.mark.parametrize("beam", [1, 3])
def test_streams_in_eight_bits(beam: int, workshop: Path, trained) -> None:
    lines, full = (
        translate(workshop, trained("exhird"), "test.src", "-beam_size", beam, *precision)
        for precision in (["-precision", "int8"], [])
    )
    assert all(stream.parse(line) for line in lines)
    assert sum(map(str.__eq__, lines, full)) > 0.8 * len(full)
