"""Teach a model which phrases many authors use, and what words of a document speak for them.

    python tools/thesaurus.py --model my-model --data data/train --output my-model-that-knows --precision float16

Of the phrases that authors chose for the documents of --data, that is of PREFIX.src and PREFIX.tgt of exhird prepare,
the commonest are learned: a vector of each, and one of each word of the model's vocabulary, such that the words of a
document make its authors' phrases likely (onmt_exhird/nn/thesaurus.py). A generator adds those that are likely enough
to what the decoder has written; how likely that is can be chosen. The decoder stays as it is.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reinforcement.files import read_pairs
from tqdm import tqdm

from onmt_exhird.cli.values import positive, share
from onmt_exhird.errors import ExhirdError
from onmt_exhird.stream import DIGIT, SEPARATOR, STRUCTURE, UNK, read_leniently
from onmt_exhird.text import stem_words

if TYPE_CHECKING:
    from torch import Tensor

    from onmt_exhird.generator.trained import Trained
    from onmt_exhird.nn.thesaurus import Thesaurus

RISING = 100  # steps in which the rate rises
CONSTANT = 0.4  # of all steps; from then on it falls to nothing
SHOWN_EVERY = 100
MEMORY = 0.98  # of the loss that is shown
NO_WORDS = {*STRUCTURE, DIGIT, SEPARATOR, UNK}
Stems = tuple[str, ...]


class Known(NamedTuple):
    """The phrases to learn: as most authors write each, in how many documents it is, and their numbers by stems."""

    written: list[str]
    counts: list[int]
    numbers: dict[Stems, int]


def choose(chosen: Sequence[dict[Stems, str]], rarest: int, most: int) -> Known:
    """The commonest of the phrases that authors chose for some documents."""
    forms: dict[Stems, Counter[str]] = defaultdict(Counter)
    for phrases in chosen:
        for stems, written in phrases.items():
            forms[stems][written] += 1
    counts = Counter({stems: written.total() for stems, written in forms.items()})
    kept = [(stems, count) for stems, count in counts.most_common(most) if count >= rarest]
    if not kept:
        raise ExhirdError(f"no phrase is in {rarest} documents: give more documents, or a smaller --rarest")
    return Known(
        [forms[stems].most_common(1)[0][0] for stems, _ in kept],
        [count for _, count in kept],
        {stems: number for number, (stems, _) in enumerate(kept)},
    )


def read_phrases(stream: str, trained: Trained) -> dict[Stems, str]:
    """The phrases of a stream, without those with numbers: which one it was is not known any more."""
    found = (trained.text.join(phrase.words) for phrase in read_leniently(stream))
    return {stem_words(words, trained.text.rules): " ".join(words) for words in found if NO_WORDS.isdisjoint(words)}


class Lesson(NamedTuple):
    """What is learned from: of each document its words with their weights, and the numbers of its phrases."""

    bags: list[tuple[Tensor, Tensor]]
    chosen: list[Tensor]

    def batches(self, size: int, seed: int) -> Iterator[tuple[list[tuple[Tensor, Tensor]], list[Tensor]]]:
        """Without an end, all documents in a new order each time; the last few of each time are left out."""
        import torch

        random = torch.Generator().manual_seed(seed)
        size = min(size, len(self.bags))
        while True:
            order = torch.randperm(len(self.bags), generator=random).tolist()
            for first in range(0, len(order) - size + 1, size):
                some = order[first : first + size]
                yield [self.bags[number] for number in some], [self.chosen[number] for number in some]


def rarity(documents: Sequence[Tensor], tokens: Sequence[str]) -> Tensor:
    """The log of how few of the documents, as ids, have each word; 0 for what is no word."""
    import torch

    having = torch.zeros(len(tokens))
    for ids in documents:
        having[ids.unique()] += 1
    is_word = [token not in NO_WORDS and any(map(str.isalpha, token)) for token in tokens]
    return ((1 + len(documents)) / (1 + having)).log() * torch.tensor(is_word)


def prepare(args: argparse.Namespace, trained: Trained) -> tuple[Known, Thesaurus, Lesson]:
    """The phrases to learn, a thesaurus that knows nothing of them but how common they are, and what to learn from."""
    import torch

    from onmt_exhird.nn.thesaurus import Thesaurus, title_length

    pairs = [pair for prefix in args.data for pair in read_pairs(prefix)]
    chosen = [read_phrases(stream, trained) for _, stream in tqdm(pairs, "phrases", unit=" documents", disable=None)]
    known = choose(chosen, args.rarest, args.most)
    print(
        f"documents    {len(pairs):,}\nphrases      {len(known.written):,}, of which the last is in {known.counts[-1]}"
    )
    ids = {token: number for number, token in enumerate(trained.tokens)}
    documents = [torch.tensor([ids[word] for word in source.split() if word in ids]) for source, _ in pairs]

    torch.manual_seed(args.seed)
    thesaurus = Thesaurus(len(trained.tokens), len(known.written), args.size)
    thesaurus.bias.data[:] = (torch.tensor(known.counts) / sum(known.counts)).log()
    thesaurus.rarity[:] = rarity(documents, trained.tokens)
    separator = ids.get(SEPARATOR)
    shown = tqdm(documents, "words", unit=" documents", disable=None)
    bags = [thesaurus.bag(one, title_length(one, separator)) for one in shown]
    numbers = [torch.tensor([known.numbers[stems] for stems in one if stems in known.numbers]) for one in chosen]
    return known, thesaurus, Lesson(bags, numbers)


def rate_at(step: int, steps: int, rate: float) -> float:
    """The learning rate of a step, counted from 0.

    >>> [round(rate_at(step, 1000, 1.0), 2) for step in (0, 99, 400, 700, 999)]
    [0.01, 1.0, 1.0, 0.5, 0.0]
    """
    return rate * min(1.0, (step + 1) / RISING, (1 - step / steps) / (1 - CONSTANT))


def loss_of(logits: Tensor, chosen: Sequence[Tensor]) -> Tensor:
    """-log P of the documents' phrases, each one of all that there are; a mean over the documents."""
    import torch

    rows = torch.tensor([row for row, phrases in enumerate(chosen) for _ in phrases])
    numbers = torch.cat(list(chosen)).long()
    return (logits.logsumexp(1)[rows] - logits[rows, numbers]).sum() / len(chosen)


def learn(args: argparse.Namespace, thesaurus: Thesaurus, lesson: Lesson) -> None:
    import torch
    from torch.nn import functional

    steps = max(1, round(args.passes * len(lesson.bags) / min(args.batch_size, len(lesson.bags))))
    adam = torch.optim.Adam(thesaurus.parameters(), lr=args.rate, betas=(0.9, 0.99))
    shown, begun = 0.0, time.monotonic()
    for step, (bags, chosen) in zip(range(steps), lesson.batches(args.batch_size, args.seed), strict=False):
        adam.param_groups[0]["lr"] = rate_at(step, steps, args.rate)
        vectors = functional.dropout(thesaurus.vectors(bags), args.dropout)
        loss = loss_of(thesaurus.logits(vectors), chosen)
        adam.zero_grad()
        loss.backward()
        adam.step()
        shown = MEMORY * shown + (1 - MEMORY) * loss.item() if step else loss.item()
        if (step + 1) % SHOWN_EVERY == 0 or step + 1 == steps:
            minutes = (time.monotonic() - begun) / (step + 1) * (steps - step - 1) / 60
            print(f"{step + 1}/{steps}  loss {shown:.3f}  {minutes:.0f} minutes left", flush=True)


def teach(args: argparse.Namespace) -> None:
    from onmt_exhird.generator.folder import write_folder
    from onmt_exhird.generator.loading import load
    from onmt_exhird.generator.thesaurus import KnownPhrases, Manner

    trained = load(args.model)
    known, thesaurus, lesson = prepare(args, trained)
    learn(args, thesaurus, lesson)
    each = sum(map(len, lesson.chosen)) / len(lesson.chosen)
    manner = Manner(round(each, 3), args.present, args.absent, args.most_absent)
    tensors = {name: tensor.detach() for name, tensor in thesaurus.state_dict().items()}
    trained = replace(trained, thesaurus=KnownPhrases(known.written, tensors, manner))
    write_folder(trained, args.output, args.precision)
    print(f"written      {args.output}")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="thesaurus.py",
        description="Teach a model the phrases that many authors use.",
        epilog="example: python tools/thesaurus.py --model my-model --data data/train --output my-model-that-knows",
    )
    add = parser.add_argument
    add("--model", required=True, metavar="M", help="a model folder, a .pt of onmt_train, or an installed model's name")
    add("--data", nargs="+", required=True, metavar="PREFIX", help="of files of exhird prepare: PREFIX.src, PREFIX.tgt")
    add("--output", type=Path, required=True, metavar="DIR", help="the model folder to write")
    add("--precision", choices=("float32", "float16", "int8"), default="float16", help="default: %(default)s")
    add(
        "--rarest",
        type=positive,
        default=8,
        metavar="N",
        help="documents with a phrase, at least; default: %(default)s",
    )
    add("--most", type=positive, default=20_000, metavar="N", help="phrases, the commonest; default: %(default)s")
    add("--size", type=positive, default=128, metavar="N", help="of a vector; default: %(default)s")
    add("--passes", type=float, default=4.0, metavar="X", help="over the documents; default: %(default)s")
    add("--batch-size", type=positive, default=512, metavar="N", help="default: %(default)s")
    add("--rate", type=float, default=3e-3, metavar="X", help="of Adam; default: %(default)s")
    add("--dropout", type=share, default=0.2, metavar="X", help="of documents' vectors; default: %(default)s")
    add("--seed", type=int, default=1, metavar="N", help="default: %(default)s")
    add = parser.add_argument_group("what a generator adds").add_argument
    add("--present", type=share, default=0.35, metavar="X", help="from this score on; default: %(default)s")
    add("--absent", type=share, default=0.05, metavar="X", help="likewise, not in the text; default: %(default)s")
    add("--most-absent", type=positive, default=2, metavar="N", help="with the decoder's own; default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        teach(args)
    except (ExhirdError, OSError) as error:
        print(f"thesaurus.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
