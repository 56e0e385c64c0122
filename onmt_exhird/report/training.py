"""The plot of how training goes or went."""

from __future__ import annotations

from collections.abc import Mapping

from onmt_exhird.report.curves import Curve
from onmt_exhird.report.drawing import Dot, Drawing, Label, Line
from onmt_exhird.report.plots import COLOURS, HEIGHT, WIDTH, Scale, draw_legend

_LEFT, _RIGHT, _BOTTOM = 60.0, WIDTH - 20, HEIGHT - 34
_MOST = 4.0  # times the least perplexity: the first validations of a training would press all others flat


def draw_training(curves: Mapping[str, Curve]) -> Drawing:
    """A curve for each run over the steps, with a dot where it is lowest; of finite perplexities, some for each run."""
    lowest = {name: min(curve, key=lambda step: (curve[step], step)) for name, curve in curves.items()}
    words = ", ".join(f"{name} {curves[name][step]:.2f} at step {step:,}" for name, step in lowest.items())
    drawing = Drawing("Validation perplexity by step", f"lowest: {words}", WIDTH, HEIGHT)
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(curves)}
    top = draw_legend(drawing, list(colours.items()))
    least = min(curves[name][step] for name, step in lowest.items())
    values = [value for curve in curves.values() for value in curve.values() if value <= _MOST * least]
    scale = Scale(least, max(values), top, _BOTTOM)
    scale.draw(drawing, _LEFT, _RIGHT)
    last = max(max(curve) for curve in curves.values())

    def x_of(step: int) -> float:
        return _LEFT + (_RIGHT - _LEFT) * step / last

    for part in range(5):
        step = last * part // 4
        drawing.add(Label(x_of(step), _BOTTOM + 12, f"{step:,}"))
    drawing.add(Label((_LEFT + _RIGHT) / 2, HEIGHT - 8, "step"))
    for name, curve in curves.items():
        points = [(x_of(step), scale.at(curve[step])) for step in sorted(curve) if curve[step] <= _MOST * least]
        if len(points) > 1:
            drawing.add(Line(points, colours[name], 2))
        step = lowest[name]
        if curve[step] <= _MOST * least:
            told = f"{name}: {curve[step]:.2f} at step {step:,}"
            drawing.add(Dot(x_of(step), scale.at(curve[step]), colours[name], told))
    return drawing
