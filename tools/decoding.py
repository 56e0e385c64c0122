"""Searches of a checkpoint with one setting after another, for the studies: what is decoded once is kept in files."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from onmt_exhird import __version__
from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.stream import Phrase

OF_THE_MODEL = ("transforms", "_all_transform", "keyphrase_text")  # options that a model brings with it

# What reading another kind of file may raise.
NOT_A_CHECKPOINT = (RuntimeError, ValueError, LookupError, AttributeError, TypeError, EOFError, pickle.UnpicklingError)

Decode: TypeAlias = Callable[[Sequence[str], "Setting"], list[str]]


@dataclass(frozen=True)
class Setting:
    """One search of the study.

    >>> Setting(beam=4, window=None).name
    'beam 4, K = all'
    >>> Setting(beam=1, window=2).options()
    ['-beam_size', '1', '-exclusive_search', '-exclusive_window', '2']
    """

    beam: int
    window: int | None
    exclude_stems: bool = False
    exclude_phrases: bool = False

    @property
    def search(self) -> str:
        return "greedy" if self.beam == 1 else f"beam {self.beam}"

    @property
    def label(self) -> str:
        return "all" if self.window is None else str(self.window)

    @property
    def name(self) -> str:
        return f"{self.search}, K = {self.label}"

    def options(self) -> list[str]:
        """The options of ``onmt_translate``."""
        options = ["-beam_size", str(self.beam)]
        if self.window != 0:
            options += ["-exclusive_search", "-exclusive_window", self.label]
        return options + ["-exclude_stems"] * self.exclude_stems + ["-exclude_phrases"] * self.exclude_phrases


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Without what OpenNMT-py says as it works."""
    from onmt.utils.logging import logger

    level = logger.level
    logger.setLevel("WARNING")
    try:
        yield
    finally:
        logger.setLevel(level)


class Decoder:
    """The search of ``onmt_translate``, with the model loaded once for all settings."""

    def __init__(self, model: Path, batch_size: int) -> None:
        from onmt.inference_engine import InferenceEnginePY

        # Upstream writes predictions as it goes; here they are only taken from memory.
        common = ["-model", model, "-src", os.devnull, "-output", os.devnull, "-batch_size", batch_size]
        self._common = [str(option) for option in common]
        try:
            self._engine = InferenceEnginePY(self._parse([]))
        except NOT_A_CHECKPOINT as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ExhirdError(f"{model} cannot be loaded as a checkpoint of onmt_train ({reason})") from None
        self.translator = self._engine.translator
        self._of_model = {name: getattr(self._engine.opt, name) for name in OF_THE_MODEL}

    def _parse(self, options: Sequence[str]) -> argparse.Namespace:
        from onmt.opts import translate_opts
        from onmt.utils.parse import ArgumentParser

        parser = ArgumentParser()
        translate_opts(parser)
        opt = parser.parse_args([*self._common, *options])
        ArgumentParser.validate_translate_opts(opt)
        ArgumentParser._get_all_transform_translate(opt)
        ArgumentParser._validate_transforms_opts(opt)
        ArgumentParser.validate_translate_opts_dynamic(opt)
        return opt

    def __call__(self, sources: Sequence[str], setting: Setting) -> list[str]:
        """The best prediction for each source, a stream."""
        from onmt_exhird.bridge.translator import constraint_for

        engine, translator = self._engine, self.translator
        engine.opt = opt = self._parse(setting.options())
        for name in OF_THE_MODEL:
            setattr(opt, name, self._of_model[name])
        translator.beam_size = opt.beam_size
        translator.constraint = constraint_for(engine.vocabs["tgt"], opt, translator.text, translator._dev)
        with silence():
            _, predictions = engine.infer_list(list(sources))
        return [best[0] for best in predictions]


class Store:
    """A study's prediction files. The name of each says what it was made from."""

    def __init__(self, folder: Path, model: Path, sources: Sequence[str]) -> None:
        stat = model.stat()
        documents = hashlib.sha256("\n".join(sources).encode()).hexdigest()
        self._made_from = [__version__, model.name, stat.st_mtime_ns, stat.st_size, documents]
        self.folder = folder

    def path(self, setting: Setting) -> Path:
        identity = json.dumps([*self._made_from, setting.options()])
        digest = hashlib.sha256(identity.encode()).hexdigest()[:10]
        return self.folder / f"beam{setting.beam}_window_{setting.label}_{digest}.pred"

    def write(self, setting: Setting, predictions: Sequence[str]) -> None:
        """Write the whole file or none of it."""
        path = self.path(setting)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text("".join(f"{line}\n" for line in predictions), encoding="utf-8", newline="\n")
        unfinished.replace(path)


def decode_all(
    settings: Sequence[Setting], sources: Sequence[str], store: Store, load: Callable[[], Decode]
) -> dict[Setting, list[list[Phrase]]]:
    """The predictions with every setting, decoded where they are not there yet; says on stderr how far it is."""
    from onmt_exhird.evaluation.inputs import check_lengths, read_predictions

    decode: Decode | None = None
    predictions = {}
    for number, setting in enumerate(settings, start=1):
        path = store.path(setting)
        progress = f"[{number}/{len(settings)}] {setting.name}: "
        if path.exists():
            print(f"{progress}already decoded", file=sys.stderr)
        else:
            decode = decode or load()
            print(f"{progress}decoding {len(sources)} documents", end=" ", file=sys.stderr, flush=True)
            begin = time.perf_counter()
            store.write(setting, decode(sources, setting))
            seconds = time.perf_counter() - begin
            print(f"took {seconds:.1f} s ({len(sources) / seconds:.1f} documents/s)", file=sys.stderr)
        predictions[setting] = read_predictions(str(path))
        check_lengths(str(path), predictions[setting], "the source", sources)
    return predictions
