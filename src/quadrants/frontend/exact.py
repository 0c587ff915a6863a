"""What tells objects apart that code is made for. Python takes 1, 1.0 and True for equal, and 0.0 and -0.0: code differs."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants.ir.types import ScalarType

__all__ = ["Kept", "exact_key", "is_exact"]


class Kept:
    """Keeps an object alive in a key, compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def is_exact(value: Any) -> bool:
    """Whether objects are told apart by what they hold: numbers, texts, types of numbers, None, and tuples."""
    return value is None or isinstance(value, (int, float, np.generic, str, tuple, ScalarType))


def exact_key(value: Any) -> Any:
    """A key, that of another object only where code for one is right for the other. What a tuple holds and is not told apart so is
    itself."""
    if isinstance(value, tuple):
        return (type(value), *map(exact_key, value))
    if isinstance(value, float):
        return (type(value), float.__repr__(value))
    if isinstance(value, np.generic):
        return (type(value), value.tobytes())
    return (type(value), value) if is_exact(value) else Kept(value)
