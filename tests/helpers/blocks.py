"""What the documentation shows, run: blocks of ``console`` and of ``python`` with ``>>>``, compared or written anew.

    python tests/helpers/blocks.py README.md docs/*.md     # write the outputs anew

A line ``...`` of an output stands for any lines. Numbers with a point may be a little off: processors round.
Commands run one after the other in a folder of their own that has the checkout's recipes; `localhost:8000` is a
server with the shipped model, started where a file asks for one.
"""

from __future__ import annotations

import code
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.files import ROOT
from helpers.serve_fakes import command

BIN = Path(sys.executable).parent
FENCE = re.compile(r"^```(console|python)\n(.*?)^```$", re.M | re.S)
ANY, OFF = "...", 0.01


class Step(NamedTuple):
    """Something to run, and what it shows."""

    source: str
    output: str


def split_console(text: str) -> list[Step]:
    """Commands and their outputs; a command goes on after a backslash, or while a quote is open.

    >>> split_console("$ echo a\\na\\n$ echo 'b\\nc'\\nb\\nc\\n")
    [Step(source='echo a\\n', output='a\\n'), Step(source="echo 'b\\nc'\\n", output='b\\nc\\n')]
    """
    steps: list[Step] = []
    is_open = False
    for line in text.splitlines(keepends=True):
        if is_open:
            steps[-1] = steps[-1]._replace(source=steps[-1].source + line)
        elif line.startswith("$ "):
            steps.append(Step(line[2:], ""))
        else:
            steps[-1] = steps[-1]._replace(output=steps[-1].output + line)
            continue
        source = steps[-1].source
        is_open = source.endswith("\\\n") or source.count("'") % 2 == 1
    return steps


def split_python(text: str) -> list[Step]:
    """Statements after ``>>>`` and their outputs."""
    steps: list[Step] = []
    for line in text.splitlines(keepends=True):
        if line.startswith(">>> "):
            steps.append(Step(line[4:], ""))
        elif line.startswith("... ") and not steps[-1].output:
            steps[-1] = steps[-1]._replace(source=steps[-1].source + line[4:])
        else:
            steps[-1] = steps[-1]._replace(output=steps[-1].output + line)
    return steps


def join_console(steps: list[Step]) -> str:
    return "".join(f"$ {step.source}{step.output}" for step in steps)


def join_python(steps: list[Step]) -> str:
    return "".join(f">>> {step.source[:-1]}".replace("\n", "\n... ") + f"\n{step.output}" for step in steps)


def alike(shown: str, found: str) -> bool:
    """Whether an output is as shown.

    >>> alike("a 0.501\\n...\\nz\\n", "a 0.502\\nb\\nz\\n"), alike("a 0.5\\n", "a 0.7\\n"), alike("a\\n", "b\\n")
    (True, False, False)
    """
    pieces = re.split(r"(-?\d+\.\d+)", shown)
    pattern = "".join(r"(-?\d+\.\d+)" if place % 2 else re.escape(piece) for place, piece in enumerate(pieces))
    pattern = re.sub(r"(?m)^\\\.\\\.\\\.(\\?\n|$)", r"(?:.*\\n)*?", pattern)
    match = re.fullmatch(pattern, found)
    numbers = zip(pieces[1::2], match.groups() if match else (), strict=bool(match))
    return match is not None and all(abs(float(one) - float(other)) <= OFF for one, other in numbers)


class Place:
    """Where the steps of one file run: a folder, a namespace, a server if one is asked for."""

    def __init__(self, folder: Path, port: int | None) -> None:
        self.folder, self.port = folder, port
        self.interpreter = code.InteractiveInterpreter()
        for name in ("recipes", "tests", "tools", "docs"):
            (folder / name).symlink_to(ROOT / name)

    def run_console(self, step: Step) -> str:
        command = step.source if self.port is None else step.source.replace("localhost:8000", f"localhost:{self.port}")
        environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        output = done.stdout + done.stderr
        return output if not output or output.endswith("\n") else f"{output}\n"

    def run_python(self, step: Step) -> str:
        """What a statement prints, or an expression is."""
        with tempfile.TemporaryFile("w+") as file, contextlib.redirect_stdout(file), contextlib.chdir(self.folder):
            self.interpreter.runsource(step.source + ("\n" if step.source.count("\n") > 1 else ""))
            file.seek(0)
            return file.read()


@contextlib.contextmanager
def place_for(text: str) -> Iterator[Place]:
    """Where what a file shows can be run."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = stack.enter_context(command()).port if "localhost:8000" in text else None
        yield Place(folder, port)


def each_block(text: str) -> Iterator[tuple[re.Match[str], list[Step], Callable[[Place, Step], str]]]:
    """The blocks of a file that can be run, their steps, and how to run one."""
    for match in FENCE.finditer(text):
        kind, body = match.groups()
        if kind == "console":
            yield match, split_console(body), Place.run_console
        elif body.startswith(">>> "):
            yield match, split_python(body), Place.run_python


def write_anew(path: Path) -> None:
    text = path.read_text()
    parts, done = [], 0
    with place_for(text) as place:
        for match, steps, run in each_block(text):
            ran = []
            for step in steps:
                found = run(place, step)
                ran.append(step if alike(step.output, found) else step._replace(output=found))
            join = join_console if match[1] == "console" else join_python
            parts += [text[done : match.start(2)], join(ran)]
            done = match.end(2)
    path.write_text("".join([*parts, text[done:]]))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(argument)
        write_anew(Path(argument))
