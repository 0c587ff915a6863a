"""What kernels do to whole arrays, written in the language itself."""

from __future__ import annotations

from typing import Any

from quadrants.lang.loops import grouped

__all__ = ["fill"]


def fill(array: Any, value: Any) -> None:
    """Sets every element of a field or array to a number, or to a vector or matrix of the elements' shape."""
    for index in grouped(array):
        array[index] = value
