"""The work on one shard's documents; one that fails does not take the others with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from onmt_exhird.documents.items import Document

if TYPE_CHECKING:
    from onmt_exhird.generator.results import Keyphrases

Generate = Callable[[Iterable[Document]], "Iterator[Keyphrases]"]
Load = Callable[[], Generate]  # how a process comes by it; for a process that is not forked it has to pickle


@dataclass(frozen=True)
class Loader:
    """Loads a model; it pickles.

    options   those of `KeyphraseGenerator.generate`, as pairs of a name and a value
    """

    model: str | None = None
    device: str = "cpu"
    batch_size: int = 64
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self) -> Generate:
        """The model's `generate`, in one thread: several processes would only wait for each other's."""
        import torch

        from onmt_exhird.generator import KeyphraseGenerator

        torch.set_num_threads(1)
        generator = KeyphraseGenerator.from_pretrained(self.model, device=self.device)
        generate: Generate = partial(generator.generate, batch_size=self.batch_size, **dict(self.options))
        list(generate(["a"]))  # tables that the first search makes are then shared like the model
        return generate


class Marks:
    """Which documents are being worked on: numbers in memory that another process can see.

    Written by the worker: the positions from ``answered`` up to ``read`` are under way, among those that are answered
    together or, with ``alone``, among those that are answered one by one.
    """

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    def set(self, answered: int, read: int, alone: bool) -> None:
        self.memory[:] = answered, read, alone

    @property
    def under_way(self) -> range:
        return range(self.memory[0], self.memory[1])

    @property
    def alone(self) -> bool:
        return bool(self.memory[2])


def answer(
    generate: Generate, documents: Sequence[Document], marks: Marks, alone: Collection[int] = ()
) -> list[Keyphrases | str]:
    """What is found in each document, or why it failed.

    alone   the positions of those that are answered one by one, before all others: they are suspected
    """
    results: dict[int, Keyphrases | str] = {}
    for count, position in enumerate(sorted(alone)):
        marks.set(count, count + 1, alone=True)
        results[position] = answer_one(generate, documents[position])
    rest = [position for position in range(len(documents)) if position not in results]
    found = answer_together(generate, [documents[position] for position in rest], marks)
    results.update(zip(rest, found, strict=True))
    return [results[position] for position in range(len(documents))]


def answer_together(generate: Generate, documents: Sequence[Document], marks: Marks) -> list[Keyphrases | str]:
    """The results of documents in batches; where a batch fails, of its documents one by one."""
    results: list[Keyphrases | str] = []
    read = 0

    def feed() -> Iterator[Document]:
        nonlocal read
        for document in documents[read:]:
            read += 1
            marks.set(len(results), read, alone=False)
            yield document

    while read < len(documents):
        try:
            for result in generate(feed()):
                results.append(result)
                marks.set(len(results), read, alone=False)
        except Exception:  # whose fault it was is seen one by one
            if read == len(results):
                raise  # nobody's: it had read nothing
            for document in documents[len(results) : read]:
                results.append(answer_one(generate, document))
                marks.set(len(results), read, alone=False)
    return results


def answer_one(generate: Generate, document: Document) -> Keyphrases | str:
    try:
        return next(generate([document]))
    except Exception as error:
        return f"the model failed on it: {type(error).__name__}: {error}"
