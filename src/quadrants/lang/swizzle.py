"""Swizzles: `v.xy`, `v.rgb = …` for the letter sets xyzw, rgba and stpq."""

from __future__ import annotations

from itertools import product
from typing import Any

from quadrants.errors import QuadrantsRuntimeError, QuadrantsSyntaxError

__all__ = ["LETTER_SETS", "Swizzle", "install", "positions"]

LETTER_SETS = ("xyzw", "rgba", "stpq")


def positions(name: str) -> tuple[int, ...] | None:
    """The element positions that swizzle `name` stands for, None if it is no swizzle."""
    if 1 <= len(name) <= 4:
        for letters in LETTER_SETS:
            if all(letter in letters for letter in name):
                return tuple(letters.index(letter) for letter in name)
    return None


class Swizzle:
    """Descriptor of one swizzle: reading gives a number or a vector, assigning sets these elements."""

    __slots__ = ("indices", "name")

    def __init__(self, name: str, indices: tuple[int, ...]) -> None:
        self.name = name
        self.indices = indices

    def _check(self, vector: Any) -> None:
        if vector._value.ndim != 1 or max(self.indices) >= len(vector._value):
            raise QuadrantsSyntaxError(f"swizzle .{self.name} does not exist on a value of shape {vector._value.shape}")

    def __get__(self, vector: Any, owner: type | None = None) -> Any:
        if vector is None:
            return self
        self._check(vector)
        if len(self.indices) == 1:
            return vector[self.indices[0]]
        return vector._like(vector._value[list(self.indices)])

    def __set__(self, vector: Any, value: Any) -> None:
        self._check(vector)
        if len(self.indices) == 1:
            vector[self.indices[0]] = value
            return
        values = list(value)
        if len(values) != len(self.indices):
            raise QuadrantsRuntimeError(f"swizzle .{self.name} takes {len(self.indices)} values, not {len(values)}")
        if len(set(self.indices)) != len(self.indices):
            raise QuadrantsSyntaxError(f"swizzle .{self.name} names an element twice and cannot be assigned")
        for index, element in zip(self.indices, values):
            vector[index] = element


def install(owner: type) -> None:
    """Give class `owner` a descriptor for every swizzle of one to four letters."""
    for letters in LETTER_SETS:
        for length in range(1, 5):
            for choice in product(range(4), repeat=length):
                name = "".join(letters[index] for index in choice)
                setattr(owner, name, Swizzle(name, choice))
