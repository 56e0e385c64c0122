"""How often does the stream's grammar change a prediction? Counts it in greedy search, on a trained model.

    python tools/studies/grammar_study.py --model exhird_step_150000.pt --src test.src

The authors' program forbids ``;`` where a phrase begins, ``</s>`` within a phrase and in the first one, and no more.
Ours also forbids words where a phrase begins, structure tokens in it, and empty phrases. A document is changed where
that made another token the most probable one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decoding import Decoder, Setting

from onmt_exhird.bridge.strategies import documents_of
from onmt_exhird.errors import ExhirdError
from onmt_exhird.evaluation.inputs import read_sources
from onmt_exhird.search import StreamConstraint


def authors_choice(log_probs: Tensor, sequence: Tensor, constraint: StreamConstraint) -> Tensor:
    """The most probable token (rows) of those that the authors' program permits.

    log_probs (rows, size), sequence (rows, length)
    """
    ids = constraint.ids
    last = sequence[:, -1]
    begins = (last == ids.start) | (last == ids.end)
    permitted = log_probs.clone()
    permitted[:, ids.pad] = -torch.inf
    permitted[:, ids.end] = permitted[:, ids.end].masked_fill(begins, -torch.inf)
    first_phrase = ~(sequence == ids.end).any(1)
    permitted[:, ids.eos] = permitted[:, ids.eos].masked_fill(~begins | first_phrase, -torch.inf)
    return permitted.argmax(1)


class Counter:
    """Wraps the search of a `Decoder` and remembers where the grammar made a difference."""

    def __init__(self) -> None:
        self.steps = 0
        self.changed_steps = 0
        self.changed_documents = 0

    def watch(self, decoder: Decoder) -> None:
        translator = decoder.translator
        search = translator._translate_batch_with_strategy

        def counting(batch: dict, strategy: object) -> dict:
            changed: set[int] = set()
            results = self._search(search, translator, batch, strategy, changed)
            self.changed_documents += len(changed)
            return results

        translator._translate_batch_with_strategy = counting

    def _search(self, search, translator, batch, strategy, changed: set[int]) -> dict:
        constraint = translator.constraint
        apply = constraint.apply

        def compared(log_probs: Tensor, sequence: Tensor, oov_classes: Tensor | None = None) -> None:
            theirs = authors_choice(log_probs, sequence, constraint)
            free = ~constraint.forced_end(sequence)  # a full phrase is closed there as here
            apply(log_probs, sequence, oov_classes)
            differs = (log_probs.argmax(1) != theirs) & free & ~self._at_limit(sequence, constraint)
            self.steps += int(free.sum())
            self.changed_steps += int(differs.sum())
            changed.update(documents_of(strategy)[differs].tolist())

        constraint.apply = compared
        try:
            return search(batch, strategy)
        finally:
            constraint.apply = apply

    @staticmethod
    def _at_limit(sequence: Tensor, constraint: StreamConstraint) -> Tensor:
        """Rows with all the phrases they may have: both programs end there."""
        return (sequence == constraint.ids.end).sum(1) >= constraint.settings.max_phrases


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="example: python tools/studies/grammar_study.py --model exhird_step_9000.pt --src test.src --limit 200",
    )
    parser.add_argument("--model", type=Path, required=True, metavar="FILE", help="a checkpoint of onmt_train")
    parser.add_argument("--src", required=True, metavar="FILE", help="the documents, one a line")
    parser.add_argument("--limit", type=int, metavar="N", help="take the first N documents only")
    args = parser.parse_args(argv)
    counter = Counter()
    try:
        if not args.model.is_file():
            raise ExhirdError(f"{args.model} is no file; give a checkpoint of onmt_train with --model")
        sources = read_sources(args.src)[: args.limit]
        if not sources:
            raise ExhirdError(f"no document of {args.src} is left; give a file with lines, and --limit from 1 on")
        decoder = Decoder(args.model, batch_size=32)
        counter.watch(decoder)
        decoder(sources, Setting(beam=1, window=0))
    except ExhirdError as error:
        print(f"grammar_study.py: error: {error}", file=sys.stderr)
        return 2
    print(f"{counter.changed_documents} of {len(sources)} documents changed by the grammar")
    print(f"{counter.changed_steps} of {counter.steps} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
