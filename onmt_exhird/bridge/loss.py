"""The losses over extended ids inside OpenNMT-py's training loop, and what its log says of them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import onmt.utils
import torch
from torch import Tensor

from onmt_exhird.bridge.batches import Batch, extended_size
from onmt_exhird.bridge.copying import check_combination
from onmt_exhird.bridge.options import unknown
from onmt_exhird.bridge.seams import Upstream, UpstreamClass, put_before
from onmt_exhird.bridge.statistics import Statistics
from onmt_exhird.bridge.texts import WordPieces
from onmt_exhird.errors import ExhirdError
from onmt_exhird.nn.best import best
from onmt_exhird.nn.copying import CopyGenerator
from onmt_exhird.nn.losses import Rivals, find_rivals, stream_losses
from onmt_exhird.nn.word_rivals import find_word_rivals
from onmt_exhird.stream import TAGS

JUDGED_EVERY = 20  # training batches per one whose accuracy is counted: it needs the distribution that training avoids


def count_correct(
    generator: CopyGenerator, hidden: Tensor, attention: Tensor, src_ext: Tensor, targets: Tensor, size: int
) -> int:
    """How many targets are the most probable token.

    hidden (batch, tgt_len, d), attention (batch, tgt_len, src_len), src_ext (batch, src_len), targets (batch, tgt_len)
    """
    with torch.no_grad():
        document, position = (targets != generator.pad_id).nonzero(as_tuple=True)
        log_p = generator.log_mixture(
            hidden[document, position], attention[document, position], src_ext[document], size
        )
        return int((best(log_p)[1].squeeze(1) == targets[document, position]).sum())


def weights_of(opt: Namespace) -> dict[str, float]:
    """What each loss beside that of generation is multiplied with, by the name under which the log has it."""
    return {
        "exclusive": opt.exclusive_loss_weight,
        "orthogonal": opt.orthogonal_weight,
        "target_encoder": opt.target_encoder_weight,
    }


def report_every_loss(trainer: Upstream) -> None:
    """Upstream's log knows one loss."""
    onmt.utils.Statistics = Statistics


def check_options(opt: Namespace) -> None:
    """What is unknown, or cannot be combined, by the names of the options."""
    from onmt.scorers import AVAILABLE_SCORERS

    for metric in opt.valid_metrics:
        if metric not in AVAILABLE_SCORERS:
            raise unknown("metric", metric, AVAILABLE_SCORERS)
    if opt.exclusive_loss_window and not opt.copy_attn:
        raise ExhirdError("-exclusive_loss_window needs a model that copies: add -copy_attn")
    if opt.copy_attn:
        check_combination(opt)


class LossOverExtendedIds(UpstreamClass):
    """Upstream's loss of a batch, but for models that copy in our way, and with other losses beside it.

    copies_our_way     whether the model does; the loss of any other is upstream's
    exclusive_window   K_EL; 0 = off
    pieces             which tokens go on with a word, if words are made of pieces
    auxiliary          gives the losses that the decoder found in its last `forward`, by name
    weights            of `auxiliary` and of the exclusive loss
    judged_every       how many batches there are to one whose accuracy is counted
    batches            how many there have been
    """

    copies_our_way = False
    exclusive_window = 0
    pieces: WordPieces | None = None
    auxiliary: Callable[[], dict[str, Tensor]] = staticmethod(dict)
    weights: Mapping[str, float] = {}  # validation minimises nothing
    judged_every = 1
    batches = 0

    @classmethod
    def from_opts(cls, opt: Namespace, model: Any, vocab: Any, train: bool = True) -> LossOverExtendedIds:
        if train:
            check_options(opt)
        compute = super().from_opts(opt, model, vocab, train)
        compute.copies_our_way = isinstance(model.generator, CopyGenerator)
        if train:
            compute.exclusive_window = opt.exclusive_loss_window
            compute.pieces = WordPieces.of(opt, vocab.ids_to_tokens)
            compute.weights = weights_of(opt)
            # A function, since a decoder that is an attribute would become a part of this module.
            compute.auxiliary = partial(getattr, model.decoder, "auxiliary", {})
            compute.judged_every = min(JUDGED_EVERY, opt.report_every)
        return compute

    def forward(
        self,
        batch: Batch,
        output: Tensor,
        attns: dict[str, Tensor],
        trunc_start: int = 0,
        trunc_size: int | None = None,
    ) -> tuple[Tensor, Any]:
        """output (batch, tgt_len, d), attns (batch, tgt_len, src_len) -> what is minimised, statistics"""
        if not self.copies_our_way:
            loss, stats = super().forward(batch, output, attns, trunc_start, trunc_size)
            return self._with_others(loss, self.auxiliary(), stats), stats
        # With -truncated_decoder the output is that of a part of the target.
        targets = batch["tgt_ext"][:, trunc_start + 1 : trunc_start + 1 + output.size(1)]  # (batch, tgt_len)
        rivals = self._rivals(targets, batch["src_ex_vocab"]) if self.exclusive_window else None
        losses = stream_losses(self.generator, output, attns["copy"], batch["src_map"], targets, rivals)
        generation = losses.generation.sum()
        documents = 0 if trunc_start else len(targets)  # a document counts with the first part of its target
        words = int((targets != self.padding_idx).sum())
        stats = Statistics(generation.item(), min(documents, 1), documents, words)
        others = self.auxiliary()
        if rivals is not None:
            others = others | {"exclusive": losses.exclusive.sum()}
        total = self._with_others(generation, others, stats)
        if self.lambda_coverage:
            total = total + self.lambda_coverage * self._compute_coverage_loss(
                attns["std"], attns["coverage"], targets.flatten()
            )
        self._judge(batch, output, attns["copy"], targets, stats)
        return total, stats

    def _rivals(self, targets: Tensor, copied: list[list[str]]) -> Rivals:
        """The words that the exclusive loss keeps each of the targets (batch, tgt_len) from."""
        tag_ids = [self.vocab.lookup_token(tag) for tag in TAGS]
        if self.pieces is None:
            return find_rivals(targets, tag_ids, self.exclusive_window, self.padding_idx)
        continues = self.pieces(targets, copied)
        return find_word_rivals(targets, continues, tag_ids, self.exclusive_window, self.padding_idx)

    def _with_others(self, total: Tensor, others: dict[str, Tensor], stats: Any) -> Tensor:
        """The total with the other losses under their weights; the statistics learn them by name."""
        for name, loss in others.items():
            total = total + self.weights[name] * loss
            stats.losses[name] = loss.item()
        return total

    def _judge(self, batch: Batch, output: Tensor, attention: Tensor, targets: Tensor, stats: Any) -> None:
        """Count the correct words of a batch, if it is its turn; shapes as in `count_correct`."""
        stats.n_judged = 0
        if self.batches % self.judged_every == 0:
            size = extended_size(len(self.vocab), batch)
            stats.n_judged = stats.n_words
            stats.n_correct = count_correct(self.generator, output, attention, batch["src_map"], targets, size)
        self.batches += 1

    def _compute_coverage_loss(self, std_attn: Tensor, cov_attn: Tensor, tgt: Tensor) -> Tensor:
        """Batch-major, as our decoders' attentions are: (batch, tgt_len, src_len)."""
        if self.copy_attn and not self.copies_our_way:
            return super()._compute_coverage_loss(std_attn, cov_attn, tgt)
        before = torch.cat([torch.zeros_like(cov_attn[:, :1]), cov_attn[:, :-1]], 1)
        by_position = torch.minimum(std_attn, before).sum(2).flatten()  # (batch * tgt_len)
        return by_position.masked_fill(tgt == self.padding_idx, 0).sum()


def loss_over_extended_ids(trainer: Upstream) -> None:
    """Upstream's copy loss multiplies the gate of one position with the attention or the source of another."""
    put_before(trainer, "LossCompute", LossOverExtendedIds)
