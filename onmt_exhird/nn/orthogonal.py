"""Orthogonal regularisation (Bousmalis et al. 2016, as in catSeqD of Yuan et al. 2018).

The states that predict the end of a phrase, the rows of H, are to differ from one another:

    L_orth = || H H^T - I ||_F      for each document
"""

from __future__ import annotations

import torch
from torch import Tensor


def orthogonal_loss(hidden: Tensor, chosen: Tensor) -> Tensor:
    """How far the states at the chosen positions are from orthonormal: the Frobenius norm of H H^T - I.

    hidden (batch, tgt_len, d), chosen (batch, tgt_len) -> (batch); 0 where nothing is chosen

    >>> states = torch.tensor([[[3.0, 0.0], [7.0, 7.0], [0.0, 1.0]]])
    >>> orthogonal_loss(states, torch.tensor([[True, False, True]]))
    tensor([8.])
    """
    rows = hidden.masked_fill(~chosen.unsqueeze(2), 0.0)
    difference = torch.bmm(rows, rows.transpose(1, 2)) - torch.diag_embed(chosen.to(rows.dtype))  # (batch, tgt_len^2)
    return torch.linalg.vector_norm(difference, dim=(1, 2))
