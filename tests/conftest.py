"""A small corpus, models for it made by hand, and the stock commands to train and run them."""

from __future__ import annotations

import importlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from onmt_exhird.stream import END, EOS

TOOLS = Path(__file__).resolve().parents[1] / "tools"
SHARED = Path(__file__).resolve().parents[2] / "shared"  # material beside the checkout, where there is any


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and what tests start would never hear a Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def unmeasured() -> dict[str, str]:
    """The environment of a process that is interrupted: raised within coverage's lock, a Ctrl-C leaves it held."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def load_tool(name: str) -> ModuleType:
    """A script of tools/ as a module; they may import each other, as scripts of one folder do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        return importlib.import_module(name)


AREAS = {"neurons": "machine learning", "proofs": "formal logic", "packets": "computer networks"}
TERMS = [f"{first} {second}" for first in ("fast", "deep", "quiet", "linear") for second in ("graph", "tree", "code")]


def invented_name(rng: random.Random) -> str:
    return "".join(rng.choice("bdgklmprtvz") + rng.choice("aeiou") for _ in range(4))


def make_document(rng: random.Random) -> tuple[str, str]:
    """What follows 'about' and 'named' is a present keyphrase; the area's word gives the absent one."""
    term, other = rng.sample(TERMS, 2)
    name, area = invented_name(rng), rng.choice(list(AREAS))
    source = f"a note about {term} with {area}"
    target = f"<p_start> {term} ;"
    if rng.random() < 0.7:
        source += f" . it is named {name}"
        target += f" <p_start> {name} ;"
    if rng.random() < 0.5:
        source += f" . nothing on {other} here"
    return source, f"{target} <a_start> {AREAS[area]} ;"


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def run_stock(command: str, *arguments: object, cwd: Path, check: bool = True, **environment: str):
    """Run a stock command (or ``python -m``) as a user would, in one thread."""
    program = [sys.executable, "-m", command] if "." in command else [str(Path(sys.executable).parent / command)]
    done = subprocess.run(
        [*program, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def translate(folder: Path, model: Path, src: str, *options: object) -> list[str]:
    """What onmt_translate writes, called in this process, since starting one takes longer than its work."""
    from onmt.bin import translate as command

    output = folder / "out.pred"
    arguments = ["-model", model, "-src", folder / src, "-output", output, *options]
    command.translate(command._get_parser().parse_args([str(argument) for argument in arguments]))
    return output.read_text().splitlines()


def train_here(folder: Path, *arguments: object) -> None:
    """What onmt_train does in a folder, in this process and one thread: starting one takes longer than its work."""
    import torch
    from onmt.bin import train as command

    before = os.getcwd()
    os.chdir(folder)
    torch.set_num_threads(1)
    try:
        command.train(command._get_parser().parse_args([str(argument) for argument in arguments]))
    finally:
        os.chdir(before)


BASE = """
data:
  train: {path_src: train.src, path_tgt: train.tgt, weight: 1}
  valid: {path_src: valid.src, path_tgt: valid.tgt}
save_data: .
src_vocab: vocab.txt
share_vocab: true
share_embeddings: true
src_vocab_size: 45
tgt_vocab_size: 45
word_vec_size: 24
dropout: [0.0]
attention_dropout: [0.0]
copy_attn: true
optim: adam
max_grad_norm: 1.0
batch_size: 20
bucket_size: 2000
num_workers: 0
report_every: 100
seed: 7
overwrite: true
"""
RECURRENT = """
encoder_type: brnn
rnn_type: GRU
enc_layers: 1
dec_layers: 1
hidden_size: 40
global_attention: general
param_init: 0.1
learning_rate: 0.01
"""
MODELS = {
    "rnn": RECURRENT + "decoder_type: rnn\nreuse_copy_attn: true\n",
    "exhird": RECURRENT + "decoder_type: exhird\nexclusive_loss_window: 2\n",
    "tied": RECURRENT + "decoder_type: exhird\nshare_decoder_embeddings: true\n",
    "catseqd": RECURRENT + "decoder_type: catseqd\n",
    "catseqcorr": RECURRENT + "decoder_type: catseqcorr\n",
    "transformer": """
encoder_type: transformer
decoder_type: transformer
enc_layers: 1
dec_layers: 1
hidden_size: 24
heads: 2
transformer_ff: 48
position_encoding: true
param_init: 0.0
param_init_glorot: true
learning_rate: 0.005
""",
}


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, a vocabulary and a configuration for each model."""
    folder = tmp_path_factory.mktemp("workshop")
    rng = random.Random(5)
    for split, size in (("train", 1500), ("valid", 30), ("test", 23)):
        documents = [make_document(rng) for _ in range(size)]
        write_lines(folder / f"{split}.src", [source for source, _ in documents])
        write_lines(folder / f"{split}.tgt", [target for _, target in documents])
    for name, model in MODELS.items():
        (folder / f"{name}.yaml").write_text(BASE + model + f"save_model: {name}\n")
    run_stock("onmt_build_vocab", "-config", "rnn.yaml", "-n_sample", "-1", cwd=folder)
    return folder


def made_model(folder: Path, name: str) -> dict[str, Any]:
    """The checkpoint of a model whose weights are drawn, not learned, so that every processor has the same.

    Those of the layers are small, so that no rounding error grows from step to step; those of embeddings and of the
    output layer are large, so that documents lead to different outputs. Phrases and documents like to end.
    """
    import torch
    from onmt.bin import train
    from onmt.inputters.inputter import build_vocab, vocabs_to_dict
    from onmt.model_builder import build_base_model

    opt = train._get_parser().parse_args(["-config", str(folder / f"{name}.yaml")])
    opt.src_vocab, opt.data_task = str(folder / opt.src_vocab), "seq2seq"
    train.ArgumentParser.update_model_opts(opt)
    vocabs = build_vocab(opt, {"src": [], "tgt": []})
    torch.manual_seed(3)
    model = build_base_model(opt, vocabs)
    for key, parameter in model.named_parameters():
        is_large = name == "transformer" or "embeddings" in key or key == "generator.weight"
        reach = 1.0 if is_large else 0.3
        torch.nn.init.uniform_(parameter, -reach, reach)
    for token, liking in ((END, 3.0), (EOS, 2.0)):
        model.generator.bias.data[vocabs["tgt"].lookup_token(token)] = liking
    model.generator.gate_bias.data.fill_(1.0)
    body = {key: tensor for key, tensor in model.state_dict().items() if "generator" not in key}
    saved = {"model": body, "generator": model.generator.state_dict(), "vocab": vocabs_to_dict(vocabs)}
    return saved | {"opt": opt, "optim": {}}


@pytest.fixture(scope="session")
def made(workshop: Path) -> Callable[[str], Path]:
    """The file of a model made by hand, written when first asked for."""

    def make(name: str) -> Path:
        import torch

        path = workshop / f"{name}_made.pt"
        if not path.exists():
            torch.save(made_model(workshop, name), path)
        return path

    return make
