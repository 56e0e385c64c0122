"""Coverage (See et al. 2017; catSeqCorr of Chan et al. 2019): the attention knows what it has attended to.

c_t     = sum_{s<t} alpha_s
k_t,n   = tanh(m_n + c_t,n w_c)      what is scored at step t in place of m_n; the context is of m_n itself
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from onmt_exhird.nn.catseq import parameter


class Coverage(nn.Module):
    """
    weight   w_c (d)
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.weight = parameter(hidden_size)

    def forward(self, states: Tensor, coverage: Tensor) -> Tensor:
        """m (batch, src_len, d), c (batch, src_len) -> what is scored (batch, src_len, d)."""
        return torch.tanh(torch.addcmul(states, coverage.unsqueeze(2), self.weight))
