"""``exhird serve`` as a process on a core of its own, and HTTP to it by hand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXHIRD = str(Path(sys.executable).parent / "exhird")
TICK = os.sysconf("SC_CLK_TCK")
CORES = sorted(os.sched_getaffinity(0))


def start(*arguments: str, **streams: Any) -> subprocess.Popen[str]:
    """The command, on the first core."""
    os.sched_setaffinity(0, CORES[:1])
    try:
        return subprocess.Popen([EXHIRD, *arguments], text=True, **streams)
    finally:
        os.sched_setaffinity(0, CORES[1:] or CORES)


class Server:
    """The command, started for one part of the test and stopped after it."""

    def __init__(self, model: str | None) -> None:
        options = [] if model is None else ["--model", model]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = start("serve", "--port", "0", *options, **streams)
        assert self.process.stdout is not None
        opened = next((line for line in self.process.stdout if "open http://" in line), None)
        if opened is None:
            sys.exit("load_test: the server did not start; try `exhird serve` with the same --model")
        self.port = int(opened.split("127.0.0.1:")[1].split("/")[0])

    def stop(self) -> tuple[int, float]:
        """Its exit code, and the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30), time.monotonic() - began

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def connect(self) -> Connection:
        return Connection(self.port)


@contextlib.contextmanager
def serving(model: str | None) -> Iterator[Server]:
    server = Server(model)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


class Connection:
    """HTTP by hand, so that it can also be done wrong."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def __aenter__(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def send(self, method: str, path: str, body: bytes = b"", length: int | None = None) -> None:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body)

    async def answer(self) -> tuple[int, bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.split("content-length:")[1].split()[0])
        return int(head.split()[1]), await self.reader.readexactly(length)

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        self.send(method, path, body)
        return await self.answer()
