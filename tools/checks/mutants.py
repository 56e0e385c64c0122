"""Do the tests notice when the code is wrong? Change it in one place after the other, and run the tests each time.

    python tools/checks/mutants.py                          # all modules of TESTS
    python tools/checks/mutants.py onmt_exhird/stream.py    # one of them, or those of a folder
    python tools/checks/mutants.py --sample 20              # 20 mutants of each, always the same ones, for a quick look

A mutant is a module with one change: an operator, a constant, a condition, a bound, an argument, a statement. It is
killed if a test fails, or if the tests take three times as long and five seconds more. One that survives shows what no
test holds fast, or what makes no difference; the second kind is explained in mutants.toml. Exit code 1 if a survivor
is not, or if something is explained there that does not survive.

The checkout is left alone: everything runs in a copy. Each mutant has a fork of a process that has loaded the
libraries, which takes longer than most tests. Two runs give the same: hypothesis draws the same examples, and time is
that of the processor, whatever else the machine does.

Neither mutmut nor cosmic-ray would do: mutmut 3.8 wants an attribute that pytest 9.2 does not have, and knows neither
constants of a module nor methods with decorators; cosmic-ray 8.7 starts a process for each mutant, changes files in
place, and makes more than 2,000 mutants of search/ alone, of types too. Neither knows a tensor's `lt` from its `le`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from mutations import mutants

ROOT = Path(__file__).resolve().parents[2]
EXPLAINED = Path(__file__).with_name("mutants.toml")
LIBRARIES = ("pytest", "hypothesis.strategies", "numpy", "torch", "nltk.stem.porter", "snowballstemmer")
MEMORY = 4 << 30  # of a mutant, in bytes
PATIENCE = 600  # seconds, for one that sleeps

EVALUATION = "evaluation/test_cases evaluation/test_golden evaluation/test_streaming evaluation/test_significance"
CONSTRAINT = "search/test_constraint search/test_hypotheses search/test_golden"
TESTS = {
    "stream.py": "test_stream",
    "evaluation/matching.py": f"evaluation/test_matching {EVALUATION}",
    "evaluation/metrics.py": f"{EVALUATION} evaluation/test_properties",
    "search/beam.py": "search/test_beam",
    "search/constraint.py": CONSTRAINT,
    "search/greedy.py": "search/test_greedy search/test_pool",
    "search/hypotheses.py": "search/test_hypotheses search/test_greedy",
    "search/pool.py": "search/test_pool search/test_greedy",
    "search/piece_constraint.py": "search/test_piece_phrases search/test_pieces",
    "search/piece_phrases.py": "search/test_piece_phrases search/test_pieces",
    "search/pieces.py": "search/test_piece_table search/test_pieces",
    "search/phrases.py": "search/test_phrases search/test_constraint",
    "search/settings.py": "search/test_settings",
    "search/sources.py": "search/test_sources",
    "search/states.py": f"search/test_states {CONSTRAINT} search/test_pieces",
    "search/stems.py": "search/test_stems search/test_constraint",
}


class Workshop:
    """A copy of the checkout in which one module is changed again and again."""

    def __init__(self, folder: Path, module: str) -> None:
        self.folder, self.module = folder, Path("onmt_exhird", module)
        for name in ("onmt_exhird", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        tests = [f"tests/{name}.py" for name in TESTS[module].split()]
        # The examples in the module come last: pytest loads it a second time unless a test has loaded it before.
        self.arguments = ["-x", "-q", *tests, str(self.module)]
        self.limit, self.runs = PATIENCE, 0
        spent = self.spent()
        if spent is None:
            raise SystemExit(f"{(folder / 'log').read_text()}\nthe tests of {self.module} fail without any change")
        self.limit = int(3 * spent + 5)
        if self.spent("raise ImportError") is not None:
            raise SystemExit(f"the tests of {self.module} pass without it: they load another one")

    def spent(self, source: str | None = None) -> float | None:
        """The seconds that the tests take with another source, if they pass."""
        path = self.folder / self.module
        path.write_text((ROOT / self.module).read_text() if source is None else source)
        self.runs += 1
        os.utime(path, (self.runs, self.runs))  # so that no older bytecode is taken for its own
        child = os.fork()
        if not child:
            self._test()
        deadline = time.monotonic() + PATIENCE
        while not (ended := os.wait4(child, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
        return ended[2].ru_utime + ended[2].ru_stime if ended[1] == 0 else None

    def _test(self) -> None:
        """Run the tests in this process and end it: with exit code 0 if they pass."""
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (self.limit, self.limit + 1))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            os.chdir(self.folder)
            sys.path.insert(0, str(self.folder))
            for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
                stream.flush()
                os.dup2(os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            import hypothesis
            import pytest

            phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # a failure need not be made small
            same = {"derandomize": True, "database": None, "deadline": None}
            calm = list(hypothesis.HealthCheck)  # some of these look at the clock
            hypothesis.settings.register_profile("mutants", phases=phases, suppress_health_check=calm, **same)
            hypothesis.settings.load_profile("mutants")
            code = int(pytest.main(self.arguments))
        finally:
            os._exit(code)


def tried(module: str, sample: int | None) -> dict[str, bool]:
    """The names of a module's mutants, all or so many of them, and whether they survive."""
    chosen = mutants((ROOT / "onmt_exhird" / module).read_text())
    if sample is not None and sample < len(chosen):
        chosen = random.Random(0).sample(chosen, sample)
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder), module)
        return {mutant.name: workshop.spent(mutant.source) is not None for mutant in chosen}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=["onmt_exhird"], help="modules, or folders of them")
    parser.add_argument("--sample", type=int, metavar="N", help="mutants of each module (all)")
    args = parser.parse_args(arguments)
    wanted = [os.path.normpath(path) for path in args.paths]
    modules = [name for name in TESTS if any(Path("onmt_exhird", name).is_relative_to(path) for path in wanted)]
    if not modules:
        parser.error("no such module; there are " + ", ".join(f"onmt_exhird/{name}" for name in TESTS))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # these tests need none, and loading them takes longer
    for library in LIBRARIES:
        importlib.import_module(library)
    explained = tomllib.loads(EXPLAINED.read_text())
    print(f"{'module':<24}{'mutants':>9}{'killed':>9}{'survived':>10}{'explained':>11}{'minutes':>9}", flush=True)
    wrong = 0
    for module in modules:
        start, reasons = time.monotonic(), explained.get(module, {})
        found = tried(module, args.sample)
        alive = [name for name, survives in found.items() if survives]
        told = [f"  survives: {json.dumps(name)}" for name in alive if name not in reasons]
        known, minutes = len(alive) - len(told), (time.monotonic() - start) / 60
        print(f"{module:<24}{len(found):>9}{len(found) - len(alive):>9}{len(alive):>10}{known:>11}{minutes:>9.1f}")
        told += [f"  does not survive: {json.dumps(name)}" for name in reasons if found.get(name) is False]
        print(*told, sep="\n", end="\n" if told else "", flush=True)
        wrong += len(told)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
