"""The stock commands, as processes and in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_stock(command: str, *arguments: object, cwd: Path, check: bool = True, **environment: str):
    """Run a stock command (or ``python -m``) as a user would, in one thread."""
    program = [sys.executable, "-m", command] if "." in command else [str(Path(sys.executable).parent / command)]
    done = subprocess.run(
        [*program, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def translate(folder: Path, model: Path, src: str, *options: object) -> list[str]:
    """What onmt_translate writes, called in this process, since starting one takes longer than its work."""
    from onmt.bin import translate as command

    output = folder / "out.pred"
    arguments = ["-model", model, "-src", folder / src, "-output", output, *options]
    command.translate(command._get_parser().parse_args([str(argument) for argument in arguments]))
    return output.read_text().splitlines()


def train_here(folder: Path, *arguments: object) -> None:
    """What onmt_train does in a folder, in this process and one thread: starting one takes longer than its work."""
    import torch
    from onmt.bin import train as command

    before = os.getcwd()
    os.chdir(folder)
    torch.set_num_threads(1)
    try:
        command.train(command._get_parser().parse_args([str(argument) for argument in arguments]))
    finally:
        os.chdir(before)
