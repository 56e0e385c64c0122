"""Drawings of a few shapes, as SVG and as TikZ, so that a page needs neither files nor a plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TypeAlias

from onmt_exhird.evaluation.tables import escape_latex

INK = "currentColor"
"""The colour of the text around the drawing, light or dark."""
CENTIMETRES = 0.0205
"""Of a unit in LaTeX: a drawing 720 units wide fits a page."""

_STANDALONE = "<style>svg{color:#1b1f24}@media(prefers-color-scheme:dark){svg{color:#e7e9ec}}</style>"
_ANCHORS = {"start": "west", "middle": "center", "end": "east"}


@dataclass(frozen=True)
class Box:
    """A filled rectangle; `told` is its text for those who point at it."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    told: str = ""


@dataclass(frozen=True)
class Line:
    """A line through points."""

    points: Sequence[tuple[float, float]]
    colour: str = INK
    width: float = 1.0
    opacity: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Dot:
    """A point of a curve; `told` as of a box."""

    x: float
    y: float
    colour: str
    told: str = ""


@dataclass(frozen=True)
class Label:
    """Text whose middle line is at `y`."""

    x: float
    y: float
    text: str
    anchor: str = "middle"


Shape: TypeAlias = Box | Line | Dot | Label


@dataclass
class Drawing:
    """Shapes in a field whose y grows downwards, with a title and the words for those who do not see it."""

    title: str
    alternative: str
    width: float
    height: float
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        self.shapes += shapes


def to_svg(drawing: Drawing) -> str:
    """For a page; it takes the page's colour of text.

    >>> to_svg(Drawing("a < b", "", 7, 5, [Label(1, 2, "x & y")])).splitlines()[1]
    '<text x="1.0" y="2.0" dy=".35em" text-anchor="middle">x &amp; y</text>'
    """
    view = f'viewBox="0 0 {drawing.width:g} {drawing.height:g}" width="{drawing.width:g}" height="{drawing.height:g}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img" '
        f'aria-label="{escape(drawing.title)}. {escape(drawing.alternative)}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="currentColor">'
    )
    return "\n".join([head, *map(_svg_shape, drawing.shapes), "</svg>"])


def standalone(svg: str) -> str:
    """The same for a file of its own, readable on light and dark."""
    return svg.replace("\n", f"\n{_STANDALONE}\n", 1) + "\n"


def _svg_shape(shape: Shape) -> str:
    match shape:
        case Box():
            place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" height="{shape.height:.1f}"'
            return _svg_told("rect", f'{place} fill="{shape.colour}"', shape.told)
        case Dot():
            return _svg_told("circle", f'cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="4" fill="{shape.colour}"', shape.told)
        case Line():
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
            style = f'fill="none" stroke="{shape.colour}" stroke-width="{shape.width:g}"'
            style += (
                f' stroke-opacity="{shape.opacity:g}"' * (shape.opacity < 1) + ' stroke-dasharray="5 4"' * shape.dashed
            )
            return f'<polyline points="{points}" {style}/>'
        case Label():
            place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" dy=".35em" text-anchor="{shape.anchor}"'
            return f"<text {place}>{escape(shape.text)}</text>"


def _svg_told(tag: str, attributes: str, told: str) -> str:
    return f"<{tag} {attributes}><title>{escape(told)}</title></{tag}>" if told else f"<{tag} {attributes}/>"


def to_tikz(drawing: Drawing) -> str:
    """For LaTeX, with the package tikz."""
    scale = f"x={CENTIMETRES}cm, y=-{CENTIMETRES}cm"
    lines = [_tikz_shape(shape) for shape in drawing.shapes]
    return "\n".join([f"\\begin{{tikzpicture}}[{scale}, font=\\sffamily\\scriptsize]", *lines, "\\end{tikzpicture}"])


def _tikz_shape(shape: Shape) -> str:
    match shape:
        case Box():
            corner = f"({shape.x:.1f},{shape.y:.1f}) rectangle ++({shape.width:.1f},{shape.height:.1f})"
            return f"\\fill[{_tikz_colour(shape.colour)}] {corner};"
        case Dot():
            return f"\\fill[{_tikz_colour(shape.colour)}] ({shape.x:.1f},{shape.y:.1f}) circle[radius=2pt];"
        case Line():
            style = f"{_tikz_colour(shape.colour)}, line width={shape.width / 2:g}pt, opacity={shape.opacity:g}"
            path = " -- ".join(f"({x:.1f},{y:.1f})" for x, y in shape.points)
            return f"\\draw[{style}{', dashed' if shape.dashed else ''}] {path};"
        case Label():
            style = f"anchor={_ANCHORS[shape.anchor]}, inner sep=0pt"
            return f"\\node[{style}] at ({shape.x:.1f},{shape.y:.1f}) {{{escape_latex(shape.text)}}};"


def _tikz_colour(colour: str) -> str:
    """A colour as TikZ takes it.

    >>> _tikz_colour("#ff8000")
    'color={rgb,255:red,255;green,128;blue,0}'
    """
    if colour == INK:
        return "color=black"
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"color={{rgb,255:red,{red};green,{green};blue,{blue}}}"
