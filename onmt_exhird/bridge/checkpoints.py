"""Models built with our generator, and checkpoints that load again and run no code."""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import nn

from onmt_exhird.bridge import copying, texts
from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.generator.unpickling import load_harmless
from onmt_exhird.nn.copying import CopyGenerator


class TiedCopyGenerator(CopyGenerator):
    """Our generator under the interface of the stock one, which keeps its weight in ``linear``."""

    @property
    def linear(self) -> TiedCopyGenerator:
        """-share_decoder_embeddings assigns to ``generator.linear.weight``, whatever the width."""
        return self


def build_our_generator(model_builder: Upstream) -> None:
    """Upstream's copy generator cannot be loaded again from a ``.pt`` file, and needs a one-hot source map.

    ``build_base_model`` is also the one place where a decoder can learn the vocabulary.
    """
    build_base_model, stock_generator = model_builder.build_base_model, model_builder.CopyGenerator

    def build(model_opt: argparse.Namespace, vocabs: dict[str, Any]) -> nn.Module:
        model_builder.CopyGenerator = TiedCopyGenerator if copying.note(model_opt, vocabs) else stock_generator
        vocabs[texts.NOTED] = texts.content_of(model_opt)
        model = build_base_model(model_opt, vocabs)
        if model_opt.copy_attn and model_opt.share_decoder_embeddings:
            model.generator.tie(model.decoder.embeddings.word_lut.weight)
        if hasattr(model.decoder, "read_vocabulary"):
            model.decoder.read_vocabulary(vocabs)
        return model

    model_builder.build_base_model = build


class _TorchThatLoadsHarmlessly:
    """The torch module as upstream's modules see it, but for ``load``."""

    load = staticmethod(load_harmless)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def load_without_running_code(module: Upstream) -> None:
    """Upstream calls ``torch.load`` with its default: rejected by torch >= 2.6, code execution before it."""
    module.torch = _TorchThatLoadsHarmlessly()
