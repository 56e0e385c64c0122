"""A generator without a model, as slow as one wants, and a real server around it."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.results import Keyphrase, Keyphrases, PhraseAttention, Token, WordAttention
from onmt_exhird.serve.limits import Limits
from onmt_exhird.serve.server import Server


class FakeGenerator:
    """Long words are present phrases, the number of words an absent one. Waits for `gate` before each batch."""

    name = "fake"
    config = {"decoder": "none", "search": {"window": 1}}  # noqa: RUF012
    card = "# A fake\n"

    def __init__(self) -> None:
        self.batches: list[tuple[list[Any], dict[str, Any]]] = []
        self.gate = threading.Event()
        self.gate.set()

    def generate(self, documents: Any, *, batch_size: int = 64, **options: Any) -> Iterator[Keyphrases]:
        documents = list(documents)
        self.batches.append((documents, options))
        assert self.gate.wait(20)
        return iter([self.one(document, **options) for document in documents])

    def one(self, document: Any, window: Any = 1, max_phrases: int = 20, beam_size: int = 1, attention: bool = False):
        fields = {"text": document} if isinstance(document, str) else document
        text = "\n".join(fields[key] for key in ("title", "text") if key in fields)
        if "REFUSE" in text:
            raise ExhirdError("this document is refused; send another")
        if "BREAK" in text:
            raise ValueError(f"secret {text}")
        tokens = [Token(match[0].lower(), match.span()) for match in re.finditer(r"\w+", text)]
        spans: dict[str, list[tuple[int, int]]] = {}
        for token in tokens:
            if len(token.text) > 5:
                spans.setdefault(token.text, []).append(token.span)
        even = tuple(1 / len(tokens) for _ in tokens)
        phrases = [
            Keyphrase(
                word, text[at[0][0] : at[0][1]], True, 1 / (1 + len(word)), tuple(at), self.look(word, even, attention)
            )
            for word, at in spans.items()
        ]
        count = f"words {len(tokens)}"
        phrases.append(Keyphrase(count, None, False, 0.25, (), self.look(count, even, attention)))
        if window == 0:
            phrases += phrases[:1]
        return Keyphrases(tuple(phrases[:max_phrases]), text, False, tuple(tokens) if attention else None)

    @staticmethod
    def look(text: str, even: tuple[float, ...], attention: bool) -> PhraseAttention | None:
        words = tuple(WordAttention(word, even, 0.5) for word in text.split())
        return PhraseAttention(even, words, ("graph",)) if attention else None


@contextlib.contextmanager
def serving(generator: FakeGenerator, limits: Limits | None = None, load: Callable[[], Any] | None = None, **options):
    """A server that runs in a thread until the block ends; yields it, loaded."""
    ready = threading.Event()
    server = Server(load or (lambda: generator), "127.0.0.1", 0, limits or Limits(), **options)
    thread = threading.Thread(target=server.run, args=(ready.set,))
    thread.start()
    try:
        assert load is not None or ready.wait(10)
        yield server
    finally:
        generator.gate.set()
        server.stop()
        thread.join(20)
        assert not thread.is_alive()


def ask(server: Server, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], Any]:
    """Status, headers (lower case) and what the body holds."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
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


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)
