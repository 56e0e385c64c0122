"""PREFIX.near: of each document of PREFIX.src, phrases that would suit it, and how likely each is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from onmt_exhird.errors import ExhirdError


def write_near(prefix: str, documents: Iterable[Mapping[str, float]]) -> Path:
    path = Path(f"{prefix}.near")
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in documents), encoding="utf-8")
    return path


def read_near(prefix: str) -> list[dict[str, float]]:
    try:
        return [json.loads(line) for line in Path(f"{prefix}.near").read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        raise ExhirdError(f"there is no {prefix}.near: make it with tools/neighbours.py") from None
