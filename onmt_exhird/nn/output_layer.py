"""Which form of the output layer a search multiplies with."""

from __future__ import annotations

from torch import nn

from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn import quantised
from onmt_exhird.nn.copying import CopyGenerator
from onmt_exhird.nn.packed import PackedCopyGenerator, can_pack
from onmt_exhird.nn.quantised import QuantisedCopyGenerator, QuantisedLinear, ScreenedCopyGenerator

LARGE = 5000  # words of a vocabulary for which looking twice is quicker


def lay_out(generator: CopyGenerator, scored: bool = True) -> CopyGenerator:
    """The same output layer, laid out for search; scored: whether exact scores of what is found are wanted."""
    if not can_pack(generator.weight):
        return generator
    if not scored and len(generator.weight) >= LARGE and quantised.is_available():
        return ScreenedCopyGenerator(generator)
    return PackedCopyGenerator(generator)


def for_search(generator: nn.Module, precision: str = "", scored: bool = True) -> nn.Module:
    """The same output layer of any model, as the option -precision asks for; upstream accepts and ignores that."""
    if precision == "int8":
        if not quantised.is_available():
            raise ExhirdError("-precision int8 is not available on this processor: leave it out")
        if isinstance(generator, CopyGenerator):
            return QuantisedCopyGenerator(generator)
        if isinstance(generator, nn.Linear):
            return QuantisedLinear(generator.weight, generator.bias)
        raise ExhirdError("-precision int8 does not know this output layer: leave it out")
    return lay_out(generator, scored) if isinstance(generator, CopyGenerator) else generator
