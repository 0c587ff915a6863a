"""Iteration spaces of the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from quadrants.evidence.scalar import lift
from quadrants.evidence.tensor import Tensor

__all__ = ["grouped", "ndrange"]


class ndrange:
    """`qd.ndrange`: the product of ranges, the last one fastest; `axes` permutes outer to inner."""

    def __init__(self, *bounds: Any, axes: Any = None) -> None:
        self.bounds = [_bounds(bound) for bound in bounds]
        self.order = list(axes) if axes is not None else list(range(len(self.bounds)))

    @property
    def dimensions(self) -> list[int]:
        return [max(end - begin, 0) for begin, end in self.bounds]

    def __iter__(self) -> Iterator[Any]:
        ranges = [range(*self.bounds[axis]) for axis in self.order]
        for visited in itertools.product(*ranges):
            index = [0] * len(self.bounds)
            for axis, value in zip(self.order, visited, strict=True):
                index[axis] = value
            yield tuple(index) if len(index) > 1 else index[0]


def _bounds(bound: Any) -> tuple[int, int]:
    if isinstance(bound, (tuple, list)):
        return lift(bound[0]).__index__(), lift(bound[1]).__index__()
    return 0, lift(bound).__index__()


def grouped(domain: Iterable[Any]) -> Iterator[Tensor]:
    """`qd.grouped`: the indices of a domain as vectors."""
    for index in domain:
        items = index if isinstance(index, tuple) else (index,)
        yield Tensor((len(items),), items)
