"""What a launch costs: kernels that do nothing, interleaved call for call with plain Python functions that do nothing.

Run with `python -m benchmarks.launch_cost`. Prints, for each signature, the median nanoseconds of a launch and of a
plain Python call with the same arguments, and their ratio.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants.runtime import launch, native
from quadrants.runtime.launch import ArgumentSpec, ArrayArgument, Binding, FloatArgument, IntegerArgument
from quadrants.runtime.loader import Library
from quadrants.runtime.native_text import Module

CALLS = 20_000
ROUNDS = 25


class Kernel(launch.NativeKernel):
    """Fails loudly if a call that is to be measured does not fit."""

    __slots__ = ()

    def _slow_call(self, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
        raise AssertionError("the launch went through Python")


def empty_entry() -> int:
    """The address of a kernel without a body."""
    module = Module()
    function = module.function("entry", "i32", "ptr frame")
    function.give(function.constant("i32", 0))
    return Library().load(native.compile_text(module.text())).address("entry")


def kernel_for(entry: int, values: list[Any]) -> Kernel:
    """A kernel that takes arguments of these types; the first array is written."""
    arguments: list[ArgumentSpec] = []
    offset, written = 0, True
    for value in values:
        if isinstance(value, np.ndarray):
            arguments.append(ArrayArgument(offset, value.dtype, value.ndim, written=written))
            offset += 8 + 16 * value.ndim
            written = False
        else:
            arguments.append(FloatArgument(offset) if isinstance(value, float) else IntegerArgument(offset))
            offset += 8
    kernel = Kernel()
    kernel._install(Binding(entry, bytes(offset), arguments, keywords=names_of(values)))
    return kernel


def names_of(values: list[Any]) -> list[str]:
    return [f"a{index}" for index in range(len(values))]


def caller(values: list[Any], keywords: bool) -> tuple[Callable[..., float], Callable[..., None]]:
    """A loop that times calls with these arguments, and a plain function that takes them."""
    names = names_of(values)
    passed = ", ".join(f"{name}={name}" if keywords else name for name in names)
    header = ", ".join(["function", *names])
    source = (
        f"def run({header}):\n"
        "    start = now()\n"
        "    for _ in repeat:\n"
        f"        function({passed})\n"
        "    return now() - start\n"
        f"def plain({', '.join(names)}):\n"
        "    pass\n"
    )
    scope: dict[str, Any] = {"now": time.perf_counter, "repeat": range(CALLS)}
    exec(source, scope)
    return scope["run"], scope["plain"]


def measure(entry: int, values: list[Any], keywords: bool = False) -> tuple[float, float]:
    """Median nanoseconds of a launch and of a plain call, measured in turns."""
    run, plain = caller(values, keywords)
    kernel = kernel_for(entry, values)
    launches, calls = [], []
    for _ in range(ROUNDS):
        launches.append(run(kernel, *values))
        calls.append(run(plain, *values))
    return statistics.median(launches) / CALLS * 1e9, statistics.median(calls) / CALLS * 1e9


def main() -> None:
    """Print the table."""
    entry = empty_entry()
    vectors = [np.zeros(100, np.float32) for _ in range(3)]
    matrices = [np.zeros((4, 5)) for _ in range(14)]
    cases: list[tuple[str, list[Any], bool]] = [
        ("no argument", [], False),
        ("three arrays", vectors, False),
        ("three arrays and a float", [*vectors, 1.5], False),
        ("three arrays by keyword", vectors, True),
        ("three strided arrays", [array[::2] for array in vectors], False),
        ("twenty: 14 arrays, 4 floats, 2 integers", [*matrices, 1.0, 2.0, 3.0, 4.0, 5, 6], False),
        ("twenty floats", [float(index) for index in range(20)], False),
    ]
    print(f"{'arguments':42}{'launch':>10}{'plain':>10}{'ratio':>8}")
    for name, values, keywords in cases:
        launch_time, plain_time = measure(entry, values, keywords)
        print(f"{name:42}{launch_time:>7.0f} ns{plain_time:>7.0f} ns{launch_time / plain_time:>8.2f}")


if __name__ == "__main__":
    main()
