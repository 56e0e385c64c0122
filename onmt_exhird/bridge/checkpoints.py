"""Models built with our generator, and checkpoints that load again and run no code."""

from __future__ import annotations

import argparse
import collections
import pickle
import zipfile
from types import ModuleType
from typing import Any

import torch
from torch import nn

from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn.copying import CopyGenerator


class TiedCopyGenerator(CopyGenerator):
    """Our generator under the interface of the stock one, which keeps its weight in ``linear``."""

    @property
    def linear(self) -> TiedCopyGenerator:
        """-share_decoder_embeddings assigns to ``generator.linear.weight``."""
        return self


def build_our_generator(model_builder: Upstream) -> None:
    """Upstream's copy generator cannot be loaded again from a ``.pt`` file, and needs a one-hot source map.

    ``build_base_model`` is also the one place where a decoder can learn the vocabulary.
    """
    build_base_model = model_builder.build_base_model

    def build(model_opt: argparse.Namespace, vocabs: dict[str, Any]) -> nn.Module:
        model = build_base_model(model_opt, vocabs)
        if hasattr(model.decoder, "read_vocabulary"):
            model.decoder.read_vocabulary(vocabs)
        return model

    model_builder.CopyGenerator = TiedCopyGenerator
    model_builder.build_base_model = build


_HARMLESS = {
    (kind.__module__, kind.__qualname__): kind
    for kind in (argparse.Namespace, collections.OrderedDict, set, torch.Size, torch.Tensor, torch.nn.Parameter)
} | {("torch._utils", name): getattr(torch._utils, name) for name in ("_rebuild_tensor_v2", "_rebuild_parameter")}


class _HarmlessUnpickler(pickle.Unpickler):
    """Rebuilds tensors and plain containers; refuses whatever else a file asks for."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "__builtin__":  # the name in the protocol that torch writes
            module = "builtins"
        try:
            return _HARMLESS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"a checkpoint has no business with {module}.{name}") from None


_harmless_pickle: Any = ModuleType("harmless_pickle")  # what torch.load takes for the pickle module
_harmless_pickle.Unpickler = _HarmlessUnpickler


def load_harmless(path: Any, map_location: Any = None) -> Any:
    """`torch.load` that runs no code from the file, on every torch."""
    # Before torch 2.4 the built-in strict unpickler cannot be told about argparse.Namespace.
    strict: dict[str, Any] = {"pickle_module": _harmless_pickle}
    if hasattr(torch.serialization, "add_safe_globals"):
        strict = {"weights_only": True}
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):  # what torch has written since 1.6
                raise ExhirdError(f"{path} is no checkpoint: give a .pt file that onmt_train has saved")
        return torch.load(path, map_location=map_location, **strict)
    except OSError as error:
        raise ExhirdError(f"cannot read the checkpoint {path}: {error.strerror}") from None
    except (pickle.UnpicklingError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[:1]
        raise ExhirdError(f"{path} is no checkpoint that could be loaded safely: {''.join(reason)}") from error


if hasattr(torch.serialization, "add_safe_globals"):
    torch.serialization.add_safe_globals([argparse.Namespace])


class _TorchThatLoadsHarmlessly:
    """The torch module as upstream's modules see it, but for ``load``."""

    load = staticmethod(load_harmless)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def load_without_running_code(module: Upstream) -> None:
    """Upstream calls ``torch.load`` with its default: rejected by torch >= 2.6, code execution before it."""
    module.torch = _TorchThatLoadsHarmlessly()
