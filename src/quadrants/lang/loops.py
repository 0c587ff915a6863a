"""Loops and compile-time evaluation: `qd.ndrange`, `qd.grouped`, `qd.static`, `qd.loop_config` and hints."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from quadrants.errors import QuadrantsSyntaxError, QuadrantsTypeError
from quadrants.frontend import protocol
from quadrants.lang.intrinsic import intrinsic, kernel_only
from quadrants.lang.matrix import Matrix
from quadrants.lang.storage import Storage

__all__ = [
    "assume_in_range",
    "block_local",
    "cache_read_only",
    "global_thread_idx",
    "grouped",
    "loop_config",
    "ndrange",
    "no_activate",
    "static",
    "static_assert",
    "static_print",
]


class ndrange:
    """The product of ranges, the last one fastest: `for i, j in qd.ndrange(n, (a, b))`.

    An argument is a size or a (first, end) pair. `axes` lists the arguments from the outermost loop to the innermost;
    the loop's variables keep the order of the arguments. QuadrantsSyntaxError if `axes` is no permutation,
    QuadrantsTypeError for bounds that are not integers. On the host it iterates over tuples.
    """

    __slots__ = ("axes", "bounds")

    def __init__(self, *bounds: Any, axes: Any = None) -> None:
        self.bounds: tuple[tuple[int, int], ...] = tuple(map(_bound, bounds))
        self.axes: tuple[int, ...] | None = None if axes is None else _permutation(axes, len(bounds))

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The number of values of every argument."""
        return tuple(max(end - first, 0) for first, end in self.bounds)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        ranges = [range(first, end) for first, end in self.bounds]
        if self.axes is None:
            yield from product(*ranges)
            return
        for chosen in product(*(ranges[axis] for axis in self.axes)):
            yield tuple(chosen[self.axes.index(axis)] for axis in range(len(ranges)))

    def __len__(self) -> int:
        return int(np.prod(self.dimensions)) if self.bounds else 1

    def grouped(self) -> grouped:
        """The same loop with one vector as variable."""
        return grouped(self)


def _bound(bound: Any) -> tuple[int, int]:
    try:
        if isinstance(bound, (tuple, list, Matrix)):
            first, end = bound
            return operator.index(first), operator.index(end)
        return 0, operator.index(bound)
    except (TypeError, ValueError):
        raise QuadrantsTypeError(f"a bound of ndrange is an integer or a pair of integers, not {bound!r}") from None


def _permutation(axes: Any, count: int) -> tuple[int, ...]:
    try:
        chosen = tuple(map(operator.index, axes))
    except TypeError:
        raise QuadrantsTypeError(f"axes of ndrange are integers, not {axes!r}") from None
    if sorted(chosen) != list(range(count)):
        raise QuadrantsSyntaxError(f"axes={chosen} of ndrange is no permutation of its {count} arguments")
    return chosen


class grouped:
    """A loop over a field, array or ndrange with one vector as variable: `for I in qd.grouped(x): x[I]`. On the host it
    iterates over vectors of integers."""

    __slots__ = ("domain",)

    def __init__(self, domain: Any) -> None:
        self.domain = domain

    def __iter__(self) -> Iterator[Any]:
        for index in self._indices():
            yield Matrix(list(index))

    def _indices(self) -> Iterator[tuple[int, ...]]:
        if isinstance(self.domain, ndrange):
            return iter(self.domain)
        if isinstance(self.domain, Storage):
            starts = self.domain._offset or (0,) * len(self.domain.shape)
            return product(*(range(start, start + size) for start, size in zip(starts, self.domain.shape)))
        if hasattr(self.domain, "shape"):
            return product(*map(range, self.domain.shape))
        raise QuadrantsTypeError(f"qd.grouped takes a field, an array or qd.ndrange, not {self.domain!r}")


protocol.register_intrinsic(ndrange, "ndrange")
protocol.register_intrinsic(grouped, "grouped")


@intrinsic
def static(x: Any, *xs: Any) -> Any:
    """In kernels: evaluate by Python when the kernel is compiled. `for … in qd.static(…)` unrolls the loop,
    `if qd.static(…)` drops the branch not taken. On the host: the value itself, several as a tuple."""
    return (x, *xs) if xs else x


@intrinsic
def static_assert(cond: Any, msg: str | None = None) -> None:
    """AssertionError with `msg` if `cond`, which is evaluated when the kernel is compiled, does not hold."""
    if not cond:
        raise AssertionError(msg if msg is not None else "static assertion failed")


@intrinsic
def static_print(*values: Any, **options: Any) -> None:
    """Print when the kernel is compiled; on the host at once."""
    print(*values, **options)


@intrinsic
def loop_config(
    *,
    block_dim: int | None = None,
    serialize: bool = False,
    parallelize: int | None = None,
    block_dim_adaptive: bool = True,
    bit_vectorize: bool = False,
    vectorize: bool | int | None = None,
    fuse: bool = True,
    tensor_cores: bool | str | None = None,
    name: str | None = None,
) -> None:
    """How the next loop of the kernel runs. `serialize` True: in order; False (given): in parallel, on the user's word.
    `parallelize`: number of threads, 1 is in order. `vectorize`: how many iterations run side by side as vector lanes
    (a power of two up to 64), True for as many as suit, False for none, whatever the compiler would choose. `fuse` False:
    it is not joined with the loop before or behind. `tensor_cores` False: sums of products of f16 or bf16 as f32 do without
    them; 'tf32': those of f32 run on them, too, which rounds factors to 10 bits of fraction. `name`: what reports call the loop. `block_dim`,
    `block_dim_adaptive` and `bit_vectorize` are for GPUs. On the host nothing happens."""


@intrinsic
def block_local(*fields: Any) -> None:
    """Hint: keep these fields' blocks in fast memory in the next loop. On the host nothing happens."""


@intrinsic
def cache_read_only(*fields: Any) -> None:
    """Hint: these fields are only read in the next loop. On the host nothing happens."""


@intrinsic
def no_activate(*nodes: Any) -> None:
    """Hint for sparse nodes: the next loop activates none. On the host nothing happens."""


@intrinsic
def assume_in_range(val: Any, base: Any, low: int, high: int) -> Any:
    """`val`, with the promise that base + low <= val < base + high."""
    return val


@intrinsic
def global_thread_idx() -> int:
    """The number of the thread that runs the iteration. In kernels only."""
    kernel_only("global_thread_idx")
