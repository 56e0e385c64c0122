"""``valid_metrics: [KEYPHRASE_F1]``: F1@M of present keyphrases, in per cent, while a model trains."""

from __future__ import annotations

from collections.abc import Sequence

from onmt_exhird.bridge.seams import Upstream


def register_scorer(scorers: Upstream) -> None:
    """Upstream hands a scorer predictions and references only; what is present is decided by the sources."""
    from onmt.scorers.scorer import Scorer

    @scorers.register_scorer("KEYPHRASE_F1")
    class KeyphraseScorer(Scorer):
        def compute_score(self, preds: Sequence[str], texts_refs: Sequence[str]) -> float:
            from onmt_exhird.evaluation import f1_at_m

            with open(self.opts.data["valid"]["path_src"], encoding="utf-8") as file:
                sources = [line.rstrip("\n") for line in file if line.strip("\n")]
            return 100 * f1_at_m(preds, texts_refs, sources, kind="present")
