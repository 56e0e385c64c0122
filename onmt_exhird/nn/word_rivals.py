"""The rivals of the exclusive loss where words are made of pieces."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from onmt_exhird.nn.losses import Rivals, find_phrases


def find_word_rivals(targets: Tensor, continues: Tensor, tag_ids: Sequence[int], window: int, pad_id: int) -> Rivals:
    """As `find_rivals`, for first words of several pieces: what is pushed down is the piece that completes a word.

    A rival counts at the place of its last piece, if the target has spelt all its other pieces and does not complete
    it there. So ``un`` of ``un supervised`` is not pushed down for the sake of a later ``un labelled``: it is the
    word, not the piece, that was used before. A rival of one piece counts as it does among whole words.

    targets (batch, tgt_len), extended ids; continues (batch, tgt_len): whether each goes on with the word before it.

    With tags 5 and 6, ``;`` as 4 and pieces 20 and more that go on, ``8 20`` is used before ``8 21``:

    >>> targets = torch.tensor([[5, 8, 20, 4, 6, 8, 21, 4]])
    >>> rivals = find_word_rivals(targets, targets >= 20, [5, 6], window=1, pad_id=1)
    >>> rivals.counts[0, :, 0].nonzero().flatten().tolist(), rivals.ids[0, 6, 0].item()
    ([6], 20)
    """
    places = torch.arange(targets.size(1), device=targets.device)
    _, phrase, starts, earlier = find_phrases(targets, tag_ids, window, pad_id)
    own_start = starts.gather(1, phrase.clamp_min(0))  # (batch, tgt_len)
    ended = (~continues).cumsum(1)
    in_word = phrase.ge(0) & places.ge(own_start) & ended.eq(ended.gather(1, own_start))
    lengths = torch.zeros_like(starts).scatter_add_(1, phrase.clamp_min(0), in_word.long())  # (batch, phrases)

    exists = earlier.ge(0) & in_word.unsqueeze(2)
    number = earlier.clamp_min(0).flatten(1)
    offset = (places - own_start).unsqueeze(2)  # (batch, tgt_len, 1), of a piece in its word
    length = lengths.gather(1, number).view_as(earlier)
    place = (starts.gather(1, number).view_as(earlier) + offset).clamp(0, targets.size(1) - 1)
    ids = targets.gather(1, place.flatten(1)).view_as(earlier)
    same = ids.eq(targets.unsqueeze(2)) & offset.lt(length)
    missed = (exists & ~same).cumsum(1)
    before = missed - (exists & ~same).long()  # of all places before this one
    spelt = before.eq(before.gather(1, own_start.unsqueeze(2).expand_as(before)))
    counts = exists & spelt & ~same & offset.eq(length - 1)
    return Rivals(ids.masked_fill(~counts, pad_id), counts)
