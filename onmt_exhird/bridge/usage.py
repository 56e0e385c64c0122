"""Whether a run uses the plug-in: there mistakes are errors, elsewhere upstream's behaviour stays, with a warning."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from onmt_exhird.bridge import DECODERS
from onmt_exhird.bridge.options import TRAIN_OPTIONS, TRANSLATE_OPTIONS
from onmt_exhird.bridge.vocabulary import writes_streams
from onmt_exhird.errors import ExhirdError

KEYPHRASE_DECODERS = DECODERS.keys() - {"ifrnn"}  # their targets are streams
OPTIONS = TRAIN_OPTIONS.keys() | TRANSLATE_OPTIONS.keys()
# Options of upstream's -> values of them that are ours.
_VALUES = {"decoder_type": KEYPHRASE_DECODERS, "transforms": {"keyphrase"}, "valid_metrics": {"KEYPHRASE_F1"}}


def warn(message: str) -> None:
    """Upstream's log does not exist yet when options and files are read."""
    print(f"warning: {message}", file=sys.stderr)


def refuse_or_warn(refuse: bool, message: str) -> None:
    """What is an error in a run that uses the plug-in is a warning in any other."""
    if refuse:
        raise ExhirdError(message)
    warn(message)


def _has_one_of(given: Any, ours: Iterable[str]) -> bool:
    words = [given] if isinstance(given, str) else given or []
    return not set(ours).isdisjoint(words)


def _default(option: str) -> Any:
    settings = TRAIN_OPTIONS.get(option) or TRANSLATE_OPTIONS[option]
    return settings.get("default", False)


def _corpora(data: Any) -> list[Mapping[str, Any]]:
    """The corpora of the `data` section, read by upstream or not yet; [] if it is none."""
    import yaml

    corpora = yaml.safe_load(data) if isinstance(data, str) else data
    found = corpora.values() if isinstance(corpora, Mapping) else []
    return [corpus for corpus in found if isinstance(corpus, Mapping)]


def uses_the_plug_in(settings: Mapping[str, Any]) -> bool:
    """Whether options, given by name, ask for one of our decoders, losses, transforms, metrics or options.

    >>> uses_the_plug_in({"decoder_type": "rnn"}), uses_the_plug_in({"decoder_type": "exhird"})
    (False, True)
    >>> uses_the_plug_in({"data": "{train: {path_src: a, transforms: [keyphrase]}}"})
    True
    """
    if any(_has_one_of(settings.get(option), ours) for option, ours in _VALUES.items()):
        return True
    if any(str(settings.get(option, _default(option))) != str(_default(option)) for option in OPTIONS):
        return True
    return any(_has_one_of(corpus.get("transforms"), ["keyphrase"]) for corpus in _corpora(settings.get("data")))


def is_ours(checkpoint: str) -> bool:
    """Whether a model has one of our decoders or losses, or writes keyphrases; one that cannot be read is not."""
    from onmt_exhird.generator.unpickling import load_harmless

    try:
        loaded = load_harmless(checkpoint)
        return uses_the_plug_in(vars(loaded["opt"])) or writes_streams(loaded["vocab"]["tgt"])
    except (ExhirdError, LookupError, TypeError):
        return False  # upstream will say what is wrong with it
