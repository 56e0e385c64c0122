"""Where a hypothesis stands in the stream: what may follow, up to exclusion, depends on this alone.

It is read off the tokens so far and nothing is carried from step to step, so a search may reorder, tile and drop
rows as it likes. At one row a step the cost is the number of tensor operations, hence the look-ups in small tables,
and the questions that are only asked if a row is concerned.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from onmt_exhird.search.phrases import StreamIds
from onmt_exhird.search.settings import SearchSettings


class State(IntEnum):
    """Where a hypothesis stands, and what may follow."""

    FIRST = 0  # after a tag: words
    INSIDE = 1  # after a word: words and ";"
    FULL = 2  # after the last word a phrase may have: ";"
    OPEN = 3  # between phrases, too few of them: tags
    EITHER = 4  # between phrases: tags and </s>
    CLOSE = 5  # between phrases, no more of them, or finished: </s>

    @property
    def permits_words(self) -> bool:
        return self in (State.FIRST, State.INSIDE)

    @property
    def permits_tags(self) -> bool:
        return self in (State.OPEN, State.EITHER)

    @property
    def permits_end(self) -> bool:
        return self in (State.INSIDE, State.FULL)

    @property
    def permits_eos(self) -> bool:
        return self in (State.EITHER, State.CLOSE)


_PHRASE_TOKENS = 3  # a tag, a word and ";" at least


class StateReader:
    """Reads the states of a batch of hypotheses.

    vocabulary: the number of its tokens; extended ids beyond it are words.
    max_phrases: the limit in force, never above that of the settings.
    counts_words: whether a token is a word, so that the limit of words is one of tokens.

    >>> reader = StateReader(StreamIds(1, 2, 3, 4, 5, 6), 9, SearchSettings(), max_phrases=20)
    >>> [State(state).name for state in reader(torch.tensor([[2, 4, 7, 6], [2, 4, 7, 8], [2, 4, 9, 9]])).tolist()]
    ['EITHER', 'INSIDE', 'INSIDE']
    """

    def __init__(
        self,
        ids: StreamIds,
        vocabulary: int,
        settings: SearchSettings,
        max_phrases: int,
        device: torch.device | str = "cpu",
        counts_words: bool = True,
    ) -> None:
        self._end = ids.end
        self._settings = settings
        self._longest = settings.max_phrase_words if counts_words else None
        # The state after a token, were there no limits; the last entry serves all words outside the vocabulary.
        self._after = torch.full((vocabulary + 1,), State.INSIDE.value, device=device)
        self._after[[ids.present, ids.absent]] = State.FIRST
        self._after[[ids.start, ids.end]] = State.OPEN
        self._after[[ids.eos, ids.pad]] = State.CLOSE
        between = [
            State.CLOSE if closed >= max_phrases else State.EITHER if closed >= settings.min_phrases else State.OPEN
            for closed in range(max_phrases + 1)
        ]
        self._between = torch.tensor(between, device=device)  # (closed phrases,)
        replaced = {State.OPEN: State.CLOSE, State.EITHER: State.CLOSE}
        self._nearly_out = torch.tensor([replaced.get(state, state) for state in State], device=device)

    def room(self, sequence: Tensor) -> int | None:
        """How many tokens may still come; None: any number."""
        limit = self._settings.max_length
        return None if limit is None else limit + 1 - sequence.size(1)

    def __call__(self, sequence: Tensor) -> Tensor:
        """The `State` of each row (rows,) of the tokens so far (rows, length), which begin with a start token."""
        length, longest = sequence.size(1), self._longest
        recent = self._after.take(sequence[:, -(longest or 1) :].clamp(max=len(self._after) - 1))  # (rows, n)
        state = recent[:, -1] if length > 1 else torch.full_like(sequence[:, 0], State.OPEN)
        found = set(state.tolist())
        if State.OPEN in found:
            closed = sequence.eq(self._end).sum(1).clamp_(max=len(self._between) - 1)
            state = self._between.take(closed).where(state.eq(State.OPEN), state)
        room = self.room(sequence)
        if State.INSIDE in found and room is not None and room <= 1:
            state = state + state.eq(State.INSIDE)  # INSIDE becomes FULL
        elif longest is not None and State.INSIDE in found and length > longest:
            state = state + recent.eq(State.INSIDE).all(1)
        return state if room is None or room >= _PHRASE_TOKENS else self._nearly_out.take(state)
