"""What is wrong with OpenNMT-py 3.5.1 without the plug-in: the reasons for the seams, seen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.files import write_lines
from helpers.stock import run_stock

STOCK = {"ONMT_EXHIRD": "off"}
STRICT_TORCH = hasattr(torch.serialization, "add_safe_globals")  # its load refuses what it does not know

ROW_SUMS = """
import pyonmttok, torch
from onmt.bin import train
from onmt.inputters.text_utils import _addcopykeys, numericalize, tensorify
from onmt.model_builder import build_base_model
words = "<unk> <blank> <s> </s> a b c d".split()
vocab = pyonmttok.build_vocab_from_tokens(words)
vocab.default_id = 0
vocabs = {"src": vocab, "tgt": vocab, "data_task": "seq2seq", "decoder_start_token": "<s>"}
options = "-data {} -src_vocab v -save_model m -copy_attn -reuse_copy_attn -encoder_type brnn -decoder_type rnn"
sizes = "-layers 1 -hidden_size 8 -word_vec_size 5 -dropout 0"
opt = train._get_parser().parse_args([*options.split(), *sizes.split()])
train.ArgumentParser.update_model_opts(opt)
torch.manual_seed(3)
model = build_base_model(opt, vocabs)
for parameter in model.parameters():
    torch.nn.init.uniform_(parameter, -1, 1)
rows = []
for index, (src, tgt) in enumerate([("a b c a d", "a b"), ("d", "c c c d")]):
    example = {"src": {"src": src}, "tgt": {"tgt": tgt}, "cid": "c", "cid_line_number": index}
    rows.append((numericalize(vocabs, _addcopykeys(vocabs, example)), index))
batch = tensorify(vocabs, rows, "cpu")
output, attentions = model(batch["src"], batch["tgt"], batch["srclen"])
flat = [tensor.reshape(-1, tensor.size(2)) for tensor in (output, attentions["copy"])]
sums = model.generator(*flat, batch["src_map"]).sum(1)
print((sums - 1).abs().max().item())
"""


def test_rows_of_the_copy_distribution_do_not_sum_to_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ROW_SUMS], env=os.environ | STOCK, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.01


@pytest.fixture(scope="module")
def stock_checkpoint(workshop: Path) -> Path:
    """A copying model, trained for two steps by stock OpenNMT-py."""
    options = ["-config", "rnn.yaml", "-train_steps", 2, "-valid_steps", 9, "-save_model", "stock"]
    run_stock("onmt_train", *options, cwd=workshop, **STOCK)
    return workshop / "stock_step_2.pt"


@pytest.mark.skipif(STRICT_TORCH, reason="this torch refuses every checkpoint of stock OpenNMT-py")
def test_a_copying_model_cannot_be_loaded(stock_checkpoint: Path, workshop: Path) -> None:
    options = ["-model", stock_checkpoint, "-src", "test.src", "-output", "stock.pred"]
    done = run_stock("onmt_translate", *options, cwd=workshop, check=False, **STOCK)
    assert "Missing key in checkpoint: generator.linear.weight" in done.stderr


@pytest.mark.skipif(not STRICT_TORCH, reason="this torch loads pickles of any kind")
def test_newer_torch_refuses_every_checkpoint(stock_checkpoint: Path, workshop: Path) -> None:
    options = ["-model", stock_checkpoint, "-src", "test.src", "-output", "stock.pred"]
    done = run_stock("onmt_translate", *options, cwd=workshop, check=False, **STOCK)
    assert done.returncode != 0 and "argparse.Namespace" in done.stderr


def test_a_misspelt_option_is_ignored(workshop: Path) -> None:
    config = (workshop / "rnn.yaml").read_text() + "lerning_rate: 1\n"
    (workshop / "misspelt.yaml").write_text(config)
    run_stock(
        "onmt_build_vocab",
        "-config",
        "misspelt.yaml",
        "-src_vocab",
        "other.txt",
        "-n_sample",
        -1,
        cwd=workshop,
        **STOCK,
    )


def test_unequal_files_are_trained_on_silently(workshop: Path) -> None:
    write_lines(workshop / "half.tgt", ["<p_start> graph ;"] * 9)
    (workshop / "half.yaml").write_text((workshop / "rnn.yaml").read_text().replace("train.tgt", "half.tgt"))
    options = ["-config", "half.yaml", "-train_steps", 1, "-valid_steps", 9, "-save_model", "half"]
    run_stock("onmt_train", *options, cwd=workshop, **STOCK)
