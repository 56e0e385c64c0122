"""Notebooks, run cell by cell in this process: what they show is compared, or written anew.

python tests/helpers/notebooks.py notebooks/*.ipynb
"""

from __future__ import annotations

import ast
import code
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell: what was printed, and what its last expression shows itself as."""
    interpreter = code.InteractiveInterpreter({"__name__": "__main__"})
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [_run_cell(interpreter, "".join(cell["source"]), number) for number, cell in enumerate(cells, start=1)]


def _run_cell(interpreter: code.InteractiveInterpreter, source: str, number: int) -> list[dict[str, Any]]:
    printed, values = io.StringIO(), []
    *statements, last = _statements(source)
    before, sys.displayhook = sys.displayhook, values.append
    try:
        with contextlib.redirect_stdout(printed):
            interpreter.runsource("\n".join(statements) + "\n", symbol="exec")
            interpreter.runsource(f"{last}\n", symbol="single")
    finally:
        sys.displayhook = before
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(True)})
    if values and values[-1] is not None:
        data = {"text/plain": repr(values[-1]).splitlines(True)}
        if hasattr(values[-1], "_repr_html_"):
            data = {"text/html": values[-1]._repr_html_().splitlines(True)} | data
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _statements(source: str) -> list[str]:
    """The source, cut before its last statement."""
    start = ast.parse(source).body[-1].lineno - 1
    lines = source.splitlines()
    return ["\n".join(lines[:start]), "\n".join(lines[start:])]


def shown(outputs: list[dict[str, Any]]) -> str:
    """All that a reader sees of a cell's outputs, as one text."""
    texts = [output["text"] if "text" in output else next(iter(output["data"].values())) for output in outputs]
    return "".join(line for lines in texts for line in lines)


def write_anew(path: Path) -> None:
    notebook = json.loads(path.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(cells, run(notebook), strict=True), start=1):
        cell |= {"execution_count": number, "outputs": outputs}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(argument)
        write_anew(Path(argument))
