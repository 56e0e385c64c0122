"""A checkpoint of ``onmt_train`` as one of our own models, without OpenNMT-py."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from onmt_exhird.errors import ExhirdError
from onmt_exhird.generator.trained import Trained
from onmt_exhird.generator.unpickling import load_harmless
from onmt_exhird.nn.model import Architecture
from onmt_exhird.stream import BOS
from onmt_exhird.textmodel import TextModel

INSTEAD = "translate with onmt_translate instead"
DECODERS = {"exhird": "exhird", "rnn": "catseq", "catseqd": "catseqd", "catseqcorr": "catseqcorr"}
WORDS = "embeddings.make_embedding.emb_luts.0."

# Names of a checkpoint's tensors, and what they are in `KeyphraseModel`; a longer one goes before its own beginning.
RENAMED = {
    f"encoder.{WORDS}": "source_embedding.",
    f"decoder.{WORDS}": "target_embedding.",
    "encoder.rnn.": "encoder.",
    "decoder.hierarchy.": "decoder.",
    "decoder.sequence.": "decoder.",
    "decoder.rnn.layers.0.": "decoder.cell.",
    "decoder.attn.linear_in.weight": "decoder.attention",
    "decoder.attn.linear_out.weight": "decoder.combine",
}
TRAINING_ONLY = ("decoder.queue.",)


def refuse(path: Path, what: str) -> ExhirdError:
    return ExhirdError(f"{path} {what}: only ExHiRD, catSeq, catSeqD and catSeqCorr stand on their own; {INSTEAD}")


def check(path: Path, opt: Namespace) -> None:
    """Stop if the options are not those of a model that we have in pure torch."""

    def given(name: str, default: Any) -> Any:
        return getattr(opt, name, default)

    decoder = given("decoder_type", None)
    if given("model_task", "seq2seq") != "seq2seq" or decoder not in DECODERS:
        raise refuse(path, f"is a model of -decoder_type {decoder}")
    if opt.encoder_type not in ("brnn", "rnn") or opt.rnn_type != "GRU" or given("bridge", False):
        raise refuse(path, f"has an encoder of -encoder_type {opt.encoder_type} and -rnn_type {opt.rnn_type}")
    if not opt.copy_attn:
        raise refuse(path, "does not copy (-copy_attn)")
    if given("position_encoding", False) or given("n_src_feats", 0):
        raise refuse(path, "has more than words in its embedding")
    if decoder == "rnn":
        catseq = {
            "-dec_layers": opt.dec_layers == 1,
            "-input_feed": bool(given("input_feed", 1)),
            "-global_attention": opt.global_attention == "general",
            "-global_attention_function": given("global_attention_function", "softmax") == "softmax",
            "-reuse_copy_attn": bool(given("reuse_copy_attn", False)),
            "-coverage_attn": not given("coverage_attn", False),
            "-context_gate": given("context_gate", None) is None,
        }
        others = [option for option, fits in catseq.items() if not fits]
        if others:
            raise refuse(path, f"is an rnn that is not catSeq ({', '.join(others)})")


def vocabulary(path: Path, vocab: dict[str, Any]) -> list[str]:
    """The one vocabulary of source and target."""
    if vocab["src"] != vocab["tgt"]:
        raise refuse(path, "has two vocabularies (train with -share_vocab)")
    if vocab.get("decoder_start_token", BOS) != BOS:
        raise refuse(path, f"starts with {vocab['decoder_start_token']}")
    return list(vocab["tgt"])


def renamed(tensors: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a checkpoint under the names of `KeyphraseModel`, without those of training only."""
    for name, tensor in tensors.items():
        if name.startswith(TRAINING_ONLY):
            continue
        for old, new in RENAMED.items():
            if name.startswith(old):
                name = new + name.removeprefix(old)
                break
        yield name, tensor


def weights_beside(path: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint that was saved with ``-save_format safetensors``, which lie beside it."""
    from safetensors.torch import load_file

    parts = sorted(path.parent.glob(f"{path.stem}.*.safetensors"))
    if not parts:
        raise ExhirdError(f"{path} has no weights, and {path.stem}.00.safetensors is not beside it: put it there")
    tensors: dict[str, Tensor] = {}
    for part in parts:
        tensors |= load_file(part)
    return tensors


def read_checkpoint(path: Path) -> Trained:
    """The model of a ``.pt`` file."""
    saved = load_harmless(path, map_location="cpu")
    if not isinstance(saved, dict) or not {"vocab", "opt"} <= saved.keys():
        raise ExhirdError(
            f"{path} is no checkpoint of onmt_train: give a .pt file that it has saved, or a model folder"
        )
    opt = saved["opt"]
    check(path, opt)
    tokens = vocabulary(path, saved["vocab"])
    if saved.get("model"):
        tensors = saved["model"] | {f"generator.{name}": tensor for name, tensor in saved["generator"].items()}
    else:
        tensors = weights_beside(path)
    architecture = Architecture(
        decoder=DECODERS[opt.decoder_type],
        vocab_size=len(tokens),
        embedding_size=opt.tgt_word_vec_size,
        hidden_size=opt.dec_hid_size,
        encoder_layers=opt.enc_layers,
        bidirectional=opt.encoder_type == "brnn",
        shared_embedding=bool(opt.share_embeddings),
        tied=bool(opt.share_decoder_embeddings),
    )
    aliases = architecture.aliases()
    own = {name: tensor for name, tensor in renamed(tensors) if name not in aliases}
    content = getattr(opt, "keyphrase_text", "")
    text = TextModel.from_json(content, str(path)) if content else TextModel()
    return Trained(path.stem, architecture, tokens, own, text=text)
