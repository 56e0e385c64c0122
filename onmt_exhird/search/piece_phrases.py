"""The phrases that hypotheses hold whose tokens are pieces of words, read off their tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onmt_exhird.search.phrases import StreamIds
from onmt_exhird.search.pieces import CONTINUES, TAG, WHOLE, Array, Pieces, PieceTable, Spelling

NEAR = 24  # tokens that a phrase has at most, almost always: only if it has more are more of them looked at


class OpenPhrases:
    """The open phrases of hypotheses that are in one.

    inside     (rows,)   whether the phrase has a word
    words      (rows,)   how many it has, the open one included
    length     (rows,)   pieces of the last word
    whole      (rows,)   whether the last word is a whole one, that nothing goes on with
    in_first   (rows,)   whether the first word is open
    """

    def __init__(self, sequence: Array, inside: Array, own: Pieces | None, table: PieceTable) -> None:
        self._sequence, self._own, self._table = sequence, own, table
        (kinds,) = table.look_up(sequence[:, -NEAR:], own, "kinds")
        tags = kinds == TAG
        if not tags.any(1).all():
            (kinds,) = table.look_up(sequence, own, "kinds")
            tags = kinds == TAG
        after_tag = np.arange(kinds.shape[1]) < tags[:, ::-1].argmax(1)[:, None]  # from the last token backwards
        begins = kinds[:, ::-1] & 1
        self.inside = inside
        self.words = (begins & after_tag).sum(1)
        self.length = begins.argmax(1) + 1
        self.whole = inside & (kinds[:, -1] == WHOLE)
        self.in_first = inside & (self.words == 1) & ~self.whole

    def phrases(self, rows: Array, ids: StreamIds, count: int | None) -> Phrases:
        """The last so many phrases of some rows (k,), or more of them; None: all."""
        sequence = self._sequence[rows]
        own = None if self._own is None else Pieces(*(column[rows] for column in self._own))
        if count is not None and sequence.shape[1] > count * NEAR:
            near = sequence[:, -count * NEAR :]
            phrases = Phrases(near, own, self._table, ids)
            if (phrases.have(count) | (near == ids.start).any(1)).all():
                return phrases
        return Phrases(sequence, own, self._table, ids)


class Runs(NamedTuple):
    """Runs of tokens in rows that stand one after the other, (n,) each.

    first     their first places
    end       those after their last
    numbers   the fingerprints of what they spell
    """

    first: Array
    end: Array
    numbers: Array


class Phrases:
    """The phrases of hypotheses (rows, length), all in one list, each row's in their order; the last of a row is open.

    row           (phrases,)   of each
    back          (phrases,)   how many phrases of its row come after it
    open          (phrases,)   which of the list is the last of its row
    words         (phrases,)   how many each has
    first_words                their first words, as `Runs`
    """

    def __init__(self, sequence: Array, own: Pieces | None, table: PieceTable, ids: StreamIds) -> None:
        rows, length = sequence.shape
        # So that a tag which is the last token has a word and the end of it after it, as every other.
        padded = np.full((rows, length + 2), ids.pad)
        padded[:, :length] = sequence
        values, lengths, kinds = table.look_up(padded, own, "values", "lengths", "kinds")
        self._table, self._values, self._kinds = table, values.ravel(), kinds.ravel()
        self._spelling = Spelling(values, lengths)
        # Of all tokens those that do not go on with a word, of these those that are no word, and of these the tags.
        bounds = np.flatnonzero(self._kinds != CONTINUES)
        structure = np.flatnonzero(self._kinds[bounds] & 3 == 0)
        tags = np.flatnonzero(self._kinds[bounds[structure]] == TAG)
        begin, end = structure[tags], structure[tags + 1]
        self._begin, self._end = bounds[begin] + 1, bounds[end]
        self.first_words = self._runs(bounds[begin + 1], bounds[begin + 2])
        self.words = end - begin - 1
        self.row = bounds[begin] // (length + 2)
        self._counts = np.bincount(self.row, minlength=rows)
        self.open = (self._counts.cumsum() - 1)[self.row]
        self.back = self.open - np.arange(len(self.row))

    def _runs(self, first: Array, end: Array) -> Runs:
        return Runs(first, end, self._spelling.runs(first, end))

    @property
    def whole(self) -> Runs:
        """The phrases themselves, without their tags and ``;``."""
        return self._runs(self._begin, self._end)

    def have(self, count: int) -> Array:
        """Which rows (rows,) have so many phrases."""
        return self._counts >= count

    def kinds(self, runs: Runs) -> Array:
        """Of the first pieces of runs (phrases,)."""
        return self._kinds[runs.first]

    def keys(self, runs: Runs, wanted: Array) -> Array:
        """What runs are compared by, where that is wanted (phrases,); elsewhere what they spell."""
        numbers, places = runs.numbers.copy(), np.flatnonzero(wanted)
        first, end = runs.first[places], runs.end[places]
        numbers[places] = self._table.keys_of(numbers[places], self._values, first, end)
        return numbers

    def earlier(self, window: int | None) -> Array:
        """Which (phrases,) are of the last so many before the open one, None: of all before it."""
        earlier = self.back > 0
        return earlier if window is None else earlier & (self.back <= window)

    def equal_open(self, numbers: Array) -> Array:
        """Which (phrases,) have the number (phrases,) of the open one."""
        return numbers == numbers[self.open]

    def with_open(self, earlier: Array) -> Array:
        """Some earlier phrases (phrases,), and the open ones of their rows."""
        both = earlier.copy()
        both[self.open[earlier]] = True
        return both

    def repeated(self) -> Array:
        """The rows (n,) whose open phrase, with its last word as it stands, equals an earlier one."""
        same = self.earlier(None)
        if self._table.unspaced:
            return self.row[same & self.equal_open(self.keys(self.whole, self.with_open(same)))]
        # Equal phrases have as many words, and equal first ones: few open words are left to be stemmed.
        same &= self.equal_open(self.words)
        same &= self.equal_open(self.keys(self.first_words, self.with_open(same)))
        longer = same & (self.words > 1)
        if longer.any():
            same &= ~longer | self.equal_open(self.keys(self.whole, self.with_open(longer)))
        return self.row[same]
