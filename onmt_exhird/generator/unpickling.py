"""Reading what `torch.save` has written without running code from it."""

from __future__ import annotations

import argparse
import collections
import pickle
import zipfile
from types import ModuleType
from typing import Any

import torch

from onmt_exhird.errors import ExhirdError

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
