"""``exhird evaluate``: score predictions of any system, with the signature of how it was done."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.conventions import CONVENTIONS, DOCS, TOKENS
from onmt_exhird.evaluation.paper import DATASETS

if TYPE_CHECKING:
    from onmt_exhird.text import TextRules

_DESCRIPTION = """\
Precision, recall and F1 of present and absent keyphrases, duplicates and counts, for the predictions of any system.
Every choice that changes a number is in the signature printed with it.

Files have one document a line; they may be compressed (.gz).
  source        tokens between blanks, taken as they are; <sep> between title and body, if there
  phrases       a stream (<p_start> a b ; <a_start> c ;) or plain a b ; c
  .jsonl        one object a line, raw text, tokenised here. Source: title, and abstract, text, body or src;
                gold: gold, keywords, keyword or keyphrases; predictions: predictions, pred, phrases or keyphrases
                (a list of strings or of objects with text, or one string with ;)
"""

_EPILOG = """\
conventions:
  exhird  the paper's (default): / separates phrases; predictions with <unk> are dropped; P@5 divides by 5; F1 from
          the averages of P and R over all documents
  chan    as exhird, but / is kept, predictions with a token , or . are dropped too, and a line without predictions
          counts as one absent prediction in #AK
  meng    / is kept, predictions with <unk>, or a token , or . are dropped; gold duplicates count, gold given as
          stemmed is stemmed again; P@5 divides by min(5, predictions), P_hard by 5; F1 is the mean of documents' F1.
          Its variants: --docs with-gold leaves out documents without gold of the kind (non-empty only),
          --tokens words splits all text again on punctuation

example:
  exhird evaluate --src test.src --gold test.tgt --pred base.pred --pred ours.pred --confidence --paper kp20k
"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "evaluate",
        help="score the predictions of any system",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    files = parser.add_argument_group("files")
    files.add_argument("--src", required=True, metavar="FILE", help="the source documents")
    files.add_argument("--gold", required=True, metavar="FILE", help="the gold phrases")
    files.add_argument(
        "--pred", nargs="+", action="extend", default=[], metavar="FILE", help="predictions, a file per system"
    )
    files.add_argument(
        "--seeds",
        nargs="+",
        action="append",
        default=[],
        metavar="FILE",
        help="predictions of one system with different seeds, files or a quoted glob: mean and standard deviation",
    )
    how = parser.add_argument_group("how to score")
    how.add_argument("--convention", choices=CONVENTIONS, default="exhird", help="default: %(default)s")
    how.add_argument("--docs", choices=DOCS, help="documents to average over; default: all")
    how.add_argument("--tokens", choices=TOKENS, help="what separates words; default: blanks")
    how.add_argument(
        "--language",
        metavar="CODE",
        help="words are compared by its stems, or by characters; default: that of text.json beside the source, or en",
    )
    how.add_argument("--gold-stemmed", action="store_true", help="the gold is already stemmed, as SemEval's is")
    how.add_argument(
        "--confidence",
        action="store_true",
        help="95%% intervals; paired bootstrap and approximate randomisation against the first system",
    )
    how.add_argument("--resamples", type=int, default=1000, metavar="N", help="default: %(default)s")
    how.add_argument("--seed", type=int, default=1, help="of the resampling; default: %(default)s")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--format", choices=("text", "json", "latex", "markdown", "csv"), default="text", help="default: %(default)s"
    )
    output.add_argument(
        "--paper", choices=DATASETS, help="add the paper's numbers for this data set and the differences"
    )
    output.add_argument(
        "--per-document", metavar="FILE", help="write what was right, wrong and missed in each document, as JSONL"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from onmt_exhird.evaluation import System, evaluate
    from onmt_exhird.evaluation.api import UnequalLengths
    from onmt_exhird.evaluation.formats import render
    from onmt_exhird.evaluation.inputs import (
        check_lengths,
        each_gold,
        each_prediction,
        each_source,
        is_jsonl,
        looks_raw,
    )

    systems = _find_runs(args.pred, args.seeds)
    text = _choose_text(args.src, args.language)
    sources = each_source(args.src, text)
    first = list(islice(sources, 1000))
    if looks_raw(first):
        remedy = "tokenise the source, or give it as .jsonl"
        print(
            f"exhird evaluate: warning: {args.src} has commas at the end of words, as raw text; {remedy}",
            file=sys.stderr,
        )
    paths = [args.gold, *(path for _, runs in systems for path in runs)]
    roles = {"src": [args.src], "gold": paths[:1], "pred": paths[1:]}
    try:
        result = evaluate(
            chain(first, sources),
            each_gold(args.gold, text),
            [System(name, [each_prediction(path, text) for path in runs]) for name, runs in systems],
            convention=args.convention,
            docs=args.docs,
            tokens=args.tokens,
            text=text,
            gold_stemmed=args.gold_stemmed,
            retokenized=[role for role, used in roles.items() if any(map(is_jsonl, used))],
            confidence=args.confidence,
            resamples=args.resamples,
            seed=args.seed,
            details=args.per_document is not None,
            progress=True,
        )
    except UnequalLengths as error:
        check_lengths(paths[error.index], range(error.have), args.src, range(error.want))
        raise
    if args.per_document:
        _write_details(args.per_document, result.details)
    print(render(result, args.format, args.paper))
    return 0


def _choose_text(source: str, language: str | None) -> TextRules:
    """The rules that the source was prepared with, where exhird prepare has left them; in the language asked for."""
    from onmt_exhird.languages import note_on
    from onmt_exhird.textmodel import beside

    rules = beside(Path(source)).rules
    rules = rules if language is None else replace(rules, language=language)
    if note := note_on(rules.language):
        print(f"exhird evaluate: {note}", file=sys.stderr)
    return rules


def _find_runs(files: Sequence[str], seeds: Sequence[Sequence[str]]) -> list[tuple[str, list[str]]]:
    """Each system's name and the files of its runs: one for each of `files`, several for each group of seeds."""
    from onmt_exhird.evaluation.inputs import expand

    if not files and not seeds:
        raise ExhirdError("there is nothing to evaluate; give predictions with --pred or --seeds")
    systems = [(name, [path]) for name, path in zip(_names(files), files, strict=True)]
    for patterns in seeds:
        paths = expand(patterns)
        if len(paths) < 2:
            raise ExhirdError(f"--seeds {' '.join(patterns)} is one file only; give at least two, or use --pred")
        name = Path(patterns[0]).name if len(patterns) == 1 else f"{Path(paths[0]).name} and {len(paths) - 1} more"
        systems.append((name, paths))
    return systems


def _names(paths: Sequence[str]) -> list[str]:
    """File names, or whole paths where two files have the same name."""
    times = Counter(Path(path).name for path in paths)
    return [Path(path).name if times[Path(path).name] == 1 else path for path in paths]


def _write_details(path: str, records: Sequence[dict[str, object]]) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    except OSError as error:
        raise ExhirdError(f"{path} cannot be written ({error}); choose another file for --per-document") from None
