"""Rows of any model of OpenNMT-py, for our beam search: Transformers, LSTMs, models that do not copy."""

from __future__ import annotations

from typing import Any

import torch
from onmt.utils.misc import tile
from torch import Tensor

from onmt_exhird.bridge.batches import Batch, extended_size
from onmt_exhird.search.beam import ScoreRows


class UpstreamRows:
    """What `onmt_exhird.search.beam.Rows` asks for, by upstream's own encoder and decoder."""

    def __init__(self, translator: Any, batch: Batch, beams: int) -> None:
        self.translator, self.batch, self.beams = translator, batch, beams
        self.decoder = translator.model.decoder
        src, final, encoded, lengths = translator._run_encoder(batch)
        self.decoder.init_state(src, encoded, final)
        self.documents = len(batch["srclen"])
        self.decoder.map_state(lambda tensor, axis=0: tile(tensor, beams, dim=axis))
        self.sources = [tile(tensor, beams, dim=0) for tensor in (encoded, lengths)]  # (rows, src_len, d), (rows)
        if translator.copy_attn:
            self.sources.append(tile(batch["src_map"], beams, dim=0))  # (rows, src_len)
        self.steps = 0

    def step(self, inputs: Tensor, full: Tensor | None) -> ScoreRows:
        translator, step = self.translator, self.steps
        encoded, lengths, *extended = self.sources
        translator.forced_end = None if full is None else lambda: full
        self.steps += 1
        tokens = inputs.view(-1, 1, 1)
        if not translator.copy_attn:
            log_probs, _ = translator._decode_and_generate(tokens, encoded, self.batch, lengths, step=step)
            return lambda rows: (log_probs[rows], torch.zeros_like(log_probs[rows, :1]))
        hidden, attention = translator.decode(tokens, encoded, lengths, step)
        arguments = hidden, attention.squeeze(1), extended[0]
        size = extended_size(translator._tgt_vocab_len, self.batch)

        def score_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
            some, generator = [tensor[rows] for tensor in arguments], translator.model.generator
            scores = generator.new_scores(some[0], size)
            return scores, generator.relative_mixture(*some, scores)

        return score_rows

    def select(self, rows: Tensor) -> None:
        self.decoder.map_state(lambda tensor, axis=0: tensor.index_select(axis, rows))
        if len(rows) < len(self.sources[1]):
            self.sources = [tensor[rows] for tensor in self.sources]
