"""A trained model as plain data: what a folder holds, and what a model is built from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.thesaurus import KnownPhrases
from onmt_exhird.nn.model import OUTPUT, Architecture, KeyphraseModel, SpecialIds
from onmt_exhird.search import SearchSettings
from onmt_exhird.search.phrases import StreamIds
from onmt_exhird.search.settings import UNFILLABLE
from onmt_exhird.stream import UNK
from onmt_exhird.textmodel import TextModel

MOST = {"max_phrases": 10_000, "max_phrase_words": 1_000, "beam_size": 100}  # so that a slip of the hand ends at once
SWITCHES = ("exclude_phrases", "thesaurus")


@dataclass(frozen=True)
class Options:
    """How to generate. A model folder has the defaults.

    window            K_ES: how many phrases before keep their first word from the next; None: all of them; 0: off
    max_phrases       most phrases of a document
    max_phrase_words  most words of a phrase
    beam_size         1: greedy search
    exclude_phrases   never write a phrase again; without it the second one is left out afterwards
    thesaurus         whether to add phrases of the model's thesaurus, if it has one
    """

    window: int | None = 1
    max_phrases: int = 20
    max_phrase_words: int = 5
    beam_size: int = 1
    exclude_phrases: bool = False
    thesaurus: bool = True

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 0:
            raise ExhirdError(f"window is {self.window}; give a number of phrases, 0 for off, or 'all'")
        if self.beam_size < 1:
            raise ExhirdError(f"beam_size is {self.beam_size}; give at least 1")
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise ExhirdError(f"{name} is {getattr(self, name)}; give at most {most}")
        self.search()  # which knows what the others may be, and has the same names for them

    def search(self) -> SearchSettings:
        return SearchSettings(
            exclusive_window=None if self.window is None or self.window >= UNFILLABLE else self.window,
            max_phrases=self.max_phrases,
            max_phrase_words=self.max_phrase_words,
            exclude_phrases=self.exclude_phrases,
        )

    def but(self, given: dict[str, Any]) -> Options:
        """These options with some others in their place; what is None stays. The window may be a word: "all"."""
        unknown = given.keys() - vars(self).keys()
        if unknown:
            raise ExhirdError(f"unknown option {', '.join(sorted(unknown))}; there are {', '.join(vars(self))}")
        chosen = {name: value for name, value in given.items() if value is not None}
        if chosen.get("window") == "all":
            chosen["window"] = None
        for name, value in chosen.items():
            if name != "window" or value is not None:
                kind = bool if name in SWITCHES else int
                if type(value) is not kind:
                    number = "a number, or 'all'" if name == "window" else "a number"
                    wanted = "true or false" if name in SWITCHES else number
                    raise ExhirdError(f"{name} is {value!r}; give {wanted}")
        return replace(self, **chosen)


@dataclass(frozen=True)
class Trained:
    """A trained model.

    tokens       the vocabulary in the order of its ids
    tensors      by their names in `KeyphraseModel`, in full precision
    max_source   tokens of a document as training had them: longer ones are read in parts
    card         what people should know of it, in Markdown
    text         how it reads and writes text: language, normalisation, subwords
    thesaurus    phrases that many authors use, if it knows some
    """

    name: str
    architecture: Architecture
    tokens: Sequence[str]
    tensors: dict[str, Tensor]
    options: Options = field(default_factory=Options)
    max_source: int = 400
    card: str = ""
    text: TextModel = field(default_factory=TextModel)
    thesaurus: KnownPhrases | None = None

    def config(self) -> dict[str, Any]:
        """How to generate, as plain data."""
        known, search = self.thesaurus, asdict(self.options)
        if known is None:
            del search["thesaurus"]
            return {"search": search}
        return {"search": search, "thesaurus": asdict(known.manner)}

    def build(self) -> KeyphraseModel:
        """The model, with these very tensors."""
        self.text.check_fits(self.tokens)
        ids = StreamIds.find(self.tokens)
        special = SpecialIds(self.tokens.index(UNK), ids.pad, ids.start, ids.eos, ids.end)
        # Torch's "meta" device would save the random numbers, and cost a second of imports.
        with torch.random.fork_rng(devices=[]):
            model = self.architecture.build(special)
        wanted = {name: tensor.shape for name, tensor in model.state_dict().items()}
        tensors = dict(self.tensors)
        for alias, name in self.architecture.aliases().items():
            if name in tensors:
                tensors[alias] = tensors[name][: self.architecture.output_size] if alias == OUTPUT else tensors[name]
        if wanted != {name: tensor.shape for name, tensor in tensors.items()}:
            wrong = sorted(
                name
                for name in wanted.keys() | tensors.keys()
                if name not in wanted or name not in tensors or wanted[name] != tensors[name].shape
            )
            raise ExhirdError(f"the model's tensors do not fit its sizes: {', '.join(wrong[:3])}; export it again")
        model.load_state_dict(tensors, assign=True)
        return model.requires_grad_(False).eval()
