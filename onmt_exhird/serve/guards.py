"""Who may ask: a web page from elsewhere must not use a server on its reader's own machine.

A browser sends with every request the name it believes to talk to (Host), and with one that can cost something the
page it comes from (Origin). A foreign page has a foreign Origin. A foreign page whose name was made to mean
127.0.0.1 after it was loaded (DNS rebinding) has no foreign Origin, but a foreign Host; a bare address cannot be
rebound.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from urllib.parse import urlsplit

from onmt_exhird.serve.problems import Problem

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def check_sender(host: str, origin: str | None, names: Collection[str]) -> None:
    """Refuse a Host that is neither an address, localhost nor one of `names`, and an Origin that is another site's."""
    host = host.lower()
    match = _HOST.fullmatch(host)
    if match is None or not (_is_address(match[1]) or match[1] == "localhost" or match[1] in names):
        raise Problem(
            403, "This server does not answer to the Host of the request; start it with --allow-host NAME to let it."
        )
    if origin is not None and not _is_own(origin.lower(), host, names):
        raise Problem(403, "A page of another site may not use this server; --allow-host NAME lets that of NAME.")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _is_own(origin: str, host: str, names: Collection[str]) -> bool:
    try:
        parts = urlsplit(origin)
        return parts.netloc == host or parts.hostname in names
    except ValueError:
        return False
