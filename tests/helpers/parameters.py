"""How many parameters the recipes' models have, by hand."""

from __future__ import annotations

EXHIRD = 22_219_105
PARAMETERS = {
    "exhird": EXHIRD,
    "exhird-s": EXHIRD,
    "catseq": 21_587_305,
    "catseqd": 21_695_977,
    "catseqcorr": 22_127_605,
    "transformer": 22_296_605,
}
TABLES = 20_051_905  # parameters of the embedding and the output layer together
