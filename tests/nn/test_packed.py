"""The output layer of search gives the same logits."""

from __future__ import annotations

import pytest
import torch
from helpers.output_layers import VOCAB, make

from onmt_exhird.nn import packed
from onmt_exhird.nn.output_layer import lay_out
from onmt_exhird.nn.packed import PackedCopyGenerator


@pytest.fixture
def can_pack() -> None:
    if not packed.can_pack(torch.empty(1)):
        pytest.skip("this torch has no packed products")


@pytest.mark.parametrize("width", [7, 4])
def test_the_packed_layer_gives_the_same_mixture_and_scores(width: int, can_pack) -> None:
    generator, inputs = make(width)
    ours = lay_out(generator)
    assert isinstance(ours, PackedCopyGenerator)
    torch.testing.assert_close(ours.log_mixture(*inputs, VOCAB + 3), generator.log_mixture(*inputs, VOCAB + 3))
    wanted = inputs[2][:, :1]
    torch.testing.assert_close(ours.score(*inputs, wanted), generator.score(*inputs, wanted))


def test_the_packed_layer_has_its_weight_once_and_gives_it_back(can_pack) -> None:
    generator, _ = make()
    ours = lay_out(generator)
    assert sum(parameter.numel() for parameter in ours.parameters()) == VOCAB + 7 + 1
    assert torch.equal(ours.weight, generator.weight)
    words = torch.tensor([2499, 0, 2048])
    for found, expected in zip(ours.rows(words), generator.rows(words), strict=True):
        assert torch.equal(found, expected)


def test_a_weight_that_cannot_be_packed_stays_as_it_is() -> None:
    generator = make()[0].double()
    assert lay_out(generator) is generator
