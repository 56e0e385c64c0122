"""Words for what a search has found, copied ones too."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.stream import EOS


def copied_words_as_themselves(module: Upstream) -> None:
    """Upstream looks copied words up by the size of the wrong vocabulary, and keeps what follows ``</s>``."""
    builder = module.TranslationBuilder
    build = builder._build_target_tokens

    def build_target_tokens(
        self: Any, src: Tensor, srclen: Tensor, pred: Tensor, attn: Any, voc: list[str], dyn_voc: list[str] | None
    ) -> list[str]:
        if dyn_voc is not None and not isinstance(dyn_voc, list):  # of a model that copies as upstream does
            return build(self, src, srclen, pred, attn, voc, dyn_voc)
        eos = self.vocabs["tgt"].lookup_token(EOS)
        ids = pred.tolist()
        ids = ids[: ids.index(eos) + 1] if eos in ids else ids
        known = torch.tensor([index if index < len(voc) else 0 for index in ids])
        tokens = build(self, src, srclen, known, attn, voc, None)
        if dyn_voc is not None:
            for position, index in enumerate(ids):
                if index >= len(voc):
                    tokens[position] = dyn_voc[index - len(voc)]
        return tokens

    builder._build_target_tokens = build_target_tokens
