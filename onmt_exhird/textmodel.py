"""What a model needs to read and write text: the rules of normalising, and the subword model if there is one.

``exhird prepare`` writes it beside the data as ``text.json``. It is one string of JSON, so that a checkpoint's options
can hold it, and an exported folder its parts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from onmt_exhird.errors import ExhirdError
from onmt_exhird.subwords import Subwords, join
from onmt_exhird.text import ENGLISH, RULES, TextRules

FILE = "text.json"


@dataclass(frozen=True)
class TextModel:
    """Rules of text and, if words are cut into pieces, how.

    >>> TextModel().cut(["graph", ";"])
    ['graph', ';']
    """

    rules: TextRules = ENGLISH
    subwords: Subwords | None = None

    def cut(self, words: Sequence[str]) -> list[str]:
        """Words as tokens of the model's vocabulary."""
        return list(words) if self.subwords is None else self.subwords.cut(words)

    def join(self, tokens: Sequence[str]) -> list[str]:
        """The inverse of `cut`."""
        return list(tokens) if self.subwords is None else join(tokens)

    def check_fits(self, vocabulary: Sequence[str]) -> None:
        """Stop if the subword model is not that of a vocabulary."""
        if self.subwords is not None:
            self.subwords.check_fits(vocabulary)

    def config(self) -> dict[str, Any]:
        """What it is, as plain data, without the bytes of the subword model."""
        plain: dict[str, Any] = {"text_rules": RULES, **asdict(self.rules)}
        if self.subwords is not None:
            digest = hashlib.sha256(self.subwords.model).hexdigest()
            plain["subwords"] = {"tokenizer": self.subwords.tokenizer, "kind": self.subwords.kind, "sha256": digest}
        return plain

    def to_json(self) -> str:
        """All of it, as one string."""
        plain = self.config()
        if self.subwords is not None:
            plain["subwords"]["model"] = base64.b64encode(self.subwords.model).decode()
        return json.dumps(plain, indent=1) + "\n"

    @classmethod
    def of(cls, config: dict[str, Any], model: bytes | None = None) -> TextModel:
        """The inverse of `config`, given the bytes of the subword model if there is one."""
        given = dict(config)
        version, subwords = given.pop("text_rules", RULES), given.pop("subwords", None)
        if version != RULES:
            raise ExhirdError(f"it has text rules {version}, and this version of onmt_exhird knows {RULES}")
        if subwords is None:
            return cls(TextRules(**given))
        if model is None or hashlib.sha256(model).hexdigest() != subwords["sha256"]:
            raise ExhirdError("its subword model is missing or was altered")
        return cls(TextRules(**given), Subwords(subwords["tokenizer"], subwords["kind"], model))

    @classmethod
    def from_json(cls, text: str, where: str = FILE) -> TextModel:
        """The inverse of `to_json`; ``where`` is for messages."""
        try:
            config = json.loads(text)
            encoded = config["subwords"].pop("model") if config.get("subwords") else None
            return cls.of(config, None if encoded is None else base64.b64decode(encoded, validate=True))
        except (ValueError, TypeError, KeyError, AttributeError, binascii.Error, ExhirdError) as error:
            raise ExhirdError(f"{where} is no {FILE} of exhird prepare: {error}; write it again") from None


def read_text_model(path: Path) -> TextModel:
    """The text model of a file."""
    try:
        return TextModel.from_json(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        raise ExhirdError(f"there is no file {path}: exhird prepare --subwords or --language writes it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ExhirdError(f"cannot read {path}: {error}") from None


def beside(path: Path) -> TextModel:
    """The text model of the folder that a prepared file lies in; the default one where there is none."""
    found = path.parent / FILE
    return read_text_model(found) if found.is_file() else TextModel()
