"""Answers as a Parquet file: the same columns in every shard."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from onmt_exhird.documents.parquet import load_pyarrow

KEYPHRASE = ("text", "surface", "present", "score", "spans")


def found_columns() -> list[Any]:
    """The columns of what was found, beside those of the document."""
    pa = load_pyarrow()
    types = (pa.string(), pa.string(), pa.bool_(), pa.float64(), pa.list_(pa.list_(pa.int64())))
    keyphrase = pa.struct(list(zip(KEYPHRASE, types, strict=True)))
    return [
        pa.field("keyphrases", pa.list_(keyphrase)),
        pa.field("truncated", pa.bool_()),
        pa.field("error", pa.string()),
    ]


def encode(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The bytes of a file with these answers. An id is a text: a column has one type, whatever the records had."""
    pa = load_pyarrow()
    schema = pa.schema([pa.field("id", pa.string()), *found_columns()])
    named = [_writable(dict(row) | {"id": _text(row["id"])}) for row in rows]
    table = pa.Table.from_pylist(named, schema)
    file = io.BytesIO()
    pa.parquet.write_table(table, file)
    return file.getvalue()


def _text(identity: Any) -> str:
    return identity if isinstance(identity, str) else json.dumps(identity)


def _writable(value: Any) -> Any:
    """The same in UTF-8: half of a pair of surrogates, which has no place in it, is shown by its number."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {name: _writable(part) for name, part in value.items()}
    return [_writable(part) for part in value] if isinstance(value, list) else value
