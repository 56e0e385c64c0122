"""The page as Markdown and as LaTeX, and what is written for each format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.tables import escape_latex, escape_markdown, to_latex, to_markdown
from onmt_exhird.report.contents import Section
from onmt_exhird.report.drawing import Drawing, standalone, to_svg, to_tikz
from onmt_exhird.report.html import to_html

_PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[a4paper,margin=2cm]{geometry}
\usepackage{booktabs,graphicx,tikz}
\setlength{\parindent}{0pt}
\setlength{\parskip}{1ex}
"""
_SHRINK = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"
"""A table as wide as the page if it would be wider."""


def write(sections: Sequence[Section], folder: Path, form: str | None = None) -> list[Path]:
    """Write the page in one of `FORMATS` or in all, and return the files."""
    files: dict[str, str] = {}
    for name in FORMATS if form is None else [form]:
        files |= FORMATS[name](sections)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ExhirdError(f"{folder} cannot be written ({error}); choose another folder for --output") from None
    return [folder / name for name in files]


def _markdown_files(sections: Sequence[Section]) -> dict[str, str]:
    """The page, and its plots beside it."""
    drawings = [drawing for section in sections for drawing in section.drawings]
    names = {id(drawing): f"report-plot-{number}.svg" for number, drawing in enumerate(drawings, start=1)}
    page = "\n\n".join(_markdown(section, index == 0, names) for index, section in enumerate(sections)) + "\n"
    return {"report.md": page} | {names[id(drawing)]: standalone(to_svg(drawing)) for drawing in drawings}


def _markdown(section: Section, is_first: bool, names: dict[int, str]) -> str:
    blocks = [f"{'#' if is_first else '##'} {section.title}", *map(escape_markdown, section.notes)]
    if section.items:
        blocks.append("\n".join(f"- {escape_markdown(item)}" for item in section.items))
    blocks += map(to_markdown, section.tables)
    blocks += [f"![{_alternative(drawing)}]({names[id(drawing)]})" for drawing in section.drawings]
    if section.code:
        # Indented code needs no fence, which the code could close.
        blocks.append("\n".join(f"    {line}" for code in section.code for line in code.splitlines()))
    return "\n\n".join(blocks)


def _alternative(drawing: Drawing) -> str:
    return escape_markdown(drawing.title).replace("[", "\\[").replace("]", "\\]")


def _latex_files(sections: Sequence[Section]) -> dict[str, str]:
    title = f"\\title{{{escape_latex(sections[0].title)}}}\n\\date{{}}\n\\begin{{document}}\n\\maketitle"
    body = "\n\n".join(_latex(section, index == 0) for index, section in enumerate(sections))
    return {"report.tex": f"{_PREAMBLE}{title}\n\n{body}\n\n\\end{{document}}\n"}


def _latex(section: Section, is_first: bool) -> str:
    blocks = [] if is_first else [f"\\section*{{{escape_latex(section.title)}}}"]
    blocks += map(escape_latex, section.notes)
    if section.items:
        items = (f"\\item {_breakable(item)}" for item in section.items)
        blocks.append("\n".join(["\\begin{itemize}", *items, "\\end{itemize}"]))
    blocks += [_latex_block(table.title, f"{_SHRINK}\n{to_latex(table)}}}") for table in section.tables]
    blocks += [_latex_block(drawing.title, to_tikz(drawing)) for drawing in section.drawings]
    if section.code:
        lines = (f"\\texttt{{{_breakable(line)}}}\\par" for code in section.code for line in code.splitlines())
        blocks.append("\n".join(["{\\raggedright\\small", *lines, "}"]))
    return "\n\n".join(blocks)


def _latex_block(title: str, content: str) -> str:
    """A table or a plot below its title, on the same page."""
    caption = f"\\textbf{{{escape_latex(title)}}}\\par\\nopagebreak\\smallskip"
    return f"\\begin{{center}}\\small\n{caption}\n{content}\n\\end{{center}}"


def _breakable(text: str) -> str:
    """Text in which two hyphens stay two, and lines may end after the marks of paths and signatures."""
    escaped = escape_latex(text).replace("--", "-{}-")
    for mark in ("|", "/", ",", "\\_"):
        escaped = escaped.replace(mark, f"{mark}\\allowbreak{{}}")
    return escaped


FORMATS: dict[str, Callable[[Sequence[Section]], dict[str, str]]] = {
    "markdown": _markdown_files,
    "latex": _latex_files,
    "html": lambda sections: {"report.html": to_html(sections)},
}
"""The files of each format, by name."""
