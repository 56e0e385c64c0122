"""The processes that train one model together; mostly there is one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed

_PATIENCE = timedelta(days=1)  # the others wait while the first validates; one that dies is noticed at once


class Team:
    """What the processes tell each other beside gradients. Alone, it is what one tells oneself.

    rank   which of them this is; the first, 0, decides
    size   how many there are
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.rank = torch.distributed.get_rank() if size > 1 else 0
        # By way of the CPU, whatever gradients go by.
        self._group = torch.distributed.new_group(backend="gloo", timeout=_PATIENCE) if size > 1 else None

    def gather(self, own: Any) -> list[Any]:
        """What each of them has, in order of rank."""
        everyone = [own] * self.size
        if self.size > 1:
            torch.distributed.all_gather_object(everyone, own, group=self._group)
        return everyone

    def hear(self, said: Any) -> Any:
        """What the first one says."""
        box = [said]
        if self.size > 1:
            torch.distributed.broadcast_object_list(box, src=0, group=self._group)
        return box[0]
