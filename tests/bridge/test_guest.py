"""What OpenNMT-py could do without the plug-in it can do with it: in short, `make test-upstream` has all of it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from helpers.files import load_tool

FEW = ("RNN, a stray value", "greedy", "language model with copy")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("upstream")


def test_upstreams_own_tests_pass_as_without_the_plug_in(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.compare_tests(tmp_path)
    first, _, *others = capsys.readouterr().out.splitlines()
    assert int(first.split()[3]) > (80 if tool.DATA.exists() else 60)  # some of its tests read its data
    assert all("test_translation_server." in line or "test_transform." in line for line in others)


def test_commands_do_what_they_did(tool: ModuleType, tmp_path: Path) -> None:
    if not tool.DATA.exists():
        pytest.skip("the data is not beside this checkout")
    rows = list(tool.run_commands([command for command in tool.COMMANDS if command.name in FEW], tmp_path))
    assert [row.codes for row in rows] == [{"off": 0, "on": 0}] * len(FEW), rows[-1].said
    assert [row.output for row in rows] == ["-", "equal", "-"]
    said = rows[0].said["on"], rows[2].said["on"]
    assert "warning: ignored, since it belongs to no option: true" in said[0]
    assert "warning: a language model with -copy_attn copies as OpenNMT-py does" in said[1]


@pytest.mark.parametrize(
    ("codes", "outputs", "worse"),
    [
        ((0, 0), (b"a", b"a"), False),
        ((0, 0), (b"a", b"b"), True),
        ((1, 0), (b"", b"b"), False),
        ((0, 1), (b"a", b""), True),
        ((1, 1), (b"", b""), False),
        ((1, 2), (b"", b""), True),
    ],
)
def test_what_counts_as_worse(
    codes: tuple[int, int], outputs: tuple[bytes, bytes], worse: bool, tool: ModuleType
) -> None:
    row = tool.Row(tool.Command("c", "onmt_translate", ("out",)))
    row.codes = dict(zip(("off", "on"), codes, strict=True))
    row.outputs = dict(zip(("off", "on"), ([part] for part in outputs), strict=True))
    assert row.is_worse == worse
