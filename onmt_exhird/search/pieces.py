"""What is known of pieces of words: which begin a word, and what they spell, as numbers that can be put together.

What a run of pieces spells has a fingerprint that does not depend on how it was cut: ``un supervised`` and
``unsup ervised`` have the same. It is a polynomial of the characters' codes, modulo 2 to the power of 64:

    f(c_0 c_1 ...) = c_0 + c_1 B + c_2 B^2 + ...        f(st) = f(s) + B^|s| f(t)

A piece that begins a word spells a blank before it, so that fingerprints of several words tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onmt_exhird.languages import begins_unspaced
from onmt_exhird.search.stems import SLASH
from onmt_exhird.stream import TAGS
from onmt_exhird.subwords import MARKERS, bare, continues, goes_on

Array = NDArray[Any]  # of numpy: on a few hundred numbers most of its calls take a third of the time of torch's

BASE = 0x9E3779B97F4A7C15 | 1  # odd, so that it has an inverse
MODULUS = 1 << 64
LONGEST = 64  # characters of a piece; a longer one, which only a source can have, counts as one character
POWERS = 1 << 17  # characters of a hypothesis: 2,000 of the longest pieces
REMEMBERED = 1 << 20  # fingerprints


class Kind(IntEnum):
    """What a token is. Odd numbers begin a word, multiples of four are of none."""

    STRUCTURE = 0
    BEGINS = 1
    CONTINUES = 2
    WHOLE = 3  # begins a word and ends it: a marker such as <digit>, a piece of a script without blanks
    TAG = 4


# Plain numbers: numpy takes four times as long to compare an array with a member of an enumeration.
STRUCTURE, BEGINS, CONTINUES, WHOLE, TAG = map(int, Kind)


class Pieces(NamedTuple):
    """Tokens by what is known of them, four arrays of one shape.

    values    the fingerprint of what each spells
    lengths   its characters
    kinds     its `Kind`
    keys      of a whole word, what it is compared by
    """

    values: Array
    lengths: Array
    kinds: Array
    keys: Array

    @classmethod
    def of(cls, described: Tensor, rows: Array) -> Pieces:
        """What `PieceTable.out_of_vocabulary` has of some rows (k,): (k, pieces) each."""
        return cls(*described.cpu().numpy()[rows].transpose(2, 0, 1))


def _code(character: str) -> int:
    """A number that looks random (splitmix64)."""
    number = (ord(character) + 1) * 0x9E3779B97F4A7C15 % MODULUS
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % MODULUS
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB % MODULUS
    return number ^ (number >> 31)


def signed(number: int) -> int:
    """As torch has it: from -2^63 on."""
    number %= MODULUS
    return number - MODULUS if number >= MODULUS // 2 else number


def fingerprint(text: str) -> int:
    """Of any text.

    >>> fingerprint("ab") == signed(fingerprint("a") + BASE * fingerprint("b"))
    True
    """
    total = 0
    for character in reversed(text):
        total = (total * BASE + _code(character)) % MODULUS
    return signed(total)


@cache
def _powers(base: int) -> Array:
    """A number to the powers 0, 1, ... (POWERS,)."""
    powers = np.full(POWERS, signed(base))
    powers[0] = 1
    return powers.cumprod()


class Spelling:
    """What runs of pieces spell, given the values and lengths of pieces (rows, length).

    Places count through all rows. A run does not begin at the first of all.
    """

    def __init__(self, values: Array, lengths: Array) -> None:
        before = np.minimum(lengths.cumsum(1) - lengths, POWERS - 1)
        self._before = before.ravel()
        self._total = (values * _powers(BASE)[before]).cumsum(1).ravel()

    def runs(self, first: Array, end: Array) -> Array:
        """The fingerprints of runs, given their first places and those after their last (n,)."""
        inverse = _powers(pow(BASE, -1, MODULUS))
        return (self._total[end - 1] - self._total[first - 1]) * inverse[self._before[first]]


class PieceTable:
    """The pieces of a vocabulary.

    no_words: tokens of the vocabulary that are none.
    unspaced: whether a piece of a script without blanks is a word by itself, marked or not.
    key: what words are compared by, where that is not what they spell.

    If nothing goes on with a word, every piece is a whole one.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        no_words: Collection[int],
        unspaced: bool,
        key: Callable[[Sequence[str]], Sequence[str]],
        device: torch.device | str,
    ) -> None:
        self.unspaced, self._key = unspaced, key
        words = (token for index, token in enumerate(tokens) if index not in no_words)
        self._begins = Kind.BEGINS if any(goes_on(token, unspaced) for token in words) else Kind.WHOLE
        self._spelt: dict[int, str] = {}
        self._keys: dict[int, int] = {}
        self._device = device
        values, lengths, kinds, keys = np.array([self._describe(token) for token in tokens]).T.copy()
        kinds[sorted(no_words)] = Kind.STRUCTURE
        kinds[[tokens.index(tag) for tag in TAGS]] = Kind.TAG
        self.vocabulary = Pieces(values, lengths, kinds.astype(np.int8), keys)  # (vocabulary,) each

    def _kind(self, token: str) -> Kind:
        if token in MARKERS or (self.unspaced and begins_unspaced(bare(token))):
            return Kind.WHOLE
        return Kind.CONTINUES if continues(token) and self._begins == Kind.BEGINS else self._begins

    def _describe(self, token: str) -> tuple[int, int, int, int]:
        """The value, length, kind and key of a token; and what its value stands for is remembered."""
        kind = self._kind(token)
        text = bare(token) if kind == Kind.CONTINUES else f" {bare(token)}"
        if len(text) > LONGEST or token in MARKERS:  # no run of characters spells it
            value, length = fingerprint(f"\0{text}"), 1
        else:
            value, length = fingerprint(text), len(text)
        self._spelt[value] = text
        return value, length, kind, self._key_of(text) if kind == Kind.WHOLE else 0

    def _key_of(self, text: str) -> int:
        return hash(" ".join(self._key(text.split())))

    def whole_words(self, by_keys: bool) -> dict[int, list[int]]:
        """The ids of the vocabulary's whole words by what they spell, or by what they are compared by."""
        numbers = self.vocabulary.keys if by_keys else self.vocabulary.values
        words: dict[int, list[int]] = {}
        for index in np.flatnonzero(self.vocabulary.kinds == WHOLE).tolist():
            words.setdefault(int(numbers[index]), []).append(index)
        return words

    def out_of_vocabulary(self, words: Sequence[Sequence[str]], split: bool) -> Tensor:
        """Each document's own pieces (documents, most of one document, at least 1; 4), as `Pieces` has them.

        split: whether one with ``/`` may not be used; it and what fills up are structure tokens.
        """
        width = max(1, max(map(len, words), default=0))
        nothing = (0, 0, int(Kind.STRUCTURE), 0)
        rows = []
        for document in words:
            row = [nothing if split and SLASH in piece else self._describe(piece) for piece in document]
            rows.append(row + [nothing] * (width - len(row)))
        return torch.tensor(rows, dtype=torch.long, device=self._device).view(len(rows), width, 4)

    def look_up(self, sequence: Array, own: Pieces | None, *fields: str) -> list[Array]:
        """Fields of `Pieces` for extended ids (rows, length): (rows, length) each.

        own: the rows' own pieces (rows, pieces), if there are any.
        """
        found = [getattr(self.vocabulary, field).take(sequence, mode="clip") for field in fields]
        size = len(self.vocabulary.kinds)
        if own is not None and sequence.max() >= size:
            row, place = (sequence >= size).nonzero()
            number = sequence[row, place] - size
            for field, column in zip(fields, found, strict=True):
                column[row, place] = getattr(own, field)[row, number]
        return found

    def keys_of(self, runs: Array, values: Array, first: Array, end: Array) -> Array:
        """What words are compared by, for some runs (n), given the values of all pieces, one row after the other.

        first, end (n): their first places and those after their last. Runs that were met before are only looked up.
        """
        numbers = runs.tolist()
        if len(self._keys) > REMEMBERED:
            self._keys = {}
        keys = self._keys  # which other threads may replace
        for place, number in enumerate(numbers):
            if number not in keys:
                # Hypotheses that a beam only keeps to fill its places may hold anything.
                spelt = (self._spelt.get(value, "") for value in values[first[place] : end[place]].tolist())
                keys[number] = self._key_of("".join(spelt))
        return np.array([keys[number] for number in numbers])
