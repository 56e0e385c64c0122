"""The constraint of a search that writes pieces of words: limits and exclusion are of words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from onmt_exhird.errors import ExhirdError
from onmt_exhird.search.constraint import FORBIDDEN, WORD_STATES, StreamConstraint
from onmt_exhird.search.phrases import StreamIds
from onmt_exhird.search.pieces import Kind, Pieces, PieceTable
from onmt_exhird.search.settings import SearchSettings
from onmt_exhird.search.states import State, StateReader
from onmt_exhird.text import TextRules, stem_words
from onmt_exhird.textmodel import TextModel

WORD_PIECES = 16  # of a word at most; of one that is excluded as it stands, more
NEAR = 24  # tokens that a phrase has at most, almost always: only if it has more are more of them looked at


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
        kinds = self._table.kinds
        self._continues = kinds.eq(Kind.CONTINUES)  # (vocabulary,)
        self._begins = kinds.bitwise_and(1).bool()
        nothing = torch.zeros(len(tokens), device=device)
        self._no_begin = nothing.masked_fill(self._begins, FORBIDDEN)
        self._no_more = nothing.masked_fill(self._continues, FORBIDDEN)
        self._whole = self._table.whole_words(by_keys=settings.exclude_stems)
        spare, max_phrases = self._spare_words(), settings.max_phrases
        if not spare:
            raise ExhirdError(
                "the vocabulary has no piece that begins a word: build it with onmt_build_vocab and the "
                "-keyphrase_text file that training has"
            )
        window = settings.exclusive_window
        self._compared = None if window is None else window + 1  # phrases, the open one included
        if not bool(kinds.eq(Kind.BEGINS).any()) and (window is None or window >= len(spare)):
            max_phrases = min(max_phrases, len(spare))
        self._going_on = self._continues.nonzero().squeeze(1)[:1].tolist()
        self.state = StateReader(self.ids, len(tokens), settings, max_phrases, device, counts_words=False)
        self._lay_out(banned, spare + self._going_on, device)

    def _spare_words(self) -> list[int]:
        """A piece that may always begin a word; whole words, of which some are excluded, if there is none."""
        begins = self._table.kinds.eq(Kind.BEGINS).nonzero().squeeze(1)
        return (begins[:1] if len(begins) else self._whole.one_of_each[: self.settings.max_phrases + 1]).tolist()

    def _permits(self, state: State, column: int, banned: set[int]) -> bool:
        return super()._permits(state, column, banned) and not (state == State.FIRST and column in self._going_on)

    def oov_classes(self, words: Sequence[Sequence[str]]) -> Tensor:
        """What `apply` needs to know of each document's pieces outside the vocabulary (documents, pieces, 4)."""
        return self._table.out_of_vocabulary(words, split=self.settings.exclude_phrases)

    def apply(self, log_probs: Tensor, sequence: Tensor, oov_classes: Tensor | None = None) -> None:
        state, found = self._apply_grammar(log_probs, sequence)
        if found.isdisjoint(WORD_STATES):
            return
        rows = torch.arange(len(state), device=state.device)
        if not found <= WORD_STATES:
            rows = state.le(State.INSIDE).nonzero().squeeze(1)
            state, sequence = state[rows], sequence[rows]
            oov_classes = None if oov_classes is None else oov_classes[rows]
        hypotheses = _Hypotheses(sequence, oov_classes, self._table)
        self._hide(log_probs, rows, *self._hidden_kinds(hypotheses, state), oov_classes)
        self._hide_whole_words(log_probs, rows, hypotheses, state)

    def _hidden_kinds(self, hypotheses: _Hypotheses, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The rows (rows,) where no word may begin, none may go on, and the phrase may not end."""
        inside = state.eq(State.INSIDE)
        whole = hypotheses.last.eq(Kind.WHOLE)
        stuck = self._excluded(hypotheses, inside & ~whole)
        no_end = stuck | self._repeated(hypotheses, inside) if self.settings.exclude_phrases else stuck
        full = inside & hypotheses.words.ge(self.settings.max_phrase_words)
        no_begin = (full & ~(no_end & whole)) | stuck
        too_long = hypotheses.length.ge(WORD_PIECES) & ~(no_end & no_begin)
        return no_begin, ~inside | whole | too_long, no_end

    def _excluded(self, hypotheses: _Hypotheses, inside: Tensor) -> Tensor:
        """Where (rows,) the open word is the first of its phrase and spells one that is excluded."""
        excluded = torch.zeros_like(inside)
        if self.settings.exclusive_window != 0:
            rows = (inside & hypotheses.words.eq(1)).nonzero().squeeze(1)
            if len(rows):
                words, chosen, own = self._first_words(hypotheses.phrases(rows, self._compared))
                excluded[rows] = (words.eq(words.gather(1, own)) & chosen).any(1)
        return excluded

    def _first_words(self, phrases: _Phrases) -> tuple[Tensor, Tensor, Tensor]:
        """The first words at their tags, which of them are excluded, and the open one's: (rows, n) twice, (rows, 1)."""
        ends = phrases.ends_of_words
        words, own = self._table.runs(phrases.pieces, ends)[:, 1:], phrases.tag.unsqueeze(1)
        chosen = phrases.earlier_tags(self.settings.exclusive_window)[:, :-1]
        if self.settings.exclude_stems:
            is_open = own.lt(chosen.size(1))
            own = own.clamp(max=chosen.size(1) - 1)
            words = self._by_keys(words, chosen.scatter(1, own, is_open), phrases, ends[:, 1:])
        return words, chosen, own

    def _by_keys(self, runs: Tensor, wanted: Tensor, phrases: _Phrases, ends: Tensor) -> Tensor:
        """Runs that begin after their places, with what words are compared by where that is wanted."""
        places = wanted.nonzero()
        if not len(places):
            return runs
        row, column = places.unbind(1)
        starts = torch.stack([row, column + 1], 1)
        keys = self._table.keys_of(runs[row, column], phrases.pieces, starts, ends[row, column])
        return runs.index_put((row, column), keys)

    def _repeated(self, hypotheses: _Hypotheses, inside: Tensor) -> Tensor:
        """Where (rows,) the open phrase, with its last word as it stands, equals an earlier one."""
        repeated = torch.zeros_like(inside)
        rows = inside.nonzero().squeeze(1)
        if len(rows):
            phrases = hypotheses.phrases(rows, None)
            ends, own = phrases.ends_of_phrases, phrases.tag.unsqueeze(1)
            runs = self._table.runs(phrases.pieces, ends)[:, 1:]
            earlier = phrases.earlier_tags(None)[:, :-1]
            keys = self._by_keys(runs, earlier.scatter(1, own, True), phrases, ends[:, 1:])
            repeated[rows] = (keys.eq(keys.gather(1, own)) & earlier).any(1)
        return repeated

    def _hide(
        self, log_probs: Tensor, rows: Tensor, no_begin: Tensor, no_more: Tensor, no_end: Tensor, oov: Tensor | None
    ) -> None:
        """Forbid whole kinds of pieces, given where (rows,); rows (rows,) are those of log_probs."""
        size = len(self._begins)
        own = None if oov is None or log_probs.size(1) == size else oov[:, : log_probs.size(1) - size, 2]
        for where, bias, begins in ((no_begin, self._no_begin, True), (no_more, self._no_more, False)):
            some = where.nonzero().squeeze(1)
            if len(some):
                # Row by row, in place: what takes all rows at once passes over the vocabulary three times.
                bias = bias.to(log_probs)
                for row in rows[some].tolist():
                    log_probs[row, :size].add_(bias)
                if own is not None:
                    kinds = own[some].bitwise_and(1).bool() if begins else own[some].eq(Kind.CONTINUES)
                    self._hide_copied(log_probs, rows[some], kinds)
        ended = no_end.nonzero().squeeze(1)
        if len(ended):
            log_probs[rows[ended], self.ids.end] = FORBIDDEN
        if own is not None and self.settings.exclude_phrases:
            self._hide_copied(log_probs, rows, own.eq(Kind.STRUCTURE))

    def _hide_copied(self, log_probs: Tensor, rows: Tensor, hidden: Tensor) -> None:
        """Forbid pieces outside the vocabulary, given which (k, pieces) in some rows (k,)."""
        row, column = hidden.nonzero(as_tuple=True)
        log_probs[rows[row], column + len(self._begins)] = FORBIDDEN

    def _hide_whole_words(self, log_probs: Tensor, rows: Tensor, hypotheses: _Hypotheses, state: Tensor) -> None:
        """Forbid whole words as first words where they are excluded."""
        first = state.eq(State.FIRST).nonzero().squeeze(1)
        if self.settings.exclusive_window == 0 or not hypotheses.have_whole_words(first):
            return
        words, chosen, _ = self._first_words(hypotheses.phrases(first, self._compared))
        row, column = chosen.nonzero(as_tuple=True)
        numbers = words[row, column].unsqueeze(1)  # (n, 1)
        index = rows[first[row]].unsqueeze(1)
        log_probs[index, self._whole.find(numbers, self.ids.pad)] = FORBIDDEN
        oov = hypotheses.oov
        if oov is not None and log_probs.size(1) > len(self._begins):
            own = oov[first[row], : log_probs.size(1) - len(self._begins)]  # (n, pieces, 4)
            hit = own[:, :, 3 if self.settings.exclude_stems else 0].eq(numbers) & own[:, :, 2].eq(Kind.WHOLE)
            self._hide_copied(log_probs, index.squeeze(1), hit)


class _Hypotheses:
    """Where hypotheses stand that are in a phrase.

    words     (rows,)   of the phrase, the open one included
    length    (rows,)   pieces of its last word
    last      (rows,)   the kind of the last piece
    """

    def __init__(self, sequence: Tensor, oov: Tensor | None, table: PieceTable) -> None:
        self.sequence, self.oov, self._table = sequence, oov, table
        kinds, tag = self._last_tag(NEAR)
        if not bool(tag.all()):
            kinds, tag = self._last_tag(sequence.size(1))
        begins = kinds.bitwise_and(1)
        places = self._places(kinds)
        self.words = (begins * places.gt(tag)).sum(1)
        self.length = len(places) + 1 - (begins * places).amax(1)
        self.last = kinds[:, -1]

    def _last_tag(self, reach: int) -> tuple[Tensor, Tensor]:
        """The kinds of the last so many tokens (rows, n), and the place of the last tag there (rows, 1), 0: none."""
        kinds = self._table.kinds_of(self.sequence[:, -reach:], self.oov)
        return kinds, (kinds.eq(Kind.TAG) * self._places(kinds)).amax(1, keepdim=True)

    def _places(self, kinds: Tensor) -> Tensor:
        return torch.arange(1, kinds.size(1) + 1, device=kinds.device, dtype=torch.int32)

    def have_whole_words(self, rows: Tensor) -> bool:
        """Whether any of some rows (k,) has one. No other word equals one of them."""
        if not len(rows):
            return False
        kinds = self._table.kinds_of(self.sequence[rows], None if self.oov is None else self.oov[rows])
        return bool(kinds.eq(Kind.WHOLE).any())

    def phrases(self, rows: Tensor, count: int | None) -> _Phrases:
        """The phrases of some rows (k,): the last so many are all there, None: all of them."""
        sequence, oov = self.sequence[rows], None if self.oov is None else self.oov[rows]
        if count is not None and sequence.size(1) > count * NEAR:
            near = _Phrases(self._table.look_up(sequence[:, -count * NEAR :], oov))
            if near.have(count):
                return near
        return _Phrases(self._table.look_up(sequence, oov))


class _Phrases:
    """The phrases of hypotheses; tag (rows,) is the place of the last tag."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self._places = torch.arange(pieces.kinds.size(1), device=pieces.kinds.device)
        self._tags = pieces.kinds.eq(Kind.TAG)
        self.tag = (self._tags * self._places).amax(1)

    def have(self, count: int) -> bool:
        """Whether every row has so many phrases."""
        return bool(self._tags.sum(1).ge(count).all())

    def earlier_tags(self, window: int | None) -> Tensor:
        """Which places (rows, length) are tags of the last so many phrases before the open one, None: of all."""
        chosen = self._tags & self._places.lt(self.tag.unsqueeze(1))
        if window is None:
            return chosen
        number = self._tags.cumsum(1)
        return chosen & number.ge(number[:, -1:] - window)

    def _last_before(self, is_next: Tensor) -> Tensor:
        """For each place the last one before the next such place (rows, length), or the end."""
        beyond = torch.where(is_next, self._places, len(self._places))
        following = beyond.flip(1).cummin(1).values.flip(1)  # the next such place, the place itself included
        after = torch.cat([following[:, 1:], following.new_full((len(following), 1), len(self._places))], 1)
        return after - 1

    @property
    def ends_of_words(self) -> Tensor:
        """For each place (rows, length) where a word that begins there ends."""
        return self._last_before(self.pieces.kinds.ne(Kind.CONTINUES))

    @property
    def ends_of_phrases(self) -> Tensor:
        """For each place (rows, length) where the phrase ends, before its ``;``."""
        return self._last_before(self.pieces.kinds.bitwise_and(3).eq(0))
