"""Which form of the output layer a search multiplies with."""

from __future__ import annotations

from onmt_exhird.nn import quantised
from onmt_exhird.nn.copying import CopyGenerator
from onmt_exhird.nn.packed import PackedCopyGenerator, can_pack
from onmt_exhird.nn.quantised import ScreenedCopyGenerator

LARGE = 1_500_000  # numbers of a weight for which looking twice is quicker: 5,000 words of 300 each, 15,000 of 100


def lay_out(generator: CopyGenerator, scored: bool = True) -> CopyGenerator:
    """The same output layer, laid out for search; scored: whether exact scores of what is found are wanted."""
    if not can_pack(generator.weight):
        return generator
    if not scored and generator.weight.numel() >= LARGE and quantised.is_available():
        return ScreenedCopyGenerator(generator)
    return PackedCopyGenerator(generator)
