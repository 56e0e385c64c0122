"""The plots: bars of a score for each data set and model, and curves over the window of exclusive search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

from onmt_exhird.evaluation.layout import score_number
from onmt_exhird.evaluation.results import SystemResult
from onmt_exhird.report.collect import Collection
from onmt_exhird.report.drawing import INK, Box, Dot, Drawing, Label, Line
from onmt_exhird.report.tables import WINDOW_STUDY, Row, dataset_name, main_rows, study_rows

COLOURS = ("#7d838c", "#4e79a7", "#3a9a94", "#9a5f8f", "#c77a12", "#d1495b", "#6b8e3d", "#a0673c")
OURS = COLOURS[5]
CURVES = (("F1@M, present", "present/F1@M"), ("F1@M, absent", "absent/F1@M"), ("DupRatio", "dup_ratio"))

WIDTH, HEIGHT = 720.0, 240.0
_LEFT, _BOTTOM = 40.0, 24.0
_LETTER = 7.0  # width to allow for a letter
_TICKS = 5


def draw_bars(collection: Collection, title: str, key: str) -> Drawing:
    """A bar for each model in each data set, its deviation over seeds, and a mark where the paper's number is."""
    rows = main_rows(collection)
    datasets = list(collection.datasets)
    legend = [*((row.name, COLOURS[index % len(COLOURS)]) for index, row in enumerate(rows)), ("paper", "")]
    values = [value for row in rows for dataset in datasets for value in _values(row, dataset, key)]
    drawing = Drawing(title, _in_words(rows, datasets, key), WIDTH, HEIGHT)
    top = draw_legend(drawing, legend)
    scale = Scale(0, max(values, default=0), top, HEIGHT - _BOTTOM)
    scale.draw(drawing, _LEFT, WIDTH)
    slot = (WIDTH - _LEFT) / len(datasets)
    width = min(26.0, slot * 0.85 / len(rows))
    for place, dataset in enumerate(datasets):
        centre = _LEFT + (place + 0.5) * slot
        drawing.add(Label(centre, HEIGHT - _BOTTOM / 2, dataset_name(dataset)))
        for index, row in enumerate(rows):
            x = centre + (index - len(rows) / 2) * width
            _draw_bar(drawing, scale, row, dataset, key, x, width, legend[index][1])
    return drawing


def _draw_bar(
    drawing: Drawing, scale: Scale, row: Row, dataset: str, key: str, x: float, width: float, colour: str
) -> None:
    middle = x + width / 2
    if system := row.ours.get(dataset):
        y = scale.at(system[key])
        told = f"{row.name} on {dataset_name(dataset)}: {score_number(system, key).text}"
        drawing.add(Box(x + 1, y, width - 2, scale.bottom - y, colour, told))
        if spread := system.deviations.get(key):
            low, high = scale.at(max(0, system[key] - spread)), scale.at(system[key] + spread)
            drawing.add(Line([(middle, low), (middle, high)], width=1.5))
    if number := row.paper.get(dataset, {}).get(key):
        y = scale.at(number.value)
        drawing.add(Line([(x - 1, y), (x + width + 1, y)], width=2.5))


def draw_curves(collection: Collection, dataset: str) -> Drawing:
    """F1@M and DupRatio over the window, ours and the paper's."""
    rows = study_rows(collection, WINDOW_STUDY, dataset)
    title = f"{dataset_name(dataset)}: scores by window"
    words = "; ".join(f"{name}: {_in_words(rows, [dataset], key)}" for name, key in CURVES)
    drawing = Drawing(title, words, WIDTH, HEIGHT)
    has_paper = any(row.paper[dataset] for row in rows)
    top = draw_legend(drawing, [("ours", OURS), *[("paper", "")] * has_paper]) + 18
    width = WIDTH / len(CURVES)
    for place, (name, key) in enumerate(CURVES):
        left, right = place * width + _LEFT, (place + 1) * width - 12
        drawing.add(Label((left + right) / 2, top - 18, name))
        values = [value for row in rows for value in _values(row, dataset, key)]
        least = 0 if key == "dup_ratio" else min(values)
        scale = Scale(least, max(values), top, HEIGHT - _BOTTOM - 14)
        scale.draw(drawing, left, right)
        xs = [left + (index + 0.5) * (right - left) / len(rows) for index in range(len(rows))]
        for x, row in zip(xs, rows, strict=True):
            drawing.add(Label(x, scale.bottom + 11, row.name.rpartition(" ")[2]))
        drawing.add(Label((left + right) / 2, HEIGHT - 7, "window K"))
        paper = [row.paper[dataset].get(key) for row in rows]
        drawing.add(*_curve(xs, [scale.at(one.value) if one else None for one in paper], INK, dashed=True))
        systems = [row.ours.get(dataset) for row in rows]
        drawing.add(*_curve(xs, [scale.at(one[key]) if one else None for one in systems], OURS))
        for x, row, system in zip(xs, rows, systems, strict=True):
            if system:
                drawing.add(Dot(x, scale.at(system[key]), OURS, f"{row.name}: {score_number(system, key).text}"))
    return drawing


def _curve(xs: Sequence[float], ys: Sequence[float | None], colour: str, dashed: bool = False) -> list[Line]:
    """A line through the points that are there; it skips windows in between that are not."""
    points = [(x, y) for x, y in zip(xs, ys, strict=True) if y is not None]
    return [Line(points, colour, 2 if not dashed else 1.5, dashed=dashed)] if len(points) > 1 else []


def _values(row: Row, dataset: str, key: str) -> Iterator[float]:
    """What has to fit into a plot."""
    if system := row.ours.get(dataset):
        yield system[key] + system.deviations.get(key, 0)
    if number := row.paper.get(dataset, {}).get(key):
        yield number.value


def _in_words(rows: Sequence[Row], datasets: Sequence[str], key: str) -> str:
    """Our numbers, for those who do not see the plot."""

    def said(system: SystemResult | None) -> str:
        return score_number(system, key).mean if system else "none"

    parts = (f"{row.name} {' '.join(said(row.ours.get(dataset)) for dataset in datasets)}" for row in rows)
    return f"{', '.join(map(dataset_name, datasets))}: {', '.join(parts)}"


def draw_legend(drawing: Drawing, entries: Sequence[tuple[str, str]]) -> float:
    """Names and colours in lines at the top (no colour: the paper's mark); returns where they end."""
    x, y = _LEFT, 10.0
    for name, colour in entries:
        width = 20 + _LETTER * len(name) + 14
        if x + width > WIDTH and x > _LEFT:
            x, y = _LEFT, y + 18
        drawing.add(Box(x, y - 5, 12, 10, colour) if colour else Line([(x, y), (x + 14, y)], width=2.5))
        drawing.add(Label(x + 18, y, name, "start"))
        x += width
    return y + 22


class Scale:
    """From values to heights in a drawing, with about five round ticks from `least` or a little below."""

    def __init__(self, least: float, largest: float, top: float, bottom: float) -> None:
        self.step = _round_step((largest - least) / _TICKS or 0.1)
        self.first = floor(least / self.step + 1e-9)
        self.last = max(self.first + 1, ceil(largest / self.step - 1e-9))
        self.top, self.bottom = top, bottom

    def at(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * (value / self.step - self.first) / (self.last - self.first)

    def draw(self, drawing: Drawing, left: float, right: float) -> None:
        digits = max(0, ceil(-log10(self.step) - 1e-9) + (f"{self.step:e}"[:3] == "2.5"))
        for tick in range(self.first, self.last + 1):
            y = self.at(tick * self.step)
            drawing.add(Line([(left, y), (right, y)], opacity=0.5 if tick == self.first else 0.15))
            drawing.add(Label(left - 6, y, f"{tick * self.step:.{digits}f}", "end"))


def _round_step(least: float) -> float:
    """The next round number: 1, 2, 2.5 or 5 times a power of ten.

    >>> _round_step(0.061), _round_step(0.3), _round_step(0.0024)
    (0.1, 0.5, 0.0025)
    """
    power = 10.0 ** floor(log10(least))
    return round(power * next(step for step in (1, 2, 2.5, 5, 10) if step * power >= least * (1 - 1e-9)), 12)
