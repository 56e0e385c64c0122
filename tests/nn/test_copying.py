"""Copying: the mixture is a distribution, scoring agrees with it, and nothing is ever NaN."""

from __future__ import annotations

import pytest
import torch
from helpers.nn_reference import slow_probability
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from onmt_exhird.nn import copying
from onmt_exhird.nn.copying import CopyGenerator, _blocks, _LogSoftmaxAt, extend_source, extend_target, restrict

PAD, UNK_ID = 1, 0
VOCAB = {"<unk>": UNK_ID, "<blank>": PAD, "<s>": 2, "</s>": 3, "graph": 4, "tree": 5, "cut": 6}


def lookup(token: str) -> int:
    return VOCAB.get(token, UNK_ID)


def make(seed: int = 0, rows: int = 5, hidden: int = 3, vocab: int = 7, src_len: int = 4, oov: int = 2, width: int = 3):
    """A generator and random rows in float64; the last source position of every second row is padding.

    If ``width`` is not ``hidden``, it is tied to an embedding of that width.
    """
    torch.manual_seed(seed)
    generator = CopyGenerator(hidden, vocab, PAD).double()
    if width != hidden:
        generator.tie(torch.nn.Parameter(torch.empty(vocab, width, dtype=torch.float64)))
    for parameter in generator.parameters():
        torch.nn.init.normal_(parameter)
    states = torch.randn(rows, hidden, dtype=torch.float64, requires_grad=True)
    scores = torch.randn(rows, src_len, dtype=torch.float64)
    src_ext = torch.randint(2, vocab + oov, (rows, src_len))
    if src_len > 1:
        src_ext[::2, -1] = PAD
        scores[::2, -1] = -torch.inf
    attention = scores.softmax(1).requires_grad_()
    return generator, states, attention, src_ext


def slow_mixture(generator, states, attention, src_ext, size):
    """The distribution, a word at a time."""
    rows = zip(states, attention, src_ext.tolist(), strict=True)
    return torch.stack(
        [torch.stack([slow_probability(generator, h, a, ids, t) for t in range(size)]) for h, a, ids in rows]
    )


def test_source_words_outside_the_vocabulary_get_ids_in_order_of_appearance():
    ids, oov = extend_source(["graph", "zeta", "tree", "eta", "zeta"], lookup, UNK_ID, 7)
    assert ids == [4, 7, 5, 8, 7]
    assert oov == ["zeta", "eta"]


def test_a_literal_unk_in_the_source_is_the_vocabularys():
    assert extend_source(["<unk>", "zeta"], lookup, UNK_ID, 7) == ([UNK_ID, 7], ["zeta"])


def test_a_literal_unk_in_the_target_is_the_vocabularys():
    assert extend_target(["<unk>"], lookup, UNK_ID, ["zeta"], 7) == [UNK_ID]


def test_a_target_word_in_neither_vocabulary_nor_source_is_unk():
    assert extend_target(["theta", "eta", "cut"], lookup, UNK_ID, ["zeta", "eta"], 7) == [UNK_ID, 8, 6]


@given(st.lists(st.sampled_from([*VOCAB, "zeta", "eta", "theta"])))
def test_the_extended_ids_spell_the_source(tokens: list[str]):
    ids, oov = extend_source(tokens, lookup, UNK_ID, len(VOCAB))
    spelling = [*VOCAB, *oov]
    assert [spelling[i] for i in ids] == tokens
    assert extend_target(tokens, lookup, UNK_ID, oov, len(VOCAB)) == ids


def test_restrict_turns_copied_words_into_unk():
    assert restrict(torch.tensor([[3, 7], [6, 9]]), 7, UNK_ID).tolist() == [[3, 0], [6, 0]]


def test_parameters_have_no_dot_in_their_names_and_at_least_one_axis():
    parameters = dict(CopyGenerator(3, 7, PAD).named_parameters())
    assert {name: tuple(p.shape) for name, p in parameters.items()} == {
        "weight": (7, 3),
        "bias": (7,),
        "gate_weight": (3,),
        "gate_bias": (1,),
    }


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), rows=st.integers(1, 5), src_len=st.integers(1, 7), oov=st.integers(0, 3))
def test_rows_of_the_mixture_sum_to_one(seed: int, rows: int, src_len: int, oov: int):
    generator, states, attention, src_ext = make(seed, rows=rows, src_len=src_len, oov=oov)
    mixture = generator.log_mixture(states, attention, src_ext, 7 + oov).exp()
    assert mixture.shape == (rows, 7 + oov)
    torch.testing.assert_close(mixture.sum(1), torch.ones(rows, dtype=torch.float64))
    assert (mixture[:, PAD] == 0).all()


def test_a_mixture_smaller_than_the_vocabulary_is_refused():
    generator, states, attention, src_ext = make()
    with pytest.raises(ValueError, match="less than the vocabulary"):
        generator.log_mixture(states, attention, src_ext, 6)


def test_an_embedding_of_another_width_becomes_the_weight_after_a_projection():
    generator, embedding = CopyGenerator(3, 7, PAD), torch.nn.Parameter(torch.randn(7, 2))
    generator.tie(embedding)
    assert generator.weight is embedding and generator.projection.shape == (2, 3)
    assert [name for name, _ in generator.named_parameters() if "." in name] == []
    hidden = torch.randn(5, 3)
    weight, bias = generator.rows(torch.tensor([4, 6]))
    logits = torch.empty(5, 7)
    with torch.no_grad():
        generator.write_logits(generator.project(hidden), logits)
    whole = hidden @ (embedding @ generator.projection).t() + generator.bias
    torch.testing.assert_close(logits[:, 2:], whole[:, 2:])
    torch.testing.assert_close(F.linear(generator.project(hidden), weight, bias), whole[:, [4, 6]])


def test_an_embedding_of_the_same_width_needs_no_projection():
    generator, embedding = CopyGenerator(3, 7, PAD), torch.nn.Parameter(torch.randn(7, 3))
    generator.tie(embedding)
    assert generator.weight is embedding and generator.projection is None


@pytest.mark.parametrize("width", [2, 3, 5])
def test_mixture_and_score_agree_with_the_equations_of_the_paper(width: int):
    generator, states, attention, src_ext = make(width=width)
    expected = slow_mixture(generator, states, attention, src_ext, 9)
    torch.testing.assert_close(generator.log_mixture(states, attention, src_ext, 9).exp(), expected)
    candidates = torch.arange(9).expand(5, 9)
    score = generator.score(states, attention, src_ext, candidates).exp()
    torch.testing.assert_close(score, expected)


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), k=st.integers(1, 4), width=st.integers(2, 4))
def test_score_agrees_with_the_mixture_in_value_and_gradient(seed: int, k: int, width: int):
    generator, states, attention, src_ext = make(seed, width=width)
    # Candidates of which every second one is taken from the source, so that some are only copied.
    candidates = torch.randint(2, 7, (5, k))
    candidates[:, ::2] = src_ext[:, :1]
    inputs = [states, attention, *generator.parameters()]
    weights = torch.randn(5, k, dtype=torch.float64)

    fast = generator.score(states, attention, src_ext, candidates)
    slow = slow_mixture(generator, states, attention, src_ext, 9).gather(1, candidates).log()
    torch.testing.assert_close(fast, slow)
    fast_gradients = torch.autograd.grad((fast * weights).sum(), inputs)
    slow_gradients = torch.autograd.grad((slow * weights).sum(), inputs)
    torch.testing.assert_close(fast_gradients, slow_gradients)


@pytest.mark.parametrize("scale", [1.0, 1e4], ids=["ordinary logits", "logits whose exponentials overflow"])
@pytest.mark.parametrize("columns", [7, 512], ids=["many blocks", "few blocks"])
def test_the_normaliser_is_right_for_logits_of_any_size(scale, columns, monkeypatch):
    monkeypatch.setattr(copying, "_ROWS", 2)
    monkeypatch.setattr(copying, "_COLUMNS", columns)
    generator = CopyGenerator(4, 1500, PAD)
    hidden = scale * torch.randn(3, 4)
    logits = torch.empty(3, 1500)
    with torch.no_grad():
        normaliser = generator.write_logits(hidden, logits)
    expected = F.linear(hidden, generator.weight, generator.bias).index_fill(1, torch.tensor(PAD), -torch.inf)
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-6 * scale)
    torch.testing.assert_close(normaliser, expected.logsumexp(1, keepdim=True))
    log_p = generator.score(hidden, torch.ones(3, 1), torch.full((3, 1), 9), torch.full((3, 1), 700)).squeeze(1)
    gate = F.logsigmoid(-(hidden @ generator.gate_weight + generator.gate_bias))
    torch.testing.assert_close(log_p, gate + expected.log_softmax(1)[:, 700], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 10), (256, 512), (700, 513), (5, 50_004)])
def test_blocks_have_every_cell_once(rows, columns):
    seen = torch.zeros(rows, columns)
    for block in _blocks(seen):
        seen[block] += 1
    assert seen.eq(1).all()
    assert len(list(_blocks(seen.to("meta")))) == 1


@pytest.mark.parametrize("block", [(256, 512), (2, 3)], ids=["one block", "many blocks"])
def test_the_gradient_of_the_output_layer_agrees_with_finite_differences(block, monkeypatch):
    monkeypatch.setattr(copying, "_ROWS", block[0])
    monkeypatch.setattr(copying, "_COLUMNS", block[1])
    generator, states, _, _ = make()
    columns = torch.tensor([[4, 5], [2, 2], [6, 3], [3, 0], [0, 2]])
    assert torch.autograd.gradcheck(_LogSoftmaxAt.apply, (states, generator.weight, generator.bias, columns))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e3, 1e4])
def test_extreme_values_give_finite_scores_and_gradients(dtype: torch.dtype, scale: float):
    generator, states, attention, src_ext = make()
    generator.to(dtype)
    with torch.no_grad():
        for parameter in generator.parameters():
            parameter.mul_(scale)
    states = states.detach().to(dtype).requires_grad_()
    attention = (attention.detach().log() * scale).softmax(1).to(dtype).requires_grad_()
    candidates = torch.arange(9).expand(5, 9)  # padding and words of no source among them
    scores = generator.score(states, attention, src_ext, candidates)
    assert torch.isfinite(scores).all()
    scores.sum().backward()
    for tensor in [states, attention, *generator.parameters()]:
        assert torch.isfinite(tensor.grad).all()


def test_a_copied_word_without_mass_has_a_finite_score_and_no_gradient_to_the_attention():
    generator, states, attention, _ = make(rows=1)
    elsewhere = torch.full((1, 4), 4)
    score = generator.score(states, attention, elsewhere, torch.tensor([[8]]))
    assert score.item() < -600
    (gradient,) = torch.autograd.grad(score.sum(), attention)
    assert (gradient == 0).all()


def test_a_vocabulary_word_without_mass_keeps_its_gradient_however_improbable():
    generator, states, attention, _ = make(rows=1)
    with torch.no_grad():
        generator.bias[5] = -2000.0
    score = generator.score(states, attention, torch.full((1, 4), 4), torch.tensor([[5]]))
    assert score.item() < -1900
    (gradient,) = torch.autograd.grad(score.sum(), generator.bias)
    assert gradient[5].item() == pytest.approx(1.0)


def test_the_row_of_the_padding_token_gets_no_gradient():
    generator, states, attention, src_ext = make()
    generator.score(states, attention, src_ext, torch.full((5, 1), 4)).sum().backward()
    assert (generator.weight.grad[PAD] == 0).all()
    assert generator.bias.grad[PAD] == 0


def test_other_candidates_and_other_rows_do_not_matter():
    generator, states, attention, src_ext = make()
    candidates = torch.randint(2, 9, (5, 3))
    together = generator.score(states, attention, src_ext, candidates)
    alone = generator.score(states[2:3], attention[2:3], src_ext[2:3], candidates[2:3, 1:2])
    torch.testing.assert_close(together[2:3, 1:2], alone)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scores_under_autocast_are_computed_in_full_precision(dtype: torch.dtype):
    generator, states, attention, src_ext = make()
    generator.float()
    states = states.detach().to(dtype)
    attention = attention.detach().float()
    src_ext[:, 0] = 8  # a word that is only copied, and hardly ever
    attention[:, 0] = 1e-5
    candidates = torch.tensor([[8, 2], [8, 3], [8, 4], [8, 5], [8, 6]])
    src_ext[:, 1:].masked_fill_(src_ext[:, 1:] == 8, 7)
    plain = generator.score(states.float(), attention, src_ext, candidates)
    with torch.autocast("cpu", dtype=dtype):
        mixed = generator.score(states, attention, src_ext, candidates)
    torch.testing.assert_close(mixed, plain, atol=1e-4, rtol=0)
    mixed.sum().backward()
    assert generator.weight.grad.dtype == torch.float32
