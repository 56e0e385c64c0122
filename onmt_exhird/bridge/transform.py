"""``-transforms``: the normalisation of `exhird prepare` inside OpenNMT-py, and phrases hidden in training."""

from __future__ import annotations

from random import Random
from typing import Any

from onmt.transforms import register_transform
from onmt.transforms.transform import ObservableStats, Transform

from onmt_exhird import stream
from onmt_exhird.bridge import texts
from onmt_exhird.bridge.options import probability
from onmt_exhird.text import ENGLISH, TextRules, tokenize, tokenize_phrase


def tokenize_stream(line: str, rules: TextRules = ENGLISH) -> list[stream.Phrase]:
    """The phrases of a target line, tokenised; those of which nothing is left are gone."""
    phrases = (phrase._replace(words=tuple(tokenize_phrase(phrase.text, rules))) for phrase in stream.parse(line))
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

    Doing it to what `exhird prepare` has done changes nothing. With a subword model words are then cut into pieces, and
    what is written is joined to words again.
    """

    @classmethod
    def add_options(cls, parser: Any) -> None:
        group = parser.add_argument_group("Keyphrases: transform keyphrase (onmt_exhird)")
        help = "text.json of exhird prepare: language, normalisation and subwords; onmt_translate has it from its model"
        group.add(f"--{texts.OPTION}", f"-{texts.OPTION}", default="", metavar="FILE", help=help)

    @classmethod
    def _validate_options(cls, opts: Any) -> None:
        texts.read_file(opts)

    def _parse_opts(self) -> None:
        self.text = texts.text_of(self.opts)

    def warm_up(self, vocabs: Any = None) -> None:
        super().warm_up(vocabs)
        if vocabs is not None:
            texts.check_same(self.opts, vocabs)

    def apply(self, example: dict[str, Any], is_train: bool = False, stats: Any = None, **kwargs: Any) -> Any:
        words = tokenize(" ".join(example["src"]), self.text.rules)
        example["src"] = self.text.cut(words)
        if example["tgt"] is not None:
            from onmt_exhird.corpus import Example, within_limits

            kept = tokenize_stream(" ".join(example["tgt"]), self.text.rules)
            example["tgt"] = self.text.cut(stream.render(kept).split())
            if is_train and not (kept and within_limits(Example(words, kept))):
                if stats is not None:
                    stats.update(DroppedStats())
                return None
        return example

    def apply_reverse(self, translated: str) -> str:
        return " ".join(self.text.join(translated.split()))


@register_transform(name="keyphrase_drop")
class KeyphraseDropTransform(Transform):
    """Hides some present phrases of some training documents: makes them absent (KPDrop, Ray Chowdhury et al., 2022).

    A model then sees more absent phrases, and others each time it meets a document. If ``keyphrase`` is used too, it
    comes first.
    """

    random = Random()  # of a run without a seed

    @classmethod
    def add_options(cls, parser: Any) -> None:
        group = parser.add_argument_group("Keyphrases: transform keyphrase_drop (onmt_exhird)")
        documents, phrases = "keyphrase_drop_documents", "keyphrase_drop_phrases"
        help = "probability that a training document has phrases hidden"
        group.add(f"--{documents}", f"-{documents}", type=probability, default=0.5, help=help)
        help = "probability that a present phrase of such a document is hidden"
        group.add(f"--{phrases}", f"-{phrases}", type=probability, default=0.3, help=help)

    def _set_seed(self, seed: int) -> None:
        self.random = Random(seed)

    def apply(self, example: dict[str, Any], is_train: bool = False, stats: Any = None, **kwargs: Any) -> Any:
        if is_train and self.random.random() < self.opts.keyphrase_drop_documents:
            from onmt_exhird.corpus import Example, hide_phrases

            text = texts.text_of(self.opts)
            source, target = text.join(example["src"]), text.join(example["tgt"])
            phrases = stream.parse(" ".join(target))
            probability = self.opts.keyphrase_drop_phrases
            present = (phrase for phrase in phrases if phrase.tag == stream.PRESENT)
            hidden = [phrase for phrase in present if self.random.random() < probability]
            if hidden:
                source, phrases = hide_phrases(Example(source, phrases), hidden, text.rules)
                example["src"], example["tgt"] = text.cut(source), text.cut(stream.render(phrases).split())
        return example
