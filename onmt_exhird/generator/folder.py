"""A model folder: ``config.json``, ``model.safetensors``, ``vocab.txt``, ``README.md``, perhaps two files more.

The same model gives the same bytes. Nothing in a folder is unpickled, and what was altered is noticed: the
configuration has a checksum of each of the other files that a model is made of.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.card import write_card
from onmt_exhird.generator.chances import Manner
from onmt_exhird.generator.thesaurus import KnownPhrases
from onmt_exhird.generator.trained import Options, Trained
from onmt_exhird.nn.model import Architecture
from onmt_exhird.text import RULES
from onmt_exhird.textmodel import TextModel

FORMAT = 1
FORMAT_WITH_TEXT = 2  # of a model that reads text by rules of its own, which a reader of the first would not know
FORMAT_WITH_SHORTLIST = 3  # of one whose output layer has not all words, and perhaps rules of its own
FORMAT_WITH_THESAURUS = 4  # of one that knows phrases, and perhaps has what the others have
FORMATS = FORMAT, FORMAT_WITH_TEXT, FORMAT_WITH_SHORTLIST, FORMAT_WITH_THESAURUS
CONFIG, WEIGHTS, VOCABULARY, CARD = "config.json", "model.safetensors", "vocab.txt", "README.md"
SUBWORDS = "subwords.model"  # in the format of the library that made it
THESAURUS = "thesaurus.txt"  # a phrase a line
PRECISIONS = ("float32", "float16", "int8")
IN_EIGHT_BITS = ("source_embedding.weight", "target_embedding.weight", "generator.weight")
OF_THESAURUS = "thesaurus."  # what the names of its tensors begin with
RATHER_SMALL = (f"{OF_THESAURUS}words", f"{OF_THESAURUS}phrases")  # in eight bits wherever not all is in 32
SCALE = ".scale"  # beside a tensor in eight bits: what each row was divided by


def compress(tensors: dict[str, Tensor], precision: str) -> dict[str, Tensor]:
    """Tensors as a folder has them: the tables of words in eight bits with a scale a row, or all in one precision."""
    if precision == "float32":
        return {name: tensor.float().contiguous() for name, tensor in tensors.items()}
    small: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name in RATHER_SMALL or (precision == "int8" and name in IN_EIGHT_BITS):
            scale = tensor.float().abs().amax(1, keepdim=True).clamp_min(1e-30) / 127  # (V, 1)
            small[name], small[name + SCALE] = (tensor / scale).round().to(torch.int8), scale
        else:
            small[name] = tensor.to(torch.float16).contiguous()
    return small


def expand(small: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `compress`, in full precision."""
    tensors = {name: tensor.float() for name, tensor in small.items() if not name.endswith(SCALE)}
    for name in small:
        if name.endswith(SCALE):
            tensors[name.removesuffix(SCALE)] *= small[name].float()
    return tensors


def checksum(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def write_folder(trained: Trained, folder: Path, precision: str = "float32", card: str | None = None) -> None:
    """Write a model into a folder, made if it is not there; card: the text of its README instead of ours."""
    if precision not in PRECISIONS:
        raise ExhirdError(f"unknown precision '{precision}', there are {', '.join(PRECISIONS)}")
    known = trained.thesaurus
    of_thesaurus = {} if known is None else known.tensors
    tensors = trained.tensors | {OF_THESAURUS + name: tensor for name, tensor in of_thesaurus.items()}
    files = {
        WEIGHTS: save(dict(sorted(compress(tensors, precision).items()))),
        VOCABULARY: "".join(f"{token}\n" for token in trained.tokens).encode(),
    }
    text = trained.text
    if text.subwords is not None:
        files[SUBWORDS] = text.subwords.model
    has_text, architecture = text != TextModel(), asdict(trained.architecture)
    version = FORMAT_WITH_SHORTLIST
    if architecture["generated"] is None:
        del architecture["generated"]
        version = FORMAT_WITH_TEXT if has_text else FORMAT
    if known is not None:
        version = FORMAT_WITH_THESAURUS
        files[THESAURUS] = "".join(f"{phrase}\n" for phrase in known.phrases).encode()
    config = {
        "format": version,
        "name": trained.name,
        "architecture": architecture,
        "text_rules": RULES,
        **({"text": text.config()} if has_text else {}),
        "max_source": trained.max_source,
        **trained.config(),
        "precision": precision,
        "files": {name: checksum(content) for name, content in files.items()},
    }
    files[CONFIG] = (json.dumps(config, indent=2) + "\n").encode()
    files[CARD] = (card or trained.card or write_card(config)).encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ExhirdError(f"cannot write the model to {folder}: {error.strerror}") from None


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration of a model folder."""
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ExhirdError(f"{folder} is no model folder: it has no {CONFIG}; exhird export makes one") from None
    except OSError as error:
        raise ExhirdError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ExhirdError(f"{path} is damaged: {error}; export the model again") from None
    if not isinstance(config, dict) or not {"format", "architecture", "files"} <= config.keys():
        raise ExhirdError(f"{folder} is no model folder of exhird export: {path} describes something else")
    for what, known in (("format", FORMATS), ("text_rules", (RULES,))):
        if config.get(what) not in known:
            raise ExhirdError(
                f"{folder} has {what.replace('_', ' ')} {config.get(what)}, and this version of onmt_exhird knows "
                f"{', '.join(map(str, known))}: export the model with this version, or install the version that "
                "made it"
            )
    return config


def read_files(folder: Path, config: dict[str, Any]) -> dict[str, bytes]:
    """The files that a model is made of, each with the checksum that the configuration has."""
    files = {}
    subwords, thesaurus = "subwords" in config.get("text", {}), "thesaurus" in config
    for name in (WEIGHTS, VOCABULARY, *[SUBWORDS] * subwords, *[THESAURUS] * thesaurus):
        try:
            files[name] = (folder / name).read_bytes()
        except OSError as error:
            raise ExhirdError(f"cannot read {folder / name}: {error.strerror}; export the model again") from None
        wanted, found = config["files"].get(name), checksum(files[name])
        if wanted != found:
            size = f"{found['bytes']:,} of {wanted['bytes']:,} bytes" if wanted else "not in its list of files"
            differs = size if not wanted or wanted["bytes"] != found["bytes"] else "another content"
            raise ExhirdError(
                f"{folder / name} is not what {CONFIG} says ({differs}): copy the folder, or export the model, again"
            )
    return files


def _lines(content: bytes) -> list[str]:
    return content.decode().split("\n")[:-1]


def read_folder(folder: Path) -> Trained:
    """The model of a folder."""
    config = read_config(folder)
    files = read_files(folder, config)
    card = folder / CARD
    try:
        tensors = expand(load(files[WEIGHTS]))
        thesaurus = None
        if THESAURUS in files:
            of_it = [name for name in tensors if name.startswith(OF_THESAURUS)]
            own = {name.removeprefix(OF_THESAURUS): tensors.pop(name) for name in of_it}
            thesaurus = KnownPhrases(_lines(files[THESAURUS]), own, Manner.of(config["thesaurus"]))
        return Trained(
            name=str(config["name"]),
            architecture=Architecture(**config["architecture"]),
            tokens=_lines(files[VOCABULARY]),
            tensors=tensors,
            options=Options(**config["search"]),
            max_source=int(config["max_source"]),
            card=card.read_text(encoding="utf-8") if card.exists() else "",
            text=TextModel.of(config.get("text", {}), files.get(SUBWORDS)),
            thesaurus=thesaurus,
        )
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ExhirdError(f"{folder} is damaged ({error}): export the model again") from None
