"""Search over extended ids, within the grammar of the stream."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from onmt.decoders.transformer import TransformerDecoderBase
from torch import Tensor

from onmt_exhird.bridge import texts
from onmt_exhird.bridge.batches import Batch, extended_size
from onmt_exhird.bridge.memory import keep_freed_memory
from onmt_exhird.bridge.models import as_ours
from onmt_exhird.bridge.results import buckets
from onmt_exhird.bridge.rows import UpstreamRows
from onmt_exhird.bridge.seams import Upstream, UpstreamClass, put_before
from onmt_exhird.bridge.strategies import constrain
from onmt_exhird.bridge.vocabulary import require_structure, writes_streams
from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn.copying import CopyGenerator, restrict
from onmt_exhird.nn.losses import stream_losses
from onmt_exhird.nn.model import KeyphraseModel
from onmt_exhird.search import SearchSettings, StreamConstraint
from onmt_exhird.search.beam import Beam, ModelRows, Rows
from onmt_exhird.search.greedy import Greedy
from onmt_exhird.search.piece_constraint import build_constraint
from onmt_exhird.search.sources import Sources
from onmt_exhird.textmodel import TextModel


def constraint_for(vocab: Any, opt: Namespace, text: TextModel, device: torch.device) -> StreamConstraint | None:
    """What a search may write, or None if the vocabulary is not one of keyphrases."""
    for option in ("exclusive_search", "exclude_stems", "exclude_phrases"):
        if getattr(opt, option):
            require_structure(vocab, f"-{option}")
    if not writes_streams(vocab):
        return None
    settings = SearchSettings(
        exclusive_window=opt.exclusive_window if opt.exclusive_search else 0,
        min_phrases=opt.min_phrases,
        max_phrases=opt.max_phrases,
        max_phrase_words=opt.max_phrase_words,
        max_length=opt.max_length,
        exclude_stems=opt.exclude_stems,
        exclude_phrases=opt.exclude_phrases,
    )
    return build_constraint(vocab.ids_to_tokens, settings, text, device)


def sources_of(batch: Batch) -> Sources:
    """A batch of upstream's as our search takes it."""
    return Sources(batch["src"][:, :, 0], batch["srclen"], batch["src_map"], batch["src_ex_vocab"])


def refuse_combinations(opt: Namespace, text: TextModel, copies: bool, streams: bool) -> None:
    """Stop at options that do not go together with a model that copies, or that writes streams, or pieces of words."""
    if copies and len(opt.models) > 1:
        raise ExhirdError("models that copy cannot be decoded as an ensemble: give one -model")
    if text.subwords is not None and opt.report_align:
        raise ExhirdError("-report_align speaks of pieces, and what is written are words: leave it out")
    if streams and copies and opt.report_align:
        raise ExhirdError("-report_align does not know copied words: leave it out")


class SearchOverExtendedIds(UpstreamClass):
    """Upstream's translator, with our search where it knows the model, and with copied words in any case.

    constraint     what may be written; None if the vocabulary is not one of keyphrases
    text           how the model's text is cut into tokens
    ours           the model, if our search knows it
    leaves_alone   whether all is upstream's: the model copies in its way, or neither copies nor writes keyphrases
    plain          whether the search is a greedy or a beam search without what only upstream's has
    scored         whether anybody will see the scores of greedy search
    forgets        whether results are written only, a bucket after the other
    totals         of what has been written: scores and their number
    forced_end     tells which of the rows being decoded are full, as `StreamConstraint` has it
    """

    constraint: StreamConstraint | None = None
    text = TextModel()
    ours: KeyphraseModel | None = None
    leaves_alone: bool = False
    plain: bool = False
    scored: bool = True
    forgets: bool = False
    totals: dict[str, tuple[float, int]]
    forced_end: Callable[[], Tensor] | None = None
    report_score: bool  # upstream's

    @classmethod
    def from_opt(
        cls, model: Any, vocabs: dict[str, Any], opt: Namespace, model_opt: Any, **kwargs: Any
    ) -> SearchOverExtendedIds:
        text = texts.take_from_model(opt, model_opt)
        translator = super().from_opt(model, vocabs, opt, model_opt, **kwargs)
        refuse_combinations(opt, text, translator.copy_attn, writes_streams(vocabs["tgt"]))
        translator.text = text
        translator.constraint = constraint_for(vocabs["tgt"], opt, text, translator._dev)
        translator.ours = as_ours(model, vocabs)
        translator.totals = {}
        translator._choose_search(opt)
        translator._leave_out_what_nobody_asks_for(opt)
        translator._keep_memory()
        return translator

    def _choose_search(self, opt: Namespace) -> None:
        """Ours, but for what only upstream's has: sampling, limits that count tokens, given beginnings, penalties."""
        copies_our_way = self.copy_attn and isinstance(self.model.generator, CopyGenerator)
        self.leaves_alone = not copies_our_way and (self.copy_attn or self.constraint is None)
        if self.constraint is not None:
            # A short document may have many phrases: the phrase limits take the place of the ratio.
            self.max_length_ratio = 0
        samples = opt.random_sampling_topk or opt.random_sampling_topp
        counts = opt.min_length or opt.block_ngram_repeat or opt.tgt_file_prefix or opt.ratio
        penalised = opt.coverage_penalty != "none"
        self.plain = not (self.leaves_alone or samples or counts or penalised)
        if opt.beam_size == 1 and not (samples or penalised or self.leaves_alone):
            # A beam of one is greedy search, which upstream has as sampling from the one best token.
            self.sample_from_topk, self.random_sampling_temp = 1, 1.0

    def _leave_out_what_nobody_asks_for(self, opt: Namespace) -> None:
        asked = opt.with_score or opt.verbose or opt.tgt or opt.attn_debug
        if self.pools and self.constraint is not None and self.report_score and not asked:
            # Of scores only their mean would go into the log: not worth a sixth of the time.
            self.scored = self.report_score = False
        # Sentences are numbered, and time is taken, over everything that upstream is given at once.
        at_once = opt.verbose or opt.report_time or opt.dump_beam
        self.forgets = getattr(opt, "forget_results", False) and not at_once

    def _keep_memory(self) -> None:
        """For a search that makes a matrix over the vocabulary anew at every step: all but our greedy one."""
        grows = isinstance(self.model.decoder, TransformerDecoderBase)  # what it frees would not fit the next step
        if not self.pools and not self.leaves_alone and not grows and self._dev.type == "cpu":
            keep_freed_memory()

    @property
    def pools(self) -> bool:
        """Whether the search is our greedy one, whose rows take new documents."""
        return self.plain and self.beam_size == 1 and self.ours is not None

    def _translate(self, infer_iter: Any, *args: Any, **kwargs: Any) -> tuple[list[Any], list[Any]]:
        """Scores and predictions; none where they are written and then forgotten."""
        if not args and not kwargs and self.text.subwords is not None:  # of upstream's server, without transforms
            scores, predictions = super()._translate(infer_iter)
            return scores, [[" ".join(self.text.join(one.split())) for one in best] for best in predictions]
        if not self.forgets:
            return super()._translate(infer_iter, *args, **kwargs)
        for bucket in buckets(infer_iter):
            super()._translate(bucket, *args, **kwargs)
        return [], []

    def _report_score(self, name: str, score_total: float, nb_sentences: int) -> str:
        """Of everything written so far."""
        if self.forgets:
            score, sentences = self.totals.get(name, (0.0, 0))
            self.totals[name] = score_total, nb_sentences = score + score_total, sentences + nb_sentences
        return super()._report_score(name, score_total, nb_sentences)

    def translate_batch(self, batch: Batch, attn_debug: bool) -> dict[str, Any]:
        results = super().translate_batch(batch, attn_debug)
        # Upstream's -with_score asks for `.item()`, which a float lacks; a tensor takes a kilobyte.
        results["scores"] = [[np.float64(score) for score in scores] for scores in results["scores"]]
        nothing = torch.tensor([self._tgt_eos_idx])
        # What upstream cuts a document into, to translate it again, is never blank.
        blank = batch.get("blank", torch.tensor([False]))
        for row in blank.nonzero().flatten().tolist():
            results["predictions"][row] = [nothing] * self.n_best
            results["scores"][row] = [np.float64(0)] * self.n_best
        return results

    def _translate_batch_with_strategy(self, batch: Batch, decode_strategy: Any) -> dict[str, Any]:
        if self.leaves_alone:
            return super()._translate_batch_with_strategy(batch, decode_strategy)
        if self.plain and not decode_strategy.return_attention and "tgt" not in batch:
            return self._search(batch, decode_strategy)
        self.forced_end = None
        if (constraint := self.constraint) is not None:
            self.forced_end = lambda: constraint.forced_end(decode_strategy.alive_seq)
        constrain(decode_strategy, constraint, self._oov_classes(batch))
        return super()._translate_batch_with_strategy(batch, decode_strategy)

    def _oov_classes(self, batch: Batch) -> Tensor | None:
        """(batch, words): what the constraint has to know of words that only the documents have, if they are copied."""
        if self.constraint is None or not self.copy_attn:
            return None
        return self.constraint.oov_classes(batch["src_ex_vocab"])

    def _search(self, batch: Batch, results: Any) -> dict[str, Any]:
        """Our own search, into the results of a strategy of upstream's that is not used otherwise."""
        scorer = self.global_scorer

        def penalty(length: int) -> float:
            return scorer.length_penalty(length, alpha=scorer.alpha)

        def keep(document: int, score: float, tokens: Tensor) -> None:
            results.scores[document].append(score)
            results.predictions[document].append(tokens)
            results.attention[document].append([])

        documents = len(batch["srclen"])
        if self.pools and self.ours is not None:
            search = Greedy(self.ours, self.constraint, results.max_length, self.ban_unk_token, self.scored)
            for document, tokens, log_probs in search(sources_of(batch)):
                keep(document, log_probs.sum().item() / penalty(len(tokens) + 1), tokens)
        else:
            for document, hypotheses in enumerate(self._beam_search(batch, results.max_length, penalty)):
                for hypothesis in hypotheses:
                    keep(document, hypothesis.score, hypothesis.tokens)
        return self.report_results([0] * documents, None, batch, documents, results)

    def _beam_search(self, batch: Batch, max_length: int, penalty: Callable[[int], float]) -> list[Any]:
        """The best outputs of each document by our beam search."""
        search = Beam(
            size=self.beam_size,
            start=self._tgt_start_with,
            eos=self._tgt_eos_idx,
            max_length=max_length,
            penalty=penalty,
            n_best=self.n_best,
            constraint=self.constraint,
            banned=self._tgt_unk_idx if self.ban_unk_token else None,
        )
        rows: Rows
        if self.ours is not None:
            rows = ModelRows(self.ours, sources_of(batch), self.beam_size)
        else:
            rows = UpstreamRows(self, batch, self.beam_size)
        return search(rows, self._oov_classes(batch), self._dev)

    def _decode_and_generate(
        self,
        decoder_in: Tensor,
        enc_out: Any,
        batch: Batch,
        src_len: Tensor,
        src_map: Tensor | None = None,
        step: int | None = None,
        batch_offset: Tensor | None = None,
        return_attn: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """log P (rows, size) and attention (rows, 1, src_len)."""
        if not self.copy_attn or self.leaves_alone:
            before = getattr(self.model.decoder, "state", None)
            log_probs, attention = super()._decode_and_generate(
                decoder_in, enc_out, batch, src_len, src_map, step, batch_offset, return_attn
            )
            self._stay_where_full(before, step)
            return log_probs, attention
        assert src_map is not None  # it is there if the model copies
        hidden, attention = self.decode(decoder_in, enc_out, src_len, step)
        size = extended_size(self._tgt_vocab_len, batch)
        return self.model.generator.log_mixture(hidden, attention.squeeze(1), src_map, size), attention

    def decode(self, decoder_in: Tensor, enc_out: Any, src_len: Tensor, step: int | None) -> tuple[Tensor, Tensor]:
        """A step of a decoder that copies: decoder_in (rows, 1, 1) -> h~ (rows, d), attention (rows, 1, src_len)"""
        before = getattr(self.model.decoder, "state", None)
        inputs = restrict(decoder_in, self._tgt_vocab_len, self._tgt_unk_idx)
        hidden, attentions = self.model.decoder(inputs, enc_out, src_len=src_len, step=step)
        self._stay_where_full(before, step)
        return hidden.squeeze(1), attentions["copy"]

    def _stay_where_full(self, before: Any, step: int | None) -> None:
        """Where a phrase is full its `;` is appended, not predicted: the decoder has not moved.

        A given target, which has no steps, is scored as it is.
        """
        decoder = self.model.decoder
        if step is not None and self.forced_end is not None and hasattr(decoder, "keep_state"):
            rows = self.forced_end()
            if rows.any():
                decoder.keep_state(before, rows)

    def _score_target(self, batch: Batch, enc_out: Any, src_len: Tensor, src_map: Tensor | None) -> tuple[Tensor, None]:
        """log P of the given targets (batch)."""
        if not self.copy_attn or self.leaves_alone:
            return super()._score_target(batch, enc_out, src_len, src_map)
        inputs = restrict(batch["tgt_ext"][:, :-1, None], self._tgt_vocab_len, self._tgt_unk_idx)
        hidden, attentions = self.model.decoder(inputs, enc_out, src_len=src_len)
        losses = stream_losses(
            self.model.generator, hidden, attentions["copy"], batch["src_map"], batch["tgt_ext"][:, 1:]
        )
        return -losses.generation.sum(1), None

    def _align_forward(self, batch: Batch, predictions: list[list[Tensor]]) -> Any:
        """Copied words are unknown ones to the decoder."""
        known = [[restrict(tokens, self._tgt_vocab_len, self._tgt_unk_idx) for tokens in best] for best in predictions]
        return super()._align_forward(batch, known)


def search_over_extended_ids(module: Upstream) -> None:
    """Upstream collapses copied words with the wrong document's words once others have finished."""
    put_before(module, "Translator", SearchOverExtendedIds)
