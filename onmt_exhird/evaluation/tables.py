"""A table, and the same table as text, Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

_LATEX = {**{c: f"\\{c}" for c in "#$%&_{}"}, "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\^{}"}


@dataclass(frozen=True)
class Number:
    """A score as it is shown, with the paper's subscript where it has a standard deviation.

    >>> Number(0.3112, deviation=0.0009, digits=3).text
    '0.311_1'
    >>> Number(-0.0123, signed=True).text
    '-0.0123'
    """

    value: float
    deviation: float | None = None
    digits: int = 4
    signed: bool = False

    @property
    def mean(self) -> str:
        return f"{self.value:{'+' if self.signed else ''}.{self.digits}f}"

    @property
    def units(self) -> str:
        """The standard deviation in units of the mean's last digit, or nothing."""
        return "" if self.deviation is None else str(round(self.deviation * 10**self.digits))

    @property
    def text(self) -> str:
        return f"{self.mean}_{self.units}" if self.units else self.mean

    @property
    def latex(self) -> str:
        mean = f"${self.mean}$" if self.signed else self.mean
        return f"{mean}\\textsubscript{{{self.units}}}" if self.units else mean


Cell: TypeAlias = str | Number | None
"""Text, a number, or nothing to show."""


@dataclass
class Table:
    """A title, column heads under group heads (`groups`: text and number of columns), and rows."""

    title: str
    heads: Sequence[str]
    groups: Sequence[tuple[str, int]] = ()
    rows: list[Sequence[Cell]] = field(default_factory=list)
    rules: set[int] = field(default_factory=set)
    """Rows that have a rule above them."""

    def add(self, *cells: Cell) -> None:
        self.rows.append(cells)

    def add_rule(self) -> None:
        if self.rows:
            self.rules.add(len(self.rows))


def _shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    return cell if isinstance(cell, str) else cell.text


def _aligned(cells: Sequence[Cell]) -> list[str]:
    """A column's cells, the numbers with their decimal points below each other."""
    shown = [_shown(cell) for cell in cells]
    numbers = [text for text, cell in zip(shown, cells, strict=True) if isinstance(cell, Number)]
    before = max((text.index(".") for text in numbers), default=0)
    width = before + max((len(text) - text.index(".") for text in numbers), default=0)
    return [
        (" " * (before - text.index(".")) + text).ljust(width) if isinstance(cell, Number) else text
        for text, cell in zip(shown, cells, strict=True)
    ]


def to_text(table: Table) -> str:
    """For a terminal: aligned columns, a rule below the heads.

    >>> table = Table("Scores", ["system", "F1"])
    >>> table.add("ours", Number(0.5))
    >>> print(to_text(table))
    Scores
      system      F1
      --------------
      ours    0.5000
    """
    columns = [_aligned([row[index] for row in table.rows]) for index in range(len(table.heads))]
    widths = [max(map(len, [head, *column])) for head, column in zip(table.heads, columns, strict=True)]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))

    def line(cells: Sequence[str]) -> str:
        rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        return "  ".join([cells[0].ljust(widths[0]), *rest])

    lines = [_group_line(table, widths)] if table.groups else []
    lines += [line(table.heads), rule]
    for number, cells in enumerate(zip(*columns, strict=True)):
        lines += [rule] * (number in table.rules) + [line(cells)]
    return "\n".join([table.title, *(f"  {text}".rstrip() for text in lines)])


def _group_line(table: Table, widths: Sequence[int]) -> str:
    """The group heads, each centred over its columns between dots that show how far it reaches."""
    parts, start = [], 0
    for text, span in table.groups:
        width = sum(widths[start : start + span]) + 2 * (span - 1)
        parts.append(f" {text} ".center(width, "·") if text else " " * width)
        start += span
    return "  ".join(parts)


def escape_markdown(text: str) -> str:
    """Text that neither ends a cell nor is read as emphasis, code or a tag.

    >>> escape_markdown("a|b_c <d>")
    'a\\\\|b\\\\_c \\\\<d>'
    """
    return re.sub(r"[\\`*_<|]", r"\\\g<0>", text)


def to_markdown(table: Table) -> str:
    """For a README or an issue; a group's name goes before the heads of its columns."""
    heads: list[str] = []
    for text, span in table.groups or [("", len(table.heads))]:
        heads += [f"{text} {head}".strip() for head in table.heads[len(heads) : len(heads) + span]]
    marks = ["---", *["---:"] * (len(heads) - 1)]
    rows = [[escape_markdown(_shown(cell)) for cell in row] for row in [heads, *table.rows]]
    lines = [f"| {' | '.join(cells)} |" for cells in [rows[0], marks, *rows[1:]]]
    return "\n".join([f"**{escape_markdown(table.title)}**", "", *lines])


def escape_latex(text: str) -> str:
    """Text in which no character has a meaning to LaTeX.

    >>> escape_latex("#PK of a_b")
    '\\\\#PK of a\\\\_b'
    """
    return "".join(_LATEX.get(character, character) for character in text)


def to_latex(table: Table) -> str:
    """For a paper, with the rules of the package booktabs."""

    def line(cells: Sequence[Cell]) -> str:
        texts = (cell.latex if isinstance(cell, Number) else escape_latex(_shown(cell)) for cell in cells)
        return f"{' & '.join(texts)} \\\\"

    lines = [f"% {table.title}", f"\\begin{{tabular}}{{l{'r' * (len(table.heads) - 1)}}}", "\\toprule"]
    if table.groups:
        spans = (f"\\multicolumn{{{span}}}{{c}}{{{escape_latex(text)}}}" for text, span in table.groups)
        lines.append(f"{' & '.join(spans)} \\\\")
    lines += [line(table.heads), "\\midrule"]
    for number, row in enumerate(table.rows):
        lines += ["\\midrule"] * (number in table.rules) + [line(row)]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])
