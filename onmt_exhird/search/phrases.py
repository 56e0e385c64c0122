"""The phrases that hypotheses hold, read off their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from onmt_exhird import stream
from onmt_exhird.errors import ExhirdError
from onmt_exhird.search.stems import NO_WORD


class StreamIds(NamedTuple):
    """The vocabulary ids of the tokens that are not words.

    >>> StreamIds.find(["<unk>", "<blank>", "<s>", "</s>", "<p_start>", "<a_start>", ";", "graph"])
    StreamIds(pad=1, start=2, eos=3, present=4, absent=5, end=6)
    """

    pad: int
    start: int
    eos: int
    present: int
    absent: int
    end: int

    @classmethod
    def find(cls, tokens: Sequence[str]) -> StreamIds:
        """Look them up in the vocabulary, given in the order of its ids."""
        numbers = {token: index for index, token in enumerate(tokens)}
        wanted = (stream.PAD, stream.BOS, stream.EOS, stream.PRESENT, stream.ABSENT, stream.END)
        missing = [token for token in wanted if token not in numbers]
        if missing:
            raise ExhirdError(
                f"the model's vocabulary lacks {', '.join(missing)}, so it cannot write streams: "
                "build it from files made by exhird prepare"
            )
        return cls(*(numbers[token] for token in wanted))

    def is_tag(self, sequence: Tensor) -> Tensor:
        return sequence.eq(self.present) | sequence.eq(self.absent)


def first_words(sequence: Tensor, ids: StreamIds, window: int | None, filler: int) -> Tensor:
    """The first words of the last ``window`` phrases before the open one, None: of all; for rows that end with a tag.

    ``sequence`` (rows, length) to (rows, length - 1): each word where its tag stands, and elsewhere the filler.

    >>> first_words(torch.tensor([[2, 4, 7, 8, 6, 5, 9, 6, 4]]), StreamIds(1, 2, 3, 4, 5, 6), window=1, filler=-1)
    tensor([[-1, -1, -1, -1, -1,  9, -1, -1]])
    """
    tags = ids.is_tag(sequence)
    chosen = tags[:, :-1] & tags[:, -1:]
    if window is not None:
        number = tags.cumsum(1)
        chosen &= number[:, :-1].ge(number[:, -1:] - window)
    return sequence[:, 1:].masked_fill(~chosen, filler)


def phrase_table(sequence: Tensor, ids: StreamIds, max_words: int) -> tuple[Tensor, Tensor]:
    """The words of every phrase, and the number of the last phrase.

    ``sequence`` (rows, length) to (rows, phrases, max_words), filled up with -1, and (rows,), counting from 0.

    >>> table, last = phrase_table(torch.tensor([[2, 4, 7, 8, 6, 5, 9]]), StreamIds(1, 2, 3, 4, 5, 6), max_words=3)
    >>> table.tolist(), last.tolist()
    ([[[7, 8, -1], [9, -1, -1], [-1, -1, -1]]], [1])
    """
    rows, length = sequence.shape
    size = length // 3 + 1  # a closed phrase takes three tokens
    tags = ids.is_tag(sequence)
    number = tags.cumsum(1) - 1
    positions = torch.arange(length, device=sequence.device)
    word = positions - (tags * positions).cummax(1).values - 1
    # Hypotheses that a beam only keeps to fill its places need not be streams: what does not fit is left out.
    fits = number.ge(0) & number.lt(size) & word.ge(0) & word.lt(max_words) & sequence.ne(ids.end)
    slot = (number * max_words + word).masked_fill(~fits, size * max_words)  # the last slot is thrown away
    table = sequence.new_full((rows, size * max_words + 1), NO_WORD).scatter_(1, slot, sequence)
    return table[:, :-1].view(rows, size, max_words), number[:, -1].clamp(0, size - 1)
