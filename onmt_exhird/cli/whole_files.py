"""Files that a verb writes: they appear as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from onmt_exhird.errors import ExhirdError


@contextmanager
def whole_files(paths: Sequence[Path]) -> Iterator[list[IO[str]]]:
    """Files to write that appear, all at once, when the block ends well; else nothing changes and nothing is left."""
    parts = [path.with_name(f".{path.name}.{os.getpid()}.part") for path in paths]
    files: list[IO[str]] = []
    try:
        for path, part in zip(paths, parts, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise ExhirdError(f"{path} is a folder; a file of this name is to be written")
            files.append(part.open("w", encoding="utf-8", newline="\n"))
        yield files
        for file in files:
            file.close()
        for path, part in zip(paths, parts, strict=True):
            part.replace(path)
    except OSError as error:
        raise ExhirdError(
            f"cannot write into the folder {paths[0].parent}: {error.strerror or error}; choose another --output"
        ) from error
    finally:
        for file, part in zip(files, parts, strict=False):
            with suppress(OSError):  # a full disk complains a second time
                file.close()
            part.unlink(missing_ok=True)
