"""Train a model further on what it is judged by: not the next word of its authors, but the scores of what it writes.

    python tools/reinforce.py --model science.pt --data computing other --output better.pt --updates 500

For every document several streams are drawn at random from the model. Phrases after which a stream raises present and
absent F1 more than was to be expected before become likelier, others less likely (reinforcement: Chan et al., ACL
2019). It is for a model that has been trained: from one that knows nothing hardly a right phrase is drawn.

Of each --data PREFIX the files PREFIX.src and PREFIX.tgt of exhird prepare are read, a document of each in turn. With a
--neighbour-weight an absent phrase also counts for being likely, as PREFIX.near of neighbours.py has it. What has been
learned is saved every 50 updates beside the output; the same command goes on from there.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onmt_exhird.cli.values import positive
from onmt_exhird.errors import ExhirdError

if TYPE_CHECKING:
    from onmt_exhird.generator.trained import Trained
    from onmt_exhird.nn.model import KeyphraseModel

ROUND = 10  # batches that are made together, of documents of like length
RISING = 20  # updates in which the rate rises: Adam knows no gradient yet
FALLING = 1 / 3  # of all updates, the last ones, in which it falls to nothing
SAVED_EVERY = 50
SHOWN_EVERY = 10
LONGEST = 50  # tokens of a drawn stream
CLIP = 1.0
GREEDY = 1e-4  # a temperature at which the likeliest is drawn
SETTINGS = (  # what must be the same for a training to go on
    "data", "updates", "rate", "batch_size", "samples", "temperature", "of_five", "absent_weight", "duplicate_cost",
    "gold_weight", "neighbour_weight", "window", "max_phrases", "seed",
)  # fmt: skip
AIMED_BY = 16  # batches whose greedy streams say what precision and recall are worth
SHOWN = ("present precision@M", "present recall@M", "absent precision@M", "absent recall@M")


@dataclass(frozen=True)
class Corpora:
    """Documents and their authors' streams, of one corpus after the other in turn."""

    pairs: Sequence[Sequence[tuple[str, str]]]
    likely: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # phrases, for each document

    @classmethod
    def read(cls, prefixes: Sequence[str], with_neighbours: bool) -> Corpora:
        from reinforcement.files import read_near, read_pairs

        from onmt_exhird.evaluation.inputs import check_lengths

        corpora, likely = [read_pairs(prefix) for prefix in prefixes], dict[str, Mapping[str, float]]()
        for prefix, pairs in zip(prefixes, corpora, strict=True) if with_neighbours else ():
            phrases = read_near(prefix)
            check_lengths(f"{prefix}.near", phrases, f"{prefix}.src", pairs)
            likely.update((document, one) for (document, _), one in zip(pairs, phrases, strict=True))
        return cls(corpora, likely)

    def batch(self, number: int, size: int, seed: int) -> list[tuple[str, str]]:
        """Of an update, counted from 0: the same numbers, the same documents."""
        begun, place = divmod(number, ROUND)
        first = begun * ROUND * size
        documents = [self._document(first + more) for more in range(ROUND * size)]
        documents.sort(key=lambda pair: len(pair[0]))
        order = list(range(ROUND))
        random.Random(f"{seed} {begun}").shuffle(order)
        return documents[order[place] * size :][:size]

    def _document(self, number: int) -> tuple[str, str]:
        row, corpus = divmod(number, len(self.pairs))
        return self.pairs[corpus][row % len(self.pairs[corpus])]


def rate_at(update: int, args: argparse.Namespace) -> float:
    """The learning rate of an update, counted from 0.

    >>> args = argparse.Namespace(rate=1.0, updates=300)
    >>> [round(rate_at(update, args), 2) for update in (0, 19, 100, 200, 250, 299)]
    [0.05, 1.0, 1.0, 1.0, 0.5, 0.01]
    """
    left = (args.updates - update) / (args.updates * FALLING)
    return args.rate * min(1.0, (update + 1) / RISING, left)


class Learner:
    """A model on its way."""

    def __init__(
        self,
        args: argparse.Namespace,
        checkpoint: dict[str, Any],
        trained: Trained,
        likely: Mapping[str, Mapping[str, float]],
    ) -> None:
        import torch
        from reinforcement.foresight import Foresight
        from reinforcement.rewards import Judge

        from onmt_exhird.search import SearchSettings
        from onmt_exhird.search.piece_constraint import build_constraint

        self.args, self.checkpoint, self.trained, self.likely = args, checkpoint, trained, likely
        self.model: KeyphraseModel = trained.build()
        self.parameters = list(self.model.requires_grad_(True).parameters())
        self.adam = torch.optim.Adam(self.parameters, lr=args.rate)
        self.ids = {token: number for number, token in enumerate(trained.tokens)}
        settings = SearchSettings(exclusive_window=args.window, max_phrases=args.max_phrases)
        self.constraint = build_constraint(trained.tokens, settings, trained.text, "cpu")
        self.judge = Judge(args.of_five, args.absent_weight, args.duplicate_cost, args.neighbour_weight)
        self.foresight = Foresight()
        self.done = 0

    def aim(self, batches: Iterable[Sequence[tuple[str, str]]]) -> None:
        """Say what precision and recall are worth, from what the model writes of some batches."""
        import torch
        from reinforcement.drawing import draw

        pairs = []
        for documents in batches:
            sources, _ = self._read(documents)
            drawn = draw(self.model, sources, self.constraint, 1, LONGEST, GREEDY, torch.Generator())
            for pair, tokens, unknown in zip(documents, drawn, sources.words, strict=True):
                pairs.append((self._wanted(pair), self._phrases(tokens.tolist(), unknown)))
        self.judge.aim(*zip(*pairs, strict=True))

    def update(self, documents: Sequence[tuple[str, str]]) -> None:
        import torch
        from reinforcement.drawing import draw
        from reinforcement.policy import policy_loss

        args, model = self.args, self.model
        chance = torch.Generator().manual_seed(args.seed * 1_000_003 + self.done)
        sources, gold = self._read(documents)
        drawn = draw(model, sources, self.constraint, args.samples, LONGEST, args.temperature, chance)
        wanted = [one for pair in documents for one in [self._wanted(pair)] * args.samples]
        beginnings = [
            self._beginnings(tokens.tolist(), sources.words[number // args.samples])
            for number, tokens in enumerate(drawn)
        ]
        worths = [
            [self.judge.worth(one, phrases) for phrases in parts] for one, parts in zip(wanted, beginnings, strict=True)
        ]
        self.judge.note(wanted, [parts[-1] for parts in beginnings])
        advantages = self.foresight.advantages(worths, args.samples)
        loss = policy_loss(model, sources, drawn, advantages, gold, args.gold_weight)
        self.adam.param_groups[0]["lr"] = rate_at(self.done, args)
        self.adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.adam.step()
        self.done += 1

    def _wanted(self, pair: tuple[str, str]) -> Any:
        from reinforcement.rewards import wanted

        return wanted(*pair, self.likely.get(pair[0], {}))

    def _read(self, documents: Sequence[tuple[str, str]]) -> tuple[Any, list[Any]]:
        """The sources of a batch, and its authors' streams (n) each."""
        import torch

        from onmt_exhird.nn.copying import extend_target
        from onmt_exhird.search.sources import Sources

        ids, size = self.model.ids, self.model.vocab_size
        sources = Sources.of([source.split() for source, _ in documents], self.ids, self.model)
        streams = (
            extend_target(target.split(), lambda token: self.ids.get(token, ids.unk), ids.unk, unknown, size)
            for (_, target), unknown in zip(documents, sources.words, strict=True)
        )
        return sources, [torch.tensor([*stream, ids.eos]) for stream in streams]

    def _beginnings(self, ids: Sequence[int], unknown: Sequence[str]) -> list[list[Any]]:
        """The phrases of a stream before the first is written, after it, after the second and so on.

        One that ``LONGEST`` has cut off does not count.
        """
        ends = (place + 1 for place, number in enumerate(ids) if number == self.model.ids.end)
        return [self._phrases(ids[:place], unknown) for place in (0, *ends)]

    def _phrases(self, ids: Sequence[int], unknown: Sequence[str]) -> list[Any]:
        from onmt_exhird.stream import EOS, read_leniently

        tokens = self.trained.tokens
        words = [tokens[number] if number < len(tokens) else unknown[number - len(tokens)] for number in ids]
        return read_leniently(" ".join(word for word in words if word != EOS))

    def weights(self) -> dict[str, Any]:
        """The parts of the checkpoint that have changed, under its own names."""
        from onmt_exhird.generator.checkpoint import renamed

        own = self.model.state_dict()
        return {
            part: {
                name: own[next(renamed({prefix + name: tensor}))[0]] for name, tensor in self.checkpoint[part].items()
            }
            for part, prefix in (("model", ""), ("generator", "generator."))
        }


def load(args: argparse.Namespace, unfinished: Path, likely: Mapping[str, Mapping[str, float]]) -> Learner:
    """A learner that begins, or goes on from what was saved."""
    from reinforcement.rewards import Rates

    from onmt_exhird.generator.checkpoint import read_checkpoint
    from onmt_exhird.generator.unpickling import load_harmless

    goes_on = unfinished.exists()
    path = unfinished if goes_on else args.model
    checkpoint, trained = load_harmless(path, map_location="cpu"), read_checkpoint(path)
    if trained.architecture.decoder != "exhird" or trained.text.subwords is not None or not checkpoint.get("model"):
        raise ExhirdError(
            f"{args.model} is no ExHiRD of words with its weights in the same file: only such a one is trained"
        )
    state = checkpoint.pop("reinforced", None)
    learner = Learner(args, checkpoint, trained, likely)
    if goes_on:
        if state["settings"] != settings_of(args):
            raise ExhirdError(f"{unfinished} was begun with other options: remove it, or choose another --output")
        learner.adam.load_state_dict(state["adam"])
        learner.judge.means, learner.judge.slopes = state["means"], {k: Rates(*v) for k, v in state["slopes"].items()}
        learner.judge.absent_each = state["absent_each"]
        learner.foresight.load(state["foresight"])
        learner.done = state["done"]
    return learner


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(args, name) for name in SETTINGS}


def write(path: Path, content: dict[str, Any]) -> None:
    """The whole file or none of it."""
    import torch

    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    torch.save(content, part)
    part.replace(path)


def learn(args: argparse.Namespace) -> None:
    unfinished = args.output.with_name(f"{args.output.name}.unfinished")
    corpora = Corpora.read(args.data, with_neighbours=args.neighbour_weight > 0)
    learner = load(args, unfinished, corpora.likely)
    if not learner.done:
        learner.aim(corpora.batch(number, args.batch_size, args.seed) for number in range(min(AIMED_BY, args.updates)))
    else:
        print(f"goes on after update {learner.done}", file=sys.stderr)
    for line in progress(learner, corpora, unfinished):
        print(line, flush=True)
    write(args.output, learner.checkpoint | learner.weights() | {"optim": {}})
    unfinished.unlink(missing_ok=True)
    print(f"written      {args.output}, after {learner.done} updates")


def progress(learner: Learner, corpora: Corpora, unfinished: Path) -> Iterator[str]:
    """Updates to the last; a line for some of them."""
    args, begun, first = learner.args, time.monotonic(), learner.done
    while learner.done < args.updates:
        learner.update(corpora.batch(learner.done, args.batch_size, args.seed))
        means, each = learner.judge.means, (time.monotonic() - begun) / (learner.done - first)
        if learner.done % SAVED_EVERY == 0:
            state = {
                "adam": learner.adam.state_dict(),
                "means": means,
                "slopes": {name: tuple(slopes) for name, slopes in learner.judge.slopes.items()},
                "absent_each": learner.judge.absent_each,
                "foresight": learner.foresight.state(),
                "done": learner.done,
                "settings": settings_of(args),
            }
            write(unfinished, learner.checkpoint | learner.weights() | {"reinforced": state})
        if learner.done % SHOWN_EVERY == 0 or learner.done == args.updates:
            rates = "  ".join(f"{name} {means[name]:.4f}" for name in SHOWN)
            phrases = f"{means['present']:.2f} + {means['absent']:.2f} phrases, {means['duplicates']:.2f} twice"
            minutes = each * (args.updates - learner.done) / 60
            worth = f"worth {means['worth']:.4f}"
            yield f"{learner.done}/{args.updates}  {worth}  {rates}  {phrases}  {minutes:.0f} minutes left"


def build_parser() -> argparse.ArgumentParser:
    from onmt_exhird.search import parse_window

    parser = argparse.ArgumentParser(
        prog="reinforce.py",
        description="Train a model further on the scores of what it writes.",
        epilog="example: python tools/reinforce.py --model science.pt --data computing other --output better.pt",
    )
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="FILE", help="a checkpoint of onmt_train, of ExHiRD")
    add("--data", nargs="+", required=True, metavar="PREFIX", help="of files of exhird prepare: PREFIX.src, PREFIX.tgt")
    add("--output", type=Path, required=True, metavar="FILE", help="the checkpoint to write")
    add("--updates", type=positive, default=500, metavar="N", help="default: %(default)s")
    add("--rate", type=float, default=2e-4, metavar="X", help="of Adam; default: %(default)s")
    add("--batch-size", type=positive, default=32, metavar="N", help="documents of an update; default: %(default)s")
    add(
        "--samples",
        type=positive,
        default=4,
        metavar="N",
        help="streams of a document, two at least; default: %(default)s",
    )
    add(
        "--temperature",
        type=float,
        default=1.0,
        metavar="X",
        help="of drawing; below 1: nearer to greedy search; default: %(default)s",
    )
    add("--of-five", type=float, default=0.3, metavar="X", help="share of F1@5 beside F1@M; default: %(default)s")
    add("--absent-weight", type=float, default=1.0, metavar="X", help="beside present ones; default: %(default)s")
    add("--duplicate-cost", type=float, default=0.05, metavar="X", help="default: %(default)s")
    add("--gold-weight", type=float, default=0.05, metavar="X", help="of the authors' streams; default: %(default)s")
    add(
        "--neighbour-weight",
        type=float,
        default=0.0,
        metavar="X",
        help="how much an absent phrase counts for being likely, not the authors'; default: %(default)s",
    )
    add("--window", type=parse_window, default=1, metavar="K", help="of exclusive search; default: %(default)s")
    add("--max-phrases", type=positive, default=10, metavar="N", help="default: %(default)s")
    add("--seed", type=int, default=1, metavar="N", help="default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        if args.samples < 2:
            raise ExhirdError("--samples is 1, but a stream is compared with others of its document: give at least 2")
        learn(args)
    except (ExhirdError, OSError) as error:
        print(f"reinforce.py: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
