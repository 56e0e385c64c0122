"""OpenNMT-py's training statistics, with the exclusive loss beside the generation loss.

Not inside a seam: statistics travel between processes, so their class must be found by its name.
"""

from __future__ import annotations

from typing import Any

from onmt.utils import statistics


class Statistics(statistics.Statistics):
    """Perplexity stays that of the generation loss alone."""

    computed_metrics: dict[str, float]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.exclusive: float | None = None  # sum over documents; None: not asked for
        self.n_judged = self.n_words  # words whose correctness was counted

    def update(self, stat: Any, update_n_src_words: bool = False) -> None:
        super().update(stat, update_n_src_words)
        self.n_judged += stat.n_judged
        if stat.exclusive is not None:
            self.exclusive = (self.exclusive or 0.0) + stat.exclusive

    def accuracy(self) -> float:
        return 100 * self.n_correct / self.n_judged if self.n_judged else float("nan")

    def _name_exclusive_loss(self) -> None:
        """Upstream writes whatever stands among the metrics, to the log and to TensorBoard alike."""
        if self.exclusive is not None:
            per_document = self.exclusive / max(self.n_sents, 1)
            self.computed_metrics = self.computed_metrics | {"exclusive": per_document}

    def output(self, *args: Any) -> None:
        self._name_exclusive_loss()
        super().output(*args)

    def log_tensorboard(self, *args: Any) -> None:
        self._name_exclusive_loss()
        super().log_tensorboard(*args)
