"""What the plug-in adds to ``import onmt``: CPU milliseconds with it and without, alternating, in fresh interpreters.

Third-party packages are imported before the clock starts: OpenNMT-py takes seconds for them, with much noise.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

CODE = """
import time, torch, spacy, fasttext
start = time.process_time()
import onmt
print(1000 * (time.process_time() - start))
"""


def measure(switch: str) -> float:
    environment = os.environ | {"ONMT_EXHIRD": switch, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", CODE]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python tools/benchmarks/imports.py --runs 9")
    parser.add_argument("--runs", type=int, default=9, help="how many pairs (default: %(default)s)")
    runs = parser.parse_args().runs
    pairs = [(measure("off"), measure("on")) for _ in range(runs)]
    off, on = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"without {off:.0f} ms, with {on:.0f} ms, the plug-in {on - off:.0f} ms (medians of {runs})")


if __name__ == "__main__":
    main()
