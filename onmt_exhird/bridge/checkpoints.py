"""Models built with our generator, and checkpoints that load again and run no code."""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch
from torch import nn

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
    build_base_model = model_builder.build_base_model

    def build(model_opt: argparse.Namespace, vocabs: dict[str, Any]) -> nn.Module:
        model = build_base_model(model_opt, vocabs)
        if model_opt.copy_attn and model_opt.share_decoder_embeddings:
            model.generator.tie(model.decoder.embeddings.word_lut.weight)
        if hasattr(model.decoder, "read_vocabulary"):
            model.decoder.read_vocabulary(vocabs)
        return model

    model_builder.CopyGenerator = TiedCopyGenerator
    model_builder.build_base_model = build


class _TorchThatLoadsHarmlessly:
    """The torch module as upstream's modules see it, but for ``load``."""

    load = staticmethod(load_harmless)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def load_without_running_code(module: Upstream) -> None:
    """Upstream calls ``torch.load`` with its default: rejected by torch >= 2.6, code execution before it."""
    module.torch = _TorchThatLoadsHarmlessly()


class _Unshared:
    """A model whose state holds no two tensors in one storage."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def state_dict(self) -> dict[str, Any]:
        return {name: tensor.clone() for name, tensor in self._model.state_dict().items()}


def save_safetensors_to_be_found(model_saver: Upstream) -> None:
    """Safetensors refuses tensors that share storage, as embeddings under -share_embeddings do.

    And upstream saves ``model_step_9.safetensors`` but loads ``model_step_9.*.safetensors``.
    """
    saver = model_saver.ModelSaver
    save = saver._st_save

    def save_one_shard(self: Any, step: int, model: nn.Module) -> tuple[str | None, str | None]:
        checkpoint, weights = save(self, step, _Unshared(model))
        if weights is None:  # another process has saved it
            return checkpoint, weights
        shard = weights.removesuffix(".safetensors") + ".00.safetensors"
        os.replace(weights, shard)
        return checkpoint, shard

    saver._st_save = save_one_shard
