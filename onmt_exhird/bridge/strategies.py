"""Making upstream's decode strategies write streams: sampling, and beams with penalties that only upstream has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onmt_exhird.search import StreamConstraint
from onmt_exhird.search.beam import UNLIKELY


def is_beam_search(strategy: Any) -> bool:
    """Whether a decode strategy is that; the others sample."""
    return not hasattr(strategy, "keep_topk")


def constrain(strategy: Any, constraint: StreamConstraint | None, oov_classes: Tensor | None) -> None:
    """Make a decode strategy, beam search or sampling, choose among what the constraint permits.

    It acts where upstream lowers single tokens, ``<unk>`` last, before a hypothesis' own score is added.
    oov_classes (batch, words).
    """
    ensure_unk_removed = strategy.ensure_unk_removed

    def ensure_stream(scores: Tensor) -> None:
        ensure_unk_removed(scores)
        if constraint is None:
            return
        of_rows = None if oov_classes is None else oov_classes[documents_of(strategy)]
        constraint.apply(scores, strategy.alive_seq, of_rows)
        if is_beam_search(strategy):
            least = torch.finfo(strategy.topk_log_probs.dtype).min
            strategy.topk_log_probs.clamp_(min=max(UNLIKELY, least))

    strategy.ensure_unk_removed = ensure_stream


def documents_of(strategy: Any) -> Tensor:
    """The document (of the batch) that each row of a strategy belongs to, when others have finished."""
    if not is_beam_search(strategy):
        return strategy.original_batch_idx
    return strategy.batch_offset.to(strategy.alive_seq.device).repeat_interleave(strategy.beam_size)
