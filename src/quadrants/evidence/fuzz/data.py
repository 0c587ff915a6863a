"""Arguments of random programs, as their texts make them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quadrants.evidence import numerics
from quadrants.evidence.programs import FieldOf
from quadrants.ir import types

__all__ = ["Members", "backwards", "every_other", "field", "numbers", "order", "transposed"]


def numbers(dtype: str, shape: int | tuple[int, ...], key: int, wild: bool = False) -> np.ndarray:
    """An array of small numbers that depend on `key`: integers in -9 .. 9, floats in quarters, truth values. `wild` ones
    also have the ends of the range of integers, NaN and infinities."""
    scalar = getattr(types, dtype)
    count = int(np.prod(shape))
    values = (np.arange(count) * (2 * key + 1) + key * key) % 19 - 9
    if dtype == "u1":
        return (values > 0).reshape(shape)
    if scalar.kind == "f":
        array = values.astype(numerics.held(scalar)) / 4
        extremes = [np.nan, np.inf, -np.inf]
    else:
        array = values.astype(numerics.held(scalar))
        extremes = [scalar.minimum, scalar.maximum]
    if wild:
        for position, extreme in enumerate(extremes):
            array[(position * 5 + key) % 7 :: 11] = extreme
    return array.reshape(shape)


def order(dtype: str, size: int, key: int) -> np.ndarray:
    """The numbers 0 .. size - 1 in an order that depends on `key`."""
    return np.random.default_rng(key).permutation(size).astype(numerics.held(getattr(types, dtype)))


def every_other(array: np.ndarray) -> np.ndarray:
    """The same values in memory with gaps."""
    return np.repeat(array, 2, axis=0)[::2]


def backwards(array: np.ndarray) -> np.ndarray:
    """The same values in memory in the opposite order."""
    return array[::-1].copy()[::-1]


def transposed(array: np.ndarray) -> np.ndarray:
    """The same values with the axes in memory the other way round."""
    return np.asfortranarray(array)


def field(kind: str, dtype: str, values: np.ndarray, elements: int = 0) -> FieldOf:
    """A field or ndarray of these values; 'planar' is a field as a structure of arrays."""
    return FieldOf(dtype, values, elements, "field" if kind == "planar" else kind, planar=kind == "planar")


@dataclass
class Members:
    """Arrays that are one argument; those that a program does not have are None."""

    e: Any = None
    f: Any = None
    g: Any = None
    h: Any = None
