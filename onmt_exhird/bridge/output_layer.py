"""The output layer of a trained model, laid out where it is loaded for search."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from torch import nn

from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.bridge.usage import warn
from onmt_exhird.nn import quantised
from onmt_exhird.nn.copying import CopyGenerator
from onmt_exhird.nn.output_layer import lay_out
from onmt_exhird.nn.quantised import QuantisedCopyGenerator, QuantisedLinear


def for_search(generator: nn.Module, precision: str = "", scored: bool = True) -> nn.Module:
    """The same output layer of any model, as the option -precision asks for; upstream accepts and ignores that.

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
    return lay_out(generator, scored) if isinstance(generator, CopyGenerator) else generator


def lay_out_for_search(module: Upstream) -> None:
    """Upstream multiplies with the weight as training has it, and ignores -precision int8."""
    build_translator = module.build_translator

    def build(opt: Namespace, *args: Any, **kwargs: Any) -> Any:
        translator = build_translator(opt, *args, **kwargs)
        if isinstance(translator, module.Translator):  # a language model is not ours
            translator.model.generator = for_search(translator.model.generator, opt.precision, translator.scored)
            if translator.ours is not None:
                translator.ours.generator = translator.model.generator
        return translator

    module.build_translator = build
