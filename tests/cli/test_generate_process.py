"""``exhird generate`` as a process: pipes, Ctrl-C, terminals, full disks."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from helpers.files import TESTS
from helpers.waiting import PATIENCE

COMMAND = [sys.executable, str(TESTS / "helpers" / "fake_generator.py")]


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """The command as a process, its output buffered as usual."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    usual = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment}
    return subprocess.Popen([*COMMAND, *arguments], **usual | options)


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], PATIENCE)[0], "no answer"
    return process.stdout.readline()


@pytest.mark.parametrize("arguments", [[], ["-"], ["-", "--input-format", "jsonl"]])
def test_each_line_of_a_slow_pipe_is_answered_at_once(arguments: list[str]) -> None:
    process = start("generate", *arguments)
    assert process.stdin is not None
    for word in ("planar", "graphs"):
        line = json.dumps({"text": word}) if len(arguments) > 1 else word
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()
        assert word.encode() in read_line(process)
    out, err = process.communicate()
    assert (out, err, process.returncode) == (b"", b"", 0)


def test_a_pipe_that_turns_bad_is_answered_up_to_there() -> None:
    process = start("generate", "--top", "1")
    out, err = process.communicate(b"planar\n\xff\ngraphs\n")
    assert (out, process.returncode) == (b"planar\n", 2)
    assert b"standard input, line 2: not UTF-8" in err


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    process = start("generate", str(path), "--top", "1")
    path.write_text("planar\ngraphs\n")
    assert process.communicate()[0] == b"planar\ngraphs\n"


def whole_lines(data: bytes) -> bool:
    return data == b"" or (data.endswith(b"\n") and set(data.splitlines()) == {b"planar ; absent thing"})


def test_ctrl_c_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("planar\n" * 100_000)
    process = start("generate", str(path), env=os.environ | {"FAKE_SECONDS": "0.001"})
    first = read_line(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and err == b"exhird generate: interrupted\n"
    assert whole_lines(first + out) and len(out.splitlines()) < 99_999


def test_a_closed_pipe_is_the_end_of_an_endless_input() -> None:
    source = subprocess.Popen(["yes", "planar"], stdout=subprocess.PIPE)
    process = start("generate", stdin=source.stdout)
    assert source.stdout is not None and process.stdout is not None
    source.stdout.close()
    assert read_line(process) == b"planar ; absent thing\n"
    process.stdout.close()
    assert process.wait(timeout=PATIENCE) == 0
    assert source.wait(timeout=PATIENCE) == -signal.SIGPIPE
    assert process.stderr is not None and process.stderr.read() == b""


def test_no_verb_complains_of_a_reader_that_has_gone(tmp_path: Path) -> None:
    for name, text in (("src", "a b c\n"), ("gold", "a ; b\n"), ("pred", "a\n")):
        (tmp_path / name).write_text(text)
    scores = ["evaluate", "--src", "src", "--gold", "gold", "--pred", "pred"]
    for arguments in (scores, ["--help"], ["generate", "--help"], ["generate", "src"]):
        reading, writing = os.pipe()
        os.close(reading)
        process = start(*arguments, stdout=writing, cwd=tmp_path)
        os.close(writing)
        assert (process.wait(), process.stderr.read()) == (0, b""), arguments  # type: ignore[union-attr]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("planar\n")
    with open("/dev/full", "wb") as full:
        for options, stdout in ([], full), (["--output", "/dev/full"], subprocess.PIPE):
            process = start("generate", "a.txt", *options, stdout=stdout, cwd=tmp_path)
            err = process.communicate()[1]
            assert process.returncode == 2
            assert err == b"exhird generate: error: the output cannot be written: No space left on device\n"


def test_with_the_standard_error_closed_complaints_do_not_go_among_the_answers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"planar\n\xff\n")
    command = [*COMMAND, "generate", str(tmp_path / "a.txt"), "--keep-going", "--top", "1"]
    done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *command], stdout=subprocess.PIPE)
    assert (done.stdout, done.returncode) == (b"planar\n\n", 3)


def on_terminal(arguments: list[str], typed: bytes, **options: Any) -> tuple[bytes, int]:
    """What a command shows on a terminal that it does not know to be none."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    terminal = {name: theirs for name in ("stdin", "stderr")} | {"stdout": subprocess.PIPE} | options
    process = start(*arguments, **terminal)
    os.close(theirs)
    os.write(ours, typed)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 1 << 16)
        except OSError:  # the other side is closed
            break
    os.close(ours)
    return shown, process.wait()


def test_whoever_types_is_told_what_to_type() -> None:
    shown, code = on_terminal(["generate"], b"planar\n\x04")
    assert code == 0
    assert b"type a document a line" in shown


def test_a_bar_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("planar\n" * 3)
    shown, code = on_terminal(["generate", str(path), "--output", str(tmp_path / "b.txt")], b"")
    assert code == 0 and re.search(rb"3/3 .*documents", shown)


def test_help_has_an_example_and_imports_nothing_large() -> None:
    program = """
import sys
from onmt_exhird.cli import main
try:
    main(["generate", "--help"])
except SystemExit as end:
    assert end.code == 0
assert not {"torch", "onmt", "numpy", "nltk", "tqdm"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "tail -f log | exhird generate" in done.stdout


def test_mistakes_in_files_are_found_without_torch(tmp_path: Path) -> None:
    program = """
import sys
from onmt_exhird.cli import main
assert main(["generate", "none.txt"]) == 2
assert not {"torch", "onmt", "tqdm"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, cwd=tmp_path)
