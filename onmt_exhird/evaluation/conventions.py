"""The conventions in use: each choice that changes a number is a field here and a part of the signature."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from onmt_exhird import __version__
from onmt_exhird.errors import ExhirdError
from onmt_exhird.languages import comparison
from onmt_exhird.text import ENGLISH, TextRules

DOCS = ("all", "with-gold")
TOKENS = ("blanks", "words")


@dataclass(frozen=True)
class Convention:
    """How predictions are compared with the gold phrases, and how the results are averaged."""

    name: str
    slash_splits: bool
    """``/`` in a phrase, gold or predicted, separates two phrases."""
    drops_punctuation: bool
    """A prediction with a token ``,`` or ``.`` is dropped; one with ``<unk>`` is dropped by all conventions."""
    gold_unique: bool
    """Gold phrases that are equal after stemming count once."""
    restems_gold: bool
    """Gold given as already stemmed is stemmed once more."""
    pads: bool
    """P@k divides by k, as if wrong phrases were appended; otherwise by min(k, number of predictions)."""
    f1_of_means: bool
    """F1 is the harmonic mean of the averaged P and R; otherwise the mean of the documents' F1."""
    empty_line_counts: bool
    """A line without predictions is one wrong absent prediction (it shows in #AK and in micro P only)."""
    docs: str = "all"
    """``with-gold``: the averages leave out documents that have no gold phrase of the kind."""
    tokens: str = "blanks"
    """``words``: all text is split again on everything that is no letter, digit or underscore."""
    text: TextRules = ENGLISH
    """By which stems words are compared, or by characters; and how raw text is normalised."""


CONVENTIONS = {
    convention.name: convention
    for convention in (
        Convention(
            "exhird",
            slash_splits=True,
            drops_punctuation=False,
            gold_unique=True,
            restems_gold=False,
            pads=True,
            f1_of_means=True,
            empty_line_counts=False,
        ),
        Convention(
            "chan",
            slash_splits=False,
            drops_punctuation=True,
            gold_unique=True,
            restems_gold=False,
            pads=True,
            f1_of_means=True,
            empty_line_counts=True,
        ),
        Convention(
            "meng",
            slash_splits=False,
            drops_punctuation=True,
            gold_unique=False,
            restems_gold=True,
            pads=False,
            f1_of_means=False,
            empty_line_counts=False,
        ),
    )
}


def check_choice(what: str, value: str, valid: Iterable[str]) -> None:
    """Raise an `ExhirdError` that lists the valid ones unless this is one of them."""
    if value not in valid:
        raise ExhirdError(f"unknown {what} '{value}'; the valid ones are {', '.join(valid)}")


def get_convention(
    name: str, docs: str | None = None, tokens: str | None = None, text: TextRules = ENGLISH
) -> Convention:
    """The convention of that name, with its documents, its tokens or its language changed where asked.

    >>> get_convention("meng", docs="with-gold").docs
    'with-gold'
    """
    check_choice("convention", name, CONVENTIONS)
    convention = replace(CONVENTIONS[name], text=text)
    if docs is not None:
        check_choice("choice of documents", docs, DOCS)
        convention = replace(convention, docs=docs)
    if tokens is not None:
        check_choice("choice of tokens", tokens, TOKENS)
        convention = replace(convention, tokens=tokens)
    return convention


def signature(convention: Convention, gold_stemmed: bool = False, retokenized: Iterable[str] = ()) -> str:
    """All that is needed to get the same number again; `retokenized` names the inputs that came as raw text.

    >>> signature(CONVENTIONS["exhird"]).split("|")[:4]
    ['F1@M', 'conv:exhird', 'avg:f1-of-means', 'docs:all']
    """
    if not gold_stemmed:
        gold = "stem"
    elif convention.restems_gold:
        gold = "stem-again"
    else:
        gold = "as-given"
    fields = {
        "conv": convention.name,
        "avg": "f1-of-means" if convention.f1_of_means else "mean-of-f1",
        "docs": convention.docs,
        "stem": comparison(convention.text.language),
        "gold": gold,
        "unk": "drop",
        "punct": "drop" if convention.drops_punctuation else "keep",
        "slash": "split" if convention.slash_splits else "keep",
        "golddup": "drop" if convention.gold_unique else "keep",
        "p@k": "k" if convention.pads else "min(k,n)",
        "empty": "one" if convention.empty_line_counts else "none",
        "tok": convention.tokens,
    }
    if names := "+".join(sorted(retokenized)):
        fields["raw"] = names
        others = {name: getattr(convention.text, name) for name in ("case", "accents", "digits")}
        fields |= {name: value for name, value in others.items() if value != getattr(ENGLISH, name)}
    if convention.text.language != ENGLISH.language:
        fields["lang"] = convention.text.language
    fields["v"] = __version__
    return "|".join(["F1@M", *(f"{key}:{value}" for key, value in fields.items())])
