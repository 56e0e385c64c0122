"""`evaluate`: the evaluator as a function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from operator import add
from typing import Any, TypeAlias

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.conventions import Convention, get_convention, signature
from onmt_exhird.evaluation.matching import match_document, prepare_reference
from onmt_exhird.evaluation.metrics import Tally, counts, scores
from onmt_exhird.evaluation.results import Evaluation, SystemResult, document_record
from onmt_exhird.evaluation.significance import assess, mean_and_deviation
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
    runs = [(system, number) for system in systems for number in range(len(system.runs))]
    tallies = [Tally(chosen, keep=confidence) for _ in runs]
    records: list[list[dict[str, Any]]] = [[] for _ in runs]
    titles = ["gold", *(f"'{system.name}'" for system, _ in runs)]
    columns = [sources, gold, *(system.runs[number] for system, number in runs)]
    documents = 0
    for documents, (source, phrases, *predicted) in enumerate(_bar(_in_step(columns, titles), progress), start=1):
        reference = prepare_reference(_as_tokens(source), _as_phrases(phrases), chosen, gold_stemmed)
        for index, (system, number) in enumerate(runs):
            match = match_document(reference, _as_phrases(predicted[index]), chosen)
            tallies[index].add(match)
            if details:
                name = system.name if len(system.runs) == 1 else f"{system.name} run {number + 1}"
                records[index].append(document_record(name, documents, match, chosen))
    if not documents:
        raise ExhirdError("there are no documents to evaluate; the source has no lines")
    in_order = iter(tallies)
    by_system = [list(islice(in_order, len(system.runs))) for system in systems]
    results = [_summarise(system, own, chosen) for system, own in zip(systems, by_system, strict=True)]
    resampling = ""
    if confidence:
        resampling = f"interval:95%|paired-bootstrap:{resamples}|approximate-randomisation:{resamples}|seed:{seed}"
        kept = [[tally.columns() for tally in own] for own in by_system]
        significance = assess(kept, chosen, resamples, seed, progress)
        for index, result in enumerate(results):
            result.intervals = significance.intervals[index]
            result.comparisons = significance.comparisons[index - 1] if index else {}
    return Evaluation(
        signature=signature(chosen, gold_stemmed, retokenized),
        documents=documents,
        convention=chosen,
        systems=results,
        resampling=resampling,
        details=[record for of_run in records for record in of_run],
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
    if sources is None and kind != "total":
        raise ExhirdError(f"F1@M of {kind} phrases needs the sources; give them, or ask for kind 'total'")
    return evaluate(sources or [""] * len(gold), gold, predictions, text=text).systems[0][f"{kind}/F1@M"]


def _as_systems(predictions: Any) -> list[System]:
    if isinstance(predictions, Mapping):
        return [System(name, [lines]) for name, lines in predictions.items()]
    if isinstance(predictions, Sequence) and predictions and all(isinstance(one, System) for one in predictions):
        return list(predictions)
    return [System("predictions", [predictions])]


def _as_tokens(source: str | Sequence[str]) -> Sequence[str]:
    return source.split() if isinstance(source, str) else source


def _as_phrases(phrases: Phrases) -> list[Phrase]:
    if isinstance(phrases, str):
        return read_leniently(phrases)
    given = (phrase if isinstance(phrase, Phrase) else Phrase(tuple(phrase.split()), "") for phrase in phrases)
    return [phrase for phrase in given if phrase.words]


def _in_step(columns: Sequence[Iterable[Any]], titles: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """A document's source, gold and predictions at a time; columns after the first are named by the titles."""
    end = object()
    lengths = [0] * len(columns)
    for row in zip_longest(*columns, fillvalue=end):
        there = [entry is not end for entry in row]
        lengths = list(map(add, lengths, there))
        if all(there):
            yield row
    want, *have = lengths
    for index, (title, length) in enumerate(zip(titles, have, strict=True)):
        if want and length != want:
            raise UnequalLengths(title, index, length, want)


def _bar(documents: Iterator[tuple[Any, ...]], progress: bool) -> Iterable[tuple[Any, ...]]:
    """The documents, with a progress bar on stderr if that is a terminal."""
    if not progress:
        return documents
    from tqdm import tqdm

    return tqdm(documents, desc="evaluating", unit="doc", leave=False, disable=None)


def _summarise(system: System, runs: Sequence[Tally], convention: Convention) -> SystemResult:
    sums = [run.sums() for run in runs]
    means, deviations = mean_and_deviation([scores(one, convention) for one in sums])
    return SystemResult(system.name, len(runs), means, deviations, counts(sums[0], convention))
