"""How much better a stream turned out than was to be expected when each of its phrases began."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

PLACES = 12  # phrases of a stream that are told apart; all later ones are one place
MEMORY = 0.98  # of earlier batches
FIRM = 5.0  # observations that the first guess is worth: a stream will be worth what the others of its document are
FIRST_GUESS = (0.0, 1.0, 0.0, 0.0)


class Foresight:
    """Guesses what a stream will be worth in the end.

    A phrase must not be blamed for those before it, nor praised. So the worth of a stream is compared with what could
    be expected of it where a phrase begins: a linear guess from what the other streams of its document are worth, what
    it is worth so far and what those were worth at that place. The coefficients of a place are fitted to earlier
    batches, so that no guess knows its own stream, and the gradient stays right on average whatever they are.
    """

    def __init__(self) -> None:
        size = len(FIRST_GUESS)
        self.squares = torch.zeros(PLACES, size, size, dtype=torch.double)
        self.products = torch.zeros(PLACES, size, dtype=torch.double)

    def advantages(self, worths: Sequence[Sequence[float]], count: int) -> list[Tensor]:
        """Of each phrase of each stream, and of its end: (phrases + 1) each.

        worths   of each stream, ``count`` of a document in succession: before its first phrase, after it, after the
                 second and so on
        """
        known = [_known(worths, number, count) for number in range(len(worths))]
        coefficients = self._coefficients()
        found = [
            one[-1] - (facts * coefficients[_places(len(one))]).sum(1) for one, facts in zip(worths, known, strict=True)
        ]
        self._learn(worths, known)
        return [one.float() for one in found]

    def _coefficients(self) -> Tensor:
        """(places, 4)"""
        guess = torch.tensor(FIRST_GUESS, dtype=torch.double)
        return guess + torch.linalg.solve(
            self.squares + FIRM * torch.eye(len(guess), dtype=torch.double), self.products - self.squares @ guess
        )

    def _learn(self, worths: Sequence[Sequence[float]], known: Sequence[Tensor]) -> None:
        self.squares *= MEMORY
        self.products *= MEMORY
        for one, facts in zip(worths, known, strict=True):
            places = _places(len(one))
            self.squares.index_add_(0, places, facts.unsqueeze(2) * facts.unsqueeze(1))
            self.products.index_add_(0, places, facts * one[-1])

    def state(self) -> dict[str, Tensor]:
        return {"squares": self.squares.clone(), "products": self.products.clone()}

    def load(self, state: dict[str, Tensor]) -> None:
        self.squares, self.products = state["squares"], state["products"]


def _places(length: int) -> Tensor:
    return torch.arange(length).clamp_(max=PLACES - 1)


def _known(worths: Sequence[Sequence[float]], number: int, count: int) -> Tensor:
    """What is known of a stream at each of its places (phrases + 1, 4): see FIRST_GUESS."""
    first = number - number % count
    others = [worths[other] for other in range(first, first + count) if other != number]
    in_the_end = sum(other[-1] for other in others) / len(others)
    return torch.tensor(
        [
            [1.0, in_the_end, so_far, sum(other[min(place, len(other) - 1)] for other in others) / len(others)]
            for place, so_far in enumerate(worths[number])
        ],
        dtype=torch.double,
    )
