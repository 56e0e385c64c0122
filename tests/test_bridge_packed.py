"""The output layer of search gives the same logits, in eight bits nearly the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import translate
from torch import nn

from onmt_exhird import stream
from onmt_exhird.bridge import packed
from onmt_exhird.bridge.packed import PackedCopyGenerator, QuantisedCopyGenerator, for_search
from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn.copying import CopyGenerator

PAD, VOCAB = 1, 2500  # more than one part


def make() -> tuple[CopyGenerator, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    torch.manual_seed(3)
    hidden, attention = torch.randn(5, 7), torch.rand(5, 3).softmax(1)
    return CopyGenerator(7, VOCAB, PAD), (hidden, attention, torch.randint(4, VOCAB + 3, (5, 3)))


@pytest.fixture
def can_pack() -> None:
    if not packed.can_pack(torch.empty(1)):
        pytest.skip("this torch has no packed products")


def test_the_packed_layer_gives_the_same_mixture_and_scores(can_pack) -> None:
    generator, inputs = make()
    ours = for_search(generator)
    assert isinstance(ours, PackedCopyGenerator)
    torch.testing.assert_close(ours.log_mixture(*inputs, VOCAB + 3), generator.log_mixture(*inputs, VOCAB + 3))
    wanted = inputs[2][:, :1]
    torch.testing.assert_close(ours.score(*inputs, wanted), generator.score(*inputs, wanted))


def test_the_packed_layer_has_its_weight_once_and_gives_it_back(can_pack) -> None:
    generator, _ = make()
    ours = for_search(generator)
    assert sum(parameter.numel() for parameter in ours.parameters()) == VOCAB + 7 + 1
    assert torch.equal(ours.weight, generator.weight)
    words = torch.tensor([2499, 0, 2048])
    for found, expected in zip(ours.rows(words), generator.rows(words), strict=True):
        assert torch.equal(found, expected)


def test_a_weight_that_cannot_be_packed_stays_as_it_is() -> None:
    generator = make()[0].double()
    assert for_search(generator) is generator


def test_in_eight_bits_the_mixture_is_nearly_the_same_and_padding_stays_out() -> None:
    generator, inputs = make()
    eight_bits = for_search(generator, "int8")
    assert isinstance(eight_bits, QuantisedCopyGenerator)
    full, ours = (layer.log_mixture(*inputs, VOCAB + 3) for layer in (generator, eight_bits))
    assert ours[:, PAD].eq(-torch.inf).all() and full[:, PAD].eq(-torch.inf).all()
    finite = full.isfinite()
    assert torch.equal(finite, ours.isfinite())
    assert (full - ours)[finite].abs().max() < 0.02
    assert not torch.equal(full, ours)
    assert ours.exp().sum(1).tolist() == pytest.approx([1.0] * 5, abs=1e-4)
    wanted = inputs[2][:, :1]
    assert torch.equal(eight_bits.score(*inputs, wanted), generator.score(*inputs, wanted))


@torch.no_grad()
def test_in_eight_bits_the_largest_logits_are_exact() -> None:
    generator, (hidden, *_) = make()
    eight_bits, logits, expected = for_search(generator, "int8"), torch.empty(5, VOCAB), torch.empty(5, VOCAB)
    normaliser = eight_bits.write_logits(hidden, logits)
    torch.testing.assert_close(normaliser, generator.write_logits(hidden, expected), atol=1e-3, rtol=0)
    values, words = expected.topk(3)
    torch.testing.assert_close(logits.gather(1, words), values)
    assert not torch.allclose(logits, expected, atol=1e-4)


@torch.no_grad()
def test_in_eight_bits_no_row_depends_on_the_others() -> None:
    generator, (hidden, *_) = make()
    hidden = hidden * torch.tensor([[1.0], [0.01], [30.0], [0.0], [2.0]])
    eight_bits, together = for_search(generator, "int8"), torch.empty(5, VOCAB)
    eight_bits.write_logits(hidden, together)
    for row in range(5):
        alone = torch.empty(1, VOCAB)
        eight_bits.write_logits(hidden[row : row + 1], alone)
        torch.testing.assert_close(alone[0], together[row], atol=1e-5, rtol=1e-5)


def test_a_linear_layer_is_nearly_the_same_in_eight_bits() -> None:
    torch.manual_seed(3)
    linear, x = nn.Linear(7, 5), torch.randn(3, 7)
    linear.weight.data[2] = 0.0
    assert (for_search(linear, "int8")(x) - linear(x)).abs().max() < 0.05


def test_another_output_layer_has_no_eight_bits() -> None:
    with pytest.raises(ExhirdError, match="leave it out"):
        for_search(nn.ReLU(), "int8")


def test_torchs_own_engine_stays_what_it_was() -> None:
    before = torch.backends.quantized.engine
    for_search(nn.Linear(3, 2), "int8")
    assert torch.backends.quantized.engine == before


@pytest.mark.parametrize("beam", [1, 3])
def test_streams_in_eight_bits(beam: int, workshop: Path, trained) -> None:
    lines, full = (
        translate(workshop, trained("exhird"), "test.src", "-beam_size", beam, *precision)
        for precision in (["-precision", "int8"], [])
    )
    assert all(stream.parse(line) for line in lines)
    assert sum(map(str.__eq__, lines, full)) > 0.8 * len(full)
