"""The changes that make test-mutants makes, and the list of those that make no difference."""

from __future__ import annotations

import ast
import tomllib

import pytest
from helpers.files import ROOT, load_tool

mutations = load_tool("mutations")
tool = load_tool("mutants")

SOURCE = '''
def few(words: list[str], most: int = 3) -> list[str]:
    """The first words."""
    if not words or most <= 0:
        raise ValueError("no words")
    return sorted(words, key=len)[:most]
'''


def changed_lines(source: str) -> list[str]:
    """The line in which each mutant differs from the module."""
    before = ast.unparse(ast.parse(source)).splitlines()
    found = []
    for mutant in mutations.mutants(source):
        after = mutant.source.splitlines()
        (line,) = (new for old, new in zip(before, after, strict=True) if old != new)
        found.append(line.strip())
    return found


def test_every_change_is_made_alone_and_types_words_of_errors_and_docstrings_are_left() -> None:
    assert changed_lines(SOURCE) == [
        "def few(words: list[str], most: int=4) -> list[str]:",
        "if not (not words or most <= 0):",
        "if not words and most <= 0:",
        "if words or most <= 0:",
        "if not words or most < 0:",
        "if not words or most <= 1:",
        "pass",
        "return",
        "return sorted(words)[:most]",
        "return sorted(words, key=len)[:]",
    ]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("a = b.lt(c)", ["a = b.le(c)"]),
        ("a = max(b, 2)", ["a = min(b, 2)", "a = max(b, 3)"]),
        ("a[0] += -b", ["a[0] -= -b", "pass", "a[1] += -b", "a[0] += b"]),
        ("a = b ^ c >> 1", ["a = b | c >> 1", "a = b ^ c << 1", "a = b ^ c >> 2"]),
        ("a = zip(b, c, strict=True)", []),
        (
            "a = 'x' if b else True",
            ["a = 'x' if not b else True", "a = 'XXx' if b else True", "a = 'x' if b else False"],
        ),
        ("a = [b for b in c if b.d]", ["a = [b for b in c if not b.d]"]),
    ],
)
def test_what_a_line_becomes(line: str, changed: list[str]) -> None:
    assert sorted(changed_lines(line)) == sorted(changed)


def test_a_name_says_where_and_what_and_equal_ones_are_numbered() -> None:
    names = [mutant.name for mutant in mutations.mutants("class A:\n    def b(self):\n        c(1)\n        c(1)\n")]
    assert names == ["A.b: {c(1) -> pass}", "A.b: c({1 -> 2})", "A.b: {c(1) -> pass} #2", "A.b: c({1 -> 2}) #2"]


def test_what_is_explained_exists_and_is_said_in_words() -> None:
    for module, reasons in tomllib.loads(tool.EXPLAINED.read_text()).items():
        names = {mutant.name for mutant in mutations.mutants((ROOT / "onmt_exhird" / module).read_text())}
        assert set(reasons) <= names
        assert all(len(reason.split()) > 2 for reason in reasons.values())


def test_every_module_of_the_search_is_changed_and_its_tests_are_there() -> None:
    search = {f"search/{path.name}" for path in (ROOT / "onmt_exhird/search").glob("[a-z]*.py")}
    assert search == {name for name in tool.TESTS if name.startswith("search/")}
    assert all((ROOT / "tests" / f"{name}.py").is_file() for tests in tool.TESTS.values() for name in tests.split())


def test_a_module_that_has_no_tests_here_is_an_error_that_names_those_that_have(capsys) -> None:
    with pytest.raises(SystemExit):
        tool.main(["onmt_exhird/text.py"])
    assert "onmt_exhird/stream.py" in capsys.readouterr().err
