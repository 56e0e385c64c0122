"""The page as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from onmt_exhird.evaluation.tables import Cell, Number, Table
from onmt_exhird.report.contents import Section
from onmt_exhird.report.drawing import to_svg

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6470; --page: #fff; --line: #d9dde2; --band: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7e9ec; --soft: #a3abb5; --page: #14171b; --line: #343a42; --band: #1d2127; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1.5rem 1rem 4rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.25rem; margin-top: 2.75rem; }
p, li { max-width: 44rem; overflow-wrap: anywhere; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; list-style: none; }
a { color: inherit; }
.wide { overflow-x: auto; margin: 1.25rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { padding: .15rem .6rem; text-align: right; white-space: nowrap; }
th { font-weight: 600; }
thead tr:last-child > * { border-bottom: 1px solid var(--ink); }
thead th[colspan] { text-align: center; }
thead th:first-child { text-align: left; }
tbody { border-bottom: 1px solid var(--line); }
tbody th { text-align: left; vertical-align: top; }
tbody th.whose { font-weight: 400; color: var(--soft); }
tr.ours td, tr.ours th.whose { background: var(--band); }
tr.ours td { font-weight: 600; }
tr.paper td, tr.difference td { color: var(--soft); }
sub { font-size: .7em; }
figure { margin: 1.25rem 0; }
figcaption { font-weight: 600; font-size: .9rem; }
svg { min-width: 36rem; max-width: 100%; height: auto; display: block; }
pre { background: var(--band); padding: .75rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
@media print { body { max-width: none; } h2 { break-after: avoid; } .wide { overflow: visible; } }
"""


def to_html(sections: Sequence[Section]) -> str:
    """The whole page; the first section is its introduction."""
    title = escape(sections[0].title)
    links = (f'<li><a href="#s{number}">{escape(one.title)}</a></li>' for number, one in enumerate(sections) if number)
    head = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>",
    ]
    body = [*_blocks(sections[0]), '<nav aria-label="Sections"><ul>', *links, "</ul></nav>"]
    for number, section in enumerate(sections):
        if number:
            body += [f'<section aria-labelledby="s{number}">\n<h2 id="s{number}">{escape(section.title)}</h2>']
            body += [*_blocks(section), "</section>"]
    return "\n".join([*head, *body, "</main>\n</body>\n</html>\n"])


def _blocks(section: Section) -> Iterator[str]:
    yield from (f"<p>{escape(note)}</p>" for note in section.notes)
    if section.items:
        yield "\n".join(["<ul>", *(f"<li>{escape(item)}</li>" for item in section.items), "</ul>"])
    for table in section.tables:
        yield _scrolling(table.title, _table(table))
    for drawing in section.drawings:
        plot = _scrolling(drawing.title, to_svg(drawing))
        yield f"<figure>\n<figcaption>{escape(drawing.title)}</figcaption>\n{plot}\n</figure>"
    if section.code:
        yield f"<pre><code>{escape(chr(10).join(section.code))}</code></pre>"


def _scrolling(title: str, content: str) -> str:
    """Content that may be wider than the screen; the keyboard can scroll it too."""
    return f'<div class="wide" role="region" tabindex="0" aria-label="{escape(title)}">\n{content}\n</div>'


def _table(table: Table) -> str:
    lines = [f"<table>\n<caption>{escape(table.title)}</caption>\n<thead>"]
    if table.groups:
        spans = (_head(text, f' colspan="{span}" scope="colgroup"') for text, span in table.groups)
        lines.append(f"<tr>{''.join(spans)}</tr>")
    lines.append("<tr>" + "".join(_head(text, ' scope="col"') for text in table.heads) + "</tr>\n</thead>")
    starts = [0, *sorted(table.rules), len(table.rows)]
    for start, end in pairwise(starts):
        lines += ["<tbody>", *_body(table.rows[start:end], not table.heads[1]), "</tbody>"]
    return "\n".join([*lines, "</table>"])


def _head(text: str, attributes: str) -> str:
    """A head; where it is empty a cell, since a head without a name says nothing."""
    return f"<th{attributes}>{escape(text)}</th>" if text else f"<td{attributes.partition(' scope')[0]}></td>"


def _body(rows: Sequence[Sequence[Cell]], is_stacked: bool) -> Iterator[str]:
    """The rows between two rules; in a stack the first cell is that of all, the second says whose the numbers are."""
    for number, row in enumerate(rows):
        first = escape(str(row[0]))
        if not is_stacked:
            yield f'<tr><th scope="row">{first}</th>{"".join(map(_cell, row[1:]))}</tr>'
            continue
        whose = escape(str(row[1]))
        name = f'<th rowspan="{len(rows)}" scope="rowgroup">{first}</th>' if number == 0 else ""
        cells = "".join(map(_cell, row[2:]))
        yield f'<tr class="{whose}">{name}<th class="whose" scope="row">{whose}</th>{cells}</tr>'


def _cell(cell: Cell) -> str:
    if isinstance(cell, Number):
        units = f"<sub>{cell.units}</sub>" if cell.units else ""
        return f"<td>{cell.mean}{units}</td>"
    return f"<td>{'-' if cell is None else escape(cell)}</td>"
