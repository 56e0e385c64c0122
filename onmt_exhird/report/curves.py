"""What the log of a training says of its validations."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path

from onmt_exhird.errors import ExhirdError

# What stands behind the number must be there: a log may be read while its last line is being written.
_VALIDATED = re.compile(
    r"^\[[^]]*\] Validation at step (\d+): perplexity (\d+(?:\.\d+)?(?:e[+-]\d+)?|inf|nan)[,;\s]", re.MULTILINE
)

Curve = dict[int, float]
"""The perplexity at each validated step."""


def read_curve(path: Path) -> Curve:
    """The perplexity at each validated step so far; nothing if there is no log.

    A step done again, after a resume, counts anew. What is not a number is infinite, so that no other is worse.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    except OSError as error:
        raise ExhirdError(f"{path} cannot be read ({error.strerror}); remove it, or make it readable") from None
    found = ((int(step), float(perplexity)) for step, perplexity in _VALIDATED.findall(text))
    return {step: perplexity if perplexity < inf else inf for step, perplexity in found}
