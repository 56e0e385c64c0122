"""The constraint of a search: the stream's grammar, the phrase limits and exclusion, as a mask on log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from onmt_exhird.search.phrases import StreamIds, first_words, phrase_table
from onmt_exhird.search.settings import SearchSettings
from onmt_exhird.search.states import State, StateReader
from onmt_exhird.search.stems import NO_WORD, SLASH, SPLIT, StemTable
from onmt_exhird.text import stem

FORBIDDEN = -math.inf
# What stands for log 0 where a permitted token must stay finite: below all that a model means, and well above the
# -10000 that OpenNMT-py's samplers give to what they drop. A phrase ends rather than go on with a spare word.
STRUCTURE_FLOOR = -500.0
SPARE_FLOOR = -1000.0
WORD_STATES = {state for state in State if state.permits_words}


class StreamConstraint:
    """Lets a search write well-formed streams only, whatever the model says.

    | after | permitted |
    |---|---|
    | the start token, ``;`` | a tag up to ``max_phrases``; ``</s>`` from ``min_phrases`` on, or where no tag is |
    | a tag | words, without those that exclusive search excludes (Algorithm 2) |
    | a word | words up to ``max_phrase_words``, and ``;`` |
    | ``</s>`` | ``</s>`` |

    It is a function of the tokens so far, for greedy search, beam search and sampling alike. Every row keeps a token
    that is permitted and finite, even if the model gives none of them any probability: a structure token, or one of
    the first words of the vocabulary. If so few words exist that all would be excluded, the stream ends instead,
    even before ``min_phrases``.

    tokens: the vocabulary in the order of its ids. key: what words of one stem have in common.

    >>> tokens = ["<unk>", "<blank>", "<s>", "</s>", "<p_start>", "<a_start>", ";", "graph", "tree"]
    >>> constraint = StreamConstraint(tokens, SearchSettings(exclusive_window=1))
    >>> log_probs = torch.zeros(1, 9)
    >>> constraint.apply(log_probs, torch.tensor([[2, 4, 7, 6, 4]]))  # <s> <p_start> graph ; <p_start>
    >>> [token for token, value in zip(tokens, log_probs[0]) if value == 0]
    ['<unk>', 'tree']
    """

    def __init__(
        self,
        tokens: Sequence[str],
        settings: SearchSettings,
        device: torch.device | str = "cpu",
        key: Callable[[str], Hashable] = stem,
    ) -> None:
        self.settings = settings
        self.ids = StreamIds.find(tokens)
        self._stems: StemTable | None = None
        if settings.exclude_stems or settings.exclude_phrases:
            self._stems = StemTable(tokens, device, key)
        banned = self._banned(tokens)
        spare = self._one_word_of_each_kind(len(tokens), banned)
        window, max_phrases = settings.exclusive_window, settings.max_phrases
        if window is None or window >= len(spare) or settings.exclude_phrases:
            max_phrases = min(max_phrases, len(spare))
        self._excluding = WORD_STATES if settings.exclude_phrases else {State.FIRST} if window != 0 else set()
        self.state = StateReader(self.ids, len(tokens), settings, max_phrases, device)
        self._lay_out(banned, spare, device)

    def _banned(self, tokens: Sequence[str]) -> set[int]:
        """What is no word, or must not be one."""
        slashes = (index for index, token in enumerate(tokens) if SLASH in token)
        return set(self.ids).union(slashes if self.settings.exclude_phrases else ())

    def _lay_out(self, banned: set[int], spare: Sequence[int], device: torch.device | str) -> None:
        """What of the columns may come in which state, given those that are no words, and words that are spare."""
        ids = self.ids
        # The columns that are looked at in every step: structure tokens, banned ones, and words that keep a row alive.
        self._columns = torch.tensor([ids.end, *sorted(banned - {ids.end}), *spare], device=device)
        self._floor = torch.tensor([STRUCTURE_FLOOR] * len(banned) + [SPARE_FLOOR] * len(spare), device=device)
        self._hidden = self._hidden_at(self._columns, banned)
        self.structure = torch.tensor([ids.present, ids.absent, ids.end, ids.eos], device=device)  # (4)
        self._hidden_structure = self._hidden_at(self.structure, banned)

    def _hidden_at(self, columns: Tensor, banned: set[int]) -> Tensor:
        """Which of some columns may not come next, for each state (states, columns)."""
        hidden = [[not self._permits(state, column, banned) for column in columns.tolist()] for state in State]
        return torch.tensor(hidden, device=columns.device)

    def _permits(self, state: State, column: int, banned: set[int]) -> bool:
        if column in (self.ids.present, self.ids.absent):
            return state.permits_tags
        if column == self.ids.end:
            return state.permits_end
        if column == self.ids.eos:
            return state.permits_eos
        return state.permits_words and column not in banned

    def _one_word_of_each_kind(self, vocabulary: int, banned: set[int]) -> list[int]:
        """Words of the vocabulary that do not exclude each other: one more than a stream has phrases, if there are."""
        kinds = range(vocabulary) if self._stems is None else self._stems.classes.tolist()
        words: dict[int, int] = {}
        for index, kind in enumerate(kinds):
            if index not in banned:
                words.setdefault(kind, index)
        return list(words.values())[: self.settings.max_phrases + 1]

    def oov_classes(self, words: Sequence[Sequence[str]]) -> Tensor | None:
        """What `apply` needs to know of each document's out-of-vocabulary words (documents, words); None if nothing."""
        return None if self._stems is None else self._stems.out_of_vocabulary(words)

    def apply(self, log_probs: Tensor, sequence: Tensor, oov_classes: Tensor | None = None) -> None:
        """Set the log-probability of every token that may not come next to minus infinity, in place.

        log_probs: (rows, extended vocabulary), of the model alone: before a hypothesis' score is added.
        sequence: (rows, length), the tokens so far as extended ids, the first one the decoder's start token.
        oov_classes: (rows, words), for each row its document's part of `oov_classes`.
        """
        state, found = self._apply_grammar(log_probs, sequence)
        if not found.isdisjoint(self._excluding):
            log_probs.scatter_(1, self._forbidden(sequence, state, oov_classes), FORBIDDEN)

    def _apply_grammar(self, log_probs: Tensor, sequence: Tensor) -> tuple[Tensor, set[int]]:
        """Forbid what the grammar does not permit; the states (rows,), and which of them there are."""
        state = self.state(sequence)
        found = set(state.tolist())
        # Few columns or few rows are touched at a time: passing over the whole matrix would cost more than the rest.
        values = log_probs.index_select(1, self._columns).maximum(self._floor.to(log_probs))
        values.masked_fill_(self._hidden.index_select(0, state), FORBIDDEN)  # (rows, columns)
        if found.isdisjoint(WORD_STATES):
            log_probs.fill_(FORBIDDEN)
        elif not found <= WORD_STATES:
            log_probs.index_fill_(0, state.ge(State.FULL).nonzero().squeeze(1), FORBIDDEN)
        log_probs.index_copy_(1, self._columns, values)
        return state, found

    def forced_end(self, sequence: Tensor) -> Tensor:
        """The rows (rows,) whose open phrase is full, so that ``;`` is appended, not predicted.

        The authors close such a phrase with the attentional vector h~ of the step that wrote its last word. A
        hierarchical decoder does the same if these rows keep the state they had before the step.
        """
        return self.state(sequence).eq(State.FULL)

    def choose_structure(self, state: Tensor, logits: Tensor) -> Tensor:
        """The most probable token (rows,) where no word may come, from the logits (rows, 4) of `structure`."""
        permitted = logits.masked_fill(self._hidden_structure.index_select(0, state), FORBIDDEN)
        return self.structure.take(permitted.argmax(1))

    def _forbidden(self, sequence: Tensor, state: Tensor, oov: Tensor | None) -> Tensor:
        """What exclusion forbids to come next: words, and ``;`` where a phrase would repeat an earlier one.

        Returns (rows, n), filled up with the id of the padding token, which may never come.
        """
        stems, settings, window = self._stems, self.settings, self.settings.exclusive_window
        if stems is None:
            return first_words(sequence, self.ids, window, filler=self.ids.pad)
        if oov is None:
            oov = torch.full_like(sequence[:, :1], NO_WORD)
        firsts = first_words(sequence, self.ids, window, filler=NO_WORD)
        firsts = firsts.topk(min(firsts.size(1), settings.max_phrases)).values  # most of the filler goes
        classes, columns = [], []
        if settings.exclude_stems:
            classes.append(stems.classes_of(firsts, oov))
        else:
            columns.append(firsts)
        if settings.exclude_phrases:
            repeats, completing = self._repetitions(sequence, oov, stems)
            classes += [completing, torch.full_like(completing[:, :1], SPLIT)]
            repeats &= state.eq(State.INSIDE)
            columns.append(torch.where(repeats, self.ids.end, self.ids.pad).unsqueeze(1))
        columns.append(stems.ids_of(torch.cat(classes, dim=1), oov))
        forbidden = torch.cat(columns, dim=1)
        return forbidden.masked_fill(forbidden.lt(0), self.ids.pad)

    def _repetitions(self, sequence: Tensor, oov: Tensor, stems: StemTable) -> tuple[Tensor, Tensor]:
        """Whether the open phrase equals an earlier one (rows,), and the stem classes (rows, phrases) that would make
        it equal to one with no word left to tell them apart; -1 where there is none.
        """
        words, last = phrase_table(sequence, self.ids, self.settings.max_phrase_words)
        table = stems.classes_of(words.flatten(1), oov).view_as(words)
        width = table.size(2)
        earlier = torch.arange(table.size(1), device=table.device) < last.unsqueeze(1)  # (rows, phrases)
        open_phrase = table.gather(1, last.view(-1, 1, 1).expand(-1, 1, width))  # (rows, 1, words)
        same = table.eq(open_phrase)  # (rows, phrases, words)
        repeats = (same.all(2) & earlier).any(1)
        written = open_phrase.ne(NO_WORD).sum(2)  # (rows, 1)
        is_next = torch.arange(width, device=table.device) == written.unsqueeze(2)  # (rows, 1, words)
        completes = (same | is_next).all(2) & earlier
        room = self.state.room(sequence)
        if room is None or room > 2:
            completes &= written.eq(width - 1)
        following = written.clamp(max=width - 1).unsqueeze(2).expand(-1, table.size(1), 1)
        return repeats, table.gather(2, following).squeeze(2).masked_fill(~completes, NO_WORD)
