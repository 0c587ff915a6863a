"""What block loops mean, for all their threads at once, on arrays of NumPy's: the second opinion on `qd.simt`.

The threads of a loop are an array of (blocks, threads of a block); each value that threads have is one such array, and
control flow is a mask of the threads that are there. That is right for programs in which no thread touches what another
one writes without a barrier between: then it does not matter which thread goes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants.evidence import numerics
from quadrants.ir import types

__all__ = ["COMBINE", "Mask", "World", "held", "neutral", "team_reduce", "team_scan", "team_shuffle"]

Mask = np.ndarray

COMBINE: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def held(dtype: str) -> np.dtype[Any]:
    """NumPy's type for a scalar type's values."""
    return np.dtype(numerics.held(getattr(types, dtype)))


def neutral(by: str, dtype: np.dtype[Any]) -> Any:
    """What changes nothing."""
    if by in ("min", "max"):
        if dtype.kind == "f":
            return np.inf if by == "min" else -np.inf
        facts = np.iinfo(dtype)
        return facts.max if by == "min" else facts.min
    if by == "and":
        return np.bitwise_not(np.zeros((), dtype))
    return int(by == "mul")


class World:
    """A block loop at work. `size`: the threads of a block; `count`: of all blocks. `variables`: what threads have under
    names; `shared`: the blocks' memory, (blocks, elements…); `memory`: arrays that all reach. `away`: the threads that
    have left the iteration that the innermost loop is in, or ended."""

    def __init__(self, count: int, size: int, memory: dict[str, np.ndarray], numbers: dict[str, int]) -> None:
        blocks = -(-count // size)
        self.size = size
        self.memory = memory
        self.numbers = numbers
        self.block, self.thread = np.indices((blocks, size))
        self.flat = self.block * size + self.thread
        self.there: Mask = self.flat < count
        self.width = np.minimum(size, count - self.block * size)
        self.variables: dict[str, np.ndarray] = {}
        self.shared: dict[str, np.ndarray] = {}
        self.away: Mask = np.zeros((blocks, size), bool)
        self.broken: Mask = self.away

    def assign(self, name: str, value: np.ndarray, mask: Mask) -> None:
        before = self.variables.get(name)
        self.variables[name] = value.copy() if before is None else np.where(mask, value, before)

    def full(self, value: Any, dtype: str) -> np.ndarray:
        """The same value in all threads."""
        return np.full(self.flat.shape, value, held(dtype))


def _teams(world: World, value: np.ndarray, width: int, fill: Any) -> np.ndarray:
    """Values by (block, team, member), with `fill` for members that the block is too small for."""
    blocks, size = world.flat.shape
    teams = -(-size // width)
    padded = np.full((blocks, teams * width), fill, value.dtype)
    padded[:, :size] = value
    return padded.reshape(blocks, teams, width)


def _threads(world: World, teams: np.ndarray) -> np.ndarray:
    blocks, size = world.flat.shape
    return teams.reshape(blocks, -1)[:, :size]


def team_reduce(world: World, value: np.ndarray, mask: Mask, by: str, width: int) -> np.ndarray:
    """The values of the members that are there combined, for each member. `width` 0: the team is the block."""
    nothing = neutral(by, value.dtype)
    teams = _teams(world, np.where(mask, value, nothing).astype(value.dtype), width or world.size, nothing)
    totals = COMBINE[by].reduce(teams, axis=2, keepdims=True, dtype=value.dtype)
    return _threads(world, np.broadcast_to(totals, teams.shape))


def team_scan(world: World, value: np.ndarray, mask: Mask, by: str, width: int, exclusive: bool) -> np.ndarray:
    """The values of the members before each, and of itself, combined."""
    nothing = neutral(by, value.dtype)
    teams = _teams(world, np.where(mask, value, nothing).astype(value.dtype), width or world.size, nothing)
    totals = COMBINE[by].accumulate(teams, axis=2, dtype=value.dtype)
    if exclusive:
        totals = np.concatenate([np.full_like(totals[:, :, :1], nothing), totals[:, :, :-1]], axis=2)
    return _threads(world, totals)


def team_shuffle(world: World, value: np.ndarray, mask: Mask, source: np.ndarray, width: int) -> np.ndarray:
    """The value of the member `source` of each thread's team; its own where that one is not there."""
    first = world.thread - world.thread % width
    place = first + source
    is_there = (source >= 0) & (source < width) & (place < world.size)
    place = np.where(is_there, place, world.thread)
    is_there &= mask[world.block, place]
    return np.where(is_there, value[world.block, place], value)
