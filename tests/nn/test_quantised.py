"""In eight bits the output layer is nearly the same; as a screen it changes no choice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.output_layers import PAD, VOCAB, make
from helpers.stock import translate
from torch import Tensor, nn

from onmt_exhird import stream
from onmt_exhird.bridge.output_layer import for_search
from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn import output_layer, quantised
from onmt_exhird.nn.copying import CopyGenerator
from onmt_exhird.nn.packed import PackedCopyGenerator
from onmt_exhird.nn.quantised import QuantisedCopyGenerator, QuantisedLinear, ScreenedCopyGenerator

pytestmark = pytest.mark.skipif(not quantised.is_available(), reason="this processor has no products in eight bits")
SIZE = VOCAB + 3


def test_the_mixture_is_nearly_the_same_and_padding_stays_out() -> None:
    generator, inputs = make()
    eight_bits = for_search(generator, "int8")
    assert isinstance(eight_bits, QuantisedCopyGenerator)
    full, ours = (layer.log_mixture(*inputs, SIZE) for layer in (generator, eight_bits))
    assert ours[:, PAD].eq(-torch.inf).all() and full[:, PAD].eq(-torch.inf).all()
    finite = full.isfinite()
    assert torch.equal(finite, ours.isfinite())
    assert (full - ours)[finite].abs().max() < 0.02
    assert not torch.equal(full, ours)
    assert ours.exp().sum(1).tolist() == pytest.approx([1.0] * 5, abs=1e-4)
    wanted = inputs[2][:, :1]
    assert torch.equal(eight_bits.score(*inputs, wanted), generator.score(*inputs, wanted))


@torch.no_grad()
def test_the_largest_logits_are_exact() -> None:
    generator, (hidden, *_) = make()
    eight_bits, logits, expected = for_search(generator, "int8"), torch.empty(5, VOCAB), torch.empty(5, VOCAB)
    normaliser = eight_bits.write_logits(hidden, logits)
    torch.testing.assert_close(normaliser, generator.write_logits(hidden, expected), atol=1e-3, rtol=0)
    values, words = expected.topk(3)
    torch.testing.assert_close(logits.gather(1, words), values)
    assert not torch.allclose(logits, expected, atol=1e-4)


def test_products_have_few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, multiply = set(), quantised._multiply

    def record(bytes_: Tensor, *others: Tensor) -> Tensor:
        sizes.add(len(bytes_))
        return multiply(bytes_, *others)

    quantised.steps()
    monkeypatch.setattr(quantised, "_multiply", record)
    linear, x = QuantisedLinear(torch.randn(7, 5), torch.randn(7)), torch.randn(20, 5)
    for count in range(1, 21):
        torch.testing.assert_close(linear(x[:count]), linear(x)[:count], rtol=0, atol=0)
    assert sizes == {1, 8, 16, 24}


@torch.no_grad()
def test_no_row_depends_on_the_others() -> None:
    generator, (hidden, *_) = make()
    hidden = hidden * torch.tensor([[1.0], [0.01], [30.0], [0.0], [2.0]])
    eight_bits, together = for_search(generator, "int8"), torch.empty(5, VOCAB)
    eight_bits.write_logits(hidden, together)
    for row in range(5):
        alone = torch.empty(1, VOCAB)
        eight_bits.write_logits(hidden[row : row + 1], alone)
        torch.testing.assert_close(alone[0], together[row], atol=1e-5, rtol=1e-5)


def test_a_linear_layer_is_nearly_the_same() -> None:
    torch.manual_seed(3)
    linear, x = nn.Linear(7, 5), torch.randn(3, 7)
    linear.weight.data[2] = 0.0
    assert (for_search(linear, "int8")(x) - linear(x)).abs().max() < 0.05


def test_what_has_no_eight_bits_says_what_it_falls_back_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other, linear = nn.ReLU(), nn.Linear(2, 2)
    assert for_search(other, "int8") is other
    assert "does not know this output layer; search goes on in full precision" in capsys.readouterr().err
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert for_search(linear, "int8") is linear
    said = capsys.readouterr().err
    assert "this processor (DEFAULT) has no products in eight bits; search goes on in full precision" in said


EXTREMES = """
import torch
from onmt_exhird.nn.quantised import QuantisedLinear, steps
weight, x = torch.full((40, 300), 0.5), torch.ones(9, 300)
print(steps(), QuantisedLinear(weight, torch.zeros(40))(x).sub(150).abs().max().item() < 0.01)
"""


def test_sums_of_products_do_not_overflow_on_an_older_processor() -> None:
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", EXTREMES], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["63", "True"]


@pytest.mark.parametrize("beam", [1, 3])
def test_streams(beam: int, workshop: Path, made) -> None:
    lines, full = (
        translate(workshop, made("exhird"), "test.src", "-beam_size", beam, *precision)
        for precision in (["-precision", "int8"], [])
    )
    assert all(stream.parse(line) for line in lines)
    assert sum(map(str.__eq__, lines, full)) > 0.8 * len(full)


def test_an_ensemble_of_models_that_copy_is_refused(workshop: Path, made) -> None:
    with pytest.raises(ExhirdError, match="give one -model"):
        translate(workshop, made("exhird"), "test.src", "-model", *[made("exhird")] * 2, "-precision", "int8")


def screened(
    rows: int = 200, spread: float = 1.0, width: int = 40
) -> tuple[ScreenedCopyGenerator, list[Tensor], Tensor]:
    """A generator, tied if ``width`` is not 40, its arguments, and what may not come (rows, SIZE)."""
    torch.manual_seed(4)
    generator = CopyGenerator(40, VOCAB, PAD)
    if width != 40:
        generator.tie(nn.Parameter(torch.empty(VOCAB, width)))
        nn.init.normal_(generator.projection, std=width**-0.5)
    nn.init.normal_(generator.weight, std=spread)
    generator.weight.data[:, 3] *= 5  # as trained weights have: the rest of a row is rounded the more
    arguments = [torch.randn(rows, 40).tanh(), torch.randn(rows, 9).softmax(1), torch.randint(4, SIZE, (rows, 9))]
    return ScreenedCopyGenerator(generator), arguments, torch.rand(rows, SIZE) < 0.2


@torch.no_grad()
def choose(generator: ScreenedCopyGenerator, arguments: list[Tensor], forbidden: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens chosen, and whether they are certain."""
    scores = generator.new_scores(arguments[0], SIZE)
    screening = generator.screen(*arguments, scores)
    ids, log_p, certain = generator.choose(screening, scores.masked_fill_(forbidden, -torch.inf))
    exact = generator.log_mixture(*arguments, SIZE).gather(1, ids.unsqueeze(1)).squeeze(1)
    assert (log_p - exact).abs().max() < 0.05
    return ids, certain


def in_full(generator: CopyGenerator, arguments: list[Tensor], forbidden: Tensor) -> Tensor:
    return generator.log_mixture(*arguments, SIZE).masked_fill(forbidden, -torch.inf).argmax(1)


@torch.no_grad()
@pytest.mark.parametrize(("spread", "width"), [(0.05, 40), (0.3, 40), (1.0, 40), (0.3, 24)])
def test_no_logit_is_further_off_than_the_bound(spread: float, width: int) -> None:
    generator, (hidden, *_), _ = screened(spread=spread, width=width)
    hidden = generator.project(hidden)
    rough, full = torch.empty(2, len(hidden), VOCAB)
    generator.rough.write_logits(hidden, rough)
    generator.write_logits(hidden, full)
    off = (rough - full).abs().nan_to_num()  # padding is minus infinity in both
    bound = generator.rough.error(hidden)
    assert (off < bound).all()
    assert (off.amax(1, keepdim=True) > 0.03 * bound).all()


@torch.no_grad()
def test_a_first_look_has_the_scores_of_the_whole_mixture() -> None:
    generator, arguments, _ = screened()
    scores, expected = (generator.new_scores(arguments[0], SIZE) for _ in range(2))
    screening = generator.screen(*arguments, scores)
    constant = generator.rough.relative_mixture(*arguments, expected)
    assert torch.equal(scores, expected) and torch.equal(screening.constant, constant)
    generator.choose(screening, scores)
    assert torch.equal(scores, expected)  # a word that stands at several places is looked at once, without a trace


@pytest.mark.parametrize(("spread", "width"), [(0.05, 40), (0.3, 40), (1.0, 40), (0.3, 24)])
def test_what_is_certain_is_what_full_precision_chooses(spread: float, width: int) -> None:
    generator, arguments, forbidden = screened(spread=spread, width=width)
    ids, certain = choose(generator, arguments, forbidden)
    assert torch.equal(ids[certain], in_full(generator, arguments, forbidden)[certain])
    assert certain.float().mean() > 0.7


def test_twins_are_told_apart() -> None:
    generator, arguments, forbidden = screened()
    forbidden[:] = False
    best = in_full(generator, arguments, forbidden)
    generated = best[best < VOCAB].unique()
    twins = torch.tensor([word for word in range(4, VOCAB) if word not in set(best.tolist())][: len(generated)])
    generator.weight.data[twins] = generator.weight[generated] * (1 + 1e-4)
    generator.bias.data[twins] = generator.bias[generated]
    twice = ScreenedCopyGenerator(generator)
    ids, certain = choose(twice, arguments, forbidden)
    wanted = in_full(twice, arguments, forbidden)
    assert torch.equal(ids[certain], wanted[certain])
    assert torch.isin(wanted[certain], twins).sum() > 30


@torch.no_grad()
def test_where_copying_and_generating_are_level_nothing_is_certain() -> None:
    generator, (hidden, _, src_ext), forbidden = screened()
    forbidden[:] = False
    copied, gate = src_ext[:, :1], torch.sigmoid(generator.gate(hidden))
    p = torch.softmax(hidden @ generator.weight.t() + generator.bias_without_padding(), 1)
    p_copied = p.gather(1, copied.clamp(max=VOCAB - 1)) * (copied < VOCAB)
    level = (1 - gate) / gate * (p.amax(1, keepdim=True) - p_copied)  # its attention, for both to be as probable
    certain = {}
    for factor in (0.5, 1.0, 2.0):
        attention = torch.cat([level * factor, torch.zeros(len(level), 8)], 1)
        certain[factor] = choose(generator, [hidden, attention, src_ext], forbidden)[1].float().mean().item()
    assert certain[1.0] == 0.0
    assert min(certain[0.5], certain[2.0]) > 0.7


def test_scores_that_are_out_of_range_are_not_certain() -> None:
    generator, arguments, forbidden = screened()
    generator.bias.data -= 900.0
    assert not choose(ScreenedCopyGenerator(generator), arguments, forbidden)[1].any()


@pytest.mark.parametrize("rows", [1, quantised._FEW, quantised._FEW + 1])
def test_few_rows_have_the_same_logits(rows: int) -> None:
    generator, arguments, _ = screened(rows)
    plain = CopyGenerator(40, VOCAB, PAD)
    plain.load_state_dict(generator.state_dict(), strict=False)
    torch.testing.assert_close(generator.log_mixture(*arguments, SIZE), plain.log_mixture(*arguments, SIZE))


def test_a_large_vocabulary_is_screened_where_nobody_wants_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, _ = make()
    assert isinstance(for_search(generator, scored=False), PackedCopyGenerator)
    monkeypatch.setattr(output_layer, "LARGE", VOCAB)
    assert isinstance(for_search(generator, scored=False), ScreenedCopyGenerator)
    assert isinstance(for_search(generator, scored=True), PackedCopyGenerator)


@pytest.mark.parametrize("certain", ["as it is", "never"])
@pytest.mark.parametrize("name", ["exhird", "rnn"])
def test_a_screen_changes_no_prediction(
    name: str, certain: str, workshop: Path, made, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ["-beam_size", 1, "-exclusive_search"]
    lines = translate(workshop, made(name), "test.src", *wanted)
    calls: list[float] = []
    ours = ScreenedCopyGenerator.choose

    def counted(self: ScreenedCopyGenerator, *args: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ids, log_p, sure = ours(self, *args)
        if certain == "never":
            ids, sure = torch.zeros_like(ids), torch.zeros_like(sure)
        calls.append(sure.float().mean().item())
        return ids, log_p, sure

    monkeypatch.setattr(ScreenedCopyGenerator, "choose", counted)
    monkeypatch.setattr(output_layer, "LARGE", 0)
    assert translate(workshop, made(name), "test.src", *wanted) == lines
    assert sum(calls) / len(calls) > 0.5 if certain == "as it is" else calls and not any(calls)


def test_the_bound_of_a_layer_is_that_of_its_rows() -> None:
    weight = torch.tensor([[1.0, 0.004], [0.5, 0.25]])
    linear = QuantisedLinear(weight, torch.zeros(2))
    assert linear.error.item() == pytest.approx(1 / 254, abs=5e-4)
    assert linear.norm.item() == pytest.approx(1.0, abs=1e-3)
