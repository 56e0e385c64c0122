"""``exhird generate --output-dir``: any number of documents, in shards."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onmt_exhird import __version__
from onmt_exhird.cli.answers import Answer, JsonlForm, choose_form
from onmt_exhird.cli.cores import count_cores
from onmt_exhird.cli.generate import FAILED, SHARD, chosen_search
from onmt_exhird.cli.inputs import Input, find_inputs, refuse
from onmt_exhird.documents import FileLines, Item, Names, read
from onmt_exhird.documents.formats import JSONL, PARQUET
from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.bulk.answering import Loader
    from onmt_exhird.bulk.run import Engine
    from onmt_exhird.generator.results import Keyphrases

NO_PIPE = "--output-dir reads files, so that the same call can go on where it stopped; name them"
# What decides the content of the shards, beside the inputs and the model.
DECIDING = (
    *("input_format", "per_file", "title_key", "text_key", "id_key", "keep_going"),
    *("window", "max_phrases", "beam_size", "thesaurus", "batch_size", "device"),
    *("format", "shard_size", "top", "min_score", "present_only", "absent_only", "keep"),
)


def run(args: argparse.Namespace) -> int:
    """Have the missing shards written."""
    from onmt_exhird.bulk.answering import Loader
    from onmt_exhird.bulk.folder import Folder, digest
    from onmt_exhird.bulk.run import fill
    from onmt_exhird.bulk.shards import Writer
    from onmt_exhird.generator.loading import identify

    form = _settle(args)
    names = Names(args.title_key, args.text_key, args.id_key)
    with find_inputs(args.files, args.input_format, args.per_file) as inputs:
        paths = [_path(one) for one in inputs]
        loader = Loader(args.model, args.device, args.batch_size, tuple(chosen_search(args).items()))
        plan = {
            "version": __version__,
            "inputs": [digest(path) for path in paths],
            "model": identify(args.model),
            "options": {name: getattr(args, name) for name in DECIDING},
        }
        items = partial(_read_all, inputs, names, args.keep_going)
        writer = Writer(args.output_dir, args.format, partial(_render, form))
        with Folder(args.output_dir, plan).opened() as folder:
            failed = fill(folder, items, args.shard_size, writer, lambda: _choose_engine(args, loader))
            documents = folder.documents
    if failed:
        print(f"exhird generate: {failed:,} of {documents:,} records failed: they have an error", file=sys.stderr)
    return FAILED if failed else 0


def _settle(args: argparse.Namespace) -> JsonlForm:
    """Fill in what was not said, refuse what does not fit; the form of records."""
    from onmt_exhird.bulk.shards import FORMATS

    args.format = args.format or JSONL
    if "-" in args.files:
        raise ExhirdError(NO_PIPE)
    if args.output is not None:
        raise ExhirdError("--output is one file, --output-dir a folder of many; leave one of them out")
    if args.highlight:
        raise ExhirdError("--highlight is for people, --output-dir for programs; leave one of them out")
    if args.format not in FORMATS:
        raise ExhirdError(f"--output-dir writes {', '.join(FORMATS)}; leave out --format {args.format}")
    if args.keep and args.format == PARQUET:
        raise ExhirdError("--keep needs --format jsonl: a Parquet file has the same columns in every record")
    if args.format == PARQUET:
        from onmt_exhird.documents.parquet import load_pyarrow

        load_pyarrow()
    _check_engine(args)
    args.shard_size = args.shard_size or SHARD
    form = choose_form(argparse.Namespace(**vars(args) | {"format": JSONL}), ())
    assert isinstance(form, JsonlForm)
    return form


def _check_engine(args: argparse.Namespace) -> None:
    """Refuse an engine that is not installed, before anything is read."""
    for engine, option in (("ray", "address"), ("spark", "master")):
        if getattr(args, option) is not None and args.engine != engine:
            raise ExhirdError(f"--{option} is about --engine {engine}")
    if args.engine == "ray":
        from onmt_exhird.engines.ray import load_ray

        load_ray()
    if args.engine == "spark":
        from onmt_exhird.engines.spark import load_spark

        load_spark()


def _path(one: Input) -> Path:
    if not isinstance(one.lines, FileLines):
        raise ExhirdError(NO_PIPE)
    return one.lines.path


def _read_all(inputs: Sequence[Input], names: Names, keep_going: bool) -> Iterator[Item]:
    for one in inputs:
        for item in read(*one, names):
            if not keep_going:
                refuse(item)
            yield item


def _render(form: JsonlForm, item: Item, identity: Any, result: Keyphrases | None) -> dict[str, Any]:
    return form.to_dict(Answer(item, identity, result), None if result is None else form.select(result))


def _choose_engine(args: argparse.Namespace, loader: Loader) -> Engine:
    if args.engine == "ray":
        from onmt_exhird.engines.ray import RayEngine

        return RayEngine(loader, args.jobs, args.address)
    if args.engine == "spark":
        from onmt_exhird.engines.spark import SparkEngine

        return SparkEngine(loader, args.jobs, args.master)
    from onmt_exhird.bulk.run import Local

    return Local(loader, args.jobs or (count_cores() if args.device == "cpu" else 1))
