"""Hypotheses of any age, side by side."""

import pytest
import torch

from onmt_exhird.nn.best import best
from onmt_exhird.search import Hypotheses, SearchSettings, StreamConstraint

NO_OOV = torch.full((1, 2), -1)
TOKENS = ["<unk>", "<blank>", "<s>", "</s>", "<p_start>", "<a_start>", ";", "graph", "graphs", "tree", "node"]
START, PAD = 2, 1


def beginning(rows):
    hypotheses = Hypotheses(START, PAD)
    hypotheses.begin(rows)
    return hypotheses


@pytest.mark.parametrize("max_length", [None, 6, 9, 30])
@pytest.mark.parametrize(
    "exclusion", [{"exclusive_window": 1}, {"exclusive_window": None, "exclude_stems": True, "exclude_phrases": True}]
)
def test_rows_of_any_age_are_constrained_as_if_alone(max_length, exclusion):
    torch.manual_seed(3)
    settings = SearchSettings(max_length=max_length, max_phrases=4, max_phrase_words=2, **exclusion)
    constraint = StreamConstraint(TOKENS, settings)
    hypotheses = beginning(3)
    alone = [[START] for _ in range(3)]
    for step in range(40):
        log_probs = torch.randn(3, 13).log_softmax(1)
        expected = log_probs.clone()
        states = []
        for row, tokens in enumerate(alone):
            states += constraint.state(torch.tensor([tokens])).tolist()
            constraint.apply(expected[row : row + 1], torch.tensor([tokens]), NO_OOV)
        assert hypotheses.states(constraint).tolist() == states
        hypotheses.constrain(constraint, log_probs, NO_OOV.expand(3, -1))
        assert torch.equal(log_probs, expected)
        values, ids = best(log_probs)
        hypotheses.append(ids.squeeze(1), values.squeeze(1))
        for tokens, token in zip(alone, ids.squeeze(1).tolist(), strict=True):
            tokens.append(token)
        assert hypotheses.tokens.shape == hypotheses.log_probs.shape == (3, max(map(len, alone)))  # no wider
        assert [hypotheses.written(row)[0].tolist() for row in range(3)] == [tokens[1:] for tokens in alone]
        over = [row for row, tokens in enumerate(alone) if tokens[-1] == 3 or (step + row) % 11 == 0]
        stay = [row for row in range(3) if row not in over]
        hypotheses = hypotheses.at(torch.tensor(stay, dtype=torch.long))
        hypotheses.begin(len(over))
        alone = [alone[row] for row in stay] + [[START] for _ in over]


def test_the_room_of_each_row_is_its_own_where_it_comes_to_an_end():
    """Three rows that write one long phrase, each a step after the one before."""
    line = [4, 7, 8, 9, 10, 7]
    constraint = StreamConstraint(TOKENS, SearchSettings(max_length=7, max_phrase_words=9))
    hypotheses = beginning(1)
    for step in range(1, 7):
        ages = [step - row for row in range(min(step, 3))]  # tokens after the start
        hypotheses.append(torch.tensor([line[age - 1] for age in ages]), torch.zeros(len(ages)))
        alone = [constraint.state(torch.tensor([[START, *line[:age]]])).item() for age in ages]
        assert hypotheses.states(constraint).tolist() == alone
        if step < 3:
            hypotheses.begin(1)


def test_rows_begin_with_their_start_alone():
    hypotheses = beginning(2)
    assert hypotheses.tokens.tolist() == [[START], [START]]
    assert hypotheses.log_probs.tolist() == [[0.0], [0.0]]


def test_rows_move_with_all_they_have():
    hypotheses = beginning(3)
    hypotheses.append(torch.tensor([4, 5, 6]), torch.tensor([-1.0, -2.0, -3.0]))
    hypotheses = hypotheses.at(torch.tensor([2, 0]))
    assert hypotheses.tokens.tolist() == [[START, 6], [START, 4]]
    assert hypotheses.log_probs.tolist() == [[0.0, -3.0], [0.0, -1.0]]
    tokens, log_probs = hypotheses.written(0)
    assert (tokens.tolist(), log_probs.tolist()) == ([6], [-3.0])
