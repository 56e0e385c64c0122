"""``exhird prepare``: raw records to the source and target lines that the stock commands train on."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from onmt_exhird.cli import prepare_text
from onmt_exhird.cli.cores import count_cores
from onmt_exhird.cli.parallel import in_chunks, ordered_map
from onmt_exhird.cli.values import count
from onmt_exhird.cli.whole_files import whole_files
from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.corpus import Rules
    from onmt_exhird.records import Keys, RawRecord

CHUNK = 100  # records that a worker gets at once
SHOWN = 20  # complaints that are printed
SEED = 3435  # of the order of a training split
EXPANSION = 4  # how much larger than a .gz its text is, about


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "prepare",
        help="make training files of raw records",
        description="Make DIR/NAME.src and DIR/NAME.tgt of raw records: a document a line, its keyphrases as a stream. "
        "Left out are documents without words or without keyphrases and, from all but test splits, those too long.",
        epilog="example: exhird prepare --input papers.jsonl more.json.gz --output data --split train",
    )
    add = parser.add_argument
    add("--input", type=Path, nargs="+", required=True, metavar="FILE", help=".json or .jsonl, each also .gz")
    add("--output", type=Path, required=True, metavar="DIR", help="made if it does not exist")
    add("--split", required=True, metavar="NAME", help="a name with the word 'test' in it is a test split: my_test")
    add("--strict", action="store_true", help="stop at the first bad record (else it is reported and left out)")
    order = parser.add_mutually_exclusive_group()
    order.add_argument(
        "--shuffle",
        type=count,
        metavar="SEED",
        help=f"mix the documents, the same seed the same order; a training split is mixed anyway, with {SEED}",
    )
    order.add_argument("--no-shuffle", action="store_true", help="leave a training split in the order of the input")
    add("--jobs", type=count, default=0, metavar="N", help="processes to use; default 0: one for each core")

    add = parser.add_argument_group("keys of a record").add_argument
    add("--title-key", metavar="KEY", help="default: title")
    add("--text-key", metavar="KEY", help="default: abstract, or else text")
    add("--keywords-key", metavar="KEY", help="of a list or a string with ';'; default: keywords, keyword, keyphrases")

    add = parser.add_argument_group("what to leave out, never of a test split").add_argument
    add("--max-source", type=count, metavar="N", help="documents of more tokens; default 400; 0: no limit")
    add("--max-target", type=count, metavar="N", help="documents with more target tokens; default 80; 0: no limit")
    add("--vocab", type=Path, metavar="FILE", help="absent keyphrases with no word of this vocabulary or the source")
    add(
        "--exclude-titles",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="documents with the title of one in these files of records: those of test sets, raw or tokenised",
    )
    prepare_text.add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from onmt_exhird.records import check_input

    if not re.fullmatch(r"\w[\w.-]*", args.split):
        raise ExhirdError(f"'{args.split}' cannot be the name of a split: use letters, digits and '.', '_', '-'")
    keys = choose_keys(args)
    for path in [*args.input, *args.exclude_titles]:
        check_input(path)
    text = prepare_text.choose(args, is_train(args.split))
    rules = choose_rules(args.split, args.max_source, args.max_target, args.vocab, args.exclude_titles, keys)
    rules = replace(rules, text=text.rules)
    seed = choose_seed(args.split, args.shuffle, args.no_shuffle)
    outputs = [args.output / f"{args.split}.{side}" for side in ("src", "tgt")]
    with whole_files(outputs) as (src, tgt):
        total = _write(args, rules, keys, seed, src, tgt)
        if not total.kept:
            print(summary(total, rules))
            raise ExhirdError("no document was kept, so nothing was written; the reasons are above")
    print(summary(total, rules))
    print("order        " + ("that of the input" if seed is None else f"mixed, with seed {seed}"))
    outputs += prepare_text.write(args, text, outputs)
    print("written      " + ", ".join(map(str, outputs)))
    return 0


def is_test(split: str) -> bool:
    """Whether ``test`` is one of the words of a split's name.

    >>> is_test("inspec_test2"), is_test("latest")
    (True, False)
    """
    return "test" in _words(split)


def is_train(split: str) -> bool:
    """Whether ``train`` is one of them."""
    return "train" in _words(split)


def _words(split: str) -> list[str]:
    return re.split("[^a-z]+", split.lower())


def choose_seed(split: str, given: int | None, keep_order: bool) -> int | None:
    """The seed of the order, or None for that of the input. A bucket mixes only what lies near in a training file.

    >>> choose_seed("kp20k_train", None, False), choose_seed("valid", None, False), choose_seed("valid", 7, False)
    (3435, None, 7)
    """
    return SEED if given is None and is_train(split) and not keep_order else given


def choose_keys(args: argparse.Namespace) -> Keys:
    from onmt_exhird.records import Keys

    given = {"title": args.title_key, "text": args.text_key, "keywords": args.keywords_key}
    return Keys()._replace(**{name: (key,) for name, key in given.items() if key is not None})


def choose_rules(
    split: str,
    max_source: int | None,
    max_target: int | None,
    vocab: Path | None,
    exclude_titles: Sequence[Path],
    keys: Keys,
) -> Rules:
    """The rules of a split: the limits given or else the paper's; none for test data, which is never filtered."""
    from onmt_exhird.corpus import MAX_SOURCE, MAX_TARGET, Rules, read_vocabulary
    from onmt_exhird.records import read_titles

    if is_test(split):
        if max_source or max_target or vocab or exclude_titles:
            raise ExhirdError(
                f"'{split}' is a test split and test data is never filtered: leave out --max-source, --max-target, "
                "--vocab and --exclude-titles, or give the split a name without 'test'"
            )
        return Rules(max_source=0, max_target=0)
    return Rules(
        MAX_SOURCE if max_source is None else max_source,
        MAX_TARGET if max_target is None else max_target,
        None if vocab is None else read_vocabulary(vocab),
        frozenset(title for path in exclude_titles for title in read_titles(path, keys)),
    )


def _write(args: argparse.Namespace, rules: Rules, keys: Keys, seed: int | None, src: IO[str], tgt: IO[str]) -> Tally:
    """Read, work in parallel, write in order or mixed."""
    from onmt_exhird.records import is_gzip
    from onmt_exhird.shuffle import shuffle

    total = Tally()
    size = sum(path.stat().st_size * (EXPANSION if is_gzip(path) else 1) for path in args.input)
    pairs = _pairs(args, rules, keys, total)
    for source, target in pairs if seed is None else shuffle(pairs, seed, size, args.output):
        src.write(source)
        tgt.write(target)
    return total


def _pairs(args: argparse.Namespace, rules: Rules, keys: Keys, total: Tally) -> Iterator[tuple[str, str]]:
    """The source and target lines of all inputs; complains on the way, and counts."""
    from tqdm import tqdm

    from onmt_exhird.records import read_records

    complaints = 0
    size = sum(path.stat().st_size for path in args.input)
    with tqdm(total=size, unit="B", unit_scale=True, desc=args.split, disable=None) as bar:
        records = (record for path in args.input for record in read_records(path, bar.update))
        for part in ordered_map(prepare_chunk, (rules, keys), in_chunks(records, CHUNK), args.jobs or count_cores()):
            for complaint in part.complaints:
                if args.strict:
                    raise ExhirdError(complaint)
                complaints += 1
                if complaints <= SHOWN:
                    tqdm.write(f"exhird prepare: {complaint}", file=sys.stderr)
            total.add(part.tally)
            yield from zip(part.src, part.tgt, strict=True)
    if complaints > SHOWN:
        print(f"exhird prepare: and {complaints - SHOWN:,} more complaints like these", file=sys.stderr)


@dataclass
class Tally:
    """What became of the records; ``dropped`` counts documents, ``removed`` single keyphrases, both by reason."""

    read: int = 0
    kept: int = 0
    present: int = 0
    absent: int = 0
    broken_files: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class Part:
    """What comes of a chunk of records: lines with their ends, and what to complain about."""

    src: list[str] = field(default_factory=list)
    tgt: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)


def prepare_chunk(setup: tuple[Rules, Keys], records: Iterable[RawRecord]) -> Part:
    """Make examples of records; a bad record becomes a complaint, one that the rules leave out is only counted."""
    from onmt_exhird.corpus import Filtered, Unusable, make_example
    from onmt_exhird.records import parse_record
    from onmt_exhird.stream import PRESENT

    rules, keys = setup
    part = Part()
    tally = part.tally
    for raw in records:
        if raw.fault:
            tally.broken_files += 1
            part.complaints.append(f"{raw.place}: {raw.fault}; no more is read from this file")
            continue
        tally.read += 1
        try:
            example = make_example(*parse_record(raw.json, keys), rules, tally.removed)
        except Unusable as reason:
            tally.dropped[reason.kind] += 1
            if not isinstance(reason, Filtered):
                part.complaints.append(f"{raw.place}: {reason}")
            continue
        present = sum(phrase.tag == PRESENT for phrase in example.phrases)
        tally.kept += 1
        tally.present += present
        tally.absent += len(example.phrases) - present
        part.src.append(f"{example.src_line}\n")
        part.tgt.append(f"{example.tgt_line}\n")
    return part


def summary(total: Tally, rules: Rules) -> str:
    """What happened, for people."""
    limits = [f"{n} {side}" for n, side in ((rules.max_source, "source"), (rules.max_target, "target")) if n]
    lines = [
        f"read         {total.read:,} records",
        f"kept         {total.kept:,} documents, limit: {' and '.join(limits) + ' tokens' if limits else 'none'}",
        f"dropped      {total.read - total.kept:,} documents",
        *(f"             {count:,} {reason}" for reason, count in total.dropped.most_common()),
        f"present      {total.present / max(total.kept, 1):.2f} keyphrases per document",
        f"absent       {total.absent / max(total.kept, 1):.2f} keyphrases per document",
        f"left out     {total.removed.total():,} keyphrases",
        *(f"             {count:,} {reason}" for reason, count in total.removed.most_common() if count),
    ]
    if total.broken_files:
        lines.append(f"broken       {total.broken_files:,} files not read to their end")
    return "\n".join(lines)
