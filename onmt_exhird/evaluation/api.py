"""`evaluate`: the evaluator as a function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.conventions import Convention, get_convention, signature
from onmt_exhird.evaluation.matching import DocumentMatch, Reference, match_document, prepare_reference
from onmt_exhird.evaluation.metrics import Columns, add_up, collect, counts, scores
from onmt_exhird.evaluation.results import Evaluation, SystemResult, document_record
from onmt_exhird.evaluation.significance import assess, mean_and_deviation
from onmt_exhird.stream import Phrase, read_leniently

Phrases: TypeAlias = str | Sequence[str] | Sequence[Phrase]
"""A document's phrases: a stream, a line ``a ; b ; c``, or a list."""


@dataclass(frozen=True)
class System:
    """A system's name and its predictions, one line or list per document; several runs are its seeds."""

    name: str
    runs: Sequence[Sequence[Phrases]]


def evaluate(
    sources: Sequence[str | Sequence[str]],
    gold: Sequence[Phrases],
    predictions: Sequence[Phrases] | Mapping[str, Sequence[Phrases]] | Sequence[System],
    *,
    convention: str = "exhird",
    docs: str | None = None,
    tokens: str | None = None,
    gold_stemmed: bool = False,
    retokenized: Sequence[str] = (),
    confidence: bool = False,
    resamples: int = 1000,
    seed: int = 1,
    details: bool = False,
    progress: bool = False,
) -> Evaluation:
    """Score one system's predictions, or those of several by name, or `System` objects with several runs.

    Sources are tokens between blanks. `docs` and `tokens` change these two choices of the convention, `confidence` adds
    intervals and tests against the first system, `details` a record per document.

    >>> result = evaluate(["fast spanning trees"], ["spanning tree ; graph"], ["spanning trees ; forest"])
    >>> result.systems[0]["present/F1@M"], result.systems[0]["absent/F1@M"]
    (1.0, 0.0)
    """
    chosen = get_convention(convention, docs, tokens)
    systems = _as_systems(predictions)
    if not sources:
        raise ExhirdError("there are no documents to evaluate; the source has no lines")
    _check_length("gold", gold, sources)
    references = [
        prepare_reference(_as_tokens(source), _as_phrases(phrases), chosen, gold_stemmed)
        for source, phrases in zip(_bar(sources, "gold", progress), gold, strict=True)
    ]
    records: list[dict[str, Any]] = []
    columns: list[list[Columns]] = []
    for system in systems:
        columns.append([])
        for number, run in enumerate(system.runs, start=1):
            _check_length(f"'{system.name}'", run, sources)
            matches = _match(references, _bar(run, system.name, progress), chosen)
            if details:
                kept = list(matches)
                name = system.name if len(system.runs) == 1 else f"{system.name} run {number}"
                records += [document_record(name, line, match, chosen) for line, match in enumerate(kept, start=1)]
                matches = iter(kept)
            columns[-1].append(collect(matches, chosen))
    results = [_summarise(system, runs, chosen) for system, runs in zip(systems, columns, strict=True)]
    resampling = ""
    if confidence:
        resampling = f"interval:95%|paired-bootstrap:{resamples}|approximate-randomisation:{resamples}|seed:{seed}"
        significance = assess(columns, chosen, resamples, seed, progress)
        for index, result in enumerate(results):
            result.intervals = significance.intervals[index]
            result.comparisons = significance.comparisons[index - 1] if index else {}
    return Evaluation(
        signature=signature(chosen, gold_stemmed, retokenized),
        documents=len(sources),
        convention=chosen,
        systems=results,
        resampling=resampling,
        details=records,
    )


def f1_at_m(
    predictions: Sequence[Phrases], gold: Sequence[Phrases], sources: Sequence[str] | None = None, kind: str = "total"
) -> float:
    """F1@M under the paper's convention, one number, for a validation during training.

    Without sources nothing is present, so only `kind` ``total``, all phrases together, has a meaning then.

    >>> f1_at_m(["graph ; tree"], ["graph ; tree ; forest ; leaf"])
    0.6666666666666666
    """
    if sources is None and kind != "total":
        raise ExhirdError(f"F1@M of {kind} phrases needs the sources; give them, or ask for kind 'total'")
    return evaluate(sources or [""] * len(gold), gold, predictions).systems[0][f"{kind}/F1@M"]


def _as_systems(predictions: Any) -> list[System]:
    if isinstance(predictions, Mapping):
        return [System(name, [lines]) for name, lines in predictions.items()]
    if predictions and all(isinstance(one, System) for one in predictions):
        return list(predictions)
    return [System("predictions", [predictions])]


def _as_tokens(source: str | Sequence[str]) -> Sequence[str]:
    return source.split() if isinstance(source, str) else source


def _as_phrases(phrases: Phrases) -> list[Phrase]:
    if isinstance(phrases, str):
        return read_leniently(phrases)
    given = (phrase if isinstance(phrase, Phrase) else Phrase(tuple(phrase.split()), "") for phrase in phrases)
    return [phrase for phrase in given if phrase.words]


def _check_length(what: str, documents: Sequence[object], sources: Sequence[object]) -> None:
    if len(documents) != len(sources):
        raise ExhirdError(f"{what} has {len(documents)} documents, but there are {len(sources)} sources")


def _bar(items: Sequence[Any], name: str, progress: bool) -> Sequence[Any]:
    """The items, with a progress bar on stderr if that is a terminal."""
    if not progress:
        return items
    from tqdm import tqdm

    return tqdm(items, desc=name, unit="doc", leave=False, disable=None)


def _match(references: Sequence[Reference], run: Sequence[Phrases], convention: Convention) -> Iterator[DocumentMatch]:
    for reference, phrases in zip(references, run, strict=True):
        yield match_document(reference, _as_phrases(phrases), convention)


def _summarise(system: System, runs: Sequence[Columns], convention: Convention) -> SystemResult:
    sums = [add_up(run) for run in runs]
    means, deviations = mean_and_deviation([scores(one, convention) for one in sums])
    return SystemResult(system.name, len(runs), means, deviations, counts(sums[0], convention))
