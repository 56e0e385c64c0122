"""What the README and the documentation show comes out when it is run, and their links lead somewhere."""

from __future__ import annotations

import doctest
import re
import shutil
from pathlib import Path

import pytest
from helpers import blocks
from helpers.files import ROOT

FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*FILES, ROOT / "RESULTS.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_blocks_are_read_as_they_are_meant() -> None:
    assert doctest.testmod(blocks).failed == 0
    for split, join, text in (
        (blocks.split_console, blocks.join_console, "$ a \\\n  b\nout\n$ c 'd\n e'\n"),
        (blocks.split_python, blocks.join_python, ">>> for x in y:\n...     z\n1\n>>> w\n"),
    ):
        assert join(split(text)) == text


@pytest.mark.parametrize("path", FILES, ids=name)
def test_what_is_shown_comes_out(path: Path) -> None:
    text = path.read_text()
    with blocks.place_for(text) as place:
        for _, steps, run in blocks.each_block(text):
            for step in steps:
                if step.source.startswith("curl ") and not shutil.which("curl"):
                    continue
                found = run(place, step)
                assert blocks.alike(step.output, found), f"{step.source}{found}"


def headings(path: Path) -> set[str]:
    """The anchors that a forge makes of a page's headings."""
    found = re.findall(r"^#+ (.+)$", path.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http://", "https://")):
            file, _, anchor = target.partition("#")
            page = (path.parent / file).resolve() if file else path
            assert page.exists(), target
            assert not anchor or anchor in headings(page), target


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for path in FILES[1:]:
        assert path.name == "README.md" or f"({path.name})" in index, path.name
