"""Review (Chen et al. 2018; catSeqCorr of Chan et al. 2019): the decoder looks back at its own states.

rho_k = softmax_k(h_{t-1}^T W_r h_k)              k = 1 ... t-1
r_t   = tanh(W_4 [h_{t-1}; sum_k rho_k h_k])      r_1 = 0
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onmt_exhird.nn.catseq import attend, parameter
from onmt_exhird.nn.hierarchical import Memory


class Review(nn.Module):
    """
    attention   W_r (d, d)    rows for the last state, columns for all
    combine     W_4 (d, 2d)   acts on [last state; context]
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.attention = parameter(hidden_size, hidden_size)
        self.combine = parameter(hidden_size, 2 * hidden_size)

    def forward(self, earlier: Tensor) -> Tensor:
        """h_1 ... h_{t-1} (batch, t - 1, d) -> r_t (batch, d), which is 0 before the first state."""
        if earlier.size(1) == 0:
            return earlier.new_zeros(len(earlier), earlier.size(2))
        last = earlier[:, -1]
        unmasked = earlier.new_zeros(earlier.shape[:2])
        _, context = attend(last @ self.attention, Memory(earlier, unmasked))
        return torch.tanh(F.linear(torch.cat([last, context], 1), self.combine))
