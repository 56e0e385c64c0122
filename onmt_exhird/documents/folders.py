"""Documents that are a file each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from onmt_exhird.documents.items import Item
from onmt_exhird.documents.lines import FileLines, not_utf8
from onmt_exhird.errors import ExhirdError

ENDINGS = (".txt", ".txt.gz")


def list_files(path: Path) -> list[Path]:
    """The text files of a folder in the order of their names; of a file, itself."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.name.lower().endswith(ENDINGS) and file.is_file())
    if not files:
        raise ExhirdError(f"{path}: the folder has no {' or '.join(ENDINGS)} files")
    return files


def read_file(lines: FileLines) -> Iterator[Item]:
    """One document, the whole file; its id is the name of the file."""
    data = lines.read()
    try:
        text = data.decode("utf-8-sig")
        yield Item(lines.name, text, lines.path.name)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        yield Item(f"{lines.name}, line {line}", None, lines.path.name, not_utf8(data, error))
