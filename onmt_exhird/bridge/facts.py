"""What a training depends on: the content of its files, the order of its data, its settings."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from typing import Any

from onmt_exhird.bridge import texts
from onmt_exhird.bridge.usage import KEYPHRASE_DECODERS
from onmt_exhird.errors import ExhirdError

# What the order of the data depends on beside the data.
ORDER = (
    "seed batch_size batch_type batch_size_multiple bucket_size bucket_size_init bucket_size_increment "
    "num_workers world_size gpu_ranks".split()
)
_FILES = ("path_src", "path_tgt", "path_align", "path_txt")

Facts = dict[str, Any]


def digest(path: str) -> str:
    """What tells a file's content from another."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise ExhirdError(f"cannot read {path}: {error.strerror}") from None


def facts_of(opt: Namespace) -> Facts:
    """What must be the same for a training to go on, and all its settings."""
    corpora = {
        name: {
            "files": {key: digest(corpus[key]) for key in _FILES if corpus.get(key)},
            "weight": corpus.get("weight", 1),
            "transforms": list(corpus.get("transforms", [])),
        }
        for name, corpus in opt.data.items()
    }
    vocabulary = {side: digest(path) for side in ("src_vocab", "tgt_vocab") if (path := getattr(opt, side, None))}
    settings = {name: value for name, value in sorted(vars(opt).items()) if _is_plain(value)}
    if texts.OPTION in settings:
        settings[texts.OPTION] = texts.summary(opt)  # its own bytes would fill a log
    order = {name: settings.get(name) for name in ORDER}
    return {"data": corpora, "vocabulary": vocabulary, "order": order, "settings": settings}


def _is_plain(value: Any) -> bool:
    """Whether a value can be part of a checkpoint that is loaded without running code."""
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple | set):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)


def differing(facts: Facts, before: Facts) -> list[str]:
    """What is not as it was: corpora and the vocabulary, by name."""
    names = sorted(before["data"].keys() | facts["data"].keys())
    other = [f"data/{name}" for name in names if before["data"].get(name) != facts["data"].get(name)]
    return other + ["the vocabulary"] * (before["vocabulary"] != facts["vocabulary"])


def must_have_its_data(opt: Namespace) -> bool:
    """Whether a training that goes on with other data is an error: of a model that copies or writes keyphrases.

    The habits of others stay as upstream has them.
    """
    return opt.copy_attn or opt.decoder_type in KEYPHRASE_DECODERS or texts.TRANSFORM in opt._all_transform
