"""A small corpus, and models for it made by hand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from onmt_exhird.stream import END, EOS

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


DATA = """
data:
  train: {path_src: train.src, path_tgt: train.tgt, weight: 1}
  valid: {path_src: valid.src, path_tgt: valid.tgt}
save_data: .
src_vocab: vocab.txt
share_vocab: true
share_embeddings: true
"""  # what every training reads, in its own folder

BASE = f"""{DATA}src_vocab_size: 45
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
