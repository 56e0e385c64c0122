"""Subwords: words as pieces of a trained model, by `sentencepiece` or `pyonmttok`, and words again.

Whatever the tokeniser, a piece that begins a word is marked with ``▁`` and one that goes on with a word is not, so that
everything else knows one kind of pieces. Words are cut one by one: structure tokens and markers are never touched, no
piece crosses a blank, and none is a mark alone.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any

from onmt_exhird import stream
from onmt_exhird.errors import ExhirdError, library
from onmt_exhird.languages import begins_unspaced

MARK = "▁"  # U+2581; text.py leaves it in no word
JOINER = "￭"  # of pyonmttok, between the pieces of a word
TOKENIZERS = {"sentencepiece": "unigram", "pyonmttok": "bpe"}  # and what each trains if nothing is said
TYPES = ("unigram", "bpe")
# What is one token whatever the pieces are.
MARKERS = frozenset(
    (*stream.STRUCTURE, stream.UNK, stream.PAD, stream.BOS, stream.EOS, stream.DIGIT, stream.SEPARATOR, stream.MASK)
)
KNOWN_WORDS = 1 << 18  # whose pieces are remembered
MARKED = 0.01  # of a vocabulary's tokens that begin a word, at least, if they are pieces
FITS = 0.9  # of a vocabulary's tokens that are pieces of the model it was counted with, at least
COVERAGE_OF_MANY = 0.9995  # characters, where there are thousands
UNSPACED_CHARACTERS = 4  # of a piece where there are no blanks: longer words are rare, parts of sentences are not
REPEATED = 10_000  # words that go to a learner at a time


def continues(token: str) -> bool:
    """Whether a token of a vocabulary of pieces goes on with the word before it.

    >>> [continues(token) for token in ("▁graph", "s", "<digit>", ";")]
    [False, True, False, False]
    """
    return not token.startswith(MARK) and token not in MARKERS


def goes_on(token: str, unspaced: bool) -> bool:
    """Whether a token goes on with a word where, in a language without blanks, every piece is a word by itself.

    >>> goes_on("分类", unspaced=False), goes_on("分类", unspaced=True), goes_on("s", unspaced=True)
    (True, False, True)
    """
    return continues(token) and not (unspaced and begins_unspaced(token))


def bare(token: str) -> str:
    """A token without its mark.

    >>> bare("▁graph"), bare("s")
    ('graph', 's')
    """
    return token.removeprefix(MARK)


def join(tokens: Iterable[str]) -> list[str]:
    """Words of pieces; a piece that goes on with nothing begins a word.

    >>> join(["<p_start>", "▁graph", "s", ";"])
    ['<p_start>', 'graphs', ';']
    """
    words: list[str] = []
    is_open = False
    for token in tokens:
        if is_open and continues(token):
            words[-1] += token
        else:
            words.append(bare(token))
        is_open = token not in MARKERS
    return words


@dataclass(frozen=True)
class Subwords:
    """A trained subword model.

    tokenizer   the library that applies it, one of `TOKENIZERS`
    kind        one of `TYPES`
    model       the library's own file
    """

    tokenizer: str
    kind: str
    model: bytes

    def __post_init__(self) -> None:
        if self.tokenizer not in TOKENIZERS or self.kind not in TYPES:
            raise ExhirdError(
                f"a subword model of '{self.tokenizer}', '{self.kind}' is unknown: there are {', '.join(TOKENIZERS)}, "
                f"each {' or '.join(TYPES)}"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return Subwords, (self.tokenizer, self.kind, self.model)

    def cut(self, tokens: Sequence[str]) -> list[str]:
        """The pieces of words.

        Cutting and joining changes no word: `join(self.cut(words)) == words`.
        """
        pieces: list[str] = []
        for token in tokens:
            pieces += self._known.get(token) or self._learn_pieces(token)
        return pieces

    def _learn_pieces(self, word: str) -> tuple[str, ...]:
        pieces = (word,) if word in MARKERS else self._cut_word(word)
        if len(self._known) < KNOWN_WORDS:
            self._known[word] = pieces
        return pieces

    def _cut_word(self, word: str) -> tuple[str, ...]:
        if self.tokenizer == "sentencepiece":
            found = [bare(piece) for piece in self._library.encode(word, out_type=str)]
        else:
            found = [piece.strip(JOINER) for piece in self._library.tokenize(word)[0]]
        found = [piece for piece in found if piece]
        if "".join(found) != word:  # of a sign that the library changes; text.py leaves none
            found = [word]
        return (MARK + found[0], *found[1:])

    @cached_property
    def _known(self) -> dict[str, tuple[str, ...]]:
        return {}

    @cached_property
    def _library(self) -> Any:
        try:
            if self.tokenizer == "sentencepiece":
                return _load("sentencepiece").SentencePieceProcessor(model_proto=self.model)
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model")
                with open(path, "wb") as file:
                    file.write(self.model)
                name = "bpe_model_path" if self.kind == "bpe" else "sp_model_path"
                return _load("pyonmttok").Tokenizer("space", joiner_annotate=True, no_substitution=True, **{name: path})
        except (RuntimeError, ValueError) as error:
            raise ExhirdError(
                f"the subword model cannot be read by {self.tokenizer} ({error}): train it again"
            ) from None

    @cached_property
    def pieces(self) -> frozenset[str]:
        """All its pieces, without marks."""
        if self.tokenizer == "pyonmttok" and self.kind == "bpe":
            merges = (line.removesuffix("</w>").split() for line in self.model.decode().splitlines()[1:])
            return frozenset("".join(merge).replace("</w>", "") for merge in merges)
        processor = _load("sentencepiece").SentencePieceProcessor(model_proto=self.model)
        return frozenset(bare(processor.id_to_piece(number)) for number in range(processor.get_piece_size()))

    def check_fits(self, vocabulary: Iterable[str]) -> None:
        """Stop if a vocabulary was not counted with this model."""
        tokens = [token for token in vocabulary if token not in MARKERS]
        own = sum(len(bare(token)) == 1 or bare(token) in self.pieces for token in tokens)
        marked = sum(token.startswith(MARK) for token in tokens)
        if not marked or own < FITS * len(tokens):
            raise ExhirdError(
                f"the subword model does not fit the vocabulary: {own:,} of its {len(tokens):,} tokens are pieces of "
                f"the model, {marked:,} begin a word; build the vocabulary with onmt_build_vocab, "
                "-transforms keyphrase and the -keyphrase_text file that training has"
            )


def are_pieces(vocabulary: Sequence[str]) -> bool:
    """Whether the tokens of a vocabulary are pieces of words.

    >>> are_pieces(["<p_start>", "▁graph", "s"]), are_pieces(["<p_start>", "graphs"])
    (True, False)
    """
    return sum(token.startswith(MARK) for token in vocabulary) > MARKED * len(vocabulary)


def _load(name: str) -> Any:
    return library(name, "a subword model")


def count_words(lines: Iterable[str]) -> Counter[str]:
    """The words of prepared lines, without structure tokens and markers."""
    words: Counter[str] = Counter()
    for line in lines:
        words.update(line.split())
    for marker in MARKERS:
        words.pop(marker, None)
    return words


def train(words: Counter[str], size: int, tokenizer: str, kind: str, unspaced: bool = False) -> Subwords:
    """A model of about so many pieces, given how often each word occurs.

    The same words give the same bytes. ``unspaced``: what stands between two blanks is not a word but a sentence; its
    pieces are the words then, and the rarest of thousands of characters are left out.
    """
    ordered = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    if not ordered:
        raise ExhirdError("there are no words to train subwords on; is the training split empty?")
    try:
        if tokenizer == "pyonmttok" and kind == "bpe":
            return Subwords(tokenizer, kind, _train_pairs(ordered, size))
        return Subwords(tokenizer, kind, _train_pieces(ordered, size, kind, unspaced))
    except RuntimeError as error:
        if "smaller than required_chars" in str(error):
            raise ExhirdError(
                f"--subwords {size} is fewer pieces than the documents have different characters "
                f"({len(set().union(*words)):,}): give more"
            ) from None
        raise ExhirdError(f"{tokenizer} cannot train {size} subwords of this split: {error}") from None


def _train_pieces(words: Sequence[tuple[str, int]], size: int, kind: str, unspaced: bool) -> bytes:
    written = io.BytesIO()
    _load("sentencepiece").SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{count}" for word, count in words),
        input_format="tsv",
        model_writer=written,
        vocab_size=size,
        hard_vocab_limit=False,  # a small corpus has fewer
        model_type=kind,
        character_coverage=COVERAGE_OF_MANY if unspaced else 1.0,
        max_sentencepiece_length=1 + UNSPACED_CHARACTERS if unspaced else 16,
        normalization_rule_name="identity",  # text.py has normalised already
        num_threads=1,  # so that sums, and with them pieces, do not depend on who is first
        minloglevel=2,
    )
    return written.getvalue()


def _train_pairs(words: Sequence[tuple[str, int]], size: int) -> bytes:
    pyonmttok = _load("pyonmttok")
    characters = len(set().union(*(word for word, _ in words)))
    learner = pyonmttok.BPELearner(tokenizer=pyonmttok.Tokenizer("space"), symbols=max(1, size - characters))
    for text in _texts(words):
        learner.ingest(text)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        learner.learn(path)
        with open(path, "rb") as file:
            return file.read()


def _texts(words: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Words as often as they occur, in texts of a moderate size."""
    for word, count in words:
        for first in range(0, count, REPEATED):
            yield " ".join(repeat(word, min(REPEATED, count - first)))
