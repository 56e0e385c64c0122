"""A model of OpenNMT-py as our own search sees it: the same tensors, no copies."""

from __future__ import annotations

from typing import Any

from onmt.encoders.rnn_encoder import RNNEncoder
from torch import nn

from onmt_exhird.bridge.baselines import SequentialDecoder
from onmt_exhird.bridge.decoders import CopyingRNNDecoder, ExhirdDecoder
from onmt_exhird.nn.catseq import CatSeq
from onmt_exhird.nn.copying import CopyGenerator
from onmt_exhird.nn.model import Decoder, KeyphraseModel, SpecialIds
from onmt_exhird.stream import END, EOS, PAD, UNK


def special_ids(vocabs: dict[str, Any]) -> SpecialIds:
    """The ids of a model's target vocabulary."""
    vocab = vocabs["tgt"]
    end = vocab.lookup_token(END) if END in vocab else None
    unk, pad, start, eos = map(vocab.lookup_token, (UNK, PAD, vocabs["decoder_start_token"], EOS))
    return SpecialIds(unk, pad, start, eos, end)


def _embedding(embeddings: Any) -> nn.Embedding | None:
    """The table of words, if there is nothing beside it: no features, no positions."""
    alone = len(embeddings.emb_luts) == 1 and len(embeddings.make_embedding) == 1
    return embeddings.word_lut if alone else None


def _cat_seq(decoder: CopyingRNNDecoder) -> CatSeq | None:
    """The stock ``rnn`` decoder, if it is catSeq: one GRU whose bilinear attention also copies."""
    attention, layers = decoder.attn, getattr(decoder.rnn, "layers", [])
    plain = not (decoder._coverage or decoder.context_gate is not None or decoder.copy_attn is not None)
    if not plain or attention is None or len(layers) != 1 or not isinstance(layers[0], nn.GRUCell):
        return None
    if attention.attn_type != "general" or attention.attn_func != "softmax":
        return None
    catseq = CatSeq.__new__(CatSeq)  # without parameters of its own: upstream's take their places
    nn.Module.__init__(catseq)
    catseq.cell, catseq.attention, catseq.combine = layers[0], attention.linear_in.weight, attention.linear_out.weight
    return catseq


def _decoder(decoder: Any) -> Decoder | None:
    if isinstance(decoder, ExhirdDecoder):
        return decoder.hierarchy
    if isinstance(decoder, SequentialDecoder):
        return decoder.sequence
    return _cat_seq(decoder) if isinstance(decoder, CopyingRNNDecoder) else None


def as_ours(model: Any, vocabs: dict[str, Any]) -> KeyphraseModel | None:
    """The model for our own search, or None where it is none of ours: another encoder, no copying, an ensemble."""
    encoder, generator = getattr(model, "encoder", None), getattr(model, "generator", None)
    if not isinstance(encoder, RNNEncoder) or not isinstance(generator, CopyGenerator):
        return None
    decoder, source, target = (
        _decoder(model.decoder),
        _embedding(encoder.embeddings),
        _embedding(model.decoder.embeddings),
    )
    if encoder.use_bridge or not isinstance(encoder.rnn, nn.GRU) or decoder is None or source is None or target is None:
        return None
    return KeyphraseModel(source, target, encoder.rnn, decoder, generator, special_ids(vocabs)).eval()
