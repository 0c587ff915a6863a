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


def _in_halves(value: np.ndarray, there: Mask, combine: Any) -> np.ndarray:
    """What the members (the last axis, a power of two of them) come to up to each: the lower half's total on the left of what
    the upper half's come to."""
    half = value.shape[-1] // 2
    if not half:
        return value
    lower, upper = (
        _in_halves(value[..., part], there[..., part], combine) for part in (slice(0, half), slice(half, None))
    )
    some = there[..., :half].any(axis=-1, keepdims=True)
    total = np.take_along_axis(lower, _last(there[..., :half]), axis=-1)
    return np.concatenate([lower, np.where(some, combine(total, upper), upper)], axis=-1)


def _last(there: Mask) -> np.ndarray:
    """The place of the last member that is there."""
    return there.shape[-1] - 1 - np.argmax(there[..., ::-1], axis=-1, keepdims=True)


def _prefixes(world: World, value: np.ndarray, mask: Mask, by: str, width: int) -> tuple[np.ndarray, Mask]:
    """The same by (block, team, member), with who is there. `width` 0: the team is the block."""
    width = width or 1 << (world.size - 1).bit_length()
    there = _teams(world, mask, width, False)
    return _in_halves(_teams(world, value, width, 0), there, COMBINE[by]), there


def team_reduce(world: World, value: np.ndarray, mask: Mask, by: str, width: int) -> np.ndarray:
    """The values of the members that are there combined, for each member. `width` 0: the team is the block."""
    found, there = _prefixes(world, value, mask, by, width)
    return _threads(world, np.broadcast_to(np.take_along_axis(found, _last(there), axis=-1), found.shape))


def team_scan(world: World, value: np.ndarray, mask: Mask, by: str, width: int, exclusive: bool) -> np.ndarray:
    """The values of the members before each, and of itself, combined."""
    found, there = _prefixes(world, value, mask, by, width)
    if exclusive:
        places = np.where(there, np.arange(there.shape[-1]), -1)
        before = np.concatenate([np.full_like(places[..., :1], -1), places[..., :-1]], axis=-1)
        before = np.maximum.accumulate(before, axis=-1)
        nothing = np.asarray(neutral(by, value.dtype), value.dtype)
        found = np.where(before < 0, nothing, np.take_along_axis(found, np.maximum(before, 0), axis=-1))
    return _threads(world, found)


def team_shuffle(world: World, value: np.ndarray, mask: Mask, source: np.ndarray, width: int) -> np.ndarray:
    """The value of the member `source` of each thread's team; its own where that one is not there."""
    first = world.thread - world.thread % width
    place = first + source
    is_there = (source >= 0) & (source < width) & (place < world.size)
    place = np.where(is_there, place, world.thread)
    is_there &= mask[world.block, place]
    return np.where(is_there, value[world.block, place], value)
