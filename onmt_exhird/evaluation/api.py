"""`evaluate`: the evaluator as a function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import add
from typing import Any, TypeAlias

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.conventions import Convention, check_choice, get_convention, signature
from onmt_exhird.evaluation.matching import KINDS, match_document, prepare_reference
from onmt_exhird.evaluation.metrics import Tally, counts, scores
from onmt_exhird.evaluation.results import Evaluation, SystemResult, document_record
from onmt_exhird.evaluation.significance import Comparison, Significance, assess, mean_and_deviation
from onmt_exhird.stream import Phrase, read_leniently
from onmt_exhird.text import ENGLISH, TextRules

Phrases: TypeAlias = str | Sequence[str] | Sequence[Phrase]
"""A document's phrases: a stream, a line ``a ; b ; c``, or a list."""


@dataclass(frozen=True)
class System:
    """A system's name and its predictions, one line or list per document; several runs are its seeds."""

    name: str
    runs: Sequence[Iterable[Phrases]]


class UnequalLengths(ExhirdError):
    """Gold (`index` 0) or a run (from 1 on, in the order of the systems) has not as many documents as the source."""

    def __init__(self, what: str, index: int, have: int, want: int) -> None:
        super().__init__(f"{what} has {have} documents, but there are {want} sources")
        self.index, self.have, self.want = index, have, want


def evaluate(
    sources: Iterable[str | Sequence[str]],
    gold: Iterable[Phrases],
    predictions: Iterable[Phrases] | Mapping[str, Iterable[Phrases]] | Sequence[System],
    *,
    convention: str = "exhird",
    docs: str | None = None,
    tokens: str | None = None,
    text: TextRules = ENGLISH,
    gold_stemmed: bool = False,
    retokenized: Sequence[str] = (),
    confidence: bool = False,
    resamples: int = 1000,
    seed: int = 1,
    details: bool = False,
    progress: bool = False,
) -> Evaluation:
    """Score one system's predictions, or those of several by name, or `System` objects with several runs.

    Documents are read once, side by side, and nothing of their texts is kept, so iterators over large files will do.
    Sources are tokens between blanks. `docs` and `tokens` change these two choices of the convention, `text` has the
    language, `confidence` adds intervals and tests against the first system, `details` a record per document.

    >>> result = evaluate(["fast spanning trees"], ["spanning tree ; graph"], ["spanning trees ; forest"])
    >>> result.systems[0]["present/F1@M"], result.systems[0]["absent/F1@M"]
    (1.0, 0.0)
    """
    chosen = get_convention(convention, docs, tokens, text)
    systems = _as_systems(predictions)
    by_system = [_begin(system, chosen, confidence) for system in systems]
    runs = [run for own in by_system for run in own]
    documents = _score_all(_bar(_in_step(sources, gold, runs), progress), runs, chosen, gold_stemmed, details)
    results = [_summarise(system, own, chosen) for system, own in zip(systems, by_system, strict=True)]
    resampling = ""
    if confidence:
        resampling = f"interval:95%|paired-bootstrap:{resamples}|approximate-randomisation:{resamples}|seed:{seed}"
        columns = [[run.tally.columns() for run in own] for own in by_system]
        _add_significance(results, assess(columns, chosen, resamples, seed, progress))
    return Evaluation(
        signature=signature(chosen, gold_stemmed, retokenized),
        documents=documents,
        convention=chosen,
        systems=results,
        resampling=resampling,
        details=[record for run in runs for record in run.details],
    )


def f1_at_m(
    predictions: Sequence[Phrases],
    gold: Sequence[Phrases],
    sources: Sequence[str] | None = None,
    kind: str = "total",
    text: TextRules = ENGLISH,
) -> float:
    """F1@M under the paper's convention, one number, for a validation during training.

    Without sources nothing is present, so only `kind` ``total``, all phrases together, has a meaning then.

    >>> f1_at_m(["graph ; tree"], ["graph ; tree ; forest ; leaf"])
    0.6666666666666666
    """
    check_choice("kind", kind, KINDS)
    if sources is None and kind != "total":
        raise ExhirdError(f"F1@M of {kind} phrases needs the sources; give them, or ask for kind 'total'")
    given = [""] * len(gold) if sources is None else sources
    return evaluate(given, gold, predictions, text=text).systems[0][f"{kind}/F1@M"]


@dataclass
class _Run:
    """One run of a system while the documents go by: its sums so far and, where asked for, a record per document."""

    name: str
    predictions: Iterable[Phrases]
    tally: Tally
    details: list[dict[str, Any]] = field(default_factory=list)


def _as_systems(predictions: Any) -> list[System]:
    if isinstance(predictions, Mapping):
        systems = [System(name, [lines]) for name, lines in predictions.items()]
    elif isinstance(predictions, Sequence) and predictions and all(isinstance(one, System) for one in predictions):
        systems = list(predictions)
    else:
        systems = [System("predictions", [predictions])]
    if not systems or not all(system.runs for system in systems):
        raise ExhirdError("there is nothing to evaluate; give the predictions of at least one run of each system")
    return systems


def _begin(system: System, convention: Convention, keep: bool) -> list[_Run]:
    """The runs of a system before the first document; `keep` what resampling needs of each."""
    several = len(system.runs) > 1
    return [
        _Run(f"{system.name} run {number}" if several else system.name, lines, Tally(convention, keep))
        for number, lines in enumerate(system.runs, start=1)
    ]


def _as_tokens(source: str | Sequence[str]) -> Sequence[str]:
    return source.split() if isinstance(source, str) else source


def _as_phrases(phrases: Phrases) -> list[Phrase]:
    if isinstance(phrases, str):
        return read_leniently(phrases)
    given = (phrase if isinstance(phrase, Phrase) else Phrase(tuple(phrase.split()), "") for phrase in phrases)
    return [phrase for phrase in given if phrase.words]


def _in_step(sources: Iterable[Any], gold: Iterable[Any], runs: Sequence[_Run]) -> Iterator[tuple[Any, ...]]:
    """A document at a time: its source, its gold phrases, and each run's predictions."""
    names = ["gold", *(f"'{run.name}'" for run in runs)]
    columns = [sources, gold, *(run.predictions for run in runs)]
    end = object()
    lengths = [0] * len(columns)
    for row in zip_longest(*columns, fillvalue=end):
        there = [entry is not end for entry in row]
        lengths = list(map(add, lengths, there))
        if all(there):
            yield row
    want, *have = lengths
    for index, (name, length) in enumerate(zip(names, have, strict=True)):
        if want and length != want:
            raise UnequalLengths(name, index, length, want)


def _bar(documents: Iterator[tuple[Any, ...]], progress: bool) -> Iterable[tuple[Any, ...]]:
    """The documents, with a progress bar on stderr if that is a terminal."""
    if not progress:
        return documents
    from tqdm import tqdm

    return tqdm(documents, desc="evaluating", unit="doc", leave=False, disable=None)


def _score_all(
    documents: Iterable[tuple[Any, ...]],
    runs: Sequence[_Run],
    convention: Convention,
    gold_stemmed: bool,
    details: bool,
) -> int:
    """Add every document to what each run has; returns how many there were."""
    number = 0
    for number, (source, gold, *predictions) in enumerate(documents, start=1):
        reference = prepare_reference(_as_tokens(source), _as_phrases(gold), convention, gold_stemmed)
        for run, phrases in zip(runs, predictions, strict=True):
            match = match_document(reference, _as_phrases(phrases), convention)
            run.tally.add(match)
            if details:
                run.details.append(document_record(run.name, number, match, convention))
    if not number:
        raise ExhirdError("there are no documents to evaluate; the source has no lines")
    return number


def _summarise(system: System, runs: Sequence[_Run], convention: Convention) -> SystemResult:
    sums = [run.tally.sums() for run in runs]
    means, deviations = mean_and_deviation([scores(one, convention) for one in sums])
    return SystemResult(system.name, len(runs), means, deviations, counts(sums[0], convention))


def _add_significance(results: Sequence[SystemResult], found: Significance) -> None:
    comparisons: list[dict[str, Comparison]] = [{}, *found.comparisons]  # the first is what the others are against
    for result, own_intervals, own_comparisons in zip(results, found.intervals, comparisons, strict=True):
        result.intervals, result.comparisons = own_intervals, own_comparisons
