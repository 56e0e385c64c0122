"""``exhird generate``: documents in, their keyphrases out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from onmt_exhird.cli.output import open_output, undisturbed
from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.cli.answers import Answer, Form
    from onmt_exhird.documents import FileLines, Item, Names, PipeLines

AHEAD = 16  # batches that are read ahead from a file; of a pipe, only what has arrived
LETTERS = 1 << 23  # of documents in memory, whatever their number
SHOWN = 20  # complaints that are printed
FAILED = 3  # exit code
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
    parser.add_argument("--device", default="cpu", help="default: %(default)s")
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
    add("--window", type=_window, metavar="N|all", help="phrases whose first words the next one may not begin with")
    add("--max-phrases", type=_positive, metavar="N")
    add("--beam-size", type=_positive, metavar="N", help="1: greedy")
    add("--batch-size", type=_positive, default=64, metavar="N", help="documents at once; default: %(default)s")


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
    add("--top", type=_positive, metavar="N", help="only the N phrases with the highest scores, in their order")
    add("--min-score", type=_share, default=0.0, metavar="X", help="only phrases with at least this score, 0 to 1")
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
    add("--jobs", type=_positive, metavar="N", help="processes; default: one for each core, of a GPU one")
    add("--shard-size", type=_positive, metavar="N", help="documents of a shard; default: 2000")
    add("--engine", choices=("ray", "spark"), help="who does the work, instead of processes here; see docs/bulk.md")
    add("--address", metavar="HOST:PORT", help="of a Ray cluster; default: a Ray of this machine")
    add("--master", metavar="M", help="of a Spark cluster; default: a Spark of this machine")


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 on")
    return int(text)


def _window(text: str) -> int | str:
    if text != "all" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is neither 'all' nor a whole number from 0 on")
    return text if text == "all" else int(text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 1")
    return value


class Input(NamedTuple):
    """A file or a pipe, and what it holds."""

    lines: FileLines | PipeLines
    kind: str

    @property
    def again(self) -> bool:
        """Whether it can be read twice."""
        from onmt_exhird.documents import FileLines

        return isinstance(self.lines, FileLines)


def run(args: argparse.Namespace) -> int:
    from onmt_exhird.cli.answers import choose_form
    from onmt_exhird.documents import Names

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


@contextmanager
def find_inputs(files: Iterable[str], input_format: str | None, per_file: bool) -> Iterator[list[Input]]:
    """What is to be read; that it exists is certain then, and nothing more."""
    from onmt_exhird.documents import FileLines, PipeLines, kind_of
    from onmt_exhird.documents.folders import list_files

    if per_file and input_format:
        raise ExhirdError("--per-file takes files as they are; leave out --input-format")
    inputs = []
    opened = []
    for name in files:
        path = Path(name)
        if name == "-":
            if per_file:
                raise ExhirdError("--per-file reads files and folders; name them")
            inputs.append(Input(PipeLines(_standard_input(), "standard input"), input_format or "text"))
        elif not os.path.exists(path):
            raise ExhirdError(f"{path}: no such file")
        elif per_file:
            inputs += [Input(FileLines(one), "file") for one in list_files(path)]
        elif path.is_dir():
            raise ExhirdError(f"{path}: a folder; --per-file makes a document of each .txt in it")
        elif path.is_file():
            inputs.append(Input(FileLines(path), input_format or kind_of(path)))
        else:  # a named pipe or a device
            opened.append(_open_pipe(path))
            inputs.append(Input(PipeLines(opened[-1], name), input_format or kind_of(path)))
    try:
        yield inputs
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _standard_input() -> int:
    if sys.stdin is None:
        raise ExhirdError("the standard input is closed; name a FILE")
    if sys.stdin.isatty():
        print(
            "exhird generate: type a document a line, Enter answers it; Ctrl-D on an empty line ends", file=sys.stderr
        )
    return sys.stdin.fileno()


def _open_pipe(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise ExhirdError(f"{path}: cannot be read: {error.strerror or error}") from error


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


def refuse(item: Item) -> None:
    if item.fault:
        raise ExhirdError(f"{item.place}: {item.fault}; mend it, or pass over what is bad with --keep-going")


def chosen_search(args: argparse.Namespace) -> dict[str, Any]:
    """The options of the search that were given."""
    chosen = {name: getattr(args, name) for name in ("window", "max_phrases", "beam_size")}
    return {name: value for name, value in chosen.items() if value is not None}


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


def in_batches(inputs: Iterable[Input], names: Names, size: int) -> Iterator[list[Item]]:
    """The items in lists: of a file, long ones; of a pipe, what has arrived, so that nobody waits for a neighbour."""
    from onmt_exhird.documents import read

    for one in inputs:
        batch: list[Item] = []
        letters = 0
        limit = size * AHEAD if one.again else size
        for item in read(*one, names):
            batch.append(item)
            letters += sum(map(len, item.document or ""))
            if len(batch) >= limit or letters >= LETTERS or not one.lines.ready:
                yield batch
                batch, letters = [], 0
        if batch:
            yield batch


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
        if sys.stderr is not None and sys.stderr.isatty() and (output is not None or not sys.stdout.isatty()):
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
