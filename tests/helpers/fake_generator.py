"""A generator without a model: the long words of a document are its keyphrases. As a script, ``exhird`` with it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import onmt_exhird.generator
from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.results import Keyphrase, Keyphrases
from onmt_exhird.text import tokenize_with_spans

LENGTH = 5  # letters of a word that is a keyphrase


class FakeGenerator:
    """Every long word once, the longer the higher its score; and always the absent phrase ``absent thing``."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, dict[str, Any]]] = []

    @classmethod
    def from_pretrained(cls, model: str | None = None, *, device: str = "cpu") -> FakeGenerator:
        if model == "missing":
            raise ExhirdError("missing: no model folder")
        return cls()

    def generate(self, documents: Iterable[Any], *, batch_size: int = 64, **options: Any) -> Iterator[Keyphrases]:
        iterator = iter(documents)
        while batch := list(islice(iterator, batch_size)):
            self.calls.append((len(batch), options))
            time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
            for document in batch:
                yield self.answer(document if isinstance(document, str) else "\n".join(document))

    def answer(self, text: str) -> Keyphrases:
        spans: dict[str, list[tuple[int, int]]] = {}
        for token, span in tokenize_with_spans(text):
            if len(token) >= LENGTH and token.isalpha():
                spans.setdefault(token, []).append(span)
        present = [
            Keyphrase(token, text[slice(*found[0])], True, min(len(token) / 10, 1.0), tuple(found))
            for token, found in spans.items()
        ]
        absent = [Keyphrase("absent thing", None, False, 0.25, ())] if text.strip() else []
        return Keyphrases((*present, *absent), text)


def install() -> None:
    onmt_exhird.generator.KeyphraseGenerator = FakeGenerator  # type: ignore[attr-defined]


if __name__ == "__main__":
    from onmt_exhird.cli import main

    install()
    sys.exit(main())
