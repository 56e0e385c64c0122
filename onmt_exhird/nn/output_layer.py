"""Which form of the output layer a search multiplies with."""

from __future__ import annotations

from onmt_exhird.nn import quantised
from onmt_exhird.nn.copying import CopyGenerator
from onmt_exhird.nn.packed import PackedCopyGenerator, can_pack
from onmt_exhird.nn.quantised import ScreenedCopyGenerator

LARGE = 5000  # words of a vocabulary for which looking twice is quicker


def lay_out(generator: CopyGenerator, scored: bool = True) -> CopyGenerator:
    """The same output layer, laid out for search; scored: whether exact scores of what is found are wanted."""
    if not can_pack(generator.weight):
        return generator
    if not scored and len(generator.weight) >= LARGE and quantised.is_available():
        return ScreenedCopyGenerator(generator)
    return PackedCopyGenerator(generator)
