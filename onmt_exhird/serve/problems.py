"""Errors as ``application/problem+json`` (RFC 9457): a status and a sentence that says what to do."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

PROBLEM_JSON = "application/problem+json"


class Problem(Exception):
    """Ends a request: `detail` is shown to the client, so it holds nothing of a document and nothing of the inside."""

    def __init__(self, status: int, detail: str, retry_after: int | None = None):
        super().__init__(detail)
        self.status, self.detail, self.retry_after = status, detail, retry_after


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


def to_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8; half a surrogate pair, which UTF-8 cannot hold, stays the escape it came as."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def problem_body(status: int, detail: str) -> bytes:
    """
    >>> problem_body(404, "There is nothing here.")
    b'{"type":"about:blank","title":"Not Found","status":404,"detail":"There is nothing here."}'
    """
    title = HTTPStatus(status).phrase
    return to_bytes({"type": "about:blank", "title": title, "status": status, "detail": detail})
