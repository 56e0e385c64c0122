"""Puts ``exhird serve`` under load, on this machine only, and says how it bears it. Exit code 1 if it does not.

load     many clients at once, each with one document a request, then with eight: errors, times of answers, and
         throughput beside that of ``exhird generate``, in turns
memory   many requests: the server's memory after a quarter of them and after all
stop     eight requests are under way when SIGTERM comes: all are answered, and it ends within ten seconds
abuse    slow clients, half bodies, wrong lengths, 200 connections, 10 MB: /healthz answers within a second

The server has one core to itself, as ``exhird generate`` has; the clients have the others.

example: python tools/load_test.py --model folder --seconds 60
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.clock import Span, clock
from benchmarks.loopback import Server, serving, start
from make_corpus import make_split

MEGABYTES = 10
CONNECTIONS = 200
TEXT = b'{"documents": ["a text"]}'
TURNS = 3  # of the server and exhird generate
GOAL = 0.8  # of exhird generate's documents a CPU second, with some documents a request


class Order(NamedTuple):
    """A request, and the ids that its answer must have."""

    body: bytes
    ids: list[int]


def make_documents(count: int, length: int = 4) -> list[dict[str, Any]]:
    """Invented documents; of so many invented abstracts each, since four are as long as real ones: 170 words."""
    records = make_split(7, "load", count * length)
    texts = [" ".join(one["abstract"] for one in records[at : at + length]) for at in range(0, len(records), length)]
    return [{"id": number, "title": records[number]["title"], "text": text} for number, text in enumerate(texts)]


def make_orders(documents: list[dict[str, Any]], size: int) -> list[Order]:
    parts = [documents[first : first + size] for first in range(0, len(documents), size)]
    return [Order(json.dumps({"documents": part}).encode(), [one["id"] for one in part]) for part in parts]


async def keep_asking(server: Server, orders: Iterator[Order], until: float) -> AsyncIterator[object]:
    """One client: seconds for each request that was answered rightly, or else a word for what went wrong."""
    async with server.connect() as connection:
        while time.monotonic() < until and (order := next(orders, None)) is not None:
            began = time.monotonic()
            try:
                status, body = await connection.ask("POST", "/v1/keyphrases", order.body)
            except (OSError, EOFError, asyncio.IncompleteReadError) as error:
                yield type(error).__name__
                return
            taken = time.monotonic() - began
            right = status == 200 and [one["id"] for one in json.loads(body)["results"]] == order.ids
            yield taken if right else f"status {status}"


async def drive(server: Server, clients: int, orders: Iterator[Order], seconds: float) -> list[object]:
    async def client() -> list[object]:
        return [one async for one in keep_asking(server, orders, time.monotonic() + seconds)]

    return list(itertools.chain.from_iterable(await asyncio.gather(*(client() for _ in range(clients)))))


def time_generate(model: str | None, documents: Iterable[dict[str, Any]]) -> Span:
    """What ``exhird generate`` takes for these documents, starting included."""
    options = [] if model is None else ["--model", model]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "documents.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in documents))
        codes: list[int] = []
        spent = clock(lambda: codes.append(start("generate", str(path), *options, "--output", f"{folder}/out").wait()))
    if codes != [0]:
        sys.exit("load_test: exhird generate failed")
    return spent


def load(args: argparse.Namespace) -> bool:
    documents = make_documents(2000)
    time_generate(args.model, documents[:1])  # the files are in memory then
    idle = time_generate(args.model, documents[:1])
    with serving(args.model) as server:
        return all([load_with(server, args, documents, size, idle) for size in (1, 8)])


def load_with(server: Server, args: argparse.Namespace, documents: list[dict[str, Any]], size: int, idle: Span) -> bool:
    """The minute of many clients with so many documents a request. `idle`: what exhird generate takes to start."""
    orders, found = itertools.cycle(make_orders(documents, size)), list[object]()
    wall = cpu = generate_wall = generate_cpu = 0.0
    for _ in range(TURNS):
        before, began = server.cpu_seconds(), time.monotonic()
        answered = asyncio.run(drive(server, args.clients, orders, args.seconds / TURNS))
        wall, cpu = wall + time.monotonic() - began, cpu + server.cpu_seconds() - before
        spent = time_generate(args.model, itertools.islice(itertools.cycle(documents), size * len(answered)))
        generate_wall, generate_cpu = generate_wall + spent.wall - idle.wall, generate_cpu + spent.cpu - idle.cpu
        found += answered
    times = sorted(one for one in found if isinstance(one, float))
    wrong = Counter(one for one in found if isinstance(one, str))
    if not times:
        sys.exit(f"load_test: no request was answered: {dict(wrong)}")
    shares = {share: times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.95, 0.99)}
    shown = ", ".join(f"p{100 * share:.0f} {1000 * value:.0f} ms" for share, value in shares.items())
    print(f"load     {args.clients} clients, {wall:.0f} s, documents a request: {size}")
    print(f"         {len(times)} requests answered, {sum(wrong.values())} not {dict(wrong)}; {shown}")
    for what, own, other in (("second", wall, generate_wall), ("CPU second", cpu, generate_cpu)):
        done = size * len(times)
        print(f"         {done / own:.1f} documents a {what}, exhird generate {done / other:.1f}: {other / own:.0%}")
    return not wrong and (size == 1 or generate_cpu / cpu >= GOAL)


def memory(args: argparse.Namespace) -> bool:
    orders = make_orders(make_documents(500, length=1), 1)

    async def resident(server: Server) -> float:
        async with server.connect() as connection:
            _, text = await connection.ask("GET", "/metrics")
        line = next(line for line in text.decode().splitlines() if line.startswith("process_resident_memory"))
        return float(line.split()[1]) / 1e6

    async def run(server: Server) -> tuple[list[float], Counter[str]]:
        sizes, wrong = [], Counter[str]()
        for share in (0.25, 0.75):
            part = itertools.islice(itertools.cycle(orders), int(share * args.requests))
            found = await drive(server, 32, part, 3600)
            wrong.update(one for one in found if isinstance(one, str))
            sizes.append(await resident(server))
        return sizes, wrong

    with serving(args.model) as server:
        (early, late), wrong = asyncio.run(run(server))
    print(f"memory   {args.requests} requests: {early:.0f} MB after a quarter, {late:.0f} MB after all; {dict(wrong)}")
    return not wrong and late < 1.05 * early


def stop(args: argparse.Namespace) -> bool:
    [order] = make_orders(make_documents(16), 16)

    async def run(server: Server) -> tuple[list[int], int, float]:
        async with contextlib.AsyncExitStack() as stack:
            connections = [await stack.enter_async_context(server.connect()) for _ in range(8)]
            for connection in connections:
                connection.send("POST", "/v1/keyphrases", order.body)
                await connection.writer.drain()
            await asyncio.sleep(0.2)
            ending = asyncio.get_running_loop().run_in_executor(None, server.stop)
            statuses = [(await connection.answer())[0] for connection in connections]
            return statuses, *await ending

    with serving(args.model) as server:
        statuses, code, seconds = asyncio.run(run(server))
    told = f"{Counter(statuses)}; exit code {code} after {seconds:.1f} s"
    print(f"stop     8 requests of {len(order.ids)} documents under way: {told}")
    return statuses == [200] * 8 and code == 0 and seconds < 10


async def misbehave(server: Server, kind: int) -> None:
    """One bad client, for some seconds."""
    with contextlib.suppress(OSError, EOFError):
        async with server.connect() as connection:
            if kind == 0:  # a byte at a time
                for byte in b"POST /v1/keyphrases HTTP/1.1\r\nHost: 127.0.0.1\r\n":
                    connection.writer.write(bytes([byte]))
                    await asyncio.sleep(0.1)
            elif kind == 1:  # half a body, and silence
                connection.send("POST", "/v1/keyphrases", TEXT[:10], length=len(TEXT))
            elif kind == 2:  # less than there is: the rest is no request
                connection.send("POST", "/v1/keyphrases", TEXT, length=5)
            elif kind == 3:  # a length that is none
                connection.send("POST", "/v1/keyphrases", TEXT, length=-1)
            await connection.writer.drain()
            await asyncio.sleep(5)


def abuse(args: argparse.Namespace) -> bool:
    async def run(server: Server) -> tuple[float, int, int]:
        bad = [asyncio.create_task(misbehave(server, number % 5)) for number in range(CONNECTIONS)]
        slowest = 0.0
        async with server.connect() as connection:
            connection.send("POST", "/v1/keyphrases", b" " * (MEGABYTES * 1_000_000))
            large, _ = await connection.answer()
        while not all(one.done() for one in bad):
            began = time.monotonic()
            async with server.connect() as connection:
                status, _ = await asyncio.wait_for(connection.ask("GET", "/healthz"), 10)
            slowest = max(slowest, time.monotonic() - began if status == 200 else 10)
            await asyncio.sleep(0.1)
        async with server.connect() as connection:
            after, _ = await connection.ask("POST", "/v1/keyphrases", TEXT)
        return slowest, large, after

    with serving(args.model) as server:
        slowest, large, after = asyncio.run(run(server))
    health = f"/healthz took {1000 * slowest:.0f} ms at most"
    print(f"abuse    {CONNECTIONS} bad clients: {health}; {MEGABYTES} MB: status {large}; then a text: status {after}")
    return slowest < 1 and large == 413 and after == 200


PARTS = {"load": load, "memory": memory, "stop": stop, "abuse": abuse}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--model", metavar="M", help="as exhird serve takes it")
    parser.add_argument("--clients", type=int, default=50, metavar="N", help="of load; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="of load; default: %(default)s")
    parser.add_argument("--requests", type=int, default=20_000, metavar="N", help="of memory; default: %(default)s")
    args = parser.parse_args()
    if unknown := set(args.parts) - PARTS.keys():
        parser.error(f"there is no part {', '.join(unknown)}")
    results = [run(args) for name, run in PARTS.items() if not args.parts or name in args.parts]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
