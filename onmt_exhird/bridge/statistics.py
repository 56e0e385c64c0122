"""OpenNMT-py's training statistics, with other losses by name beside the generation loss.

Not inside a seam: statistics travel between processes, so their class must be found by its name.
"""

from __future__ import annotations

import time
from math import inf, isfinite
from typing import Any

from onmt.utils import statistics


def clock(seconds: float) -> str:
    """
    >>> clock(93784.6)
    '26:03:04'
    """
    minutes, second = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"


class Statistics(statistics.Statistics):
    """Perplexity stays that of the generation loss alone.

    losses     what else was minimised, by name, summed over documents and without its weight
    n_judged   words whose correctness was counted
    seconds_left      until the last step, as far as one can tell
    best_perplexity   of a validation: the least of all so far
    """

    computed_metrics: dict[str, float]
    seconds_left = inf
    best_perplexity: float | None = None

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

    def documents_per_second(self) -> float:
        return self.n_sents / max(self.elapsed_time(), 1e-6)

    def _named(self) -> dict[str, float]:
        """What the log and TensorBoard have beside upstream's numbers."""
        per_document = {name: value / max(self.n_sents, 1) for name, value in self.losses.items()}
        return self.computed_metrics | per_document

    def output(self, step: int, num_steps: int, learning_rate: float, start: float) -> None:
        if not self.n_batchs:
            statistics.logger.warning(f"Step {step}: no step since the last report could be used")
            return
        of = f"/{num_steps}" if num_steps > 0 else ""
        left = f"; {clock(self.seconds_left)} left" if isfinite(self.seconds_left) else ""
        others = "".join(f"; {name}: {value:.2f}" for name, value in self._named().items())
        words = self.n_src_words / self.n_batchs, self.n_words / self.n_batchs, self.n_sents / self.n_batchs
        statistics.logger.info(
            f"Step {step}{of}; acc: {self.accuracy():.1f}; ppl: {self.ppl():.1f}; xent: {self.xent():.2f}{others}; "
            f"lr: {learning_rate:.5f}; sents: {self.n_sents}; bsz: {words[0]:.0f}/{words[1]:.0f}/{words[2]:.0f}; "
            f"{self.documents_per_second():.1f} docs/s; {clock(time.time() - start)} passed{left}"
        )

    def log_tensorboard(self, prefix: str, writer: Any, learning_rate: float, patience: Any, step: int) -> None:
        """The mean speed of a progress report; the best perplexity beside that of a validation."""
        if not self.n_words:
            return
        more = {"best_ppl": self.best_perplexity} if self.best_perplexity is not None else {}
        if prefix == "progress":
            more |= {"docs_per_second": self.documents_per_second()}
            if isfinite(self.seconds_left):
                more |= {"seconds_left": self.seconds_left}
        before = self.computed_metrics
        self.computed_metrics = self._named() | more  # upstream writes whatever stands there
        super().log_tensorboard(prefix, writer, learning_rate, patience, step)
        self.computed_metrics = before
