"""Which form of the output layer a search multiplies with."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from torch import nn

from onmt_exhird.bridge import quantised
from onmt_exhird.bridge.packed import PackedCopyGenerator, can_pack
from onmt_exhird.bridge.quantised import QuantisedCopyGenerator, QuantisedLinear, ScreenedCopyGenerator
from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.bridge.usage import warn
from onmt_exhird.nn.copying import CopyGenerator

LARGE = 5000  # words of a vocabulary for which looking twice is quicker


def for_search(generator: nn.Module, precision: str = "", scored: bool = True) -> nn.Module:
    """The same output layer, laid out for search.

    precision: the option of that name, which upstream accepts and ignores.
    scored: whether anybody will see the scores of what is found.
    """
    if precision == "int8":
        if not quantised.is_available():
            warn(f"-precision int8: {quantised.lack()}; search goes on in full precision")
        elif isinstance(generator, CopyGenerator):
            return QuantisedCopyGenerator(generator)
        elif isinstance(generator, nn.Linear):
            return QuantisedLinear(generator.weight, generator.bias)
        else:  # an ensemble's, for one
            warn("-precision int8 does not know this output layer; search goes on in full precision")
    if not isinstance(generator, CopyGenerator) or not can_pack(generator.weight):
        return generator
    if not scored and len(generator.weight) >= LARGE and quantised.is_available():
        return ScreenedCopyGenerator(generator)
    return PackedCopyGenerator(generator)


def lay_out_for_search(module: Upstream) -> None:
    """Upstream multiplies with the weight as training has it, and ignores -precision int8."""
    build_translator = module.build_translator

    def build(opt: Namespace, *args: Any, **kwargs: Any) -> Any:
        translator = build_translator(opt, *args, **kwargs)
        if isinstance(translator, module.Translator):  # a language model is not ours
            translator.model.generator = for_search(translator.model.generator, opt.precision, translator.scored)
        return translator

    module.build_translator = build
