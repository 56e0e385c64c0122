"""``-transforms keyphrase``: the normalisation of `exhird prepare` inside OpenNMT-py."""

from __future__ import annotations

from typing import Any

from onmt.transforms import register_transform
from onmt.transforms.transform import ObservableStats, Transform

from onmt_exhird import stream
from onmt_exhird.corpus import Example, within_limits
from onmt_exhird.text import tokenize, tokenize_phrase


class DroppedStats(ObservableStats):
    """How many over-long training documents were dropped."""

    __slots__ = ["dropped"]

    def __init__(self) -> None:
        self.dropped = 1

    def update(self, other: DroppedStats) -> None:
        self.dropped += other.dropped


@register_transform(name="keyphrase")
class KeyphraseTransform(Transform):
    """Tokenises sources and the phrases of targets, and drops over-long training documents.

    Doing it to what `exhird prepare` has done changes nothing.
    """

    def apply(self, example: dict[str, Any], is_train: bool = False, stats: Any = None, **kwargs: Any) -> Any:
        example["src"] = tokenize(" ".join(example["src"]))
        if example["tgt"] is not None:
            phrases = stream.parse(" ".join(example["tgt"]))
            tokenized = [phrase._replace(words=tuple(tokenize_phrase(phrase.text))) for phrase in phrases]
            kept = [phrase for phrase in tokenized if phrase.words]
            example["tgt"] = stream.render(kept).split()
            if is_train and not within_limits(Example(example["src"], kept)):
                if stats is not None:
                    stats.update(DroppedStats())
                return None
        return example
