"""`KeyphraseGenerator`: text in, keyphrases out."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator import articles
from onmt_exhird.generator.attention import explain
from onmt_exhird.generator.documents import Document, read_document
from onmt_exhird.generator.phrases import Raw, Reader, read_stream
from onmt_exhird.generator.results import Keyphrases, PhraseAttention
from onmt_exhird.generator.thesaurus import Suggesting
from onmt_exhird.generator.trained import Options, Trained
from onmt_exhird.generator.under_way import AskedPart, UnderWay
from onmt_exhird.nn.output_layer import lay_out
from onmt_exhird.search import SearchSettings, StreamConstraint
from onmt_exhird.search.beam import Beam, ModelRows
from onmt_exhird.search.greedy import Greedy
from onmt_exhird.search.piece_constraint import WORD_PIECES, build_constraint
from onmt_exhird.search.sources import Sources, Written
from onmt_exhird.stream import SEPARATOR
from onmt_exhird.subwords import continues

AHEAD = 8  # batches that are read together after the first
ENOUGH = 2  # batches that may be under way when the next are read: rows of the search stay full
TOKENS = 200_000  # of documents that are read ahead, at most, but for the last of them
PARTS = 1024  # of documents, that are searched together
CONSTRAINTS = 16  # that are kept; a server's clients may think up any number of options
BEAM_TOKENS = 20_000  # of the source, times the beam, that a beam search has in memory at once


class KeyphraseGenerator:
    """A trained model that gives keyphrases for texts.

    A document is a text, a pair of title and body, or a record with ``title`` and ``abstract`` or ``text``. Several
    threads may use one generator at once, and it pickles to another process.

    name      the model's
    config    what is known of it, as plain data
    card      what people should know of it, in Markdown
    """

    def __init__(self, trained: Trained, device: str = "cpu") -> None:
        self._trained, self._device = trained, device
        self._text = trained.text
        self.name, self.card = trained.name, trained.card
        self.options = trained.options
        self._ids = {token: number for number, token in enumerate(trained.tokens)}
        model = trained.build().to(device)
        model.generator = lay_out(model.generator, scored=False)
        self._model = model
        known = trained.thesaurus
        self._suggesting = None if known is None else Suggesting(known, len(self._ids), self._ids.get(SEPARATOR))
        self._constraints: dict[SearchSettings, StreamConstraint] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._trained, self._device)

    def __repr__(self) -> str:
        return f"KeyphraseGenerator({self.name!r}, {self._trained.architecture.decoder}, {len(self._ids):,} words)"

    @classmethod
    def from_pretrained(cls, model: str | Path | None = None, *, device: str = "cpu") -> KeyphraseGenerator:
        """A generator of a model folder, of a ``.pt`` file of onmt_train, or of an installed model by its name.

        Without a model, of the one that comes with the package. Nothing is fetched from a network.
        """
        from onmt_exhird.generator.loading import load

        return cls(load(model), device)

    def save_pretrained(self, folder: str | Path, precision: str = "float32", card: str | None = None) -> None:
        """Write a model folder: in ``float32``, ``float16`` or ``int8``."""
        from onmt_exhird.generator.folder import write_folder

        write_folder(self._trained, Path(folder), precision, card)

    @property
    def config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "architecture": asdict(self._trained.architecture),
            "text": self._text.config(),
            "max_source": self._trained.max_source,
            **self._trained.config(),
        }

    @overload
    def __call__(self, documents: str | tuple[str, str] | Mapping[str, Any], **options: Any) -> Keyphrases: ...

    @overload
    def __call__(self, documents: list[Any], **options: Any) -> list[Keyphrases]: ...

    def __call__(self, documents: Any, **options: Any) -> Keyphrases | list[Keyphrases]:
        """The keyphrases of a document, or of each document of a list; options are those of `generate`."""
        if isinstance(documents, list):
            return list(self.generate(documents, **options))
        return next(self.generate([documents], **options))

    def generate(
        self, documents: Iterable[Any], *, batch_size: int = 64, attention: bool = False, **options: Any
    ) -> Iterator[Keyphrases]:
        """The keyphrases of each document of any iterable, in order, while it is read.

        batch_size   documents that are read before the first is answered; then eight times as many at once, as soon as
                     no more than twice as many are under way
        attention    whether to say where the decoder looked
        options      those of `Options`, the model's own where they are not given or None
        """
        chosen = self.options.but(options)
        if batch_size < 1:
            raise ExhirdError(f"batch_size is {batch_size}; give at least 1")
        return self._generate(iter(documents), batch_size, chosen, attention)

    def generate_as_finished(
        self, arrivals: Iterable[Sequence[Any]], *, attention: bool = False, **options: Any
    ) -> Iterator[tuple[int, Keyphrases]]:
        """The keyphrases of documents that come while others are under way, as soon as each is finished.

        With each comes the number of its document, in the order of arrival.

        arrivals   the documents that have come at a time, which may be none; asked again and again between the steps of
                   a search. It ends when no more will come.
        """
        chosen = self.options.but(options)
        read = ([read_document(document, self._text.rules) for document in documents] for documents in arrivals)
        return self._finish(read, chosen, attention)

    def _generate(
        self, documents: Iterator[Any], batch_size: int, options: Options, attention: bool
    ) -> Iterator[Keyphrases]:
        given = finished = 0
        failure: Exception | None = None

        def arrivals() -> Iterator[list[Document]]:
            nonlocal failure
            read, size = 0, batch_size
            try:
                while batch := self._read(documents, size):
                    yield batch
                    read, size = read + len(batch), AHEAD * batch_size
                    while not given or read - finished > ENOUGH * batch_size:
                        yield []
            except Exception as error:  # of who gives the documents: what was read before is answered before
                failure = error

        found: dict[int, Keyphrases] = {}
        for number, keyphrases in self._finish(arrivals(), options, attention):
            found[number] = keyphrases
            finished += 1
            while given in found:
                given += 1
                yield found.pop(given - 1)
        if failure is not None:
            raise failure

    def _read(self, documents: Iterator[Any], size: int) -> list[Document]:
        """The next documents, so many or fewer long ones."""
        batch: list[Document] = []
        tokens = 0
        for document in islice(documents, size):
            batch.append(read_document(document, self._text.rules))
            tokens += len(batch[-1].tokens)
            if tokens >= TOKENS:
                break
        return batch

    def _finish(
        self, arrivals: Iterable[Sequence[Document]], options: Options, attention: bool
    ) -> Iterator[tuple[int, Keyphrases]]:
        """`generate_as_finished` of documents that have been read."""
        under_way = UnderWay(self._trained.max_source)
        suggesting = self._suggesting if options.thesaurus else None
        for step in self._search(self._arrive(arrivals, under_way, suggesting), options):
            for written in step:
                part = under_way.take(written.document)
                under_way.put(part, self._stream(part, written, options, attention))
            for asked, streams in under_way.finished():
                reader = Reader(asked.document, self._text.rules)
                phrases = articles.merge(reader, streams)
                if suggesting is not None and asked.suggested is not None:
                    phrases = suggesting.settle(reader, phrases, asked.suggested)
                kept = list(phrases.values())[: options.max_phrases]
                yield asked.number, articles.answer(asked.document, asked.parts, kept, attention)

    def _arrive(
        self, arrivals: Iterable[Sequence[Document]], under_way: UnderWay, suggesting: Suggesting | None
    ) -> Iterator[Sources | None]:
        """The parts of documents as a search takes them; None where none has come."""
        for documents in arrivals:
            parts = under_way.add(documents)
            if not parts:
                yield None
            for first in range(0, len(parts), PARTS):
                some = parts[first : first + PARTS]
                sources = self._sources([self._text.cut(asked.part.tokens) for asked in some])
                for asked, words in zip(some, sources.words, strict=True):
                    asked.unknown = words
                if suggesting is not None:  # by title and abstract: what it has learned from
                    rows = [row for row, asked in enumerate(some) if not asked.place]
                    for row, suggested in zip(rows, suggesting(sources, rows), strict=True):
                        some[row].asked.suggested = suggested
                yield sources

    def _search(self, arrivals: Iterable[Sources | None], options: Options) -> Iterator[list[Written]]:
        """What is finished at each step of a search."""
        constraint = self._constraint(options)
        most = options.max_phrase_words * (1 if self._text.subwords is None else WORD_PIECES)
        longest = options.max_phrases * (most + 2) + 1
        if options.beam_size == 1:
            yield from Greedy(self._model, constraint, longest).steps(arrivals)
            return
        count = 0
        for sources in arrivals:
            found = [] if sources is None else list(self._beam_search(sources, constraint, options.beam_size, longest))
            yield [written._replace(document=count + written.document) for written in found]
            count += len(found)

    def _beam_search(
        self, sources: Sources, constraint: StreamConstraint, size: int, longest: int
    ) -> Iterator[Written]:
        ids = self._model.ids
        search = Beam(size, ids.start, ids.eos, longest, constraint=constraint)
        order = sources.lengths.argsort(descending=True, stable=True)
        while len(order):
            count = max(1, BEAM_TOKENS // (size * int(sources.lengths[order[0]])))
            part, order = order[:count], order[count:]
            some = sources.some(part)
            found = search(ModelRows(self._model, some, size), constraint.oov_classes(some.words), self._device)
            for number, hypotheses in zip(part.tolist(), found, strict=True):
                yield Written(number, hypotheses[0].tokens, hypotheses[0].log_probs)

    def _stream(self, asked: AskedPart, written: Written, options: Options, attention: bool) -> articles.Stream:
        """The phrases that were written for a part of a document."""
        words = self._words(written.tokens.tolist(), asked.unknown)
        phrases = list(read_stream(words, written.log_probs.tolist(), options.max_phrase_words, self._text))
        looked: Sequence[PhraseAttention | None] = [None] * len(phrases)
        if attention:
            start, length = asked.part.start, len(asked.asked.document.tokens)
            found = self._explain(self._text.cut(asked.part.tokens), written.tokens, phrases, options)
            looked = [one.within(start, length) for one in found]
        return articles.Stream(phrases, looked)

    def _explain(
        self, tokens: Sequence[str], ids: Tensor, phrases: list[Raw], options: Options
    ) -> list[PhraseAttention]:
        full = torch.zeros_like(ids, dtype=torch.bool)
        owners = None
        if self._text.subwords is not None:
            owners = torch.tensor([not continues(token) for token in tokens], device=ids.device).cumsum(0) - 1
        else:
            for phrase in phrases:
                if len(phrase.words) == options.max_phrase_words:
                    full[phrase.place + len(phrase.words) + 1] = True
        return explain(self._model, self._sources([tokens]), ids, full, phrases, options.window, owners)

    def _sources(self, documents: Sequence[Sequence[str]]) -> Sources:
        return Sources.of(documents, self._ids, self._model, self._device)

    def _constraint(self, options: Options) -> StreamConstraint:
        """Made when it is first needed: stems of a whole vocabulary take a second."""
        settings = options.search()
        with self._lock:
            constraint = self._constraints.pop(settings, None)
            if constraint is None:
                constraint = build_constraint(self._trained.tokens, settings, self._text, self._device)
            self._constraints[settings] = constraint  # the newest is last
            if len(self._constraints) > CONSTRAINTS:
                del self._constraints[next(iter(self._constraints))]
            return constraint

    def _words(self, ids: Sequence[int], oov: Sequence[str]) -> list[str]:
        tokens = self._trained.tokens
        return [tokens[number] if number < len(tokens) else oov[number - len(tokens)] for number in ids]
