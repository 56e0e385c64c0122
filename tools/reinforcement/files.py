"""The files of a PREFIX: .src and .tgt of exhird prepare, documents and their authors' streams, and .near, of each
document phrases that would suit it, and how likely each is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.inputs import check_lengths, read_sources


def read_pairs(prefix: str) -> list[tuple[str, str]]:
    """The documents and their streams."""
    source, target = f"{prefix}.src", f"{prefix}.tgt"
    documents, streams = read_sources(source), read_sources(target)
    check_lengths(target, streams, source, documents)
    if not documents:
        raise ExhirdError(f"{source} is empty: give files of exhird prepare")
    return list(zip(documents, streams, strict=True))


def read_all(prefixes: Iterable[str]) -> list[tuple[str, str]]:
    """Those of several prefixes, one after the other."""
    return [pair for prefix in prefixes for pair in read_pairs(prefix)]


def write_near(prefix: str, documents: Iterable[Mapping[str, float]]) -> Path:
    path = Path(f"{prefix}.near")
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in documents), encoding="utf-8")
    return path


def read_near(prefix: str) -> list[dict[str, float]]:
    try:
        return [json.loads(line) for line in Path(f"{prefix}.near").read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        raise ExhirdError(f"there is no {prefix}.near: make it with tools/neighbours.py") from None
