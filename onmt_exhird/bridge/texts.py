"""How a run's text is normalised and cut: the option ``-keyphrase_text``, which a checkpoint keeps as a whole.

The option names the ``text.json`` of exhird prepare. Once it is read its place is taken by what the file holds, so that
a checkpoint has it among its options and needs neither the file nor a flag when it translates.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from onmt_exhird.errors import ExhirdError
from onmt_exhird.subwords import are_pieces, goes_on
from onmt_exhird.textmodel import TextModel, read_text_model

OPTION = "keyphrase_text"
TRANSFORM = "keyphrase"
CUTTERS = {"sentencepiece", "bpe", "onmt_tokenize"}  # transforms of OpenNMT-py that may come after ours
NOTED = OPTION  # where a model's vocabularies have it, for those who make batches


@lru_cache(maxsize=8)
def _read(content: str) -> TextModel:
    return TextModel.from_json(content, f"-{OPTION}") if content else TextModel()


def content_of(opt: Any) -> str:
    return getattr(opt, OPTION, None) or ""


def text_of(opt: Any) -> TextModel:
    """The text model of options that were validated; the default one where there is none."""
    return _read(content_of(opt))


def summary(opt: Any) -> dict[str, Any]:
    """What the option holds, without the bytes of a subword model; empty if nothing was given."""
    return text_of(opt).config() if content_of(opt) else {}


def noted(vocabs: Mapping[str, Any]) -> TextModel:
    """The text model of the model that these vocabularies belong to."""
    return _read(vocabs.get(NOTED, ""))


def read_file(opt: Any) -> None:
    """Put what the file holds in the place of its name."""
    given = content_of(opt)
    if given and not given.startswith("{"):
        setattr(opt, OPTION, read_text_model(Path(given)).to_json())


def check_transforms(opt: Any) -> None:
    """Stop if the option would have no effect on some of the data."""
    if not content_of(opt):
        return
    data = getattr(opt, "data", None)
    corpora = {f"data/{name}": corpus["transforms"] for name, corpus in data.items()} if isinstance(data, dict) else {}
    for where, names in (corpora or {"this run": opt._all_transform}).items():
        if TRANSFORM not in names:
            raise ExhirdError(
                f"-{OPTION} is for the transform '{TRANSFORM}', which {where} lacks: add -transforms keyphrase"
            )


def check_same(opt: Any, vocabs: Mapping[str, Any]) -> None:
    """Stop if a run gives other rules or subwords than the model was trained with; or those of another vocabulary."""
    text = text_of(opt)
    if NOTED in vocabs and text != noted(vocabs):
        raise ExhirdError(
            f"-{OPTION} has other rules or another subword model than the checkpoint was trained with: "
            "give the file that it was trained with"
        )
    other_cutters = CUTTERS.intersection(getattr(opt, "_all_transform", None) or ())
    for side in ("src", "tgt"):
        if side in vocabs:
            tokens = vocabs[side].ids_to_tokens
            if text.subwords is None and not other_cutters and are_pieces(tokens):
                raise ExhirdError(
                    "the vocabulary is of pieces of words, but no subword model is given that would cut words into "
                    f"them: add -{OPTION} with the text.json that the vocabulary was built with"
                )
            text.check_fits(tokens)


def take_from_model(opt: Namespace, model_opt: Any) -> TextModel:
    """Make a run that translates normalise, cut and join as its model was trained."""
    content, given = content_of(model_opt), content_of(opt)
    if given and _read(given) != _read(content):
        raise ExhirdError(f"-{OPTION} is not what the model was trained with, which it knows: leave it out")
    if content:
        setattr(opt, OPTION, content)
        for name in ("transforms", "_all_transform"):
            names = list(getattr(opt, name, None) or [])
            setattr(opt, name, names if TRANSFORM in names else [TRANSFORM, *names])
    return _read(content)


class WordPieces:
    """Which tokens of targets go on with the word before them."""

    def __init__(self, vocabulary: list[str], unspaced: bool) -> None:
        self._unspaced = unspaced
        self._known = torch.tensor([goes_on(token, unspaced) for token in vocabulary])

    @classmethod
    def of(cls, opt: Any, vocabulary: list[str]) -> WordPieces | None:
        """None if every token is a word."""
        text = text_of(opt)
        return None if text.subwords is None else cls(vocabulary, text.rules.unspaced)

    def __call__(self, targets: Tensor, copied: list[list[str]]) -> Tensor:
        """Of extended ids (batch, tgt_len), given each document's own pieces: (batch, tgt_len)."""
        self._known = self._known.to(targets.device)
        size = len(self._known)
        found = self._known.take(targets.clamp(max=size - 1))
        for row, column in targets.ge(size).nonzero().tolist():
            found[row, column] = goes_on(copied[row][int(targets[row, column]) - size], self._unspaced)
        return found
