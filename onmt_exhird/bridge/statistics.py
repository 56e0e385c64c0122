"""OpenNMT-py's training statistics, with other losses by name beside the generation loss.

Not inside a seam: statistics travel between processes, so their class must be found by its name.
"""

from __future__ import annotations

from typing import Any

from onmt.utils import statistics


class Statistics(statistics.Statistics):
    """Perplexity stays that of the generation loss alone.

    losses     what else was minimised, by name, summed over documents and without its weight
    n_judged   words whose correctness was counted
    """

    computed_metrics: dict[str, float]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.losses: dict[str, float] = {}
        self.n_judged = self.n_words

    def update(self, stat: Any, update_n_src_words: bool = False) -> None:
        super().update(stat, update_n_src_words)
        self.n_judged += stat.n_judged
        for name, value in stat.losses.items():
            self.losses[name] = self.losses.get(name, 0.0) + value

    def accuracy(self) -> float:
        return 100 * self.n_correct / self.n_judged if self.n_judged else float("nan")

    def _name_losses(self) -> None:
        """Upstream writes whatever stands among the metrics, to the log and to TensorBoard alike."""
        per_document = {name: value / max(self.n_sents, 1) for name, value in self.losses.items()}
        self.computed_metrics = self.computed_metrics | per_document

    def output(self, *args: Any) -> None:
        self._name_losses()
        super().output(*args)

    def log_tensorboard(self, *args: Any) -> None:
        self._name_losses()
        super().log_tensorboard(*args)
