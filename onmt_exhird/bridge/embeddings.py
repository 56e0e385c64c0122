"""Embeddings to start a training from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onmt_exhird.bridge.seams import Upstream


def vectors_in_one_pass(embeddings: Upstream) -> None:
    """Upstream lists the whole vocabulary anew for every word that has a vector: minutes at 30,000 words."""

    def convert_to_torch_tensor(vectors: dict[str, list[float]], vocab: Any) -> Tensor:
        """A row for each word of the vocabulary, zeros where a word has no vector."""
        ids, rows = vocab.tokens_to_ids, torch.tensor(list(vectors.values()))
        places = torch.tensor([ids[word] for word in vectors])
        return torch.zeros(len(vocab), rows.size(1)).index_copy(0, places, rows)

    embeddings.convert_to_torch_tensor = convert_to_torch_tensor
