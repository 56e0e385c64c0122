"""Replacing upstream names right after the module that holds them has been imported.

The plug-in is loaded in the middle of ``import onmt``. Importing everything it changes at that moment
would run into circular imports and cost every command the imports of all the others, so each change
waits for its module, and the code that makes it is imported no sooner.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

from onmt_exhird.bridge import DECODERS

Upstream = Any  # a module of OpenNMT-py, which has no types
Seams = Mapping[str, Sequence[str]]  # upstream module -> functions that change it, as "module.function" of the bridge

# What a class inherits from that `put_before` puts before one of upstream's: nothing until then, since importing the
# class that it changes would run its seam while its own module is half imported.
if TYPE_CHECKING:
    UpstreamClass = Any
else:
    UpstreamClass = object


def _find(path: str) -> Any:
    """What "module.name" of the bridge stands for."""
    module, name = path.split(".")
    return getattr(import_module(f"onmt_exhird.bridge.{module}"), name)


def _change(module: ModuleType, functions: Sequence[str]) -> None:
    for path in functions:
        _find(path)(module)


def put_before(upstream: Upstream, name: str, ours: type) -> None:
    """Replace a class of upstream's by one that has the methods of ours, whose ``super()`` are upstream's own.

    It keeps the name and the module of the one it replaces: there other processes look for the class of what they get.
    """
    both = (ours, getattr(upstream, name))
    setattr(upstream, name, type(name, both, {"__module__": upstream.__name__, "__doc__": ours.__doc__}))


def register_decoders(upstream: Upstream) -> None:
    """Upstream's registry imports what it holds; ours are imported when the first one is built."""

    def stand_in(path: str) -> type:
        def from_opt(opt: Any, embeddings: Any) -> Any:
            return _find(path).from_opt(opt, embeddings)

        return type(path.split(".")[1], (upstream.DecoderBase,), {"from_opt": staticmethod(from_opt)})

    for name, path in DECODERS.items():
        upstream.str2dec[name] = stand_in(path)


class _SeamFinder(MetaPathFinder):
    """Finds what the ordinary finder finds, and lets the changes follow its execution."""

    def __init__(self, seams: Seams) -> None:
        self.seams = seams

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.seams:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _change(module, self.seams[fullname])

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def start(seams: Seams) -> None:
    """Change what is imported already, and watch for the rest."""
    sys.meta_path.insert(0, _SeamFinder(seams))
    for name, functions in seams.items():
        module = sys.modules.get(name)
        if module is None:
            continue
        if getattr(module.__spec__, "_initializing", False):
            raise RuntimeError(f"{name} is half imported: it can be changed neither now nor later")
        _change(module, functions)
