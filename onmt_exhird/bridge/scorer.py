"""``valid_metrics: [KEYPHRASE_F1]``: F1@M of present keyphrases, in per cent, while a model trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.bridge.texts import text_of
from onmt_exhird.bridge.transform import tokenize_stream
from onmt_exhird.stream import render
from onmt_exhird.text import ENGLISH, TextRules, tokenize


def read_valid_pairs(corpus: dict[str, Any], rules: TextRules = ENGLISH) -> tuple[list[str], list[str]]:
    """The source and target lines that are predicted: all with a source.

    Upstream drops blank targets too, after which its references belong to other predictions.
    """
    with open(corpus["path_src"], encoding="utf-8") as src, open(corpus["path_tgt"], encoding="utf-8") as tgt:
        pairs = [(source.strip(), target.strip()) for source, target in zip(src, tgt, strict=True) if source.strip()]
    if "keyphrase" in corpus["transforms"]:
        pairs = [
            (" ".join(tokenize(source, rules)), render(tokenize_stream(target, rules))) for source, target in pairs
        ]
        pairs = [pair for pair in pairs if pair[0]]
    return [source for source, _ in pairs], [target for _, target in pairs]


def register_scorer(scorers: Upstream) -> None:
    """Upstream hands a scorer predictions and references only; what is present is decided by the sources."""
    from onmt.scorers.scorer import Scorer

    @scorers.register_scorer("KEYPHRASE_F1")
    class KeyphraseScorer(Scorer):
        def compute_score(self, preds: Sequence[str], texts_refs: Sequence[str]) -> float:
            from onmt_exhird.evaluation import f1_at_m

            rules = text_of(self.opts).rules
            sources, gold = read_valid_pairs(self.opts.data["valid"], rules)
            return 100 * f1_at_m(preds, gold, sources, kind="present", text=rules)
