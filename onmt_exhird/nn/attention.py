"""Bilinear attention (paper, section 4.2.1): s_n = h^T W m_n."""

from __future__ import annotations

import torch
from torch import Tensor


def padding_bias(lengths: Tensor, src_len: int, dtype: torch.dtype) -> Tensor:
    """What to add to scores so that padding gets no attention: (batch) -> (batch, src_len).

    Half of the smallest number rather than minus infinity: the softmax gives padding exactly zero all
    the same, and a document without any token gets a uniform attention instead of NaN.

    >>> padding_bias(torch.tensor([2, 1]), 2, torch.float32) == 0
    tensor([[ True,  True],
            [ True, False]])
    """
    positions = torch.arange(src_len, device=lengths.device)
    is_padding = positions >= lengths.unsqueeze(1)  # (batch, src_len)
    bias = torch.zeros(is_padding.shape, dtype=dtype, device=lengths.device)
    return bias.masked_fill(is_padding, torch.finfo(dtype).min / 2)


def scores(query: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
    """``bias + query . m_n``; the attention is its softmax, the query is h^T W.

    query (batch, d), memory (batch, src_len, d), bias (batch, src_len) -> (batch, src_len)

    The product h^T W is taken once per target token rather than W m once per source token: targets are
    shorter than sources. The bias masks padding, or rescales: the softmax of a sum of scores is the
    product of two attentions, normalised.

    >>> scores(torch.ones(1, 2), torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), torch.zeros(1, 2))
    tensor([[3., 7.]])
    """
    # A row times a matrix takes half the time of a matrix times a column.
    return torch.baddbmm(bias.unsqueeze(1), query.unsqueeze(1), memory.transpose(1, 2)).squeeze(1)
