"""Which part of the package may import which: nothing below imports from above, and only `bridge` knows OpenNMT-py."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.files import ROOT

PACKAGE = ROOT / "onmt_exhird"
BASE = {"errors", "languages", "text", "stream"}
PIECES = {"subwords", "textmodel"}
ABOVE_BASE = {"corpus", "records", "shuffle"}
BELOW = {
    "errors": set(),
    "languages": {"errors"},
    "stream": {"errors"},
    "text": {"errors", "languages", "stream"},
    "subwords": {"errors", "languages", "stream"},
    "textmodel": BASE | {"subwords"},
    "corpus": BASE,
    "records": BASE | {"corpus"},
    "shuffle": {"errors"},
    "documents": BASE | ABOVE_BASE,
    "nn": BASE,
    "search": BASE | PIECES | {"nn"},
    "generator": BASE | PIECES | {"corpus", "nn", "search"},
    "models": set(),
    "evaluation": BASE | ABOVE_BASE,
    "report": BASE | ABOVE_BASE | {"evaluation"},
    "bridge": BASE | PIECES | ABOVE_BASE | {"nn", "search", "generator", "evaluation"},
    "bulk": BASE | ABOVE_BASE | {"documents", "generator"},
    "engines": BASE | ABOVE_BASE | {"documents", "generator", "bulk"},
    "serve": BASE | {"generator"},
}
ANYTHING = {"cli", "__init__"}


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, also within functions, but not for types only."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            is_package = node.module == "onmt_exhird"
            yield from (f"{node.module}.{alias.name}" for alias in node.names) if is_package else (node.module,)


@pytest.fixture(scope="module")
def uses() -> dict[str, set[str]]:
    """The modules that each part imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        found[part(path)].update(imported(path))
    return found


def test_every_part_is_known(uses: dict[str, set[str]]) -> None:
    assert set(uses) <= BELOW.keys() | ANYTHING


@pytest.mark.parametrize("name", BELOW)
def test_nothing_below_imports_from_above(name: str, uses: dict[str, set[str]]) -> None:
    own = {module.split(".")[1] for module in uses[name] if module.startswith("onmt_exhird.")}
    assert own - {name, "__version__"} <= BELOW[name]


def test_only_the_bridge_knows_opennmt(uses: dict[str, set[str]]) -> None:
    who = {name for name, modules in uses.items() if any(module.split(".")[0] == "onmt" for module in modules)}
    assert who == {"bridge"}
