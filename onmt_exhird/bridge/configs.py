"""Configurations that state only what differs from another one: the key ``base`` of a YAML file.

With ``base: exhird.yaml`` that file, in the folder of the one that names it, is read first; a base may have a base.
A key of the file itself replaces that of its base as a whole, a list or a mapping too.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import configargparse

from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.errors import ExhirdError

BASE = "base"


class InheritingConfigParser(configargparse.YAMLConfigFileParser):
    """Reads a YAML file after the file it is based on.

    origins     which file a key came from, for messages
    inherited   whether a file had a base
    """

    def __init__(self) -> None:
        super().__init__()
        self.origins: dict[str, str] = {}
        self.inherited = False

    def parse(self, stream: Any) -> OrderedDict[str, Any]:
        return self._read(stream, [])

    def _read(self, stream: Any, readers: list[Path]) -> OrderedDict[str, Any]:
        """The settings of a file; ``readers`` are the files that led to it, the first one first."""
        path = Path(stream.name)
        own = super().parse(stream)
        base = own.pop(BASE, None)
        settings: OrderedDict[str, Any] = OrderedDict()
        if base is not None:
            self.inherited = True
            settings.update(self._read_base(path, base, [*readers, path]))
        settings.update(own)
        self.origins.update(dict.fromkeys(own, str(path)))
        return settings

    def _read_base(self, path: Path, base: Any, readers: list[Path]) -> OrderedDict[str, Any]:
        if not isinstance(base, str):
            raise ExhirdError(f"{path}: '{BASE}' is a list, but a configuration has one base: name one file")
        found = path.parent / base
        if found.resolve() in [reader.resolve() for reader in readers]:
            chain = " -> ".join(map(str, [*readers, found]))
            raise ExhirdError(f"the bases of configurations go in a circle: {chain}; take '{BASE}' out of one of them")
        try:
            with open(found, encoding="utf-8") as stream:
                return self._read(stream, readers)
        except OSError as error:
            raise ExhirdError(
                f"{path} has the base {base}, but {found} cannot be read ({error.strerror}): "
                f"give its path from the folder of {path.name}"
            ) from None


def inherit_from_a_base(parse: Upstream) -> None:
    """Upstream's configurations stand alone, so that each of several models repeats all they have in common."""
    parser_class = parse.ArgumentParser
    init = parser_class.__init__

    def init_with_inheritance(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **{"config_file_parser_class": InheritingConfigParser} | kwargs)

    parser_class.__init__ = init_with_inheritance


def origin(parser: Any, name: str) -> str:
    """The clause that says which configuration an option came from, if it did."""
    path = getattr(parser._config_file_parser, "origins", {}).get(name)  # a caller may have a parser of its own
    return f" in {path}" if path else ""
