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
from typing import NamedTuple

import torch
from torch import Tensor

from onmt_exhird.languages import begins_unspaced
from onmt_exhird.search.stems import SLASH
from onmt_exhird.stream import TAGS
from onmt_exhird.subwords import MARKERS, bare, continues, goes_on

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


class Pieces(NamedTuple):
    """Tokens by what is known of them, four tensors of one shape.

    values    the fingerprint of what each spells
    lengths   its characters
    kinds     its `Kind`
    keys      of a whole word, what it is compared by
    """

    values: Tensor
    lengths: Tensor
    kinds: Tensor
    keys: Tensor


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
def _powers(device: torch.device | str) -> tuple[Tensor, Tensor]:
    """B and its inverse to the powers 0, 1, ... (POWERS) twice."""
    tables = []
    for base in (BASE, pow(BASE, -1, MODULUS)):
        power, powers = 1, []
        for _ in range(POWERS):
            powers.append(signed(power))
            power = power * base % MODULUS
        tables.append(torch.tensor(powers, device=device))
    return tables[0], tables[1]


class Index:
    """Finds ids by numbers that belong to them, several ids by one number too.

    >>> Index(torch.tensor([2, 5, 6]), torch.tensor([0, 0, 7, 0, 0, 9, 7])).find(torch.tensor([[7, 8, 9]]), filler=0)
    tensor([[2, 6, 0, 0, 5, 0]])
    """

    def __init__(self, ids: Tensor, numbers: Tensor) -> None:
        self._numbers, which, counts = numbers[ids].unique(return_inverse=True, return_counts=True)
        width = int(counts.max()) if len(counts) else 1
        order = which.argsort(stable=True)
        first = counts.cumsum(0) - counts
        place = torch.arange(len(ids), device=ids.device) - first[which[order]]
        self._ids = ids.new_full((len(counts), width), -1)
        self._ids[which[order], place] = ids[order]
        self.one_of_each = self._ids[:, 0]

    def find(self, numbers: Tensor, filler: int) -> Tensor:
        """The ids of numbers (rows, n): (rows, n * most ids of one number), filled up."""
        if not len(self._numbers):
            return torch.full_like(numbers, filler)
        place = torch.searchsorted(self._numbers, numbers).clamp(max=len(self._numbers) - 1)
        found = self._numbers[place].eq(numbers).unsqueeze(2) & self._ids[place].ge(0)
        return self._ids[place].masked_fill(~found, filler).flatten(1)


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
        self._unspaced, self._key = unspaced, key
        words = (token for index, token in enumerate(tokens) if index not in no_words)
        self._begins = Kind.BEGINS if any(goes_on(token, unspaced) for token in words) else Kind.WHOLE
        self._spelt: dict[int, str] = {}
        self._keys: dict[int, int] = {}
        self._powers = _powers(device)
        columns = torch.tensor([self._describe(token) for token in tokens], device=device).unbind(1)
        self.vocabulary = Pieces(*columns)  # (vocabulary,) each
        self.vocabulary.kinds[sorted(no_words)] = Kind.STRUCTURE
        self.vocabulary.kinds[[tokens.index(tag) for tag in TAGS]] = Kind.TAG
        self.kinds = self.vocabulary.kinds.to(torch.int8)

    def _kind(self, token: str) -> Kind:
        if token in MARKERS or (self._unspaced and begins_unspaced(bare(token))):
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

    def whole_words(self, by_keys: bool) -> Index:
        """The whole words of the vocabulary by what they spell, or by what they are compared by."""
        return Index(
            self.kinds.eq(Kind.WHOLE).nonzero().squeeze(1), self.vocabulary.keys if by_keys else self.vocabulary.values
        )

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
        device = self.kinds.device
        return torch.tensor(rows, dtype=torch.long, device=device).view(len(rows), width, 4)

    def kinds_of(self, sequence: Tensor, oov: Tensor | None) -> Tensor:
        """The kinds alone of extended ids (rows, length): (rows, length)."""
        size = len(self.kinds)
        found = self.kinds[sequence.clamp(max=size - 1)]
        if oov is None or int(sequence.max()) < size:
            return found
        own = oov[:, :, 2].to(torch.int8).gather(1, (sequence - size).clamp(0, oov.size(1) - 1))
        return found.where(sequence.lt(size), own)

    def look_up(self, sequence: Tensor, oov: Tensor | None) -> Pieces:
        """The pieces of extended ids (rows, length), given the rows' part of `out_of_vocabulary`, if there is any."""
        size = len(self.kinds)
        inside = sequence.clamp(max=size - 1)
        found = Pieces(*(tensor.take(inside) for tensor in self.vocabulary))
        copied = sequence.ge(size)
        if oov is None or int(sequence.max()) < size:
            return found
        own = (sequence - size).clamp(0, oov.size(1) - 1)
        return Pieces(
            *(tensor.where(~copied, column.gather(1, own)) for tensor, column in zip(found, oov.unbind(2), strict=True))
        )

    def runs(self, pieces: Pieces, ends: Tensor) -> Tensor:
        """The fingerprint of what stands from each place up to its end, which is in (rows, length): (rows, length)."""
        power, inverse = self._powers
        before = (pieces.lengths.cumsum(1) - pieces.lengths).clamp(max=POWERS - 1)
        terms = pieces.values * power.take(before)
        total = terms.cumsum(1)
        return (total.gather(1, ends) - total + terms) * inverse.take(before)

    def keys_of(self, runs: Tensor, pieces: Pieces, starts: Tensor, ends: Tensor) -> Tensor:
        """What words are compared by, for some runs (n), given the places (n, 2) of their rows and first pieces.

        ends (n): their last pieces. Runs that were met before are only looked up.
        """
        numbers = runs.tolist()
        if len(self._keys) > REMEMBERED:
            self._keys = {}
        keys = self._keys  # which other threads may replace
        unknown = {number: place for place, number in enumerate(numbers) if number not in keys}
        if unknown:
            places = list(unknown.values())
            row, first = starts[places].unbind(1)
            spans = zip(pieces.values[row].tolist(), first.tolist(), ends[places].tolist(), strict=True)
            for number, (values, start, end) in zip(unknown, spans, strict=True):
                # Hypotheses that a beam only keeps to fill its places may hold anything.
                keys[number] = self._key_of("".join(self._spelt.get(value, "") for value in values[start : end + 1]))
        return torch.tensor([keys[number] for number in numbers], device=runs.device)
