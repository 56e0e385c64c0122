"""Where things lie, scripts as modules, small files."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
TOOLS = ROOT / "tools"
RECIPES = ROOT / "recipes"
SHARED = ROOT.parent / "shared"  # material beside the checkout, where there is any


def load_tool(name: str) -> ModuleType:
    """A script of tools/ or recipes/ as a module."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in (RECIPES, RECIPES / "science", TOOLS / "checks", TOOLS / "studies", TOOLS):
            patch.syspath_prepend(str(folder))
        return importlib.import_module(name)


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path
