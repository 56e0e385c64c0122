"""The best token is found wherever it is."""

import pytest
import torch

from onmt_exhird.search import Hypotheses, SearchSettings, StreamConstraint, best

NO_OOV = torch.full((1, 2), -1)


@pytest.mark.parametrize("columns", [1, 7, 255, 256, 257, 512, 700])
def test_equals_the_maximum_wherever_it_stands(columns):
    torch.manual_seed(3)
    scores = torch.randn(columns, columns)
    scores[range(columns), range(columns)] = 9.0  # in each row at another column
    values, ids = best(scores)
    assert ids.squeeze(1).tolist() == list(range(columns))
    assert values.eq(9.0).all()


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("columns", [7, 257, 700, 2000])
def test_equals_topk(columns, count):
    torch.manual_seed(3)
    scores = torch.randn(5, columns)
    for ours, theirs in zip(best(scores, count), scores.topk(count), strict=True):
        assert torch.equal(ours, theirs)


def test_forbidden_tokens_are_not_chosen():
    scores = torch.full((1, 300), -torch.inf)
    scores[0, 299] = -1e4
    assert best(scores) == (torch.tensor([[-1e4]]), torch.tensor([[299]]))


TOKENS = ["<unk>", "<blank>", "<s>", "</s>", "<p_start>", "<a_start>", ";", "graph", "graphs", "tree", "node"]
START, PAD = 2, 1


@pytest.mark.parametrize("max_length", [None, 6, 9, 30])
@pytest.mark.parametrize(
    "exclusion", [{"exclusive_window": 1}, {"exclusive_window": None, "exclude_stems": True, "exclude_phrases": True}]
)
def test_rows_of_any_age_are_constrained_as_if_alone(max_length, exclusion):
    torch.manual_seed(3)
    settings = SearchSettings(max_length=max_length, max_phrases=4, max_phrase_words=2, **exclusion)
    constraint = StreamConstraint(TOKENS, settings)
    hypotheses = Hypotheses(3, START, PAD)
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
        assert [hypotheses.written(row).tolist() for row in range(3)] == [tokens[1:] for tokens in alone]
        over = [row for row, tokens in enumerate(alone) if tokens[-1] == 3 or (step + row) % 11 == 0]
        hypotheses.begin(torch.tensor(over, dtype=torch.long))
        for row in over:
            alone[row] = [START]


def test_rows_move_with_all_they_have():
    hypotheses = Hypotheses(3, START, PAD)
    hypotheses.append(torch.tensor([4, 5, 6]), torch.tensor([-1.0, -2.0, -3.0]))
    hypotheses = hypotheses.at(torch.tensor([2, 0]))
    assert len(hypotheses) == 2
    assert hypotheses.tokens.tolist() == [[START, 6], [START, 4]]
    assert hypotheses.scores.tolist() == [-3.0, -1.0]
