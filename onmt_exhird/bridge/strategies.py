"""Making upstream's decode strategies write streams, and pass over the vocabulary no oftener than they must."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from onmt_exhird.search import StreamConstraint, best

UNLIKELY = -1e5  # for beams that hold no hypothesis yet; upstream's minus infinity would let forbidden tokens in
ALL = slice(None)
Rows = Tensor | slice
# Some rows' scores (k, size), up to a constant of each row, and these constants (k, 1).
ScoreRows = Callable[[Rows], tuple[Tensor, Tensor]]


def is_beam_search(strategy: Any) -> bool:
    """Whether a decode strategy is that; the others sample."""
    return not hasattr(strategy, "keep_topk")


def constrain(strategy: Any, constraint: StreamConstraint | None, oov_classes: Tensor | None) -> None:
    """Make a decode strategy, beam search or sampling, choose among what the constraint permits.

    It acts where upstream lowers single tokens, ``<unk>`` last, before a hypothesis' own score is added.
    oov_classes (batch, words).
    """
    ensure_unk_removed = strategy.ensure_unk_removed

    def ensure_stream(scores: Tensor, rows: Rows = ALL) -> None:
        ensure_unk_removed(scores)
        if constraint is None:
            return
        of_rows = None if oov_classes is None else oov_classes[documents_of(strategy)[rows]]
        constraint.apply(scores, strategy.alive_seq[rows], of_rows)
        if is_beam_search(strategy):
            least = torch.finfo(strategy.topk_log_probs.dtype).min
            strategy.topk_log_probs.clamp_(min=max(UNLIKELY, least))

    strategy.ensure_unk_removed = ensure_stream


def pick_one(strategy: Any) -> None:
    """Make sampling find the best token quickly, if it is from that one only."""
    if is_beam_search(strategy) or strategy.keep_topk != 1:
        return

    def pick(scores: Tensor) -> tuple[Tensor, Tensor]:
        values, ids = best(strategy.target_prefixing(scores))
        return ids, values / strategy.sampling_temp

    strategy._pick = pick


def look_at_few(strategy: Any) -> bool:
    """Make beam search compare the best tokens of each beam: upstream passes four times over the whole vocabulary.

    ``advance`` is then given a `ScoreRows`, and asks for the rows that can matter. What upstream does to single tokens
    is done to what comes. Then its own step gets a narrow matrix, of as many columns as there are beams, since
    none of them can have more successors. At the end columns become tokens.

    Returns whether it is so: not in sampling, nor if repeated n-grams are blocked.
    """
    if not is_beam_search(strategy) or strategy.block_ngram_repeat:
        return False
    advance = strategy.advance
    of_tokens = ("ensure_min_length", "ensure_unk_removed", "target_prefixing")
    ensure_min_length, ensure_unk_removed, target_prefixing = (getattr(strategy, name) for name in of_tokens)
    for name in of_tokens:
        setattr(strategy, name, lambda scores: scores)

    def best_of(score_rows: ScoreRows, rows: Rows) -> tuple[Tensor, Tensor]:
        scores, constants = score_rows(rows)
        ensure_min_length(scores)
        ensure_unk_removed(scores, rows)
        if rows is ALL:
            scores = target_prefixing(scores)
        values, tokens = best(scores, strategy.beam_size)  # (k, beams)
        return values + constants, tokens

    def successors(score_rows: ScoreRows) -> tuple[Tensor, Tensor]:
        """The best tokens of each row and their log P: (rows, beams) twice."""
        last = strategy.alive_seq[:, -1]
        if strategy.target_prefix is not None:
            return best_of(score_rows, ALL)
        if strategy.alive_seq.size(1) == 1:  # all beams of a document are one
            values, tokens = best_of(score_rows, torch.arange(0, len(last), strategy.beam_size, device=last.device))
            return values.repeat_interleave(strategy.beam_size, 0), tokens.repeat_interleave(strategy.beam_size, 0)
        rows = last.ne(strategy.eos).nonzero().squeeze(1)
        if len(rows) == len(last):
            return best_of(score_rows, ALL)
        # A finished hypothesis stays for a step, with a score that upstream has made hopeless.
        tokens = torch.full_like(last.unsqueeze(1).expand(-1, strategy.beam_size), strategy.eos)
        some_values, some_tokens = best_of(score_rows, rows)
        values = some_values.new_full(tokens.shape, -torch.inf)
        values[:, 0] = 0.0
        return values.index_copy(0, rows, some_values), tokens.index_copy(0, rows, some_tokens)

    def advance_with_few(score_rows: ScoreRows, attn: Tensor) -> None:
        values, tokens = successors(score_rows)
        advance(values, attn)
        chosen = tokens[strategy.select_indices].gather(1, strategy.topk_ids.view(-1, 1))  # (rows, 1)
        strategy.topk_ids = chosen.view_as(strategy.topk_ids)
        strategy.alive_seq[:, -1:] = chosen
        strategy.is_finished_list = strategy.topk_ids.eq(strategy.eos).tolist()
        strategy.ensure_max_length()

    strategy.advance = advance_with_few
    return True


def documents_of(strategy: Any) -> Tensor:
    """The document (of the batch) that each row of a strategy belongs to, when others have finished."""
    if not is_beam_search(strategy):
        return strategy.original_batch_idx
    return strategy.batch_offset.to(strategy.alive_seq.device).repeat_interleave(strategy.beam_size)
