"""The cost of each model of recipes/kp20k: parameters, speed and memory, as a table.

    python tools/benchmarks/compare_models.py --format markdown

Speed and memory are those of tools/bench.py, each in a process of its own: documents of KP20k's shape, a vocabulary of
50,004 tokens, one thread, training with batches of 10, greedy decoding with exclusive search.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.evaluation.tables import Table

TOOLS = Path(__file__).resolve().parents[1]
RECIPES = TOOLS.parent / "recipes" / "kp20k"
NAMES = {
    "exhird": "ExHiRD",
    "exhird-s": "ExHiRD-s",
    "catseq": "catSeq",
    "catseqd": "catSeqD",
    "catseqcorr": "catSeqCorr",
    "transformer": "Transformer",
}
HEADS = ("model", "parameters", "in layers", "docs/CPU s", "MB", "docs/CPU s", "MB")
GROUPS = (("", 3), ("training", 2), ("decoding", 2))


def count_parameters(config: Path) -> tuple[int, int]:
    """All parameters of a configuration's model, and those outside of the embedding and the output layer."""
    import pyonmttok
    from onmt.bin.train import ArgumentParser, _get_parser
    from onmt.model_builder import build_base_model

    from onmt_exhird.stream import BOS, EOS, PAD, STRUCTURE, UNK

    opt = _get_parser().parse_args(["-config", str(config)])
    ArgumentParser.update_model_opts(opt)
    ArgumentParser.validate_model_opts(opt)
    special = [UNK, PAD, BOS, EOS, *STRUCTURE]
    words = [f"w{index}" for index in range(opt.src_vocab_size - len(special))]
    vocab = pyonmttok.build_vocab_from_tokens(special + words)
    model = build_base_model(opt, {"src": vocab, "tgt": vocab, "decoder_start_token": BOS})
    everything = sum(parameter.numel() for parameter in model.parameters())
    output = sum(parameter.numel() for parameter in model.generator.parameters())
    return everything, everything - output - model.encoder.embeddings.word_lut.weight.numel()


def bench(what: str, config: Path, options: Sequence[str]) -> dict[str, Any]:
    """What tools/bench.py measures, in a process of its own."""
    command = [
        sys.executable,
        str(TOOLS / "bench.py"),
        what,
        "--config",
        str(config),
        "--json",
        "--no-reference",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ExhirdError(f"tools/bench.py {what} --config {config} failed: {reason}")
    return json.loads(done.stdout)


def make_table(models: Sequence[str], options: Sequence[str]) -> Table:
    from onmt_exhird.evaluation.tables import Number, Table

    table = Table("Cost of the models", HEADS, GROUPS)
    for model in models:
        config = RECIPES / f"{model}.yaml"
        print(f"measuring {NAMES[model]}", file=sys.stderr, flush=True)
        everything, in_layers = count_parameters(config)
        train, decode = (bench(what, config, options) for what in ("train", "decode"))
        speeds = [(Number(one["docs_per_cpu_second"], digits=1), f"{one['rss_mb']:,.0f}") for one in (train, decode)]
        table.add(NAMES[model], f"{everything:,}", f"{in_layers:,}", *speeds[0], *speeds[1])
    return table


def main(argv: Sequence[str] | None = None) -> int:
    from onmt_exhird.evaluation.tables import to_latex, to_markdown, to_text

    forms = {"text": to_text, "markdown": to_markdown, "latex": to_latex}
    parser = argparse.ArgumentParser(
        prog="compare_models.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME", help="default: all")
    parser.add_argument("--format", choices=forms, default="text")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="of each measurement (default: %(default)s)")
    args, options = parser.parse_known_args(argv)
    try:
        table = make_table(args.models, ["--repeat", str(args.repeat), *options])
    except ExhirdError as error:
        print(f"compare_models.py: error: {error}", file=sys.stderr)
        return 2
    print(forms[args.format](table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
