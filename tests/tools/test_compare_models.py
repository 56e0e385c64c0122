"""The table of the models' cost: right numbers in the right columns, and failures named."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers.files import load_tool
from helpers.parameters import PARAMETERS, TABLES

from onmt_exhird.errors import ExhirdError


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("benchmarks.compare_models")


def test_every_recipe_has_a_row(tool: ModuleType) -> None:
    assert set(tool.NAMES) == set(PARAMETERS)


def test_the_table_has_what_was_counted_and_measured(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def bench(what: str, config: Path, options: list[str]) -> dict[str, Any]:
        asked.append((what, config.stem, options))
        return {
            "docs_per_cpu_second": {"train": 7.77, "decode": 3.14}[what],
            "rss_mb": {"train": 1234, "decode": 567}[what],
        }

    monkeypatch.setattr(tool, "bench", bench)
    assert tool.main(["--models", "catseq", "--repeat", "5", "--format", "markdown", "--steps", "2"]) == 0
    row = capsys.readouterr().out.splitlines()[-1]
    in_layers = PARAMETERS["catseq"] - TABLES
    assert row == f"| catSeq | {PARAMETERS['catseq']:,} | {in_layers:,} | 7.8 | 1,234 | 3.1 | 567 |"
    assert asked == [(what, "catseq", ["--repeat", "5", "--steps", "2"]) for what in ("train", "decode")]


def test_a_measurement_that_fails_is_named(tool: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ExhirdError, match=r"bench\.py train --config .*none\.yaml failed: .*none\.yaml is no file"):
        tool.bench("train", tmp_path / "none.yaml", [])
