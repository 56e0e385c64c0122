"""``exhird generate``: documents in, their keyphrases out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from onmt_exhird.cli.inputs import Input, find_inputs, in_batches, refuse
from onmt_exhird.cli.output import open_output, undisturbed
from onmt_exhird.cli.values import positive, share, window
from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.cli.answers import Answer, Form
    from onmt_exhird.documents import Names

SHOWN = 20  # complaints that are printed
FAILED = 3  # exit code
SHARD = 2000  # documents of a shard, unless told otherwise: half a minute's work
BULK = ("jobs", "shard_size", "engine", "address", "master")  # options that only a folder has

_DESCRIPTION = """\
Generate the keyphrases of documents. Without a FILE, or with -, the standard input is read; each line is answered as
soon as it comes. The ending says what a FILE holds; each may be compressed (.gz):
  .jsonl .json  records with abstract (or text), and title and id if there are
  .csv .tsv     tables whose header has these names
  .parquet      the same columns; needs pip install 'onmt-exhird[parquet]'
  .bib .ris     references: written again with keywords where an entry has an abstract and none, else as they were
  any other     a document a line
"""

_EPILOG = """\
exit codes: 0 done, 2 a mistake (nothing is generated unless all files can be read), 3 some records failed

examples:
  exhird generate abstracts.txt
  tail -f log | exhird generate --top 5
  exhird generate papers.jsonl --keep --output answers.jsonl
  exhird generate refs.bib --output refs.bib
  exhird generate *.jsonl.gz --output-dir answers --jobs 8 --format jsonl.gz
"""


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "generate",
        help="generate the keyphrases of documents",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", default=["-"], metavar="FILE", help="default: -, the standard input")
    parser.add_argument(
        "--model",
        metavar="M",
        help="a model folder, a .pt of onmt_train, or the name of an installed model; default: the one in the package",
    )
    parser.add_argument("--device", default="cpu", help="as torch names it; default: %(default)s, cuda is untested")
    _add_input(parser.add_argument_group("input").add_argument)
    _add_search(parser.add_argument_group("search; default: as the model says").add_argument)
    _add_output(parser.add_argument_group("output"))
    _add_bulk(parser.add_argument_group("many documents").add_argument)
    parser.set_defaults(run=run)


def _add_input(add: Callable[..., Any]) -> None:
    add(
        "--input-format",
        choices=("text", "jsonl", "csv", "tsv", "bib", "ris", "parquet"),
        help="if the ending does not say it",
    )
    add(
        "--per-file", action="store_true", help="a document is a whole file; of a folder, each .txt; its id is the name"
    )
    add("--title-key", "--title-column", metavar="KEY", help="of a record or table; default: title, if there is one")
    add("--text-key", "--text-column", metavar="KEY", help="default: abstract, or else text")
    add("--id-key", "--id-column", metavar="KEY", help="default: id, or else a running number")
    add(
        "--keep-going",
        action="store_true",
        help="answer a bad record with an error (in text, an empty line), and go on",
    )


def _add_search(add: Callable[..., Any]) -> None:
    add(
        "--window",
        type=window,
        metavar="N|all",
        help="phrases before it whose first words a phrase may not begin with; 0: off",
    )
    add("--max-phrases", type=positive, metavar="N", help="most phrases of a document")
    add("--beam-size", type=positive, metavar="N", help="1: greedy")
    add(
        "--no-thesaurus",
        dest="thesaurus",
        action="store_const",
        const=False,
        help="only what the decoder writes, without phrases that the model knows from many authors",
    )
    add("--batch-size", type=positive, default=64, metavar="N", help="documents at once; default: %(default)s")


def _add_output(group: Any) -> None:
    add = group.add_argument
    add(
        "--format",
        choices=("text", "jsonl", "csv", "jsonl.gz", "parquet"),
        help="default: as the input; of whole files, jsonl; the last two with --output-dir",
    )
    add(
        "--output", type=Path, metavar="FILE", help="written when all is done; .gz compresses; default: standard output"
    )
    add("--top", type=positive, metavar="N", help="only the N phrases with the highest scores, in their order")
    add("--min-score", type=share, default=0.0, metavar="X", help="only phrases with at least this score, 0 to 1")
    only = group.add_mutually_exclusive_group()
    only.add_argument("--present-only", action="store_true", help="only phrases that stand in the document")
    only.add_argument("--absent-only", action="store_true", help="only phrases that do not")
    add("--highlight", action="store_true", help="the documents with their phrases coloured, absent ones below")
    add(
        "--keep",
        action="store_true",
        help="carry over what else records or tables hold; what has a name of an answer's, as keyphrases, gives way",
    )
    add("--replace", action="store_true", help=".bib and .ris: new keywords for entries that have some, too")


def _add_bulk(add: Callable[..., Any]) -> None:
    add(
        "--output-dir",
        type=Path,
        metavar="DIR",
        help="numbered shards and a manifest; the same call again does what is missing",
    )
    add("--jobs", type=positive, metavar="N", help="processes; default: one for each core, of a GPU one")
    add("--shard-size", type=positive, metavar="N", help=f"documents of a shard; default: {SHARD}")
    add("--engine", choices=("ray", "spark"), help="who does the work, instead of processes here; see docs/bulk.md")
    add("--address", metavar="HOST:PORT", help="of a Ray cluster; default: a Ray of this machine")
    add("--master", metavar="M", help="of a Spark cluster; default: a Spark of this machine")


def run(args: argparse.Namespace) -> int:
    from onmt_exhird.cli.answers import choose_form
    from onmt_exhird.documents import Names

    if args.engine is None:  # the machines of an engine may have what this one has not
        check_device(args.device)
    if args.output_dir is not None:
        from onmt_exhird.cli import bulk

        return bulk.run(args)
    for name in BULK:
        if getattr(args, name) is not None:
            raise ExhirdError(f"--{name.replace('_', '-')} is about --output-dir DIR; name a folder")
    names = Names(args.title_key, args.text_key, args.id_key)
    with find_inputs(args.files, args.input_format, args.per_file) as inputs:
        form = choose_form(args, {one.kind for one in inputs})
        total = None if args.keep_going else check(inputs, names, form)
        answers = each_answer(args, load(args), inputs, names, form)
        with open_output(args.output) as output:
            failed = write(answers, form, output, Progress(total, args.output))
    return FAILED if failed else 0


def check(inputs: Iterable[Input], names: Names, form: Form) -> int | None:
    """Read all files once, so that a mistake is told before any work; how many documents there are to work on.

    None if that is not known: what comes through a pipe comes only once.
    """
    from onmt_exhird.documents import read

    inputs = list(inputs)
    count = 0
    for one in inputs:
        if one.again:
            for item in read(*one, names):
                refuse(item)
                count += form.wants(item)
    return count if all(one.again for one in inputs) else None


def chosen_search(args: argparse.Namespace) -> dict[str, Any]:
    """The options of the search that were given."""
    chosen = {name: getattr(args, name) for name in ("window", "max_phrases", "beam_size", "thesaurus")}
    return {name: value for name, value in chosen.items() if value is not None}


def check_device(device: str) -> None:
    """Refuse a device that torch does not know, or does not have, before anything is read."""
    if device == "cpu":  # always there; torch is not imported for it
        return
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # the latter of a torch that was built without CUDA
        reason = str(error).partition("\n")[0]
        raise ExhirdError(f"--device {device} cannot be used: {reason}; leave it out for cpu") from error


def load(args: argparse.Namespace) -> Any:
    from onmt_exhird.generator import KeyphraseGenerator

    return KeyphraseGenerator.from_pretrained(args.model, device=args.device)


def each_answer(
    args: argparse.Namespace, generator: Any, inputs: Iterable[Input], names: Names, form: Form
) -> Iterator[Answer]:
    """An answer for each item, in order; without ``--keep-going`` up to the first that is bad."""
    from onmt_exhird.cli.answers import Answer

    options = chosen_search(args)
    number = 0
    for batch in in_batches(inputs, names, args.batch_size):
        documents = [item.document for item in batch if form.wants(item)]
        results = iter(generator.generate(documents, batch_size=args.batch_size, **options) if documents else ())
        for item in batch:
            if not args.keep_going:
                refuse(item)
            number += item.is_record
            identity = number if item.id is None else item.id
            yield Answer(item, identity, next(results) if form.wants(item) else None)


def write(answers: Iterable[Answer], form: Form, output: IO[bytes], progress: Progress) -> int:
    """Write answers as they come; how many of them are failures."""
    failed = count = 0
    with progress, undisturbed(output) as put:
        for answer in answers:
            if answer.item.fault:
                failed += 1
                if failed <= SHOWN:
                    progress.say(f"exhird generate: {answer.item.place}: {answer.item.fault}")
            count += answer.item.is_record
            put(form.render(answer))
            progress.advance(answer.result is not None)
    if failed:
        print(f"exhird generate: {failed:,} of {count:,} records failed", file=sys.stderr)
    return failed


class Progress:
    """A bar on the standard error if that is a terminal, and answers do not go to the same one."""

    def __init__(self, total: int | None, output: Path | None) -> None:
        self.bar: Any = None
        if sys.stderr.isatty() and (output is not None or not sys.stdout.isatty()):
            from tqdm import tqdm

            self.bar = tqdm(total=total, unit=" documents")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def advance(self, count: int) -> None:
        if self.bar is not None:
            self.bar.update(count)

    def say(self, sentence: str) -> None:
        if self.bar is not None:
            self.bar.clear()
        print(sentence, file=sys.stderr)
