"""Reinforcement: what is drawn, what it is worth, and that the gradient is that of the slow, obvious sum."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
import torch
from helpers.bridge_models import wild
from helpers.files import load_tool, write_lines
from helpers.generator_models import IDS, TOKENS, make

from onmt_exhird.generator.checkpoint import read_checkpoint
from onmt_exhird.generator.unpickling import load_harmless
from onmt_exhird.nn.hierarchical import Memory
from onmt_exhird.nn.model import KeyphraseModel
from onmt_exhird.search import SearchSettings, StreamConstraint
from onmt_exhird.search.sources import Sources
from onmt_exhird.stream import parse, read_leniently

SOURCES = ["fast graph colouring of trees", "deep neural networks in machine translation", "a proof"]
GOLD = ["<p_start> graph colouring ; <a_start> logic ;", "<p_start> neural networks ;", "<a_start> sorting ;"]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("reinforce")


@pytest.fixture(scope="module")
def parts(tool: ModuleType) -> dict[str, ModuleType]:
    return {name: load_tool(f"reinforcement.{name}") for name in ("drawing", "foresight", "policy", "rewards")}


@pytest.fixture
def model() -> KeyphraseModel:
    return make().build()


@pytest.fixture
def sources() -> Sources:
    """The second document has two words that the model does not know."""
    ids = torch.tensor([[13, 15, 16, 18, 25], [20, 21, 0, 0, 30], [40, 13, 1, 1, 1]])
    extended = torch.tensor([[13, 15, 16, 18, 25], [20, 21, len(TOKENS), len(TOKENS) + 1, 30], [40, 13, 1, 1, 1]])
    return Sources(ids, torch.tensor([5, 5, 2]), extended, [[], ["zuvoka", "rataku"], []])


def limits(**settings: int) -> StreamConstraint:
    return StreamConstraint(TOKENS, SearchSettings(exclusive_window=1, **settings))


def log_probability(model: KeyphraseModel, sources: Sources, row: int, tokens: list[int]) -> torch.Tensor:
    """Of a stream, a step at a time: the slow, obvious way."""
    one = sources.some(torch.tensor([row]))
    states, vector = model.encode(one.ids, one.lengths)
    memory = Memory.of(states, one.lengths)
    state, total, before = model.first_state(vector, memory), torch.zeros(()), IDS.start
    for token in tokens:
        step = model.step(torch.tensor([before]), memory, state)
        size = sources.extended_size(model.vocab_size)
        total = total + model.generator.log_mixture(step.attentional, step.attention, one.extended, size)[0, token]
        state, before = step.state, token
    return total


# --- drawing ---------------------------------------------------------------------------------------------------------


def test_what_is_drawn_is_a_stream_within_the_limits(parts, model, sources):
    constraint = limits(max_phrases=3, max_phrase_words=2)
    drawn = parts["drawing"].draw(model, sources, constraint, 20, 40, 1.0, torch.Generator().manual_seed(1))
    assert len(drawn) == 60
    words = [*TOKENS, "zuvoka", "rataku"]
    for tokens in drawn:
        assert tokens[-1] == IDS.eos
        phrases = parse(" ".join(words[token] for token in tokens[:-1].tolist()))
        assert 1 <= len(phrases) <= 3
        assert all(len(phrase.words) <= 2 for phrase in phrases)


def test_streams_are_drawn_as_often_as_they_are_likely(parts, model, sources):
    """One phrase of one word: the frequencies of 4,000 streams of a document beside what the model says of each."""
    constraint = limits(max_phrases=1, max_phrase_words=1)
    one = sources.some(torch.tensor([1]))
    drawn = parts["drawing"].draw(model, one, constraint, 4000, 40, 1.0, torch.Generator().manual_seed(1))
    found = Counter(tuple(tokens.tolist()) for tokens in drawn)
    likely = found.most_common(5)
    free = sum(  # what is left of the probability once the constraint has taken its part
        log_probability(model, one, 0, [tag, word]).exp() for tag in (4, 5) for word in range(7, len(TOKENS) + 2)
    )
    tags = {tag: log_probability(model, one, 0, [tag]).exp() for tag in (4, 5)}
    assert free < 1
    for (tag, word, *_), count in likely:
        of_words = torch.stack([log_probability(model, one, 0, [tag, other]) for other in words_of(constraint)])
        share = (log_probability(model, one, 0, [tag, word]) - of_words.logsumexp(0)).exp()
        expected = float(tags[tag] / sum(tags.values()) * share)
        assert count / 4000 == pytest.approx(expected, abs=4 * (expected / 4000) ** 0.5)


def words_of(constraint: StreamConstraint) -> list[int]:
    """The ids that may be a phrase's first word."""
    scores = torch.zeros(1, len(TOKENS) + 2)
    constraint.apply(scores, torch.tensor([[IDS.start, 4]]))
    return scores[0].isfinite().nonzero().squeeze(1).tolist()


def test_a_low_temperature_draws_what_greedy_search_writes(parts, model, sources):
    constraint = limits(max_phrases=3)
    drawn = parts["drawing"].draw(model, sources, constraint, 3, 40, 1e-4, torch.Generator().manual_seed(1))
    from onmt_exhird.search.greedy import Greedy

    greedy = {written.document: written.tokens for written in Greedy(model, constraint, 40, scored=True)(sources)}
    for number, tokens in enumerate(drawn):
        assert torch.equal(tokens, greedy[number // 3])


def test_a_stream_without_an_end_is_cut(parts, model, sources):
    model.generator.bias.data[IDS.eos] = -50
    drawn = parts["drawing"].draw(model, sources, limits(), 2, 9, 1.0, torch.Generator().manual_seed(1))
    assert {len(tokens) for tokens in drawn} == {9}


# --- what streams are worth ------------------------------------------------------------------------------------------


def test_the_slopes_are_those_of_f1(parts):
    rates = torch.tensor([0.31, 0.41], requires_grad=True)
    (2 * rates.prod() / rates.sum()).backward()
    assert rates.grad is not None
    assert parts["rewards"].Rates(0.31, 0.41).slopes() == pytest.approx(tuple(rates.grad.tolist()))
    assert parts["rewards"].Rates(0.0, 0.0).slopes() == (0.0, 0.0)


def judge(parts: dict[str, ModuleType], neighbours: float = 0.0) -> Any:
    """Whose slopes are those at two streams: one has all of its document's phrases, the other none."""
    found = parts["rewards"].Judge(of_five=0.25, absent_weight=2.0, duplicate_cost=0.1, neighbour_weight=neighbours)
    found.aim([wanted(parts)] * 2, [read_leniently(GOLD[0]), read_leniently("<p_start> trees ;")])
    return found


def wanted(parts: dict[str, ModuleType]) -> Any:
    return parts["rewards"].wanted(SOURCES[0], GOLD[0], {"sort": 0.4, "logic": 0.1})


def test_the_worth_is_what_is_added_to_the_f1_of_means(parts):
    found = judge(parts)
    # Precision and recall are 0.5 each on average, but P@5 is 0.1: its slope is 2 * 0.25 / 0.36, that of R@5
    # 2 * 0.01 / 0.36. The document's own P@5 is 0.2. One of its two phrases stands in the text.
    present = 0.75 * 1.0 + 0.25 * (0.5 * 0.2 + 0.02) / 0.36
    assert found.worth(wanted(parts), read_leniently(GOLD[0])) == pytest.approx(present + 2.0)
    assert found.worth(wanted(parts), read_leniently("<p_start> graph colouring ;")) == pytest.approx(present)
    assert found.worth(wanted(parts), read_leniently("<a_start> logic ;")) == pytest.approx(2.0)
    assert found.worth(wanted(parts), []) == 0.0


def test_a_duplicate_costs_something(parts):
    found = judge(parts)
    once, twice = (read_leniently(line) for line in (GOLD[0], GOLD[0] + " <p_start> graph colourings ;"))
    assert found.worth(wanted(parts), twice) == pytest.approx(found.worth(wanted(parts), once) - 0.1)


def test_an_absent_phrase_counts_for_being_likely_too(parts):
    """A quarter of it: the authors' own phrase is .75 + .25 * .1, a likely one .25 * .4; they have one on average."""
    found = judge(parts, neighbours=0.25)
    own, likely = 0.775, 0.1
    slope = 0.5  # of precision and of recall, at .5 each
    for line, credits in (("logic", [own]), ("sorting", [likely]), ("logic ; <a_start> sorting", [own, likely])):
        worth = found.worth(wanted(parts), read_leniently(f"<a_start> {line} ;"))
        assert worth == pytest.approx(2.0 * slope * (sum(credits) / len(credits) + sum(credits)))
    assert found.worth(wanted(parts), read_leniently("<a_start> algebra ;")) == 0.0


def test_means_remember_earlier_batches(parts):
    found = judge(parts)
    found.note([wanted(parts)], [read_leniently("graph colouring")])
    assert (found.means["present"], found.means["absent"], found.means["duplicates"]) == (1.0, 0.0, 0.0)
    found.note([wanted(parts)], [read_leniently("trees")])
    assert found.means["present recall@M"] == pytest.approx(parts["rewards"].MEMORY)


# --- what was to be expected -----------------------------------------------------------------------------------------


def test_at_first_a_stream_is_expected_to_be_worth_what_the_others_are(parts):
    foresight = parts["foresight"].Foresight()
    found = foresight.advantages([[0.0, 0.6, 0.9], [0.0, 0.3], [0.0, 0.1, 0.1], [0.0, 0.5]], 2)
    assert [one.tolist() for one in found] == [
        pytest.approx([0.6] * 3), pytest.approx([-0.6] * 2), pytest.approx([-0.4] * 3), pytest.approx([0.4] * 2)
    ]  # fmt: skip


def test_it_learns_what_a_beginning_promises(parts):
    """Streams whose worth is decided by their first phrase: once it is there nothing more is to be expected."""
    foresight, random = parts["foresight"].Foresight(), Random(1)
    for _ in range(200):
        worths = [random.random() for _ in range(20)]
        last = foresight.advantages([[0.0, worth, worth] for worth in worths], 4)
    first, later = (torch.stack([one[place] for one in last]).pow(2).mean() for place in (0, 2))
    assert later < 0.02 * first


def test_a_guess_does_not_know_its_own_stream(parts):
    """Else the gradient would be wrong: what is drawn changes its own advantage by as much as its worth changes."""
    learned, again = parts["foresight"].Foresight(), parts["foresight"].Foresight()
    for foresight in (learned, again):
        foresight.advantages([[0.0, 0.2, 0.4], [0.0, 0.5], [0.0, 0.3], [0.0, 0.1, 0.8]], 2)
    few, many = (one.advantages([[0.0, 0.1, end], [0.0, 0.4]], 2)[0] for one, end in ((learned, 0.2), (again, 0.9)))
    assert (many - few)[:2].tolist() == pytest.approx([0.7] * 2)


def test_what_it_learned_can_be_kept(parts):
    learned, again = parts["foresight"].Foresight(), parts["foresight"].Foresight()
    learned.advantages([[0.0, 0.2, 0.4], [0.0, 0.5]], 2)
    again.load(learned.state())
    worths = [[0.0, 0.3], [0.0, 0.1, 0.8]]
    for ours, theirs in zip(learned.advantages(worths, 2), again.advantages(worths, 2), strict=True):
        assert torch.equal(ours, theirs)


# --- the loss --------------------------------------------------------------------------------------------------------


def test_the_gradient_is_that_of_the_obvious_sum(parts, sources):
    model = make().build().requires_grad_(True)
    drawn = [[4, 15, 6, 5, 20, 6, 3], [4, 16, 17, 6, 3], [5, 47, 6, 3], [4, 20, 6, 3], [4, 13, 6, 3], [5, 13, 6, 3]]
    advantages = [[0.5, 0.1, -0.2], [0.2, 0.0], [-0.3, 0.3], [0.4, 0.0], [0.1, -0.1], [0.3, 0.2]]
    gold = [[4, 15, 16, 6, 3], [4, 20, 21, 6, 3], [5, 25, 6, 3]]
    tensors = [list(map(torch.tensor, values)) for values in (drawn, advantages, gold)]
    parts["policy"].policy_loss(model, sources, *tensors, gold_weight=0.5).backward()
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    model.zero_grad()
    total = torch.zeros(())
    for number, tokens in enumerate(drawn):
        for place, log_p in enumerate(token_log_probs(parts, model, sources, number // 2, tokens)):
            phrase = tokens[:place].count(6)
            total = total - advantages[number][phrase] * log_p / 2
    for number, tokens in enumerate(gold):
        total = total - 0.5 * token_log_probs(parts, model, sources, number, tokens).sum()
    (total / 3).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, atol=1e-5, rtol=1e-4, msg=name)


def token_log_probs(
    parts: dict[str, ModuleType], model: KeyphraseModel, sources: Sources, row: int, tokens: list[int]
) -> torch.Tensor:
    """Of the tokens of one stream, which no other is in a batch with."""
    one = sources.some(torch.tensor([row]))
    every = torch.ones(1, len(tokens), dtype=torch.bool)
    return -parts["policy"].losses(model, one, [torch.tensor(tokens)], every)[0]


def test_losses_are_those_of_the_search(parts, model, sources):
    tokens = [4, 20, len(TOKENS), 6, 5, 30, 6, 3]
    expected = log_probability(model, sources, 1, tokens)
    assert token_log_probs(parts, model, sources, 1, tokens).sum().item() == pytest.approx(expected.item(), rel=1e-4)


def test_what_is_not_looked_at_has_no_loss(parts, model, sources):
    tokens = [torch.tensor([4, 15, 6, 3])] * 3
    relevant = torch.tensor([[True, False, True, False]] * 3)
    found = parts["policy"].losses(model, sources, tokens, relevant)
    assert found[:, [1, 3]].eq(0).all()
    assert found[:, [0, 2]].gt(0).all()


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    write_lines(tmp_path / "train.src", SOURCES * 4)
    write_lines(tmp_path / "train.tgt", GOLD * 4)
    model = wild("exhird", tmp_path / "model.pt")
    return {"--model": model, "--data": tmp_path / "train", "--output": tmp_path / "out.pt"}


def arguments(files: dict[str, Path], *more: str) -> list[str]:
    own = ["--batch-size", "3", "--samples", "2", "--updates", "4"]
    return [str(part) for pair in files.items() for part in pair] + own + list(more)


def test_the_checkpoint_has_other_weights_and_the_same_shape(tool, files, capsys):
    assert tool.main(arguments(files)) == 0
    before, after = load_harmless(files["--model"]), load_harmless(files["--output"])
    assert before.keys() == after.keys()
    for part in ("model", "generator"):
        assert {name: tensor.shape for name, tensor in before[part].items()} == {
            name: tensor.shape for name, tensor in after[part].items()
        }
        assert not any(
            torch.equal(before[part][name], tensor) for name, tensor in after[part].items() if tensor.dim() > 1
        )
    assert read_checkpoint(files["--output"]).build()
    assert "written" in capsys.readouterr().out
    assert not list(files["--output"].parent.glob("*.unfinished"))


def test_an_interrupted_training_goes_on_to_the_same_bits(tool, files, monkeypatch, tmp_path, capsys):
    assert tool.main(arguments(files)) == 0
    whole = load_harmless(files["--output"])

    monkeypatch.setattr(tool, "SAVED_EVERY", 2)
    update = tool.Learner.update

    def stop_after_three(self: Any, documents: Any) -> None:
        if self.done == 3:
            raise KeyboardInterrupt
        update(self, documents)

    files["--output"] = tmp_path / "other.pt"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tool.Learner, "update", stop_after_three)
        tool.main(arguments(files))
    assert not files["--output"].exists()
    assert tool.main(arguments(files, "--rate", "0.1")) == 2
    assert "begun with other options" in capsys.readouterr().err
    assert tool.main(arguments(files)) == 0
    assert "goes on after update 2" in capsys.readouterr().err
    found = load_harmless(files["--output"])
    for part in ("model", "generator"):
        assert all(torch.equal(tensor, found[part][name]) for name, tensor in whole[part].items())


def test_each_round_has_every_document_once(tool):
    corpora = tool.Corpora([[("a" * n, "") for n in range(10)], [("b" * n, "") for n in range(1, 11)]])
    batches = [corpora.batch(number, 2, seed=1) for number in range(10)]
    assert sorted(pair for batch in batches for pair in batch) == sorted(pair for one in corpora.pairs for pair in one)
    assert [len(batch) for batch in batches] == [2] * 10
    assert batches == [corpora.batch(number, 2, seed=1) for number in range(10)]
    assert batches != [corpora.batch(number, 2, seed=2) for number in range(10)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--samples": "1"}, "give at least 2"),
        ({"--data": "nowhere"}, "nowhere.src"),
        ({"--model": "nowhere.pt"}, "nowhere.pt"),
        ({"--neighbour-weight": "0.5"}, "tools/neighbours.py"),
    ],
)
def test_mistakes_are_sentences(tool, files, changes, message, capsys):
    given = arguments(files, "--neighbour-weight", "0")
    for option, value in changes.items():
        given[given.index(option) + 1] = value
    assert tool.main(given) == 2
    assert message in capsys.readouterr().err


def test_only_exhird_is_trained(tool, files, tmp_path, capsys):
    files["--model"] = wild("rnn", tmp_path / "catseq.pt")
    assert tool.main(arguments(files)) == 2
    assert "only such a one is trained" in capsys.readouterr().err
