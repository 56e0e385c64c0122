"""The notebooks run, and show what is stored in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import notebooks
from helpers.blocks import alike
from helpers.files import ROOT


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_shows_what_is_stored(path: Path) -> None:
    notebook = json.loads(path.read_text())
    stored = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for before, now in zip(stored, notebooks.run(notebook), strict=True):
        assert alike(notebooks.shown(before), notebooks.shown(now)), notebooks.shown(now)
