"""What do the hierarchical decoder and exclusive search each contribute? The ablation of the paper (Table 6).

    python tools/ablation.py --data data --output ablation

``data`` has train, valid and test, ``.src`` and ``.tgt``, of exhird prepare. ExHiRD and catSeq are trained alike for
each seed, the best checkpoint of each (by validation perplexity) is decoded, and the table is printed:

    ExHiRD-h   the hierarchical decoder with exclusive search
    w/o HRD    a sequential decoder, catSeq, with exclusive search
    w/o ES     the hierarchical decoder without exclusive search

With --exhird and --sequential, checkpoints that there are already, nothing is trained. What was interrupted goes on
where it stopped, with the same command.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[1] / "recipes"))

from decoding import Decoder, Setting, Store, decode_all
from run_folder import best_step, checkpoints, read_log

from onmt_exhird.cli.values import positive
from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.evaluation import Evaluation, System
    from onmt_exhird.evaluation.tables import Table

RECIPES = Path(__file__).resolve().parents[1] / "recipes" / "kp20k"
EXHIRD, SEQUENTIAL = "exhird", "catseq"
ROWS = (("ExHiRD-h", EXHIRD, True), ("w/o HRD", SEQUENTIAL, True), ("w/o ES", EXHIRD, False))
"""Name, model, whether with exclusive search."""
GROUPS = (("", 1), ("present", 3), ("absent", 3), ("", 1))
SHOWN = ("] Step ", "Validation at step", "learning rate", "Saving checkpoint")  # of a training's log


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Corpus:
    """The prepared files."""

    folder: Path

    def path(self, split: str, side: str) -> Path:
        path = self.folder / f"{split}.{side}"
        if not path.is_file():
            raise ExhirdError(
                f"{path} is missing; make it with 'exhird prepare --output {self.folder} --split {split}'"
            )
        return path.resolve()

    def training_files(self) -> list[Path]:
        return [self.path(split, side) for split in ("train", "valid") for side in ("src", "tgt")]

    def option(self) -> list[str]:
        """``-data`` of the stock commands."""
        train_src, train_tgt, valid_src, valid_tgt = map(str, self.training_files())
        return ["-data", json.dumps({
            "train": {"path_src": train_src, "path_tgt": train_tgt, "weight": 1},
            "valid": {"path_src": valid_src, "path_tgt": valid_tgt},
        })]  # fmt: skip


def run(command: str, options: Sequence[object], log: Path) -> None:
    """One of the stock commands, its output appended to a log and what is worth seeing of it shown."""
    arguments = [sys.executable, "-W", "ignore", "-m", f"onmt.bin.{command}", *map(str, options)]
    last: list[str] = []
    with (
        log.open("a", encoding="utf-8") as file,
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                file.write(line)
                file.flush()
                last = [*last[-7:], line.rstrip()]
                if any(part in line for part in SHOWN):
                    say(f"  {line.rstrip().partition('] ')[2]}")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        shown = "\n".join(f"  | {line}" for line in last)
        raise ExhirdError(f"onmt_{command} failed with exit code {process.returncode}:\n{shown}\nthe whole log: {log}")


def once(marker: Path, made_from: object, work: Callable[[], None], what: str) -> None:
    """Do some work, unless its marker says that it was completed before; stop if it was begun from something else."""
    digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()
    begun = marker.with_suffix(".begun")
    if begun.exists() and begun.read_text() != digest:
        raise ExhirdError(
            f"{marker.parent} was made from other data or settings: remove it, or give another folder with --output"
        )
    if marker.exists():
        say(f"{what}: done before")
        return
    say(what)
    marker.parent.mkdir(parents=True, exist_ok=True)
    begun.write_text(digest)
    work()
    marker.touch()


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def train(args: argparse.Namespace, corpus: Corpus, model: str, config: Path, seed: int) -> Path:
    """The best checkpoint of a model, trained where it is not there yet."""
    from onmt_exhird.bridge.configs import InheritingConfigParser

    vocab = (args.output / "vocabulary" / "vocab.txt").resolve()
    sums = [checksum(path) for path in corpus.training_files()]

    def build() -> None:
        options = ["-config", config, *corpus.option(), "-save_data", vocab.parent, "-src_vocab", vocab]
        run("build_vocab", [*options, "-n_sample", -1, "-overwrite"], vocab.parent / "build_vocab.log")

    once(vocab.parent / "made", sums, build, "vocabulary")

    folder = args.output / f"{model}-{seed}"
    options = ["-config", config, *corpus.option(), "-src_vocab", vocab, "-save_model", folder / "model", "-seed", seed]
    options += ["-keep_checkpoint", 5, *(["-train_steps", args.steps] if args.steps else []), *args.options]
    with config.open(encoding="utf-8") as file:
        settings = InheritingConfigParser().parse(file)

    def go_on() -> None:
        resumed = [option for path in list(checkpoints(folder).values())[-1:] for option in ("-train_from", path)]
        run("train", [*options, *resumed], folder / "train.log")

    once(folder / "trained", [*map(str, options), settings, sums], go_on, f"training {model}, seed {seed}")
    saved = checkpoints(folder)
    if not saved:
        raise ExhirdError(f"{folder} has no whole checkpoint; remove it and run the same command again")
    return saved[best_step(list(saved), read_log(folder / "train.log").perplexities)]


def find_models(args: argparse.Namespace, corpus: Corpus) -> dict[str, list[Path]]:
    """The checkpoints of each model, one for each seed."""
    given = {EXHIRD: args.exhird, SEQUENTIAL: args.sequential}
    configs = {EXHIRD: args.config, SEQUENTIAL: args.sequential_config}
    # All mistakes are to be found before hours of training.
    for model, paths in given.items():
        for path in paths or [configs[model]]:
            if not path.is_file():
                what = "a checkpoint" if paths else "a configuration"
                raise ExhirdError(f"{path} is no file; give {what} of onmt_train for {model}")
    return {
        model: paths or [train(args, corpus, model, configs[model].resolve(), seed) for seed in args.seeds]
        for model, paths in given.items()
    }


def searches(window: str) -> dict[bool, Setting]:
    """Greedy search with and without exclusion."""
    from onmt_exhird.search import parse_window

    found = {True: Setting(1, parse_window(window)), False: Setting(1, 0)}
    if found[True] == found[False]:
        raise ExhirdError("--window 0 is no exclusive search, so there is nothing to leave out; give 1 or more, or all")
    return found


def decode(
    args: argparse.Namespace, sources: Sequence[str], models: dict[str, list[Path]], search: dict[bool, Setting]
) -> list[System]:
    """Each row's predictions, with as many runs as its model has checkpoints."""
    from onmt_exhird.evaluation import System

    folder = args.output / "predictions"
    folder.mkdir(parents=True, exist_ok=True)
    runs: dict[str, list] = {name: [] for name, _, _ in ROWS}
    for model, paths in models.items():
        rows = [(name, search[searched]) for name, of, searched in ROWS if of == model]
        for path in paths:
            say(f"decoding with {path}")
            store = Store(folder, path, sources)
            settings = [setting for _, setting in rows]
            predictions = decode_all(settings, sources, store, partial(Decoder, path, args.batch_size))
            for name, setting in rows:
                runs[name].append(predictions[setting])
    return [System(name, lines) for name, lines in runs.items()]


def make_table(evaluation: Evaluation, title: str, with_paper: bool) -> Table:
    from onmt_exhird.evaluation.layout import paper_number, score_head, score_number
    from onmt_exhird.evaluation.paper import ABLATION_TABLE, STUDY_KEYS, paper_rows
    from onmt_exhird.evaluation.tables import Table

    table = Table(title, ("model", *map(score_head, STUDY_KEYS)), GROUPS)
    for system in evaluation.systems:
        table.add(system.name, *(score_number(system, key) for key in STUDY_KEYS))
        if len(table.rows) == 1:
            table.add_rule()
    if with_paper:
        table.add_rule()
        for name, numbers in paper_rows(ABLATION_TABLE, "semeval").items():
            table.add(f"paper: {name}", *(paper_number(numbers.get(key)) for key in STUDY_KEYS))
    return table


def study(args: argparse.Namespace) -> str:
    """The table, as text or in the format asked for."""
    from onmt_exhird.evaluation import evaluate
    from onmt_exhird.evaluation.inputs import check_lengths, read_gold, read_sources
    from onmt_exhird.evaluation.tables import to_latex, to_markdown, to_text

    search = searches(args.window)
    corpus = Corpus(args.data)
    src, gold_path = str(corpus.path(args.test, "src")), str(corpus.path(args.test, "tgt"))
    sources, gold = read_sources(src), read_gold(gold_path)
    check_lengths(gold_path, gold, src, sources)
    if not sources:
        raise ExhirdError(f"{src} has no lines; give a test set with --test")
    args.output.mkdir(parents=True, exist_ok=True)
    systems = decode(args, sources, find_models(args, corpus), search)
    evaluation = evaluate(sources, gold, systems, gold_stemmed=args.gold_stemmed)
    record = json.dumps(evaluation.to_dict() | {"window": args.window}, indent=2)
    (args.output / f"{args.test}.json").write_text(record + "\n", encoding="utf-8")
    if args.format == "json":
        return record
    title = f"Ablation on {args.test}: {evaluation.documents:,} documents, K_ES = {args.window}"
    table = make_table(evaluation, title, args.paper)
    form = {"text": to_text, "markdown": to_markdown, "latex": to_latex}[args.format]
    note = {"text": "{}", "markdown": "\n`{}`", "latex": "% {}"}[args.format].format(evaluation.signature)
    return f"{form(table)}\n{note}"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ablation.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="What follows -- goes to onmt_train, for both models.",
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the prepared files")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="models, predictions and scores")
    parser.add_argument("--test", default="test", metavar="NAME", help="the split to test on (default: %(default)s)")
    parser.add_argument("--window", default="1", metavar="K", help="K_ES of exclusive search, or all (default: 1)")
    parser.add_argument("--gold-stemmed", action="store_true", help="the gold is already stemmed, as SemEval's is")
    parser.add_argument("--format", choices=("text", "markdown", "latex", "json"), default="text")
    parser.add_argument("--paper", action="store_true", help="add the paper's rows, which are for SemEval")
    parser.add_argument(
        "--batch-size", type=positive, default=32, metavar="N", help="of decoding (default: %(default)s)"
    )
    models = parser.add_argument_group("models to train")
    models.add_argument("--config", type=Path, default=RECIPES / "exhird.yaml", metavar="YAML", help="of ExHiRD")
    models.add_argument(
        "--sequential-config", type=Path, default=RECIPES / "catseq.yaml", metavar="YAML", help="of catSeq"
    )
    models.add_argument(
        "--seeds", type=int, nargs="+", default=[3435], metavar="N", help="one run each (default: 3435)"
    )
    models.add_argument("--steps", type=positive, metavar="N", help="of training (default: the configuration's)")
    trained = parser.add_argument_group("or trained ones, a checkpoint for each seed")
    trained.add_argument("--exhird", type=Path, nargs="+", default=[], metavar="FILE")
    trained.add_argument("--sequential", type=Path, nargs="+", default=[], metavar="FILE")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    split = given.index("--") if "--" in given else len(given)
    args = build_parser().parse_args(given[:split])
    args.options = given[split + 1 :]
    try:
        print(study(args))
    except ExhirdError as error:
        say(f"ablation.py: error: {error}")
        return 2
    except KeyboardInterrupt:
        say("\nablation.py: interrupted; the same command goes on from here")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
