"""The constraint of a search that writes pieces of words: limits and exclusion are of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from onmt_exhird.errors import ExhirdError
from onmt_exhird.search.constraint import FORBIDDEN, WORD_STATES, StreamConstraint
from onmt_exhird.search.phrases import StreamIds
from onmt_exhird.search.piece_phrases import OpenPhrases, Phrases
from onmt_exhird.search.pieces import BEGINS, CONTINUES, STRUCTURE, WHOLE, Array, Pieces, PieceTable
from onmt_exhird.search.settings import SearchSettings
from onmt_exhird.search.states import State, StateReader
from onmt_exhird.text import TextRules, stem_words
from onmt_exhird.textmodel import TextModel

INSIDE = int(State.INSIDE)
WORD_PIECES = 16  # of a word at most; of one that is excluded as it stands, more


def build_constraint(
    tokens: Sequence[str], settings: SearchSettings, text: TextModel, device: torch.device | str = "cpu"
) -> StreamConstraint:
    """The constraint for a vocabulary of words, or of pieces of them."""
    if text.subwords is not None:
        return PieceConstraint(tokens, settings, text.rules, device)
    return StreamConstraint(tokens, settings, device, lambda token: stem_words((token,), text.rules))


class PieceConstraint(StreamConstraint):
    """Lets a search write well-formed streams of pieces.

    | after | permitted |
    |---|---|
    | a tag | what begins a word |
    | a piece | what goes on with the word, up to 16 pieces; what begins another, up to ``max_phrase_words``; ``;`` |
    | a whole word, such as ``<digit>`` | the same, but nothing goes on with it |

    A word is excluded when it is complete. So where the pieces of a phrase's first word spell one that is excluded,
    what would end it there is forbidden, and it goes on; likewise a phrase that equals an earlier one does not end.
    These go before the limits of pieces and words. A whole word that is excluded is forbidden at once. Only where
    ``max_length`` leaves no room to go on does a word or phrase end nevertheless.

    >>> tokens = ["<unk>", "<blank>", "<s>", "</s>", "<p_start>", "<a_start>", ";", "▁un", "like", "▁tree"]
    >>> constraint = PieceConstraint(tokens, SearchSettings(exclusive_window=1), TextRules())
    >>> log_probs = torch.zeros(1, 10)
    >>> constraint.apply(log_probs, torch.tensor([[2, 4, 7, 6, 4, 7]]))  # <s> <p_start> un ; <p_start> un
    >>> [token for token, value in zip(tokens, log_probs[0]) if value == 0]
    ['like']
    """

    def __init__(
        self,
        tokens: Sequence[str],
        settings: SearchSettings,
        rules: TextRules,
        device: torch.device | str = "cpu",
    ) -> None:
        self.settings = settings
        self.ids = StreamIds.find(tokens)
        banned = self._banned(tokens)
        self._table = PieceTable(tokens, banned, rules.unspaced, lambda words: stem_words(words, rules), device)
        kinds = self._table.vocabulary.kinds
        self._no_begin = self._bias(kinds & 1 == 1, device)
        self._no_more = self._bias(kinds == CONTINUES, device)
        self._whole = self._table.whole_words(by_keys=settings.exclude_stems)
        spare, max_phrases = self._spare_words(), settings.max_phrases
        if not spare:
            raise ExhirdError(
                "the vocabulary has no piece that begins a word: build it with onmt_build_vocab and the "
                "-keyphrase_text file that training has"
            )
        window = settings.exclusive_window
        # Phrases that are looked at, the open one included; None: all.
        self._compared = None if window is None or settings.exclude_phrases else window + 1
        if not (kinds == BEGINS).any() and (window is None or window >= len(spare)):
            max_phrases = min(max_phrases, len(spare))
        self._going_on = np.flatnonzero(kinds == CONTINUES)[:1].tolist()
        self.state = StateReader(self.ids, len(tokens), settings, max_phrases, device, counts_words=False)
        self._lay_out(banned, spare + self._going_on, device)

    def _bias(self, hidden: Array, device: torch.device | str) -> Tensor:
        """What to add to log-probabilities (vocabulary,), given what is hidden."""
        return torch.zeros(len(hidden), device=device).masked_fill(torch.from_numpy(hidden).to(device), FORBIDDEN)

    def _spare_words(self) -> list[int]:
        """A piece that may always begin a word; whole words, of which some are excluded, if there is none."""
        begins = np.flatnonzero(self._table.vocabulary.kinds == BEGINS)[:1].tolist()
        return begins or [ids[0] for ids in self._whole.values()][: self.settings.max_phrases + 1]

    def _permits(self, state: State, column: int, banned: set[int]) -> bool:
        return super()._permits(state, column, banned) and not (state == State.FIRST and column in self._going_on)

    def oov_classes(self, words: Sequence[Sequence[str]]) -> Tensor:
        """What `apply` needs to know of each document's pieces outside the vocabulary (documents, pieces, 4)."""
        return self._table.out_of_vocabulary(words, split=self.settings.exclude_phrases)

    def apply(self, log_probs: Tensor, sequence: Tensor, oov_classes: Tensor | None = None) -> None:
        state, found = self._apply_grammar(log_probs, sequence)
        if found.isdisjoint(WORD_STATES):
            return
        states = state.cpu().numpy()
        rows = np.flatnonzero(states <= INSIDE)
        own = None
        if oov_classes is not None and log_probs.size(1) > len(self._no_begin):
            own = Pieces.of(oov_classes, rows)
        opened = OpenPhrases(sequence.cpu().numpy()[rows], states[rows] == INSIDE, own, self._table)
        excluded = self._excluded(opened)
        self._hide_kinds(log_probs, rows, own, *self._hidden_kinds(opened, excluded))
        if excluded.words is not None:
            self._hide_words(log_probs, rows, own, *excluded.words)

    def _hidden_kinds(self, opened: OpenPhrases, excluded: _Excluded) -> tuple[Array, Array, Array]:
        """The rows (rows,) where no word may begin, none may go on, and the phrase may not end."""
        no_end = excluded.stuck | excluded.repeated
        full = opened.inside & (opened.words >= self.settings.max_phrase_words)
        no_begin = (full & ~(no_end & opened.whole)) | excluded.stuck
        too_long = (opened.length >= WORD_PIECES) & ~(no_end & no_begin)
        return no_begin, ~opened.inside | opened.whole | too_long, no_end

    def _excluded(self, opened: OpenPhrases) -> _Excluded:
        excluded = _Excluded(np.zeros_like(opened.inside), np.zeros_like(opened.inside))
        rows = np.flatnonzero(self._concerned(opened))
        if len(rows):
            phrases = opened.phrases(rows, self.ids, self._compared)
            if self.settings.exclusive_window != 0:
                self._exclude_first_words(excluded, opened, rows, phrases)
            if self.settings.exclude_phrases:
                excluded.repeated[rows[phrases.repeated()]] = True
        return excluded

    def _concerned(self, opened: OpenPhrases) -> Array:
        """The rows (rows,) for which exclusion may matter."""
        if self.settings.exclusive_window == 0:
            return opened.inside & self.settings.exclude_phrases
        return ~opened.inside | (opened.inside if self.settings.exclude_phrases else opened.in_first)

    def _exclude_first_words(self, excluded: _Excluded, opened: OpenPhrases, rows: Array, phrases: Phrases) -> None:
        """Note what first words exclude, given the phrases of some rows (k,)."""
        earlier, firsts = phrases.earlier(self.settings.exclusive_window), phrases.first_words
        by_keys = self.settings.exclude_stems
        numbers = phrases.keys(firsts, phrases.with_open(earlier)) if by_keys else firsts.numbers
        excluded.stuck[rows[phrases.row[earlier & phrases.equal_open(numbers)]]] = True
        np.logical_and(excluded.stuck, opened.in_first, out=excluded.stuck)
        whole = earlier & (phrases.kinds(firsts) == WHOLE)
        if whole.any():
            whole &= ~opened.inside[rows][phrases.row]
            excluded.words = rows[phrases.row[whole]], numbers[whole]

    def _hide_kinds(
        self, log_probs: Tensor, rows: Array, own: Pieces | None, no_begin: Array, no_more: Array, no_end: Array
    ) -> None:
        """Forbid whole kinds of pieces, given where (rows,); rows (rows,) are those of log_probs."""
        size = len(self._no_begin)
        copied = None if own is None else own.kinds[:, : log_probs.size(1) - size]
        in_vocabulary = log_probs[:, :size]
        for where, bias, odd in ((no_begin, self._no_begin, True), (no_more, self._no_more, False)):
            some = np.flatnonzero(where)
            if len(some):
                # Row by row, in place: what takes all rows at once passes over the vocabulary three times.
                bias = bias.to(log_probs)
                for row in rows[some].tolist():
                    in_vocabulary[row].add_(bias)
                if copied is not None:
                    kinds = copied[some]
                    self._hide_copied(log_probs, rows[some], kinds & 1 == 1 if odd else kinds == CONTINUES)
        if no_end.any():
            log_probs[rows[no_end], self.ids.end] = FORBIDDEN
        if copied is not None and self.settings.exclude_phrases:
            self._hide_copied(log_probs, rows, copied == STRUCTURE)

    def _hide_copied(self, log_probs: Tensor, rows: Array, hidden: Array) -> None:
        """Forbid pieces outside the vocabulary, given which (k, pieces) in some rows (k,)."""
        row, column = hidden.nonzero()
        if len(row):
            log_probs[rows[row], column + len(self._no_begin)] = FORBIDDEN

    def _hide_words(self, log_probs: Tensor, rows: Array, own: Pieces | None, places: Array, numbers: Array) -> None:
        """Forbid whole words, given their numbers, and which of the rows (rows,) each is forbidden in: (n,) twice."""
        hidden = [
            (row, index)
            for row, number in zip(rows[places].tolist(), numbers.tolist(), strict=True)
            for index in self._whole.get(number, ())
        ]
        if hidden:
            log_probs[tuple(torch.tensor(hidden).T)] = FORBIDDEN
        if own is not None:
            known = own.keys if self.settings.exclude_stems else own.values
            copied = (known[places] == numbers[:, None]) & (own.kinds[places] == WHOLE)  # (n, pieces)
            self._hide_copied(log_probs, rows[places], copied[:, : log_probs.size(1) - len(self._no_begin)])


@dataclass
class _Excluded:
    """What exclusion forbids to hypotheses that are in a phrase.

    stuck      (rows,)   where the open word is the first of its phrase and spells one that is excluded
    repeated   (rows,)   where the open phrase, with its last word as it stands, equals an earlier one
    words                whole words that may not come next: their rows, and what they spell or are compared by, (n,)
    """

    stuck: Array
    repeated: Array
    words: tuple[Array, Array] | None = None
