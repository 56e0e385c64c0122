"""Clocks, the machine's peak, and what a document costs in floating-point operations."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from onmt_exhird.errors import ExhirdError


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Span(NamedTuple):
    """Seconds on the wall, and of the processor in all threads."""

    wall: float
    cpu: float

    def plus(self, other: Span) -> Span:
        return Span(self.wall + other.wall, self.cpu + other.cpu)

    def times(self, factor: float) -> Span:
        return Span(self.wall * factor, self.cpu * factor)


NOTHING = Span(0.0, 0.0)


def cpu_seconds() -> float:
    """Of this process with all its threads, and of the children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def clock(work: Callable[[], Any]) -> Span:
    """How long a call takes."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    work()
    return Span(time.perf_counter() - wall, cpu_seconds() - cpu)


def median(spans: list[Span]) -> Span:
    """The median of each clock.

    >>> median([Span(3.0, 1.0), Span(1.0, 3.0), Span(2.0, 2.5)])
    Span(wall=2.0, cpu=2.5)
    """
    return Span(*(statistics.median(column) for column in zip(*spans, strict=True)))


def run_python(code: str, *arguments: str) -> str:
    """What Python code prints, run in a process of its own that finds these tools and the package under test."""
    import onmt_exhird

    homes = [Path(__file__).resolve().parents[1], Path(onmt_exhird.__file__).resolve().parents[1]]
    path = os.pathsep.join([*map(str, homes), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ExhirdError(f"'{code}' failed with {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def exhird(*arguments: str) -> str:
    """What the command prints, run as a user does, in a process of its own."""
    return run_python("import sys; from onmt_exhird.cli import main; sys.exit(main())", *arguments)


def peak_rss_mb(who: int = resource.RUSAGE_SELF) -> float:
    """The most memory that this process has had (or the largest child that has ended), in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss * unit / 1e6


def processor() -> str:
    """The name of the processor, where the system tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def capability() -> str:
    """The instructions that torch and, where it is held back, oneDNN compute with."""
    import torch

    held_back = [os.environ[name] for name in ("DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA") if name in os.environ]
    return " ".join([torch.backends.cpu.get_cpu_capability(), *(f"(oneDNN at most {isa})" for isa in held_back)])


def machine_load() -> list[float]:
    """Over the last 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


class MatmulPeak:
    """The best rate of square single-precision matrix products, sampled between other measurements."""

    SIZE = 1536

    def __init__(self) -> None:
        import torch  # late: see `Stopwatch.repeat_in_children`

        self._matrix = torch.rand(self.SIZE, self.SIZE)
        self.gflops = 0.0

    def sample(self) -> None:
        for _ in range(3):
            span = clock(lambda: self._matrix @ self._matrix)
            self.gflops = max(self.gflops, 2e-9 * self.SIZE**3 / span.wall)


@dataclass
class Measured:
    """What came of repeating some work."""

    documents: int
    median: Span
    peak_gflops: float
    rss_mb: float
    flop: float | None = None

    def report(self, ratio_to_reference: float | None) -> dict[str, Any]:
        gflops = self.flop / self.median.wall / 1e9 if self.flop else None
        return {
            "docs_per_second": round(self.documents / self.median.wall, 3),
            "docs_per_cpu_second": round(self.documents / self.median.cpu, 3),
            "gflops": round(gflops, 3) if gflops else None,
            "peak_gflops": round(self.peak_gflops, 2),
            "fraction_of_peak": round(gflops / self.peak_gflops, 5) if gflops else None,
            "rss_mb": round(self.rss_mb),
            "ratio_to_reference": round(ratio_to_reference, 2) if ratio_to_reference else None,
            "gflop_per_document": round(self.flop / self.documents / 1e9, 3) if self.flop else None,
            "documents": self.documents,
            "seconds": round(self.median.wall, 3),
            "cpu_seconds": round(self.median.cpu, 3),
        }


@dataclass
class Stopwatch:
    """Repeats work and takes the median, with the machine's peak sampled in between."""

    times: int

    def repeat(self, work: Callable[[], Any], documents: int, beside: Span = NOTHING) -> Measured:
        """``beside`` is what belongs to the same work but is measured elsewhere; it is added to each."""
        peak = MatmulPeak()
        spans = []
        for number in range(1, self.times + 1):
            peak.sample()
            spans.append(self._run(number, work, documents).plus(beside))
        peak.sample()
        return Measured(documents, median(spans), peak.gflops, peak_rss_mb())

    def repeat_in_children(self, work: Callable[[], Any], documents: int) -> Measured:
        """Of work that starts processes. The peak is sampled afterwards: a child begins with its parent's memory."""
        spans = [self._run(number, work, documents) for number in range(1, self.times + 1)]
        rss = peak_rss_mb(resource.RUSAGE_CHILDREN)
        peak = MatmulPeak()
        peak.sample()
        return Measured(documents, median(spans), peak.gflops, rss)

    def _run(self, number: int, work: Callable[[], Any], documents: int) -> Span:
        span = clock(work)
        say(f"[{number}/{self.times}] {documents / span.cpu:.2f} documents per CPU second")
        return span


@dataclass
class Parts:
    """CPU seconds by part of a step: methods are wrapped, and what they take is added up by name."""

    seconds: dict[str, float] = field(default_factory=dict)

    def wrap(self, owner: Any, method: str, name: str) -> None:
        function = getattr(owner, method)
        self.seconds[name] = 0.0

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[name] += time.process_time() - begin

        setattr(owner, method, timed)


@dataclass
class Tokens:
    """Real tokens of some documents, padding left out, and how many pairs of them attention looks at."""

    documents: int = 0
    source: int = 0
    target: int = 0
    phrases: int = 0  # begun, the one of </s> too
    word_pairs: int = 0  # (source token, target token)
    phrase_pairs: int = 0  # (source token, phrase)

    def add(self, source: int, target: int, phrases: int) -> None:
        """A document."""
        self.documents += 1
        self.source += source
        self.target += target
        self.phrases += phrases
        self.word_pairs += source * target
        self.phrase_pairs += source * phrases

    @property
    def mean_source(self) -> float:
        return round(self.source / self.documents, 1)

    @property
    def mean_target(self) -> float:
        return round(self.target / self.documents, 1)


def exhird_flop(tokens: Tokens, embedding: int, hidden: int, vocab: int, layers: int = 2) -> float:
    """Floating-point operations of ExHiRD's forward pass, two for a multiplication with addition.

    Matrix products of real tokens only. With d the hidden size, e the embedding's, V the vocabulary's:

    source token   encoder: two directions of GRUs of d/2 in each layer, 12 d/2 (x + d/2), x being e, then d
    target token   GRU_2: 6 d (2d + e); W_alpha: 2 d^2; W_2: 4 d^2; output layer and gate: 2 d (V + 1);
                   scores and context: 4 d for each source token
    phrase         GRU_1: 12 d^2; W_1: 2 d^2; scores: 2 d for each source token

    A training step takes three times that: the backward pass multiplies by each matrix twice.

    >>> document = Tokens()
    >>> document.add(source=190, target=27, phrases=7)
    >>> round(exhird_flop(document, 100, 300, 50_004) / 1e9, 2)  # decoding
    1.11
    """
    d, e, half = hidden, embedding, hidden // 2
    of_source = 12 * half * (e + half) + (layers - 1) * 12 * half * (d + half)
    of_target = 6 * d * (2 * d + e) + 6 * d * d + 2 * d * (vocab + 1)
    of_phrases = 14 * d * d * tokens.phrases + 2 * d * tokens.phrase_pairs
    return of_source * tokens.source + of_target * tokens.target + 4 * d * tokens.word_pairs + of_phrases
