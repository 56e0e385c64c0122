"""Documents from Parquet files, and what is said where they cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onmt_exhird.documents.items import Item, Names
from onmt_exhird.documents.json_records import item_of_record
from onmt_exhird.documents.lines import FileLines, Lines
from onmt_exhird.errors import ExhirdError

ROWS = 256  # that are in memory at a time
_PLAIN = (str, int, float, list, dict, type(None))


def load_pyarrow() -> Any:
    """pyarrow with its Parquet, which is not among what is always installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ExhirdError("Parquet needs pyarrow: pip install 'onmt-exhird[parquet]'") from error
    return pyarrow


def read_parquet(lines: Lines, names: Names) -> Iterator[Item]:
    """A document for each row; what JSON has no word for, a date say, is kept as text."""
    pyarrow = load_pyarrow()
    if not isinstance(lines, FileLines):
        raise ExhirdError(f"{lines.name}: Parquet is read from a file, not from a pipe; name one")
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(lines.path) as file:
            for batch in file.iter_batches(ROWS, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    record = {name: value if isinstance(value, _PLAIN) else str(value) for name, value in row.items()}
                    yield item_of_record(f"{lines.name}, row {number}", record, names)
    except pyarrow.ArrowInvalid as error:
        raise ExhirdError(f"{lines.name}: not a Parquet file: {error}") from error
