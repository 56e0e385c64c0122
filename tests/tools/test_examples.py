"""What the docstrings of the tools and recipes show is what they do."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from helpers.files import RECIPES, TOOLS, load_tool

PACKAGES = ("benchmarks", "reinforcement")  # folders of tools/ whose modules are imported by both names
SHOWING = sorted(path for folder in (TOOLS, RECIPES) for path in folder.rglob("*.py") if ">>>" in path.read_text())


@pytest.mark.parametrize("path", SHOWING, ids=lambda path: path.stem)
def test_examples_in_docstrings(path: Path) -> None:
    name = f"{path.parent.name}.{path.stem}" if path.parent.name in PACKAGES else path.stem
    failed, tried = doctest.testmod(load_tool(name))
    assert tried and not failed
