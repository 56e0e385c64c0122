"""Greedy search over a pool of documents, which keeps its rows full.

The output layer reads its whole weight at every step, for one row as for many. So a row whose document is finished
takes the next document of the batch, and only when none is left do the rows become fewer. Rows that stand where no
word may come do without that layer, unless scores are asked for. Documents are encoded in small parts, when their
turn comes: a large batch takes little more memory than the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from onmt_exhird.bridge.baselines import CatSeqDDecoder
from onmt_exhird.bridge.batches import Batch, extended_size
from onmt_exhird.bridge.decoders import CopyingRNNDecoder, ExhirdDecoder
from onmt_exhird.bridge.quantised import ScreenedCopyGenerator
from onmt_exhird.search import Hypotheses, State, best

ROWS = 128  # more make no step cheaper per row
TOKENS = 6000  # of the source, that are encoded together: what the encoder takes grows with them
DOCUMENTS = 4  # that are encoded together at least: a step of the encoder costs as much for fewer


def may_begin_at_any_step(decoder: Any) -> bool:
    """Whether a decoder's rows may be of different ages: no state grows, no position is counted."""
    if isinstance(decoder, CopyingRNNDecoder):
        return not decoder._coverage
    return isinstance(decoder, (ExhirdDecoder, CatSeqDDecoder))


def tensors_of(decoder: Any) -> list[Tensor]:
    """The tensors of a decoder's state, each with the rows as axis 0."""
    found: list[Tensor] = []

    def note(tensor: Tensor, axis: int) -> Tensor:
        found.append(tensor)
        return tensor

    decoder.map_state(note)
    return found


def replace_tensors(decoder: Any, tensors: list[Tensor]) -> None:
    """Make these the tensors of a decoder's state."""
    following = iter(tensors)
    decoder.map_state(lambda tensor, axis: next(following))


def cut(tensor: Tensor, like: Tensor) -> Tensor:
    """A tensor (rows, ...) whose rows are as short as another row (...) in every axis, if they were longer.

    >>> cut(torch.zeros(2, 5, 3), torch.zeros(4, 3)).shape
    torch.Size([2, 4, 3])
    """
    for axis, size in enumerate(like.shape, start=1):
        tensor = tensor.narrow(axis, 0, min(size, tensor.size(axis)))
    return tensor


class Document(NamedTuple):
    """An encoded document that waits for a row.

    number   in the batch
    source   memory (src_len, d), length (), and if the model copies extended ids (src_len)
    state    the tensors of the decoder's state before the first token
    """

    number: int
    source: tuple[Tensor, ...]
    state: tuple[Tensor, ...]


class Pool:
    """The documents of a batch on their way through greedy search.

    documents   the number of each row's document
    source      what `Document` has, for every row
    """

    def __init__(self, translator: Any, batch: Batch) -> None:
        self.translator = translator
        self.batch = batch
        self.decoder = translator.model.decoder
        rows = min(ROWS, len(batch["srclen"]))
        self.documents: list[int] = []
        self.source: list[Tensor] = []
        self.waiting = self._encode()
        states = []
        for row, document in enumerate(islice(self.waiting, rows)):
            self.source = self.source or [own.new_empty(rows, *own.shape) for own in document.source]
            self._place(row, document)
            states.append(document.state)
        replace_tensors(self.decoder, [torch.stack(own) for own in zip(*states, strict=True)])
        start = translator._tgt_bos_idx  # whatever the decoder starts with, to the constraint it is this
        self.hypotheses = Hypotheses(rows, start, translator._tgt_pad_idx, batch["src"].device)
        self.inputs = torch.full_like(self.hypotheses.ages, translator._tgt_start_with)  # (rows,)
        if translator.copy_attn:  # the largest matrix, the same one at every step
            size = extended_size(translator._tgt_vocab_len, batch)
            self.scores = self.hypotheses.scores.new_empty(rows, size)
        self.classes: Tensor | None = None
        self.scored = translator.scored
        if translator.constraint is not None and translator.copy_attn:
            self.classes = translator.constraint.oov_classes(batch["src_ex_vocab"])  # (batch, words)
            self.structure = translator.model.generator.rows(translator.constraint.structure)
            # A structure token in a source could be copied, which only the whole distribution knows.
            self.scored = self.scored or bool(torch.isin(batch["src_map"], translator.constraint.structure).any())

    def _encode(self) -> Iterator[Document]:
        """The documents, the longest first, and as wide as their predecessors need."""
        batch, decoder = self.batch, self.decoder
        order = batch["srclen"].argsort(descending=True, stable=True)
        longest = batch["src"].size(1)  # of the part before
        while len(order):
            size = max(DOCUMENTS, TOKENS // max(1, int(batch["srclen"][order[0]])))
            part, order = order[:size], order[size:]
            lengths = batch["srclen"][part]
            running = self.source[1][: len(self.documents)] if self.documents else lengths
            width = max(longest, int(running.max()))
            longest = int(lengths.max())
            src = batch["src"][part, :width]
            _, final, memory, _ = self.translator._run_encoder({"src": src[:, :longest], "srclen": lengths})
            memory = F.pad(memory, (0, 0, 0, width - memory.size(1)))  # (part, width, d)
            state_before = dict(decoder.state)
            decoder.init_state(src, memory, final)
            states = tensors_of(decoder)
            decoder.state = state_before or decoder.state
            source = [memory, lengths]
            if self.translator.copy_attn:
                source.append(batch["src_map"][part, :width])
            yield from map(Document, part.tolist(), zip(*source, strict=True), zip(*states, strict=True))

    def _place(self, row: int, document: Document) -> None:
        """Write a document's part into a row; all rows become as narrow as the document."""
        self.documents[row : row + 1] = [document.number]
        self.source = [cut(tensor, own) for tensor, own in zip(self.source, document.source, strict=True)]
        for tensor, own in zip(self.source, document.source, strict=True):
            tensor[row] = cut(own.unsqueeze(0), tensor[0]).squeeze(0)

    def run(self, max_length: int) -> Iterator[tuple[int, float, Tensor]]:
        """Each document's number, score and tokens, as they are finished."""
        translator = self.translator
        while self.documents:
            hypotheses = self.hypotheses
            self.inputs, values = self._choose()
            hypotheses.append(self.inputs, values)
            finished = self.inputs.eq(translator._tgt_eos_idx) | hypotheses.ages.gt(max_length)
            rows = finished.nonzero().squeeze(1).tolist()
            for row in rows:
                score = hypotheses.scores[row].item()
                length = int(hypotheses.ages[row])
                scorer = translator.global_scorer
                yield (
                    self.documents[row],
                    score / scorer.length_penalty(length, alpha=scorer.alpha),
                    hypotheses.written(row),
                )
            if rows:
                self._go_on_without(rows)

    def _choose(self) -> tuple[Tensor, Tensor]:
        """The next token of every row and its log P, NaN if nobody asks for scores: (rows,) twice."""
        translator, constraint, hypotheses = self.translator, self.translator.constraint, self.hypotheses
        memory, lengths, *extended = (tensor[: len(self.documents)] for tensor in self.source)
        inputs = self.inputs.view(-1, 1, 1)
        state, translator.forced_end = None, None
        if constraint is not None:
            state = hypotheses.states(constraint)
            translator.forced_end = partial(torch.eq, state, State.FULL)
        if not translator.copy_attn:
            log_probs, _ = translator._decode_and_generate(inputs, memory, self.batch, lengths, step=0)
            return self._pick(log_probs, hypotheses, self.documents)
        hidden, attention = translator.decode(inputs, memory, lengths, step=0)
        arguments = hidden, attention.squeeze(1), extended[0]
        generator = translator.model.generator
        if state is None or self.scored:
            scores = self.scores[: len(hidden)]
            constant = generator.relative_mixture(*arguments, scores)
            ids, values = self._pick(scores, hypotheses, self.documents)
            return ids, values + constant.squeeze(1)
        # Where no word may come, the three or four tokens that may are compared without the rest of the vocabulary.
        ids = constraint.choose_structure(state, F.linear(hidden, *self.structure))
        rows = state.lt(State.FULL).nonzero().squeeze(1)
        if len(rows):
            ids[rows] = self._choose_words(rows, arguments, isinstance(generator, ScreenedCopyGenerator))
        return ids, torch.full_like(hypotheses.scores, torch.nan)

    def _choose_words(self, rows: Tensor, arguments: Sequence[Tensor], screen: bool) -> Tensor:
        """The next token (k,) of some rows (k,), without scores; the arguments are those of all rows."""
        generator = self.translator.model.generator
        some = [tensor.index_select(0, rows) for tensor in arguments]
        scores, hypotheses = self.scores[: len(rows)], self.hypotheses.at(rows)
        documents = [self.documents[row] for row in rows.tolist()]
        if not screen:
            generator.relative_mixture(*some, scores)
            return self._pick(scores, hypotheses, documents)[0]
        constant = generator.rough.relative_mixture(*some, scores)
        self._forbid(scores, hypotheses, documents)
        ids, certain = generator.choose(*some, scores, constant)
        uncertain = certain.logical_not().nonzero().squeeze(1)
        if len(uncertain):
            ids[uncertain] = self._choose_words(rows[uncertain], arguments, screen=False)
        return ids

    def _pick(self, scores: Tensor, hypotheses: Hypotheses, documents: list[int]) -> tuple[Tensor, Tensor]:
        """The best permitted tokens of some rows, given all tokens' scores (k, size): (k,) ids and their scores."""
        self._forbid(scores, hypotheses, documents)
        values, ids = best(scores)
        return ids.squeeze(1), values.squeeze(1)

    def _forbid(self, scores: Tensor, hypotheses: Hypotheses, documents: list[int]) -> None:
        """Set the scores (k, size) of what may not come next to minus infinity."""
        translator, constraint = self.translator, self.translator.constraint
        if translator.ban_unk_token:
            scores[:, translator._tgt_unk_idx] = -torch.inf
        if constraint is not None:
            classes = None if self.classes is None else self.classes[documents]
            hypotheses.constrain(constraint, scores, classes)

    def _go_on_without(self, rows: list[int]) -> None:
        """Give the next documents the rows of finished ones; where there are no more, the last rows move there."""
        arrived = list(islice(self.waiting, len(rows)))
        if arrived:
            self._begin(rows[: len(arrived)], arrived)
        left = rows[len(arrived) :]
        if left:
            self._drop(left)

    def _begin(self, rows: list[int], documents: list[Document]) -> None:
        index = torch.tensor(rows, device=self.inputs.device)
        self.hypotheses.begin(index)
        self.inputs = self.inputs.index_fill(0, index, self.translator._tgt_start_with)
        tensors = tensors_of(self.decoder)
        for row, document in zip(rows, documents, strict=True):
            self._place(row, document)
            tensors = [cut(tensor, own) for tensor, own in zip(tensors, document.state, strict=True)]
        for place, tensor in enumerate(tensors):
            arrived = torch.stack([cut(document.state[place].unsqueeze(0), tensor[0])[0] for document in documents])
            tensors[place] = tensor.index_copy(0, index, arrived)
        replace_tensors(self.decoder, tensors)

    def _drop(self, rows: list[int]) -> None:
        left = len(self.documents) - len(rows)
        stay = [row for row in range(left, len(self.documents)) if row not in rows]  # of the last rows
        order = list(range(left))
        for row, last in zip(rows, stay, strict=False):  # the rows of those that leave at the end are not needed
            order[row] = last
            for tensor in self.source:
                tensor[row] = tensor[last]
        index = torch.tensor(order, dtype=torch.long, device=self.inputs.device)
        self.documents = [self.documents[row] for row in order]
        self.hypotheses = self.hypotheses.at(index)
        self.inputs = self.inputs[index]
        replace_tensors(self.decoder, [tensor[index] for tensor in tensors_of(self.decoder)])
