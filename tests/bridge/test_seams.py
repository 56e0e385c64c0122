"""A class of ours that is put before one of upstream's."""

from __future__ import annotations

import pickle
from types import ModuleType
from typing import Any

import onmt.inputters
import onmt.models
import onmt.trainer
import onmt.translate
import pytest

from onmt_exhird.bridge.loss import LossOverExtendedIds
from onmt_exhird.bridge.places import DataThatGoOn
from onmt_exhird.bridge.saving import SaverOfWholeCheckpoints
from onmt_exhird.bridge.seams import UpstreamClass, put_before
from onmt_exhird.bridge.translator import SearchOverExtendedIds


def test_its_super_is_what_it_replaces() -> None:
    class Stock:
        @classmethod
        def made(cls) -> Any:
            return cls()

        def say(self) -> str:
            return "stock"

    class Ours(UpstreamClass):
        """What is ours."""

        @classmethod
        def made(cls) -> Any:
            made = super().made()
            made.ours = True
            return made

        def say(self) -> str:
            return f"ours, then {super().say()}"

    upstream: Any = ModuleType("upstream")
    upstream.Thing = Stock
    put_before(upstream, "Thing", Ours)
    assert upstream.Thing.made().ours and upstream.Thing().say() == "ours, then stock"
    assert (upstream.Thing.__module__, upstream.Thing.__name__) == ("upstream", "Thing")
    assert Stock().say() == "stock"


@pytest.mark.parametrize(
    ("stock", "ours"),
    [
        (onmt.inputters.DynamicDatasetIter, DataThatGoOn),
        (onmt.models.ModelSaver, SaverOfWholeCheckpoints),
        (onmt.trainer.LossCompute, LossOverExtendedIds),
        (onmt.translate.Translator, SearchOverExtendedIds),
    ],
)
def test_upstreams_names_stand_for_both_also_in_other_processes(stock: type, ours: type) -> None:
    assert stock.__mro__[1] is ours
    assert pickle.loads(pickle.dumps(stock)) is stock
