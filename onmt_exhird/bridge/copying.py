"""Which models copy in the plug-in's way, and which are left to upstream's."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from onmt_exhird.bridge.usage import refuse_or_warn, uses_the_plug_in
from onmt_exhird.errors import ExhirdError

_WRONG = "copies as OpenNMT-py does, where the copy gate of one position meets the attention of another"
# What changes upstream's copy loss in a way that ours does not know.
_NOT_OURS = ("copy_attn_force", "lm_prior_model", "zero_out_prompt_loss")


def reason_for_upstreams(opt: Namespace) -> str | None:
    """The option for which a model that copies does so in upstream's way; None if it does in ours."""
    if opt.model_task != "seq2seq":
        return "model_task lm"
    return next((option for option in _NOT_OURS if getattr(opt, option, False)), None)


def note(opt: Namespace, vocabs: dict[str, Any]) -> bool:
    """Whether a model copies in our way, left where those who make its batches find it."""
    ours = bool(opt.copy_attn) and reason_for_upstreams(opt) is None
    vocabs["copies_as_upstream"] = bool(opt.copy_attn) and not ours
    return ours


def as_upstream(vocabs: Mapping[str, Any]) -> bool:
    """Whether a model's documents are upstream's affair: it copies in upstream's way, or is a language model."""
    return vocabs.get("copies_as_upstream", False) or vocabs["data_task"] != "seq2seq"


def check_combination(opt: Namespace) -> None:
    """What cannot be combined with copying, by the names of the options.

    A keyphrase model would certainly come out wrong; any other is upstream's affair, with a warning.
    """
    ours = uses_the_plug_in(vars(opt))
    if opt.decoder_type == "rnn" and not opt.input_feed:
        raise ExhirdError("-copy_attn with -decoder_type rnn needs input feeding: leave -input_feed 0 out")
    if opt.lambda_coverage and opt.decoder_type != "rnn" and opt.model_task == "seq2seq":
        raise ExhirdError(f"-lambda_coverage is for -decoder_type rnn, not for {opt.decoder_type}: leave it out")
    if opt.lambda_align:
        refuse_or_warn(ours, "-lambda_align has no effect with -copy_attn: leave one of them out")
    reason = reason_for_upstreams(opt)
    if reason == "model_task lm":
        refuse_or_warn(ours, f"a language model with -copy_attn {_WRONG}: leave -copy_attn out")
    elif reason is not None:
        refuse_or_warn(
            ours, f"-copy_attn with -{reason} {_WRONG}: leave -{reason} out, and the plug-in copies correctly"
        )
