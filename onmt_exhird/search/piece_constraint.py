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
        self._stems = None
        banned = self._banned(tokens)
        self._table = PieceTable(tokens, banned, rules.unspaced, lambda words: stem_words(words, rules), device)
        kinds = self._table.kinds
        self._continues = kinds.eq(Kind.CONTINUES)  # (vocabulary,)
        self._begins = kinds.bitwise_and(1).bool()
        self._whole = self._table.whole_words(by_keys=settings.exclude_stems)
        spare, max_phrases = self._spare_words(), settings.max_phrases
        if not spare:
            raise ExhirdError(
                "the vocabulary has no piece that begins a word: build it with onmt_build_vocab and the "
                "-keyphrase_text file that training has"
            )
        window = settings.exclusive_window
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
        rows = None if found <= WORD_STATES else state.le(State.INSIDE).nonzero().squeeze(1)
        if rows is not None:
            state, sequence = state[rows], sequence[rows]
            oov_classes = None if oov_classes is None else oov_classes[rows]
        phrase = _OpenPhrase(sequence, self._table.look_up(sequence, oov_classes), self.ids)
        hidden = self._hidden_kinds(phrase, state)
        self._hide(log_probs, rows, *hidden, oov_classes)
        self._hide_whole_words(log_probs, rows, phrase, state, oov_classes)

    def _hidden_kinds(self, phrase: _OpenPhrase, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The rows (rows,) where no word may begin, none may go on, and the phrase may not end."""
        inside = state.eq(State.INSIDE)
        whole = phrase.pieces.kinds[:, -1].eq(Kind.WHOLE)
        stuck = self._excluded(phrase, inside & ~whole)
        no_end = stuck | self._repeated(phrase, inside) if self.settings.exclude_phrases else stuck
        full = inside & phrase.words.ge(self.settings.max_phrase_words)
        no_begin = (full & ~(no_end & whole)) | stuck
        too_long = phrase.length.ge(WORD_PIECES) & ~(no_end & no_begin)
        return no_begin, ~inside | whole | too_long, no_end

    def _excluded(self, phrase: _OpenPhrase, inside: Tensor) -> Tensor:
        """Where (rows,) the open word is the first of its phrase and spells one that is excluded."""
        if self.settings.exclusive_window == 0:
            return torch.zeros_like(inside)
        rows = (inside & phrase.words.eq(1)).nonzero().squeeze(1)
        excluded = torch.zeros_like(inside)
        if len(rows):
            some = phrase.at(rows)
            words, chosen = self._first_words(some)
            own = words.gather(1, some.tag.unsqueeze(1))
            excluded[rows] = (words.eq(own) & chosen).any(1)
        return excluded

    def _first_words(self, phrase: _OpenPhrase) -> tuple[Tensor, Tensor]:
        """The first words at their tags, and which of them are excluded: (rows, length - 1) twice."""
        ends = phrase.ends_of_words[:, 1:]
        words = self._table.runs(phrase.pieces, phrase.ends_of_words)[:, 1:]
        chosen = phrase.earlier_tags(self.settings.exclusive_window)[:, :-1]
        if self.settings.exclude_stems:
            is_open = phrase.tag.lt(chosen.size(1)).unsqueeze(1)
            own = phrase.tag.clamp(max=chosen.size(1) - 1).unsqueeze(1)
            words = self._by_keys(words, chosen.scatter(1, own, is_open), phrase, ends)
        return words, chosen

    def _by_keys(self, runs: Tensor, wanted: Tensor, phrase: _OpenPhrase, ends: Tensor) -> Tensor:
        """Runs that begin after their places, with what words are compared by where that is wanted."""
        places = wanted.nonzero()
        if not len(places):
            return runs
        row, column = places.unbind(1)
        starts = torch.stack([row, column + 1], 1)
        keys = self._table.keys_of(runs[row, column], phrase.pieces, starts, ends[row, column])
        return runs.index_put((row, column), keys)

    def _repeated(self, phrase: _OpenPhrase, inside: Tensor) -> Tensor:
        """Where (rows,) the open phrase, with its last word as it stands, equals an earlier one."""
        repeated = torch.zeros_like(inside)
        rows = inside.nonzero().squeeze(1)
        if len(rows):
            some = phrase.at(rows)
            ends = some.ends_of_phrases
            runs = self._table.runs(some.pieces, ends)[:, 1:]
            earlier = some.earlier_tags(None)[:, :-1]
            wanted = earlier.scatter(1, some.tag.unsqueeze(1), True)
            keys = self._by_keys(runs, wanted, some, ends[:, 1:])
            repeated[rows] = (keys.eq(keys.gather(1, some.tag.unsqueeze(1))) & earlier).any(1)
        return repeated

    def _hide(
        self,
        log_probs: Tensor,
        rows: Tensor | None,
        no_begin: Tensor,
        no_more: Tensor,
        no_end: Tensor,
        oov: Tensor | None,
    ) -> None:
        """Forbid whole kinds of pieces, given where (rows,)."""
        size = len(self._begins)
        for where, mask, kinds in (
            (no_begin, self._begins, (Kind.BEGINS, Kind.WHOLE)),
            (no_more, self._continues, (Kind.CONTINUES,)),
        ):
            some = where.nonzero().squeeze(1)
            if not len(some):
                continue
            index = some if rows is None else rows[some]
            part = log_probs.index_select(0, index)
            part[:, :size].masked_fill_(mask, FORBIDDEN)
            if oov is not None and part.size(1) > size:
                own = oov[some, : part.size(1) - size, 2]
                part[:, size : size + own.size(1)].masked_fill_(
                    torch.isin(own, torch.tensor(kinds, device=own.device)), FORBIDDEN
                )
            log_probs.index_copy_(0, index, part)
        ended = no_end.nonzero().squeeze(1)
        if len(ended):
            log_probs[ended if rows is None else rows[ended], self.ids.end] = FORBIDDEN
        if oov is not None and self.settings.exclude_phrases and log_probs.size(1) > size:
            unusable = oov[:, : log_probs.size(1) - size, 2].eq(Kind.STRUCTURE)
            if rows is None:
                log_probs[:, size : size + unusable.size(1)].masked_fill_(unusable, FORBIDDEN)
            else:
                row, column = unusable.nonzero(as_tuple=True)
                log_probs[rows[row], column + size] = FORBIDDEN

    def _hide_whole_words(
        self, log_probs: Tensor, rows: Tensor | None, phrase: _OpenPhrase, state: Tensor, oov: Tensor | None
    ) -> None:
        """Forbid whole words as first words where they are excluded."""
        first = state.eq(State.FIRST).nonzero().squeeze(1)
        if self.settings.exclusive_window == 0 or not len(first):
            return
        words, chosen = self._first_words(phrase.at(first))
        words = words.masked_fill(~chosen, 0)  # which is no word's, but for a chance of 2^-64
        index = first if rows is None else rows[first]
        columns = self._whole.find(words, self.ids.pad)
        if oov is not None and log_probs.size(1) > len(self._begins):
            own = oov[first, :, 3 if self.settings.exclude_stems else 0]
            hit = own.unsqueeze(2).eq(words.unsqueeze(1)).any(2) & oov[first, :, 2].eq(Kind.WHOLE)  # (first, pieces)
            extended = torch.arange(own.size(1), device=own.device) + len(self._begins)
            columns = torch.cat([columns, extended.where(hit, self.ids.pad)], 1)
        log_probs[index] = log_probs[index].scatter(1, columns, FORBIDDEN)


class _OpenPhrase:
    """Where hypotheses stand that are in a phrase.

    tag       (rows,)   the place of its tag
    words     (rows,)   that it has, the open one included
    length    (rows,)   pieces of its last word
    """

    def __init__(self, sequence: Tensor, pieces: Pieces, ids: StreamIds) -> None:
        self.sequence, self.pieces, self._ids = sequence, pieces, ids
        self._places = torch.arange(sequence.size(1), device=sequence.device)
        self._tags = ids.is_tag(sequence)
        begins = pieces.kinds.bitwise_and(1).bool()
        self.tag = (self._tags * self._places).amax(1)
        self.words = (begins & self._places.gt(self.tag.unsqueeze(1))).sum(1)
        self.length = sequence.size(1) - (begins * self._places).amax(1)

    def at(self, rows: Tensor) -> _OpenPhrase:
        """Those of some rows (k,)."""
        return _OpenPhrase(self.sequence[rows], self.pieces.at(rows), self._ids)

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
        return self._last_before(self.pieces.kinds.eq(Kind.STRUCTURE))
