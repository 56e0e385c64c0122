"""Counts and times in the text format of Prometheus. Every label has few values, so memory stays bounded."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST"})

_HELP = {
    "exhird_requests_total": ("counter", "Requests by route, method and status."),
    "exhird_request_seconds": ("histogram", "Seconds from a request to its answer, by route."),
    "exhird_documents_total": ("counter", "Documents that keyphrases were generated for."),
    "exhird_generation_seconds_total": ("counter", "Seconds the model has worked."),
    "exhird_abandoned_documents_total": ("counter", "Documents dropped because their client had gone away."),
    "exhird_waiting_documents": ("gauge", "Documents waiting for the model."),
    "exhird_waiting_documents_limit": ("gauge", "Documents that may wait; more are turned away."),
    "exhird_ready": ("gauge", "1 if the model is loaded and the server is not stopping."),
    "process_resident_memory_bytes": ("gauge", "Memory of the process."),
}


class Metrics:
    """What has been counted so far; any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._totals: defaultdict[str, float] = defaultdict(float)

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[route, method if method in METHODS else "other", status] += 1
            self._buckets.setdefault(route, [0] * (len(SECONDS) + 1))[bisect_left(SECONDS, seconds)] += 1
            self._seconds[route] += seconds

    def count_document(self, seconds: float) -> None:
        with self._lock:
            self._totals["exhird_documents_total"] += 1
            self._totals["exhird_generation_seconds_total"] += seconds

    def count_abandoned(self, documents: int) -> None:
        with self._lock:
            self._totals["exhird_abandoned_documents_total"] += documents

    def render(self, gauges: Mapping[str, float]) -> str:
        """All of it, with `gauges`, which the caller knows."""
        with self._lock:
            samples = {name: [(name, value)] for name, value in {**gauges, **_memory()}.items()}
            for name in _HELP:
                if name.endswith("_total") and name != "exhird_requests_total":
                    samples[name] = [(name, self._totals[name])]
            samples["exhird_requests_total"] = [
                (f'exhird_requests_total{{route="{route}",method="{method}",status="{status}"}}', count)
                for (route, method, status), count in sorted(self._requests.items())
            ]
            samples["exhird_request_seconds"] = [
                line for route in sorted(self._buckets) for line in self._histogram(route)
            ]
        lines = []
        for name, (kind, text) in _HELP.items():
            if name in samples:
                lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
                lines += [f"{sample} {value:.12g}" for sample, value in samples[name]]
        return "\n".join(lines) + "\n"

    def _histogram(self, route: str) -> list[tuple[str, float]]:
        name, label, below = "exhird_request_seconds", f'route="{route}"', 0
        lines: list[tuple[str, float]] = []
        for edge, count in zip([*map(str, SECONDS), "+Inf"], self._buckets[route], strict=True):
            below += count
            lines.append((f'{name}_bucket{{{label},le="{edge}"}}', below))
        return [*lines, (f"{name}_sum{{{label}}}", self._seconds[route]), (f"{name}_count{{{label}}}", below)]


def _memory() -> dict[str, float]:
    """Resident memory, where the system tells it (Linux)."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return {}
    kilobytes = next((line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")), None)
    return {} if kilobytes is None else {"process_resident_memory_bytes": 1024.0 * int(kilobytes)}
