"""A whole model for search: embedding, encoder, decoder and output layer, from a small description.

What a trained model needs is here. Training is OpenNMT-py's, whose modules hold the same tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn.catseq import CatSeq
from onmt_exhird.nn.catseqcorr import CatSeqCorr
from onmt_exhird.nn.catseqd import CatSeqD
from onmt_exhird.nn.copying import CopyGenerator, restrict
from onmt_exhird.nn.gru import directions_of
from onmt_exhird.nn.hierarchical import HierarchicalDecoder, HierarchicalState, Memory, read_boundaries
from onmt_exhird.nn.reading import read

Decoder = HierarchicalDecoder | CatSeq | CatSeqD | CatSeqCorr
OUTPUT = "generator.weight"  # of the output layer, which may be the first rows of an embedding
State = Any  # of a decoder: a named tuple of tensors with the rows as axis 0, and `map`
DECODERS: dict[str, Callable[[int, int], Decoder]] = {
    "exhird": HierarchicalDecoder,
    "catseq": CatSeq,
    "catseqd": CatSeqD,
    "catseqcorr": CatSeqCorr,
}


@dataclass(frozen=True)
class Architecture:
    """The sizes of a model.

    decoder             one of `DECODERS`
    shared_embedding    whether source and target have one embedding
    tied                whether it is the output layer's weight, too
    generated           how many words can be generated, the first of the vocabulary, the others copied only; None: all
    """

    decoder: str
    vocab_size: int
    embedding_size: int
    hidden_size: int
    encoder_layers: int
    bidirectional: bool = True
    shared_embedding: bool = True
    tied: bool = False
    generated: int | None = None

    def __post_init__(self) -> None:
        if self.decoder not in DECODERS:
            raise ExhirdError(f"unknown decoder '{self.decoder}', the known ones are {', '.join(DECODERS)}")
        directions = 2 if self.bidirectional else 1
        sizes = self.vocab_size, self.embedding_size, self.hidden_size, self.encoder_layers, self.output_size
        if min(sizes) < 1 or self.hidden_size % directions or self.output_size > self.vocab_size:
            raise ExhirdError(f"the model's sizes cannot be: {self}")

    @property
    def output_size(self) -> int:
        return self.vocab_size if self.generated is None else self.generated

    def build(self, ids: SpecialIds) -> KeyphraseModel:
        """A model of these sizes, with parameters that mean nothing yet."""
        size = self.hidden_size // (2 if self.bidirectional else 1)
        embedding = nn.Embedding(self.vocab_size, self.embedding_size)
        target_embedding = embedding if self.shared_embedding else nn.Embedding(self.vocab_size, self.embedding_size)
        encoder = nn.GRU(
            self.embedding_size, size, self.encoder_layers, batch_first=True, bidirectional=self.bidirectional
        )
        decoder = DECODERS[self.decoder](self.embedding_size, self.hidden_size)
        generator = CopyGenerator(self.hidden_size, self.output_size, ids.pad)
        if self.tied:
            weight = target_embedding.weight
            generator.tie(weight if self.generated is None else weight.detach()[: self.generated])
        return KeyphraseModel(embedding, target_embedding, encoder, decoder, generator, ids)

    def aliases(self) -> dict[str, str]:
        """Tensors that are others, by the names of both in `KeyphraseModel`."""
        source, target = "source_embedding.weight", "target_embedding.weight"
        aliases = {target: source} if self.shared_embedding else {}
        return aliases | ({OUTPUT: aliases.get(target, target)} if self.tied else {})


class SpecialIds(NamedTuple):
    """The vocabulary ids that a model knows by their meaning: unknown word, padding, start and end, end of a phrase.

    A model that does not write streams has no end of a phrase.
    """

    unk: int
    pad: int
    start: int
    eos: int
    end: int | None


class Step(NamedTuple):
    """What a model makes of one token of every row.

    attentional   (rows, d)         h~
    attention     (rows, src_len)   alpha, for copying
    state         after the token
    """

    attentional: Tensor
    attention: Tensor
    state: State


class KeyphraseModel(nn.Module):
    """A model as search sees it: documents are encoded, then one token after the other is fed to every row.

    generator   the output layer; search may put another form of it there (`onmt_exhird.nn.output_layer`)
    """

    def __init__(
        self,
        source_embedding: nn.Embedding,
        target_embedding: nn.Embedding,
        encoder: nn.GRU,
        decoder: Decoder,
        generator: CopyGenerator,
        ids: SpecialIds,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.generator = generator
        self.ids = ids

    @property
    def vocab_size(self) -> int:
        return self.target_embedding.num_embeddings

    @property
    def grows(self) -> bool:
        """Whether the decoder's state becomes larger with every token, so that all rows must be of one age."""
        return isinstance(self.decoder, CatSeqCorr)

    def encode(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """ids (batch, src_len), lengths (batch) -> states m (batch, src_len, d), the documents' vectors h_0 (batch, d).

        The vector is that of the last layer's final states, both directions.
        """
        if ids.device.type == "cpu":
            return read(self.encoder, self.source_embedding.weight, ids, lengths)
        embedded = self.source_embedding(ids)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, final = self.encoder(packed)
        states = pad_packed_sequence(output, batch_first=True, total_length=ids.size(1))[0]
        return states, torch.cat(tuple(final[-directions_of(self.encoder) :]), 1)

    def first_state(self, document: Tensor, memory: Memory) -> State:
        """The decoder's state before the first token, from the documents' vectors (batch, d)."""
        return self.decoder.first_state(document, memory)

    def step(self, inputs: Tensor, memory: Memory, state: State, beams: int = 1, full: Tensor | None = None) -> Step:
        """One token for every row: inputs (rows), extended ids, the start token first.

        beams: rows in succession that are of one document.
        full (rows): where a phrase is full, so that its `;` is appended, not predicted. There a hierarchical decoder
        does not move, as in the authors' program.
        """
        inputs = restrict(inputs, self.vocab_size, self.ids.unk)
        after: State
        if not isinstance(self.decoder, HierarchicalDecoder):
            after, attention = self.decoder.advance(self.target_embedding(inputs), memory, state)
            return Step(after.attentional, attention, after)
        assert self.ids.end is not None  # the hierarchy is in the tokens
        ids, starts = read_boundaries(inputs, self.ids.start, self.ids.end)
        after, attention = self.decoder.step(self.target_embedding(ids), starts, memory, state, beams)
        step = Step(after.attentional, attention, after)
        if full is not None and full.any():
            kept = full.unsqueeze(1)
            pairs = zip(state, after, strict=True)
            step = step._replace(state=HierarchicalState(*(torch.where(kept, old, new) for old, new in pairs)))
        return step
