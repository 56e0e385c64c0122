"""Replacing upstream names right after the module that holds them has been imported.

The plug-in is loaded in the middle of ``import onmt``. Importing everything it changes at that moment
would run into circular imports and cost every command the imports of all the others, so each change
waits for its module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Upstream = Any  # a module of OpenNMT-py, which has no types
Patch = Callable[[Upstream], None]

_waiting: dict[str, list[Patch]] = {}


class _SeamFinder(MetaPathFinder):
    """Finds what the ordinary finder finds, and lets the waiting patches run after it is executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _waiting:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for patch in _waiting.pop(fullname, ()):
                patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def after_import(name: str) -> Callable[[Patch], Patch]:
    """Decorate a function that changes the upstream module ``name``; it runs once that is imported."""

    def register(patch: Patch) -> Patch:
        module = sys.modules.get(name)
        if module is None:
            _waiting.setdefault(name, []).append(patch)
        elif getattr(module.__spec__, "_initializing", False):
            raise RuntimeError(f"{name} is half imported: it can be changed neither now nor later")
        else:
            patch(module)
        return patch

    return register


def start() -> None:
    """Watch imports from now on."""
    if not any(isinstance(finder, _SeamFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SeamFinder())
