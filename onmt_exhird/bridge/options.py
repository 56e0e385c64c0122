"""The plug-in's options on the stock commands, and model options that fit each other."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable
from typing import Any

from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.errors import ExhirdError


def closest(name: str, known: Iterable[str]) -> str | None:
    """The valid name most like a wrong one, if one is like it."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def nearest(name: str, known: Iterable[str]) -> str:
    """The clause that names the valid name most like a wrong one.

    >>> nearest("lerning_rate", ["learning_rate", "layers"])
    "; did you mean 'learning_rate'?"
    >>> nearest("zzz", ["learning_rate"])
    ''
    """
    close = closest(name, known)
    return f"; did you mean '{close}'?" if close else ""


def unknown(kind: str, name: str, known: Iterable[str]) -> ExhirdError:
    """The error for a name that does not exist.

    >>> print(unknown("decoder_type", "rnm", ["rnn", "cnn"]))
    unknown decoder_type 'rnm', the known ones are cnn, rnn; did you mean 'rnn'?
    """
    choices = sorted(known)
    return ExhirdError(f"unknown {kind} '{name}', the known ones are {', '.join(choices)}{nearest(name, choices)}")


def _window(value: str) -> int | None:
    from onmt_exhird.search import parse_window

    try:
        return parse_window(value)
    except ExhirdError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _at_least(least: float, kind: type) -> Any:
    def convert(value: str) -> Any:
        number = kind(value)
        if not number >= least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return number

    convert.__name__ = kind.__name__  # argparse names the type in its message
    return convert


def probability(value: str) -> float:
    number = float(value)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{value} is no probability: give a number from 0 to 1")
    return number


def _fraction(value: str) -> float:
    number = float(value)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{value} is not above 0 and at most 1")
    return number


TRAIN_OPTIONS: dict[str, dict[str, Any]] = {
    "exclusive_loss_window": {
        "type": _at_least(0, int),
        "default": 0,
        "help": "K_EL: the exclusive loss keeps a phrase's first word from those of the K phrases before it; 0 = off",
    },
    "exclusive_loss_weight": {
        "type": _at_least(0, float),
        "default": 1.0,
        "help": "weight of the exclusive loss beside the generation loss",
    },
    "orthogonal_weight": {
        "type": _at_least(0, float),
        "default": 0.03,
        "help": "catseqd: weight of the orthogonal regularisation of the states that predict ';'",
    },
    "target_encoder_weight": {
        "type": _at_least(0, float),
        "default": 0.03,
        "help": "catseqd: weight of the loss that trains the target encoder",
    },
    "plateau_decay": {
        "type": _fraction,
        "default": 1.0,
        "help": "factor on the learning rate whenever validation perplexity is above the previous one; 1.0 = off",
    },
    "plateau_min_lr": {
        "type": _at_least(0, float),
        "default": 1e-5,
        "help": "the learning rate that -plateau_decay does not go below",
    },
    "train_minutes": {
        "type": _at_least(0, float),
        "default": 0.0,
        "help": "end training after so many minutes of it, validated and saved; 0 = no limit",
    },
}

TRANSLATE_OPTIONS: dict[str, dict[str, Any]] = {
    "exclusive_search": {
        "action": "store_true",
        "help": "no phrase begins with the first word of one of the phrases just before it",
    },
    "exclusive_window": {
        "type": _window,
        "default": "1",
        "metavar": "N|all",
        "help": "K_ES: how many of the phrases before count for -exclusive_search",
    },
    "exclude_stems": {
        "action": "store_true",
        "help": "with -exclusive_search: words of one stem count as one word",
    },
    "exclude_phrases": {
        "action": "store_true",
        "help": "never complete a phrase that equals an earlier one after stemming",
    },
    "min_phrases": {"type": _at_least(0, int), "default": 1, "help": "least phrases of a document"},
    "max_phrases": {"type": _at_least(1, int), "default": 20, "help": "most phrases of a document"},
    "max_phrase_words": {"type": _at_least(1, int), "default": 5, "help": "most words of a phrase"},
}


def _add(parser: Any, title: str, options: dict[str, dict[str, Any]]) -> None:
    group = parser.add_argument_group(f"Keyphrases: {title} (onmt_exhird)")
    for name, settings in options.items():
        group.add(f"--{name}", f"-{name}", **settings)


def add_options(opts: Upstream) -> None:
    """Upstream adds options of transforms to every command alike; ours belong to one command each."""
    train_opts, translate_opts, data_prepare_opts = opts.train_opts, opts.translate_opts, opts.data_prepare_opts

    def with_train_options(parser: Any) -> None:
        train_opts(parser)
        _add(parser, "training", TRAIN_OPTIONS)

    def with_translate_options(parser: Any) -> None:
        translate_opts(parser)
        _add(parser, "search", TRANSLATE_OPTIONS)

    def data_options(parser: Any, build_vocab_only: bool = False) -> None:
        data_prepare_opts(parser, build_vocab_only=build_vocab_only)
        if build_vocab_only:
            # One YAML file commonly serves onmt_build_vocab and onmt_train.
            parser.also_known_to = with_train_options

    opts.train_opts, opts.translate_opts, opts.data_prepare_opts = (
        with_train_options,
        with_translate_options,
        data_options,
    )


def check_sizes(opt: argparse.Namespace) -> None:
    """Sizes that cannot be built together, by the names of their options."""

    def must_equal(first: str, second: str, reason: str) -> None:
        sizes = getattr(opt, first), getattr(opt, second)
        if sizes[0] != sizes[1]:
            raise ExhirdError(f"-{first} is {sizes[0]} and -{second} is {sizes[1]}, but {reason}: make them equal")

    if opt.model_task != "seq2seq":
        return
    must_equal("enc_hid_size", "dec_hid_size", "the decoder starts from the encoder's states")
    if opt.share_decoder_embeddings and not opt.copy_attn:  # a generator that copies has a projection between them
        must_equal("tgt_word_vec_size", "dec_hid_size", "-share_decoder_embeddings makes them one with the output")
    if opt.share_embeddings:
        must_equal("src_word_vec_size", "tgt_word_vec_size", "-share_embeddings makes them one")
        if not getattr(opt, "share_vocab", True):
            raise ExhirdError("-share_embeddings needs one vocabulary for both sides: add -share_vocab")
    if opt.encoder_type == "transformer" and opt.n_src_feats == 0:
        must_equal("src_word_vec_size", "enc_hid_size", "a Transformer encoder adds to its embeddings")
    if opt.decoder_type == "transformer":
        must_equal("tgt_word_vec_size", "dec_hid_size", "a Transformer decoder adds to its embeddings")
    if opt.decoder_type == "rnn" and opt.dec_layers > opt.enc_layers:
        raise ExhirdError(
            f"-dec_layers is {opt.dec_layers} and -enc_layers is {opt.enc_layers}, but each layer of -decoder_type rnn "
            "starts from one of the encoder's: make -dec_layers at most -enc_layers"
        )
    if opt.encoder_type == "brnn" and opt.enc_hid_size % 2:
        raise ExhirdError(f"-enc_hid_size is {opt.enc_hid_size}, but -encoder_type brnn halves it: make it even")


def name_the_known_models(parse: Upstream) -> None:
    """An unknown decoder or encoder is a bare ``KeyError`` upstream, sizes that do not fit fail where they meet."""
    parser_class = parse.ArgumentParser
    validate = parser_class.validate_model_opts

    def checked(model_opt: argparse.Namespace) -> None:
        from onmt.decoders import str2dec
        from onmt.encoders import str2enc

        used = {"decoder_type": str2dec} | ({"encoder_type": str2enc} if model_opt.model_task == "seq2seq" else {})
        for option, known in used.items():
            name = getattr(model_opt, option)
            if name not in known:
                raise unknown(option, name, known)
        check_sizes(model_opt)
        validate(model_opt)

    parser_class.validate_model_opts = staticmethod(checked)
