"""Making upstream's decode strategies write streams, and pass over the vocabulary no oftener than they must."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onmt_exhird.search import StreamConstraint, best

UNLIKELY = -1e5  # for beams that hold no hypothesis yet; upstream's minus infinity would let forbidden tokens in


def constrain(strategy: Any, constraint: StreamConstraint, oov_classes: Tensor | None) -> None:
    """Make a decode strategy, beam search or sampling, choose among what the constraint permits.

    It acts where upstream lowers single tokens, ``<unk>`` last, before a hypothesis' own score is added.
    oov_classes (batch, words).
    """
    ensure_unk_removed = strategy.ensure_unk_removed

    def ensure_stream(log_probs: Tensor) -> None:
        ensure_unk_removed(log_probs)
        of_rows = None if oov_classes is None else oov_classes[documents_of(strategy)]
        constraint.apply(log_probs, strategy.alive_seq, of_rows)
        if hasattr(strategy, "topk_log_probs"):
            least = torch.finfo(strategy.topk_log_probs.dtype).min
            strategy.topk_log_probs.clamp_(min=max(UNLIKELY, least))

    strategy.ensure_unk_removed = ensure_stream


def pick_quickly(strategy: Any) -> None:
    """Make a decode strategy find the best tokens quickly; sampling, and beams that block n-grams, are left alone."""
    if not hasattr(strategy, "keep_topk"):  # beam search
        if not strategy.block_ngram_repeat:
            look_at_few(strategy)
    elif strategy.keep_topk == 1:

        def pick_one(scores: Tensor) -> tuple[Tensor, Tensor]:
            values, ids = best(strategy.target_prefixing(scores))
            return ids, values / strategy.sampling_temp

        strategy._pick = pick_one


def look_at_few(strategy: Any) -> None:
    """Make beam search compare the best tokens of each beam: upstream passes four times over the whole vocabulary.

    What upstream does to single tokens is done first, to the whole matrix. Then its own step gets a narrow one, of as
    many columns as there are beams, since none of them can have more successors. At the end columns become tokens.
    """
    advance = strategy.advance
    of_tokens = ("ensure_min_length", "ensure_unk_removed", "target_prefixing")
    originals = [getattr(strategy, name) for name in of_tokens]
    for name in of_tokens:
        setattr(strategy, name, lambda scores: scores)

    def advance_with_few(log_probs: Tensor, attn: Tensor) -> None:
        for original in originals:
            changed = original(log_probs)
            log_probs = log_probs if changed is None else changed
        values, tokens = best(log_probs, strategy.beam_size)  # (rows, beams)
        advance(values, attn)
        chosen = tokens[strategy.select_indices].gather(1, strategy.topk_ids.view(-1, 1))  # (rows, 1)
        strategy.topk_ids = chosen.view_as(strategy.topk_ids)
        strategy.alive_seq[:, -1:] = chosen
        strategy.is_finished_list = strategy.topk_ids.eq(strategy.eos).tolist()
        strategy.ensure_max_length()

    strategy.advance = advance_with_few


def documents_of(strategy: Any) -> Tensor:
    """The document (of the batch) that each row of a strategy belongs to, when others have finished."""
    if hasattr(strategy, "original_batch_idx"):  # sampling
        return strategy.original_batch_idx
    return strategy.batch_offset.to(strategy.alive_seq.device).repeat_interleave(strategy.beam_size)  # beam search
