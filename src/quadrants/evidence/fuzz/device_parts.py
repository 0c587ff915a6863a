"""Parts of programs of what devices do in ways of their own: what all of them have."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from quadrants.evidence.fuzz.block_code import put
from quadrants.evidence.fuzz.block_worlds import held

__all__ = ["EXTENTS", "LENGTHS", "TYPES", "Arrays", "DevicePart", "numbers"]

INTEGERS = ("i32", "i32", "i64", "u32", "u64")
TYPES = (*INTEGERS, "f32", "f32", "f32", "f64")
LENGTHS = (0, 1, 2, 31, 32, 33, 100, 255, 256, 257, 513, 700)
EXTENTS = (1, 3, 8, 15, 16, 17, 20, 31, 33)

Arrays = dict[str, np.ndarray]


def numbers(source: random.Random, dtype: str, shape: Sequence[int], most: int = 4) -> np.ndarray:
    """Whole numbers of small size; not below 0 where the type has none."""
    rng = np.random.default_rng(source.randrange(1 << 30))
    return rng.integers(0 if dtype[0] == "u" else -most, most + 1, tuple(shape)).astype(held(dtype))


class DevicePart:
    """`memory`: arrays that are this part's own; `block_dim`: what the user says about the loop, 0 for nothing."""

    def __init__(self, source: random.Random, number: int) -> None:
        self.source = source
        self.number = number
        self.memory: Arrays = {}
        self.block_dim = source.choice((0, 0, 0, 1, 32, 64, 100, 128))

    def name(self, letter: str, array: np.ndarray) -> str:
        name = f"{letter}{self.number}"
        self.memory[name] = array
        return name

    def config(self) -> list[str]:
        """What the user says about the loop, sometimes."""
        return [put(1, f"qd.loop_config(block_dim={self.block_dim})")] if self.block_dim else []

    def loops(self, counters: Sequence[str], bounds: Sequence[str], together: int) -> tuple[list[str], int]:
        """Nested loops, of which the first `together` are one over `ndrange`; and how deep their body stands."""
        lines, depth = [], 1
        if together > 1:
            lines.append(
                put(depth, f"for {', '.join(counters[:together])} in qd.ndrange({', '.join(bounds[:together])}):")
            )
        else:
            together = 0
        depth += bool(together)
        for counter, bound in zip(counters[together:], bounds[together:]):
            lines.append(put(depth, f"for {counter} in range({bound}):"))
            depth += 1
        return lines, depth
