"""How often warps go to shared memory: it has 32 banks of four bytes, each of which gives one word at a time.

Law: an access of up to 4 bytes a thread is one pass where no two words lie in one bank; of 8 bytes the halves of a warp, of 16 its
quarters go one after the other. Threads that reach the same word share it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

__all__ = ["BankCounter"]

_WORD = 4
_BANKS = 32
_WARP = 32


class BankCounter:
    """`passes`: what accesses took, `least`: what they would have taken without conflicts, both by kind of access."""

    def __init__(self) -> None:
        self.passes: Counter[str] = Counter()
        self.least: Counter[str] = Counter()

    @property
    def conflicts(self) -> int:
        """Passes that conflicts cost."""
        return sum(self.passes.values()) - sum(self.least.values())

    def note(self, kind: str, addresses: np.ndarray[Any, Any], size: int, threads: np.ndarray[Any, Any]) -> None:
        """An access of `size` bytes by each of some threads of a block, whose numbers are `threads`."""
        groups = max(size // _WORD, 1)
        lanes = _WARP // groups
        words = (addresses[:, None] // _WORD + np.arange(groups, dtype=np.uint64)).astype(np.int64)
        owners = np.repeat(threads.astype(np.int64) // lanes, groups)
        reached = np.unique(np.stack([owners, words.reshape(-1)]), axis=1)
        banks = reached[0] * _BANKS + reached[1] % _BANKS
        places, counts = np.unique(banks, return_counts=True)
        groups_of, starts = np.unique(places // _BANKS, return_index=True)
        self.passes[kind] += int(np.maximum.reduceat(counts, starts).sum())
        self.least[kind] += len(groups_of)
