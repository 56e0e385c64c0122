"""The largest scores of long rows."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_BLOCK = 64


def best(scores: Tensor, count: int = 1) -> tuple[Tensor, Tensor]:
    """The largest scores of each row and their columns, the best first: (rows, columns) -> (rows, count) twice.

    Several times as fast as `Tensor.topk` for rows of a vocabulary's length: the largest of each block is found
    without keeping track of where it is, and only the best blocks are looked into.

    >>> best(torch.tensor([[1.0, 3.0, 2.0], [5.0, 4.0, 6.0]]), 2)
    (tensor([[3., 2.],
            [6., 5.]]), tensor([[1, 2],
            [2, 0]]))
    """
    columns = scores.size(1)
    if columns <= _BLOCK * count:
        values, ids = scores.topk(count)
        return values, ids
    whole = columns // _BLOCK * _BLOCK
    of_blocks = scores[:, :whole].unflatten(1, (-1, _BLOCK)).amax(2)  # (rows, blocks)
    rest = F.pad(scores[:, whole:], (0, whole + _BLOCK - columns), value=-torch.inf)  # the last block, of full length
    of_blocks = torch.cat([of_blocks, rest.amax(1, keepdim=True)], 1)
    blocks = of_blocks.topk(count).indices  # (rows, count)
    inside = blocks.unsqueeze(2) * _BLOCK + torch.arange(_BLOCK, device=scores.device)  # (rows, count, block)
    inside = inside.flatten(1)
    exists = inside < columns
    candidates = scores.gather(1, inside.clamp(max=columns - 1)).masked_fill(~exists, -torch.inf)
    values, index = candidates.topk(count)
    return values, inside.gather(1, index)
