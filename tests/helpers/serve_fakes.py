"""A generator without a model, as slow as one wants, and a real server around it; and the command with a real one."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from helpers.waiting import PATIENCE

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.results import Keyphrase, Keyphrases, PhraseAttention, Token, WordAttention
from onmt_exhird.serve.limits import Limits
from onmt_exhird.serve.server import Server

EXHIRD = Path(sys.executable).parent / "exhird"


class FakeGenerator:
    """Long words, and two of them in a row, are present phrases, the number of words an absent one.

    Waits for `gate` before each batch and keeps what it was asked in `batches`.
    """

    name = "fake"
    config = {"decoder": "none", "search": {"window": 1}}  # noqa: RUF012
    card = "# A fake\n"

    def __init__(self) -> None:
        self.batches: list[tuple[list[Any], dict[str, Any]]] = []
        self.gate = threading.Event()
        self.gate.set()

    def generate_as_finished(self, arrivals: Any, **options: Any) -> Iterator[tuple[int, Keyphrases]]:
        count = 0
        for documents in arrivals:
            self.batches.append((documents, options))
            assert self.gate.wait(PATIENCE)
            for number, document in enumerate(documents, start=count):
                yield number, self.one(document, **options)
            count += len(documents)

    def one(self, document: Any, window: Any = 1, max_phrases: int = 20, beam_size: int = 1, attention: bool = False):
        fields = {"text": document} if isinstance(document, str) else document
        text = "\n".join(fields[key] for key in ("title", "text") if key in fields)
        if "REFUSE" in text:
            raise ExhirdError("this document is refused; send another")
        if "BREAK" in text:
            raise ValueError(f"secret {text}")
        tokens = [Token(match[0].lower(), match.span()) for match in re.finditer(r"\w+", text)]
        spans: dict[str, list[tuple[int, int]]] = {}
        for token, after in pairwise([*tokens, None]):
            if len(token.text) > 5:
                spans.setdefault(token.text, []).append(token.span)
                if after is not None and len(after.text) > 5:
                    spans.setdefault(f"{token.text} {after.text}", []).append((token.span[0], after.span[1]))
        phrases = [
            Keyphrase(name, text[slice(*at[0])], True, 1 / (1 + len(name)), tuple(at), look(name, tokens, attention))
            for name, at in spans.items()
        ][: max(0, max_phrases - 2)]
        count = f"words {len(tokens)}"
        phrases.append(Keyphrase(count, None, False, 0.25, (), look(count, tokens, attention)))
        if window == 0:  # then phrases may begin alike
            again = f"{phrases[0].text} again"
            phrases.append(Keyphrase(again, None, False, 0.125, (), look(again, tokens, attention)))
        return Keyphrases(tuple(phrases), text, False, tuple(tokens) if attention else None)


def look(text: str, tokens: list[Token], attention: bool) -> PhraseAttention | None:
    """Mostly at the phrase's own words; they are copied, others are not."""
    if not attention:
        return None

    def weigh(words: list[str]) -> tuple[float, ...]:
        raw = [9 if token.text in words else 1 for token in tokens]
        whole = sum(raw)
        return tuple(one / whole for one in raw)

    known = {token.text for token in tokens}
    words = [WordAttention(word, weigh([word]), 0.9 if word in known else 0.2) for word in text.split()]
    return PhraseAttention(weigh(text.split()), tuple(words), ("graph",))


@contextlib.contextmanager
def serving(generator: FakeGenerator, limits: Limits | None = None, load: Callable[[], Any] | None = None, port=0):
    """A server that runs in a thread until the block ends; yields it, loaded."""
    ready = threading.Event()
    server = Server(load or (lambda: generator), "127.0.0.1", port, limits or Limits())
    thread = threading.Thread(target=server.run, args=(ready.set,))
    thread.start()
    try:
        assert load is not None or ready.wait(PATIENCE)
        yield server
    finally:
        generator.gate.set()
        server.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def ask(server: Server, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], Any]:
    """Status, headers (lower case) and what the body holds."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"} | headers)
        answer = connection.getresponse()
        content = answer.read()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, named, json.loads(content) if "json" in named.get("content-type", "") else content
    finally:
        connection.close()


def post(server: Server, body: Any) -> tuple[int, dict[str, str], Any]:
    return ask(server, "POST", "/v1/keyphrases", body)


@contextlib.contextmanager
def command(*options: object) -> Iterator[SimpleNamespace]:
    """``exhird serve``, once it says where to point the browser; ended with the block, if it has not been."""
    process = subprocess.Popen(
        [EXHIRD, "serve", "--port", "0", *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stdout is not None
        opened = next((line for line in process.stdout if "open http://127.0.0.1:" in line), None)
        assert opened is not None, process.communicate()[1]
        yield SimpleNamespace(process=process, port=int(opened.split("127.0.0.1:")[1].split("/")[0]))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
