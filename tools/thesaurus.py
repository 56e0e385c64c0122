"""Teach a model which phrases many authors use, and what words of a document speak for them.

    python tools/thesaurus.py --model my-model --data data/train --valid data/valid --output my-model-that-knows

Of the phrases that authors chose for the documents of --data, that is of PREFIX.src and PREFIX.tgt of exhird prepare,
the commonest are learned: a vector of each, and one of each word of the model's vocabulary, such that the words of a
document make its authors' phrases likely (onmt_exhird/nn/thesaurus.py). From the documents of --valid, which must be
others, it is learned how likely a phrase is that the decoder has not written: one of these, and in English one that a
document says in other words' order (onmt_exhird/generator/rearranged.py). A generator adds those that are likely
enough. The decoder stays as it is. Without --data so does the thesaurus that a model has, and only the chances are
learned anew.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reinforcement.files import read_all
from tqdm import tqdm

from onmt_exhird.cli.values import positive, share
from onmt_exhird.errors import ExhirdError
from onmt_exhird.languages import ENGLISH
from onmt_exhird.stream import DIGIT, SEPARATOR, STRUCTURE, UNK, read_leniently
from onmt_exhird.text import stem_words

if TYPE_CHECKING:
    from torch import Tensor

    from onmt_exhird.generator.phrases import Stems
    from onmt_exhird.generator.trained import Trained
    from onmt_exhird.nn.thesaurus import Thesaurus

RISING = 100  # steps in which the rate rises
CONSTANT = 0.4  # of all steps; from then on it falls to nothing
SHOWN_EVERY = 100
MEMORY = 0.98  # of the loss that is shown
DOUBT = 5  # documents in which a phrase stood and was not chosen, beside those that there are
NEWTON = 30  # steps
PULL = 0.01  # to zero, lest few cases say too much
LIKELIEST = 100  # phrases of a document that the chances are learned from
NO_WORDS = {*STRUCTURE, DIGIT, SEPARATOR, UNK}
PLACEHOLDERS = ("na", "none", "other", "keywords")  # what stands in records where no phrase was given


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
    """The phrases of a stream, without placeholders and those with numbers: which one it was is not known any more."""
    return {
        stem_words(phrase.words, trained.text.rules): phrase.text
        for phrase in read_leniently(stream)
        if phrase.text not in PLACEHOLDERS and NO_WORDS.isdisjoint(phrase.words)
    }


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


def keyness(sources: Sequence[Sequence[str]], chosen: Sequence[Collection[Stems]], known: Known) -> Tensor:
    """Of each phrase, the log odds that authors chose it where it stands in their document.

    sources   the documents' stems
    """
    import torch

    beginnings = {stems[:length] for stems in known.numbers for length in range(1, len(stems) + 1)}
    standing, right = torch.zeros(len(known.written)), torch.zeros(len(known.written))
    for words, own in tqdm(zip(sources, chosen, strict=True), "keyness", len(chosen), unit=" documents", disable=None):
        runs = set()
        for place in range(len(words)):
            end = place + 1
            while end <= len(words) and (run := tuple(words[place:end])) in beginnings:
                runs.add(run)
                end += 1
        found = [(known.numbers[run], run in own) for run in runs if run in known.numbers]
        standing[[number for number, _ in found]] += 1
        right[[number for number, is_right in found if is_right]] += 1
    return ((right + 0.5) / (standing - right + DOUBT)).log()


def prepare(args: argparse.Namespace, trained: Trained) -> tuple[Known, Thesaurus, Lesson]:
    """The phrases to learn, a thesaurus that knows nothing of them but how common they are, and what to learn from."""
    import torch

    from onmt_exhird.nn.thesaurus import Thesaurus

    pairs = read_all(args.data)
    chosen = [read_phrases(stream, trained) for _, stream in tqdm(pairs, "phrases", unit=" documents", disable=None)]
    known = choose(chosen, args.rarest, args.most)
    print(
        f"documents    {len(pairs):,}\nphrases      {len(known.written):,}, of which the last is in {known.counts[-1]}"
    )
    documents = as_ids(pairs, trained)
    torch.manual_seed(args.seed)
    thesaurus = Thesaurus(len(trained.tokens), len(known.written), args.size)
    thesaurus.bias.data[:] = (torch.tensor(known.counts) / sum(known.counts)).log()
    thesaurus.rarity[:] = rarity(documents, trained.tokens)
    stems = [stem_words(source.split(), trained.text.rules) for source, _ in pairs]
    thesaurus.keyness[:] = keyness(stems, chosen, known)
    numbers = [torch.tensor([known.numbers[stems] for stems in one if stems in known.numbers]) for one in chosen]
    return known, thesaurus, Lesson(bags_of(documents, thesaurus, trained), numbers)


def as_ids(pairs: Sequence[tuple[str, str]], trained: Trained) -> list[Tensor]:
    """Documents as the numbers of those of their words that the model knows."""
    import torch

    ids = {token: number for number, token in enumerate(trained.tokens)}
    return [
        torch.tensor([ids[word] for word in source.split() if word in ids], dtype=torch.long) for source, _ in pairs
    ]


def bags_of(documents: Sequence[Tensor], thesaurus: Thesaurus, trained: Trained) -> list[tuple[Tensor, Tensor]]:
    from onmt_exhird.nn.thesaurus import title_length

    separator = trained.tokens.index(SEPARATOR) if SEPARATOR in trained.tokens else None
    shown = tqdm(documents, "words", unit=" documents", disable=None)
    return [thesaurus.bag(one, title_length(one, separator)) for one in shown]


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


class Cases(NamedTuple):
    """Phrases that the decoder has not written for documents: what is known of each (n, k), a 1 at last, and whether
    authors chose it (n).
    """

    facts: Tensor
    right: Tensor


PRESENT, ABSENT, REARRANGED = 0, 1, 2  # of the thesaurus, standing in a document or not; of the document's own words


def cases(
    pairs: Sequence[tuple[str, str]], trained: Trained, phrases: Sequence[str], thesaurus: Thesaurus
) -> list[Cases]:
    """Of some documents, of each of the three kinds; phrases: those of the thesaurus."""
    import torch

    from onmt_exhird.generator import rearranged
    from onmt_exhird.generator.api import KeyphraseGenerator
    from onmt_exhird.generator.documents import read_document
    from onmt_exhird.generator.phrases import Reader

    rules = trained.text.rules
    documents = [tuple(source.split(f" {SEPARATOR} ", 1)) if SEPARATOR in source else source for source, _ in pairs]
    answers = KeyphraseGenerator(replace(trained, thesaurus=None)).generate(documents)
    bags = bags_of(as_ids(pairs, trained), thesaurus, trained)
    known, stems = set(phrases), [stem_words(phrase.split(), rules) for phrase in phrases]
    facts: list[list[Sequence[float]]] = [[], [], []]
    right: list[list[bool]] = [[], [], []]
    shown = tqdm(documents, "chances", unit=" documents", disable=None)
    for document, (_, stream), bag, answer in zip(shown, pairs, bags, answers, strict=True):
        own, reader = read_phrases(stream, trained), Reader(read_document(document, rules), rules)
        written = {stem_words(phrase.text.split(), rules): phrase for phrase in answer}
        log_probs = thesaurus.logits(thesaurus.vectors([bag])).log_softmax(1)[0]
        found: list[tuple[int, Stems, Sequence[float]]] = []
        for number in log_probs.topk(min(LIKELIEST, len(stems))).indices.tolist():
            if stems[number] not in written:
                kind = PRESENT if reader.occurrences(stems[number]) else ABSENT
                found.append((kind, stems[number], (float(log_probs[number]), float(thesaurus.keyness[number]))))
        if rules.language == ENGLISH:
            alike = rearranged.of_document(reader, written)
            for key, case in rearranged.cases(reader, written).items():
                if " ".join(case.words) not in known and not reader.occurrences(key):
                    found.append((REARRANGED, key, case.facts(alike)))
        for kind, key, what in found:
            facts[kind].append((*what, 1.0))
            right[kind].append(key in own)
    nothing = torch.zeros(0, 3)
    return [
        Cases(torch.tensor(some).double() if some else nothing.double(), torch.tensor(are).double())
        for some, are in zip(facts, right, strict=True)
    ]


def weights(some: Cases) -> list[float]:
    """What makes the right ones of some cases likely: logistic regression, by Newton's method."""
    import torch

    count = some.facts.shape[1]
    found = torch.zeros(count).double()
    for _ in range(NEWTON):
        likely = (some.facts @ found).sigmoid()
        slope = some.facts.T @ (likely - some.right) + PULL * found
        curve = (some.facts.T * (likely * (1 - likely))) @ some.facts + PULL * torch.eye(count).double()
        found -= torch.linalg.solve(curve, slope)
    return [round(weight, 4) for weight in found.tolist()]


def teach(args: argparse.Namespace) -> None:
    from onmt_exhird.generator.chances import Chance, Manner, RearrangedChance, log_odds
    from onmt_exhird.generator.folder import write_folder
    from onmt_exhird.generator.loading import load
    from onmt_exhird.generator.thesaurus import KnownPhrases

    for least in (args.present, args.absent):
        log_odds(least)  # a wrong one is told now, not when all is learned
    trained = load(args.model)
    if trained.text.subwords is not None:
        raise ExhirdError(f"{args.model} is a model of pieces of words: only one of words can have a thesaurus")
    valid = read_all(args.valid)
    if args.data is not None:
        known, thesaurus, lesson = prepare(args, trained)
        learn(args, thesaurus, lesson)
        phrases, tensors = known.written, {name: tensor.detach() for name, tensor in thesaurus.state_dict().items()}
    elif trained.thesaurus is not None:
        phrases, tensors = trained.thesaurus.phrases, trained.thesaurus.tensors
        thesaurus = trained.thesaurus.build(len(trained.tokens))
    else:
        raise ExhirdError(f"{args.model} has no thesaurus: give --data, from which one is learned")
    found = cases(valid, trained, phrases, thesaurus.requires_grad_(False))
    manner = Manner(
        Chance(*weights(found[PRESENT]), args.present),
        Chance(*weights(found[ABSENT]), args.absent),
        args.most_absent,
        RearrangedChance(*weights(found[REARRANGED])) if len(found[REARRANGED].right) else None,
    )
    print(f"present      {manner.present}\nabsent       {manner.absent}\nrearranged   {manner.rearranged}")
    trained = replace(trained, thesaurus=KnownPhrases(phrases, tensors, manner))
    write_folder(trained, args.output, args.precision)
    print(f"written      {args.output}")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="thesaurus.py",
        description="Teach a model the phrases that many authors use.",
        epilog="example: python tools/thesaurus.py --model my-model --data train --valid valid --output knowing",
    )
    add = parser.add_argument
    add("--model", required=True, metavar="M", help="a model folder, a .pt of onmt_train, or an installed model's name")
    add(
        "--data",
        nargs="+",
        metavar="PREFIX",
        help="of files of exhird prepare: PREFIX.src, PREFIX.tgt; default: the model's own thesaurus stays",
    )
    add(
        "--valid",
        nargs="+",
        required=True,
        metavar="PREFIX",
        help="likewise, of documents that no model has learned from",
    )
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
    add("--size", type=positive, default=256, metavar="N", help="of a vector; default: %(default)s")
    add("--passes", type=float, default=3.0, metavar="X", help="over the documents; default: %(default)s")
    add("--batch-size", type=positive, default=512, metavar="N", help="default: %(default)s")
    add("--rate", type=float, default=3e-3, metavar="X", help="of Adam; default: %(default)s")
    add("--dropout", type=share, default=0.3, metavar="X", help="of documents' vectors; default: %(default)s")
    add("--seed", type=int, default=1, metavar="N", help="default: %(default)s")
    add = parser.add_argument_group("what a generator adds").add_argument
    add("--present", type=share, default=0.15, metavar="X", help="what is as likely as this; default: %(default)s")
    add("--absent", type=share, default=0.025, metavar="X", help="likewise, not in the text; default: %(default)s")
    add("--most-absent", type=positive, default=4, metavar="N", help="with the decoder's own; default: %(default)s")
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
