"""The options of ``exhird prepare`` on languages and subwords, and the ``text.json`` that comes of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onmt_exhird.cli.values import count
from onmt_exhird.cli.whole_files import whole_files
from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.textmodel import TextModel

CHOICES = ("language", "case", "accents", "digits")


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "language and subwords",
        "Written to DIR/text.json, which the other splits of DIR, onmt_train -keyphrase_text and the evaluation take.",
    )
    add = group.add_argument
    add("--language", metavar="CODE", help="such as de or zh: the stemmer, and whether words have blanks; default: en")
    add("--case", choices=("fold", "keep"), help="default: fold, to lower case")
    add("--accents", choices=("fold", "keep"), help="default: fold for English, keep for other languages")
    add("--digits", choices=("token", "keep"), help="default: numbers become the token <digit>")
    add(
        "--subwords",
        type=count,
        metavar="N",
        help="train a model of about N pieces of words on this split, which is that of training",
    )
    add("--tokenizer", choices=("sentencepiece", "pyonmttok"), help="of subwords; default: sentencepiece")
    add("--subword-type", choices=("unigram", "bpe"), help="default: unigram; bpe with pyonmttok")


def choose(args: argparse.Namespace, is_training: bool) -> TextModel:
    """The text model of the folder, or else what is asked for; the subwords are those of before."""
    from onmt_exhird.languages import ENGLISH, note_on
    from onmt_exhird.text import TextRules
    from onmt_exhird.textmodel import FILE, TextModel, read_text_model

    _check_subwords(args, is_training)
    given = {name: value for name in CHOICES if (value := getattr(args, name)) is not None}
    path = args.output / FILE
    if path.is_file():
        found = read_text_model(path)
        for name, value in given.items():
            if getattr(found.rules, name) != value:
                raise ExhirdError(
                    f"--{name} is {value}, but {path} has {getattr(found.rules, name)}, and the splits of a folder "
                    "belong together: leave the option out, or prepare into another folder"
                )
        return found
    if given.get("language", ENGLISH) != ENGLISH:
        given = {"accents": "keep"} | given
    rules = TextRules(**given)
    if note := note_on(rules.language):
        print(f"exhird prepare: {note}", file=sys.stderr)
    return TextModel(rules)


def _check_subwords(args: argparse.Namespace, is_training: bool) -> None:
    if args.subwords is None:
        for name in ("tokenizer", "subword_type"):
            if getattr(args, name) is not None:
                raise ExhirdError(f"--{name.replace('_', '-')} says how to train subwords: add --subwords N")
    elif not args.subwords:
        raise ExhirdError("--subwords 0 are none: leave it out, or give a number such as 8000")
    elif not is_training:
        raise ExhirdError(
            f"'{args.split}' is no training split, and subwords are trained on that one: give --subwords with a split "
            "named train; files of all splits hold words, whether there are subwords or not"
        )


def write(args: argparse.Namespace, text: TextModel, lines: Sequence[Path]) -> list[Path]:
    """Write the text model if there is something to say; lines: the files that subwords are trained on."""
    from onmt_exhird.textmodel import FILE, TextModel

    path = args.output / FILE
    if args.subwords:
        text = TextModel(text.rules, _train(args, text, lines))
    elif path.is_file() or text == TextModel():
        return []
    with whole_files([path]) as (file,):
        file.write(text.to_json())
    return [path]


def _train(args: argparse.Namespace, text: TextModel, lines: Sequence[Path]) -> Any:
    from onmt_exhird.subwords import TOKENIZERS, count_words, train

    tokenizer = args.tokenizer or "sentencepiece"
    kind = args.subword_type or TOKENIZERS[tokenizer]
    words = count_words(line for path in lines for line in _lines(path))
    subwords = train(words, args.subwords, tokenizer, kind, text.rules.unspaced)
    count = sum(len(subwords.cut([word])) * times for word, times in words.items())
    print(
        f"subwords     {len(subwords.pieces):,} pieces of {tokenizer} ({kind}), "
        f"{count / max(words.total(), 1):.2f} for each of {words.total():,} words"
    )
    return subwords


def _lines(path: Path) -> Iterator[str]:
    with open(path, encoding="utf-8") as file:
        yield from file
