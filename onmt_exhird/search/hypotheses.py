"""Hypotheses of greedy search, in rows that begin at different steps."""

from __future__ import annotations

import torch
from torch import Tensor

from onmt_exhird.search.constraint import StreamConstraint

_AMPLE = 3  # tokens: a constraint with as much room as this does not look at the room


class Hypotheses:
    """One hypothesis per row, where rows may have begun at different steps.

    A row whose document is finished can begin another one while the rest goes on, so that every step has as many
    rows as fit: with few of them the output layer costs as much as with many.

    tokens      (rows, oldest)   the tokens so far, each row's at the right end, after padding
    log_probs   (rows, oldest)   and the log-probability of each
    ages        (rows,)          how many they are, the start token included
    """

    def __init__(self, start: int, pad: int, device: torch.device | str = "cpu") -> None:
        self.start = start
        self.pad = pad
        self.tokens = torch.empty(0, 1, dtype=torch.long, device=device)
        self.ages = torch.empty(0, dtype=torch.long, device=device)
        self.log_probs = torch.empty(0, 1, device=device)

    def append(self, tokens: Tensor, log_probs: Tensor) -> None:
        """Another token for each row, and its log-probability: (rows,) twice."""
        self.ages += 1
        oldest = int(self.ages.max())
        self.tokens = torch.cat([self.tokens, tokens.unsqueeze(1)], 1)[:, -oldest:]
        self.log_probs = torch.cat([self.log_probs, log_probs.unsqueeze(1)], 1)[:, -oldest:]

    def begin(self, count: int) -> None:
        """So many more rows, behind the others, that begin now."""
        columns = self.tokens.size(1) if len(self.ages) else 1
        tokens = self.tokens.new_full((count, columns), self.pad)
        tokens[:, -1] = self.start
        log_probs = self.log_probs.new_zeros(count, columns)
        self.tokens = torch.cat([self.tokens[:, -columns:], tokens])
        self.log_probs = torch.cat([self.log_probs[:, -columns:], log_probs])
        self.ages = torch.cat([self.ages, self.ages.new_ones(count)])

    def at(self, rows: Tensor) -> Hypotheses:
        """Those of some rows (k,), in this order."""
        some = Hypotheses(self.start, self.pad)
        some.tokens, some.ages, some.log_probs = self.tokens[rows], self.ages[rows], self.log_probs[rows]
        return some

    def written(self, row: int) -> tuple[Tensor, Tensor]:
        """The tokens of a row after its start (n,), and the log-probability of each (n,)."""
        first = self.tokens.size(1) - int(self.ages[row]) + 1
        return self.tokens[row, first:].clone(), self.log_probs[row, first:].clone()

    def constrain(self, constraint: StreamConstraint, log_probs: Tensor, oov_classes: Tensor | None) -> None:
        """`StreamConstraint.apply` to log_probs (rows, size), with oov_classes (rows, words)."""
        for rows, tokens in self._groups(constraint):
            if rows is None:
                constraint.apply(log_probs, tokens, oov_classes)
                continue
            some = log_probs[rows]
            constraint.apply(some, tokens, None if oov_classes is None else oov_classes[rows])
            log_probs[rows] = some

    def states(self, constraint: StreamConstraint) -> Tensor:
        """Where each hypothesis stands: its `State` (rows,)."""
        states = torch.empty_like(self.ages)
        for rows, tokens in self._groups(constraint):
            states[slice(None) if rows is None else rows] = constraint.state(tokens)
        return states

    def _groups(self, constraint: StreamConstraint) -> list[tuple[Tensor | None, Tensor]]:
        """Rows (k,), None: all, and their tokens (k, length), in groups that the constraint may see together.

        It takes the number of columns for the age, which matters where the room for tokens comes to an end.
        """
        limit = constraint.settings.max_length
        if limit is None or self.tokens.size(1) <= limit + 1 - _AMPLE:
            return [(None, self.tokens)]
        late = self.ages > limit + 1 - _AMPLE  # (rows,)
        groups: list[tuple[Tensor | None, Tensor]] = []
        for age in self.ages[late].unique().tolist():
            rows = self.ages.eq(age).nonzero().squeeze(1)
            groups.append((rows, self.tokens[rows, -age:]))
        rows = late.logical_not().nonzero().squeeze(1)
        if len(rows):
            groups.append((rows, self.tokens[rows, -int(self.ages[rows].max()) :]))
        return groups
