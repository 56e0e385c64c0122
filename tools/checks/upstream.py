"""Does what worked in OpenNMT-py before the plug-in was installed work after? Run it without the plug-in and with it.

    python tools/checks/upstream.py tests       # OpenNMT-py's own unit tests, as they lie in the installed package
    python tools/checks/upstream.py commands    # a table of commands, a handful of steps each

Tests that fail without the plug-in too are named, not counted; one that passes by chance is left out. A command's exit
code must be equal or better with the plug-in, and its output equal, unless the model copies: there OpenNMT-py is wrong.
Without the plug-in a current torch refuses every checkpoint; so that there is something to compare with, it is told not
to (these checkpoints are our own). Exit code 1 if something got worse.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

DATA = Path(__file__).resolve().parents[3] / "shared" / "upstream_data"  # beside the checkout, where it is
MODES = {"off": {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}, "on": {}}
NEED_DATA = ("test_data_prepare.py", "test_transform.py")  # of OpenNMT-py's tests
# It draws one of four ways to cut a sentence and expects a certain one; sentencepiece 0.2.2 draws another in one run
# and in the next, though it is given a seed.
BY_CHANCE = "TestSubwordTransform and test_sentencepiece"

CONFIGURATIONS = {
    "words": "corpus: {path_src: data/src-train.txt, path_tgt: data/tgt-train.txt, weight: 1}\n"
    "  valid: {path_src: data/src-val.txt, path_tgt: data/tgt-val.txt}",
    "aligned": "corpus: {path_src: few.src, path_tgt: few.tgt, path_align: few.align, weight: 1}",
    "features": "corpus: {path_src: FEATS/src-train-with-feats.txt, path_tgt: FEATS/tgt-train.txt, weight: 1, "
    "transforms: [inferfeats]}\n"
    "  valid: {path_src: FEATS/src-val-with-feats.txt, path_tgt: FEATS/tgt-val.txt, transforms: [inferfeats]}".replace(
        "FEATS", "data/data_features"
    ),
    "graphs": "corpus: {path_src: data/ggnnsrc.txt, path_tgt: data/ggnntgt.txt, weight: 1}",
    "one side": "corpus: {path_src: data/src-train.txt, weight: 1}\n  valid: {path_src: data/src-val.txt}",
}

STEPS = "-train_steps 4 -valid_steps 2 -save_checkpoint_steps 4 -report_every 2 -batch_size 8 -bucket_size 64"
TRAIN = f"{STEPS} -num_workers 0 -seed 3 -optim adam -learning_rate 0.01 -src_vocab_size 500 -tgt_vocab_size 500"
VOCABULARY = "-src_vocab data/vocab-train.src -tgt_vocab data/vocab-train.tgt"
WORDS = f"-config words.yaml {VOCABULARY}"
RNN = f"{WORDS} {TRAIN} -word_vec_size 12 -hidden_size 16 -layers 1"
TRANSFORMER = (
    f"{TRAIN} -encoder_type transformer -decoder_type transformer -word_vec_size 16 -hidden_size 16 -layers 2 -heads 2 "
    "-transformer_ff 16 -param_init 0 -param_init_glorot"
)
LANGUAGE_MODEL = (
    f"-config one_side.yaml -src_vocab data/vocab-train.src -share_vocab -model_task lm {TRANSFORMER} "
    "-encoder_type transformer_lm -decoder_type transformer_lm"
)
FEATURES = "-config features.yaml -src_vocab f.src -tgt_vocab f.tgt -n_src_feats 1 -src_feats_defaults 0"
GRAPHS = "-config graphs.yaml -src_vocab data/ggnnsrcvocab.txt -tgt_vocab data/ggnntgtvocab.txt"


@dataclass(frozen=True)
class Command:
    """A command, what it writes that can be compared, and whether its model copies."""

    name: str
    line: str
    outputs: tuple[str, ...] = ()
    copies: bool = False


def translation(name: str, options: str, model: str = "rnn", src: str = "few.src", copies: bool = False) -> Command:
    models = " ".join(f"{part}_step_4.pt" for part in model.split())
    output = f"{name.replace(' ', '_').replace(',', '')}.txt"
    line = f"onmt_translate -model {models} -src {src} -out {output} {options}"
    return Command(name, line, (output,), copies)


COMMANDS = [
    Command(
        "vocabulary",
        "onmt_build_vocab -config words.yaml -save_data made -src_vocab v.src -tgt_vocab v.tgt -n_sample 99 -overwrite",
        ("v.src", "v.tgt"),
    ),
    Command(
        "vocabulary with features",
        f"onmt_build_vocab {FEATURES} -save_data made -n_sample -1 -overwrite",
        ("f.src", "f.tgt", "f.src_feat0"),
    ),
    Command("RNN, a stray value", f"onmt_train {RNN} -save_model rnn -tensorboard true -tensorboard_log_dir logs"),
    Command("RNN, an option of old", f"onmt_train {RNN} -save_model gru -rnn_type GRU -encoder_type brnn -dump_fields"),
    translation("greedy", "-beam_size 1"),
    translation("beam", "-beam_size 3 -n_best 2"),
    translation("beam, scores and unknown words replaced", "-beam_size 3 -n_best 2 -with_score -replace_unk"),
    translation("sampling", "-random_sampling_topk 5 -seed 1 -beam_size 1"),
    translation("GRU, beam", "-beam_size 2", "gru"),
    translation("ensemble", "-beam_size 2", "rnn gru"),
    Command("RNN with copy", f"onmt_train {RNN} -save_model copy -copy_attn -dump_fields true", copies=True),
    translation("RNN with copy, beam", "-beam_size 2", "copy", copies=True),
    Command("RNN with coverage", f"onmt_train {RNN} -save_model coverage -coverage_attn -lambda_coverage 0.1"),
    translation("RNN with coverage, beam", "-beam_size 2", "coverage"),
    Command(
        "Transformer with align",
        f"onmt_train -config aligned.yaml {VOCABULARY} {TRANSFORMER} "
        "-save_model align -position_encoding -lambda_align 0.05 -alignment_layer 1 -alignment_heads 2",
    ),
    translation("alignments", "-beam_size 2 -report_align", "align"),
    Command(
        "Transformer with align and copy",
        f"onmt_train -config aligned.yaml {VOCABULARY} {TRANSFORMER} -save_model aligncopy -position_encoding "
        "-lambda_align 0.05 -alignment_layer 1 -alignment_heads 2 -copy_attn",
        copies=True,
    ),
    translation("alignments with copy", "-beam_size 2 -report_align", "aligncopy", copies=True),
    Command("RNN with forced copy", f"onmt_train {RNN} -save_model forced -copy_attn -copy_attn_force", copies=True),
    Command(
        "RNN with copy, truncated decoder",
        f"onmt_train {RNN} -save_model short -copy_attn -truncated_decoder 9",
        copies=True,
    ),
    Command(
        "Transformer with copy and dynamic scoring",
        f"onmt_train {WORDS} {TRANSFORMER} -save_model scored -position_encoding -copy_attn -valid_metrics BLEU "
        "-dump_preds preds -scoring_debug",
        copies=True,
    ),
    Command("relative positions", f"onmt_train {WORDS} {TRANSFORMER} -save_model relative -max_relative_positions 8"),
    translation("relative positions, beam", "-beam_size 2", "relative"),
    Command("rotary", f"onmt_train {WORDS} {TRANSFORMER} -save_model rotary -max_relative_positions -1"),
    translation("rotary, beam", "-beam_size 2", "rotary"),
    Command("alibi", f"onmt_train {WORDS} {TRANSFORMER} -save_model alibi -max_relative_positions -2"),
    translation("alibi, beam", "-beam_size 2", "alibi"),
    Command("language model", f"onmt_train {LANGUAGE_MODEL} -save_model lm -position_encoding"),
    translation("language model, beam", "-beam_size 2 -max_length 9", "lm"),
    Command(
        "language model with copy",
        f"onmt_train {LANGUAGE_MODEL} -save_model lmcopy -position_encoding -copy_attn",
        copies=True,
    ),
    Command(
        "features",
        f"onmt_train {FEATURES} {TRAIN} -layers 1 -word_vec_size 10 -feat_vec_size 6 -hidden_size 16 "
        "-feat_merge concat -save_model feats",
    ),
    translation(
        "features, beam",
        "-beam_size 2 -n_src_feats 1 -src_feats_defaults 0 -transforms inferfeats",
        "feats",
        "data/data_features/src-test-with-feats.txt",
    ),
    Command(
        "graph encoder",
        f"onmt_train {GRAPHS} {TRAIN} -encoder_type ggnn -layers 2 -decoder_type rnn -word_vec_size 126 "
        "-hidden_size 126 -bridge -n_edge_types 9 -state_dim 126 -n_steps 3 -n_node 64 -save_model graph",
    ),
    translation("graph encoder, beam", "-beam_size 2", "graph", "data/ggnnsrc.txt"),
    Command(
        "vocabulary update",
        f"onmt_train {RNN} -src_vocab few.vocab -tgt_vocab few.vocab -save_model updated -train_from rnn_step_4.pt "
        "-update_vocab -reset_optim states -train_steps 8 -save_checkpoint_steps 8",
    ),
]


def prepare(folder: Path) -> None:
    """What the commands read, in a folder of their own."""
    (folder / "data").symlink_to(DATA)
    for name, corpora in CONFIGURATIONS.items():
        (folder / f"{name.replace(' ', '_')}.yaml").write_text(f"data:\n  {corpora}\n")
    sides = [(DATA / f"{side}-train.txt").read_text(encoding="utf-8").splitlines()[:40] for side in ("src", "tgt")]
    pairs = [pair for pair in zip(*sides, strict=True) if all(pair)][:24]  # OpenNMT-py drops blank lines, we do not
    for side, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
        (folder / f"few.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "few.align").write_text("0-0\n" * 24)
    words = (DATA / "vocab-train.src").read_text(encoding="utf-8").splitlines()
    (folder / "few.vocab").write_text("".join(f"{line}\n" for line in words[:300]), encoding="utf-8")


def environment(mode: str) -> dict[str, str]:
    threads = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return os.environ | threads | MODES[mode] | {"ONMT_EXHIRD": mode}


@dataclass
class Row:
    """What a command did in each mode."""

    command: Command
    codes: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, list[bytes]] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    @property
    def output(self) -> str:
        if not self.command.outputs or self.command.copies:
            return "-"
        if any(self.codes.values()):
            return "one failed" if any(code == 0 for code in self.codes.values()) else "none"
        return "equal" if self.outputs["off"] == self.outputs["on"] else "DIFFERENT"

    @property
    def is_worse(self) -> bool:
        return self.codes["on"] not in (0, self.codes["off"]) or self.output == "DIFFERENT"


def run_command(command: Command, mode: str, folder: Path, row: Row) -> None:
    program, *arguments = command.line.split()
    path = Path(sys.executable).parent / program
    done = subprocess.run(
        [path, *arguments], cwd=folder, env=environment(mode), capture_output=True, text=True, check=False
    )
    row.codes[mode] = done.returncode
    row.said[mode] = done.stdout + done.stderr
    row.outputs[mode] = [path.read_bytes() for name in command.outputs if (path := folder / name).exists()]


def run_commands(commands: Sequence[Command], folder: Path) -> Iterable[Row]:
    """Each command in both modes, one after the other: some read what others have written."""
    folders = {mode: folder / mode for mode in MODES}
    for path in folders.values():
        path.mkdir()
        prepare(path)
    for command in commands:
        row = Row(command)
        for mode, path in folders.items():
            run_command(command, mode, path, row)
        yield row


def run_tests(mode: str, folder: Path) -> dict[str, str]:
    """OpenNMT-py's unit tests by name, each with what became of it."""
    spec = find_spec("onmt")
    assert spec is not None and spec.origin is not None
    tests = Path(spec.origin).parent / "tests"
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore", f"--junitxml={folder / 'report.xml'}"]
    options += ["-k", f"not ({BY_CHANCE})"]
    folder.mkdir()
    if DATA.exists():
        prepare_test_data(folder)
    else:
        options += [f"--ignore={tests / name}" for name in NEED_DATA]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tests)],
        cwd=folder, env=environment(mode), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not (folder / "report.xml").exists():
        sys.exit(f"{mode}: OpenNMT-py's tests could not be run:\n{done.stdout}{done.stderr}")
    results = {}
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        kind = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        results[f"{case.get('classname')}.{case.get('name')}".partition("onmt.tests.")[2]] = kind
    return results


def prepare_test_data(folder: Path) -> None:
    """The tests expect a checkout's folder `data`, where some of them write."""
    (folder / "data").mkdir()
    for path in DATA.iterdir():
        (folder / "data" / path.name).symlink_to(path)
    (folder / "data" / "data.yaml").write_text(f"save_data: data/made\ndata:\n  {CONFIGURATIONS['words']}\n")


def compare_tests(folder: Path) -> bool:
    """Print the comparison; whether the plug-in broke none."""
    with ThreadPoolExecutor(len(MODES)) as pool:
        runs = {mode: pool.submit(run_tests, mode, folder / f"tests-{mode}") for mode in MODES}
    off, on = runs["off"].result(), runs["on"].result()
    counted = [name for name, result in off.items() if result == "passed"]
    broken = [name for name in counted if on.get(name) != "passed"]
    kept = len(counted) - len(broken)
    print(f"OpenNMT-py's unit tests: {len(counted)} pass without the plug-in, {kept} of them with it")
    print("not counted, since they fail without it too (most want a model file that is not in the package):")
    for name in sorted(off.keys() - counted):
        print(f"  {name}: {off[name]}, with the plug-in {on.get(name, 'missing')}")
    for name in broken:
        print(f"BROKEN {name}: {on.get(name, 'missing')}")
    return not broken


def compare_commands(folder: Path) -> bool:
    """Print the table; whether nothing got worse."""
    fine = True
    print(f"{'command':<42} {'off':>4} {'on':>4}  output")
    for row in run_commands(COMMANDS, folder):
        mark = "  <- worse" if row.is_worse else ""
        print(f"{row.command.name:<42} {row.codes['off']:>4} {row.codes['on']:>4}  {row.output}{mark}", flush=True)
        if row.is_worse or row.codes["on"]:
            print(f"  {row.command.line}\n" + "\n".join(f"    {line}" for line in row.said["on"].splitlines()[-12:]))
        fine = fine and not row.is_worse
    return fine


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["tests", "commands"], help="tests, commands; default: both")
    args = parser.parse_args(arguments)
    if unknown := set(args.what) - {"tests", "commands"}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are tests and commands")
    fine = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "tests" in args.what:
            fine = compare_tests(folder) and fine
        if "commands" in args.what and not DATA.exists():
            print(f"the commands are skipped: there is no {DATA}")
        elif "commands" in args.what:
            fine = compare_commands(folder) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
