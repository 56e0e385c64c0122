"""The generation loss and the exclusive loss (paper, sections 4.3 and 4.4), read off the flat stream.

Both need the targets' extended ids only, so they serve every decoder that produces the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from onmt_exhird.nn.copying import CopyGenerator


class Rivals(NamedTuple):
    """First words of earlier phrases, at the positions whose target is the first word of a phrase.

    ids      (batch, tgt_len, k)   extended ids, padding where there is none
    counts   (batch, tgt_len, k)   where there is one and it differs from the target
    """

    ids: Tensor
    counts: Tensor


class StreamLosses(NamedTuple):
    """Losses by position, zero at padding; sums over axis 1 are those of the documents.

    generation   (batch, tgt_len)   -log P of the target
    exclusive    (batch, tgt_len)   the terms of Algorithm 1 at first words, 0 elsewhere
    """

    generation: Tensor
    exclusive: Tensor

    def joint(self, exclusive_weight: float = 1.0) -> Tensor:
        """The sum over the batch that is to be minimised: L = L_g + weight * L_EL."""
        return self.generation.sum() + exclusive_weight * self.exclusive.sum()


class Phrases(NamedTuple):
    """Where the phrases of targets are, in numbers from 0 for each document.

    is_first   (batch, tgt_len)      whether the target before it, its input, is a tag
    number     (batch, tgt_len)      of the phrase a position belongs to; -1 before the first
    starts     (batch, phrases)      the position of each phrase's first word
    earlier    (batch, tgt_len, k)   numbers of the k phrases before that one, the nearest first; negative if none
    """

    is_first: Tensor
    number: Tensor
    starts: Tensor
    earlier: Tensor


def find_phrases(targets: Tensor, tag_ids: Sequence[int], window: int, pad_id: int) -> Phrases:
    """The phrases of targets (batch, tgt_len); ``earlier`` has as many as there are, up to the window."""
    tags = torch.tensor(list(tag_ids), dtype=targets.dtype, device=targets.device)
    is_first = torch.zeros_like(targets, dtype=torch.bool)
    is_first[:, 1:] = torch.isin(targets[:, :-1], tags) & (targets[:, 1:] != pad_id)
    number = is_first.cumsum(1) - 1
    phrases = int(number.max()) + 1 if number.numel() else 0
    row, column = is_first.nonzero(as_tuple=True)
    starts = torch.zeros(targets.size(0), max(phrases, 1), dtype=torch.long, device=targets.device)
    starts[row, number[row, column]] = column
    width = max(min(window, phrases - 1), 0)
    earlier = number.unsqueeze(2) - torch.arange(1, width + 1, device=targets.device)
    return Phrases(is_first, number, starts, earlier)


def find_rivals(
    targets: Tensor, tag_ids: Sequence[int], window: int, pad_id: int, compared: Tensor | None = None
) -> Rivals:
    """The words that Algorithm 1 of the paper pushes down: first words of the last K_EL phrases.

    targets (batch, tgt_len), extended ids; the window is K_EL. A rival that equals the target does not
    count. ``compared`` (batch, tgt_len) are the ids that decide equality, if not the targets themselves.

    With tags 5 and 6 and ``;`` as 4, the first words here are 8, 9 and 8:

    >>> rivals = find_rivals(torch.tensor([[5, 8, 4, 6, 9, 4, 6, 8, 4]]), [5, 6], window=2, pad_id=1)
    >>> rivals.ids[0, [1, 4, 7]].tolist(), rivals.counts[0, [1, 4, 7]].tolist()
    ([[1, 1], [8, 1], [9, 8]], [[False, False], [True, False], [True, False]])
    """
    compared = targets if compared is None else compared
    is_first, _, starts, earlier = find_phrases(targets, tag_ids, window, pad_id)
    exists = (earlier >= 0) & is_first.unsqueeze(2)
    position = starts.gather(1, earlier.clamp_min(0).flatten(1))  # (batch, tgt_len * k)
    ids = targets.gather(1, position).view_as(earlier).masked_fill(~exists, pad_id)
    differs = compared.gather(1, position).view_as(earlier) != compared.unsqueeze(2)
    return Rivals(ids, exists & differs)


def exclusion(log_p: Tensor) -> Tensor:
    """-log(1 - P) from log P, with 1 - P held above the number type's epsilon: finite for every P."""
    eps = torch.finfo(log_p.dtype).eps
    return torch.expm1(log_p).neg().clamp_min(eps).log().neg()


def stream_losses(
    generator: CopyGenerator,
    hidden: Tensor,
    attention: Tensor,
    src_ext: Tensor,
    targets: Tensor,
    rivals: Rivals | None = None,
) -> StreamLosses:
    """Both losses, in one pass of the real tokens through the output layer.

    hidden (batch, tgt_len, d), attention (batch, tgt_len, src_len), src_ext (batch, src_len),
    targets (batch, tgt_len), extended ids. Without rivals there is no exclusive loss.
    """
    flat_targets = targets.flatten()  # (batch * tgt_len)
    real = (flat_targets != generator.pad_id).nonzero().squeeze(1)  # (n)
    document = real.div(targets.size(1), rounding_mode="floor")  # (n)
    candidates = flat_targets[real].unsqueeze(1)  # (n, 1)
    if rivals is not None:
        # Beside the target, so that the output layer, by far the largest part, runs once.
        candidates = torch.cat([candidates, rivals.ids.flatten(0, 1)[real]], 1)  # (n, 1 + k)
    log_p = generator.score(
        hidden.flatten(0, 1).index_select(0, real),
        attention.flatten(0, 1).index_select(0, real),
        src_ext.index_select(0, document),
        candidates,
    )  # (n, 1 + k)

    zeros = log_p.new_zeros(flat_targets.shape)
    generation = zeros.index_copy(0, real, -log_p[:, 0]).view_as(targets)
    exclusive = zeros.view_as(targets)
    if rivals is not None:
        counts = rivals.counts.flatten(0, 1)[real]  # (n, k)
        terms = exclusion(log_p[:, 1:]).masked_fill(~counts, 0.0)
        exclusive = zeros.index_copy(0, real, terms.sum(1)).view_as(targets)
    return StreamLosses(generation, exclusive)
