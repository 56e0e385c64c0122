"""The output layer of a trained model, laid out where it is loaded for search."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn.output_layer import for_search


def lay_out_for_search(module: Upstream) -> None:
    """Upstream multiplies with the weight as training has it, and ignores -precision int8."""
    build_translator = module.build_translator

    def build(opt: Namespace, *args: Any, **kwargs: Any) -> Any:
        if opt.precision == "int8" and len(opt.models) > 1:
            raise ExhirdError("-precision int8 needs a single model: give one -model")
        translator = build_translator(opt, *args, **kwargs)
        scored = getattr(translator, "scored", True)  # a language model is not ours
        translator.model.generator = for_search(translator.model.generator, opt.precision, scored)
        if getattr(translator, "ours", None) is not None:
            translator.ours.generator = translator.model.generator
        return translator

    module.build_translator = build
