"""Models as OpenNMT-py builds them, of a few words, with random parameters; and batches for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyonmttok
import torch
from onmt.bin import train
from onmt.inputters.inputter import vocabs_to_dict
from onmt.inputters.text_utils import numericalize, tensorify
from onmt.model_builder import build_base_model
from torch import nn

from onmt_exhird import stream
from onmt_exhird.bridge.batches import add_extended_ids
from onmt_exhird.nn.losses import stream_losses

WORDS = "<unk> <blank> <s> </s> <p_start> <a_start> ; a about graph tree code with named deep".split()
DOCUMENTS = [
    ("a about zuvoka graph with tree named zuvoka", "<p_start> graph ; <p_start> zuvoka ; <a_start> deep code ;"),
    ("graph", "<a_start> tree ;"),
    ("tree named poliku with a code about graph and more graph", "<p_start> poliku ; <a_start> lost ;"),
    ("a tree", "<p_start> tree ; <a_start> graph ; <a_start> code ; <a_start> deep ;"),
    ("deep code", "<p_start> deep code ;"),
    ("named bidoka rataku about tree", "<p_start> rataku ; <p_start> bidoka ; <p_start> tree ;"),
    ("with", "<a_start> a ;"),
]
RECURRENT = "-encoder_type brnn -rnn_type GRU -enc_layers 2 -dec_layers 1 -hidden_size 8 -global_attention general"
OPTIONS = {
    "rnn": f"{RECURRENT} -decoder_type rnn -reuse_copy_attn",
    "rnn, copy attention of its own": f"{RECURRENT} -decoder_type rnn",
    "exhird": f"{RECURRENT} -decoder_type exhird",
    "catseqd": f"{RECURRENT} -decoder_type catseqd",
    "catseqcorr": f"{RECURRENT} -decoder_type catseqcorr",
    "exhird on a transformer": "-encoder_type transformer -decoder_type exhird -hidden_size 8 -heads 2 -layers 2"
    " -transformer_ff 11 -position_encoding",
    "transformer": "-encoder_type transformer -decoder_type transformer -hidden_size 8 -heads 2 -layers 2"
    " -transformer_ff 11 -position_encoding",
}


def options(name: str, *more: str) -> Any:
    width = "8" if "transformer" in name else "5"
    needed = f"-data {{}} -src_vocab v -save_model m -copy_attn -word_vec_size {width} -dropout 0 -attention_dropout 0"
    opt = train._get_parser().parse_args([*needed.split(), *OPTIONS[name].split(), *more])
    train.ArgumentParser.update_model_opts(opt)
    return opt


def make_batch(vocabs: dict[str, Any], documents: list[tuple[str, str]]) -> dict[str, Any]:
    rows = []
    for index, (source, target) in enumerate(documents):
        example = {"src": {"src": source}, "tgt": {"tgt": target}, "cid": "c", "cid_line_number": index}
        rows.append((numericalize(vocabs, add_extended_ids(vocabs, example)), index))
    return tensorify(vocabs, rows, torch.device("cpu"))


def decode(model: Any, batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    output, attentions = model(batch["src"], batch["tgt"], batch["srclen"])
    return output, attentions["copy"]


def losses(model: Any, batch: dict[str, Any]) -> torch.Tensor:
    output, attention = decode(model, batch)
    return stream_losses(model.generator, output, attention, batch["src_map"], batch["tgt_ext"][:, 1:]).generation


def make_vocabs(words: list[str]) -> dict[str, Any]:
    vocab = pyonmttok.build_vocab_from_tokens(words)
    vocab.default_id = 0
    return {"src": vocab, "tgt": vocab, "data_task": "seq2seq", "decoder_start_token": "<s>"}


VOCABS = make_vocabs(WORDS)


def build(opt: Any, vocabs: dict[str, Any] = VOCABS) -> Any:
    """A model in training mode. Upstream leaves embeddings as the memory was, and notes in vocabs how it copies."""
    torch.manual_seed(3)
    model = build_base_model(opt, vocabs)
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -0.7, 0.7)
    return model.train()


def save(built: nn.Module, opt: object, path: Path) -> Path:
    body = {name: tensor for name, tensor in built.state_dict().items() if "generator" not in name}
    saved = {"model": body, "generator": built.generator.state_dict(), "vocab": vocabs_to_dict(VOCABS), "opt": opt}
    torch.save(saved | {"optim": {}}, path)
    return path


def wild(decoder: str, path: Path, copies: bool = True) -> Path:
    """A model with random parameters, so large that documents lead to different outputs, which often end."""
    opt = options(decoder)
    opt.copy_attn = copies
    built = build(opt)
    torch.manual_seed(3)
    for parameter in built.parameters():
        nn.init.normal_(parameter, std=0.7)
    for token in (stream.END, stream.EOS):
        built.generator.bias.data[VOCABS["tgt"].lookup_token(token)] = 2.5
    return save(built, opt, path)
