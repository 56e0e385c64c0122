"""How threads wait for each other, in all that starts them: soon asleep, unless the user says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.files import RECIPES, ROOT

from onmt_exhird.cli import main

CASES = [
    ({}, "1000"),
    ({"GOMP_SPINCOUNT": "7"}, "7"),
    ({"OMP_WAIT_POLICY": "ACTIVE"}, None),
    ({"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "7"}, "7"),
]


def environment(chosen: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    return kept | chosen


@pytest.mark.parametrize(("chosen", "spins"), CASES)
def test_of_the_command(chosen: dict[str, str], spins: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", environment(chosen))
    with pytest.raises(SystemExit):
        main(["--help"])
    assert os.environ.get("GOMP_SPINCOUNT") == spins


@pytest.mark.parametrize(("chosen", "spins"), CASES)
@pytest.mark.parametrize("recipe", ["custom", "demo"])
def test_of_the_recipes(recipe: str, chosen: dict[str, str], spins: str | None, tmp_path: Path) -> None:
    """Their first command is `exhird`; here one that writes down what it was given, and fails."""
    (tmp_path / "exhird").write_text(f'#!/bin/sh\nenv > "{tmp_path}/seen"\nexit 3\n')
    (tmp_path / "exhird").chmod(0o755)
    (tmp_path / "a.jsonl").write_text("{}\n")
    files = "--train a.jsonl --valid a.jsonl --test a.jsonl".split() if recipe == "custom" else []
    given = environment(chosen)
    given["PATH"] = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), given["PATH"]])
    subprocess.run([RECIPES / recipe / "run.sh", *files], cwd=tmp_path, env=given, capture_output=True, check=False)
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines() if "=" in line)
    assert seen.get("GOMP_SPINCOUNT") == spins


@pytest.mark.parametrize(("chosen", "spins"), CASES)
def test_of_make(chosen: dict[str, str], spins: str | None) -> None:
    show = "--eval=show: ; @printenv GOMP_SPINCOUNT || true"
    command = ["make", "--silent", "--directory", ROOT, show, "show"]
    done = subprocess.run(command, env=environment(chosen), capture_output=True, text=True, check=True)
    assert (done.stdout.strip() or None) == spins
