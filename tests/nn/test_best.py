"""The best token is found wherever it is."""

import pytest
import torch

from onmt_exhird.nn.best import best


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
