"""``-transforms keyphrase``: the normalisation of `exhird prepare` inside OpenNMT-py."""

from __future__ import annotations

from typing import Any

from onmt.transforms import register_transform
from onmt.transforms.transform import ObservableStats, Transform

from onmt_exhird import stream
from onmt_exhird.text import tokenize, tokenize_phrase


def tokenize_stream(line: str) -> list[stream.Phrase]:
    """The phrases of a target line, tokenised; those of which nothing is left are gone."""
    phrases = (phrase._replace(words=tuple(tokenize_phrase(phrase.text))) for phrase in stream.parse(line))
    return [phrase for phrase in phrases if phrase.words]


class DroppedStats(ObservableStats):
    """How many training documents were dropped: over-long ones, and those without a phrase."""

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
            from onmt_exhird.corpus import Example, within_limits

            kept = tokenize_stream(" ".join(example["tgt"]))
            example["tgt"] = stream.render(kept).split()
            if is_train and not (kept and within_limits(Example(example["src"], kept))):
                if stats is not None:
                    stats.update(DroppedStats())
                return None
        return example
