"""Loops that only update arrays: each way of running them gives the sums, and the way is the expected one."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

from quadrants.runtime import threads

DTYPES = {"float": np.float32, "double": np.float64, "i32": np.int32, "i64": np.int64}
SERIAL, PRIVATE, ATOMIC = 0, 1, 2


def scatter(functions, element: str, array: np.ndarray, targets: np.ndarray, cost: int, kind: int | None = None) -> int:
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    prototype = ctypes.PYFUNCTYPE(
        integer, pointer, pointer, pointer, integer, pointer, integer, integer, pointer, integer, integer
    )
    frame = struct.pack("PqqP", array.ctypes.data, array.shape[0], array.strides[0], targets.ctypes.data)
    number = list(DTYPES).index(element) if kind is None else kind
    table = struct.pack("qqqqq", 0, 1, array.itemsize, number, 0)
    buffers = [ctypes.create_string_buffer(content, len(content)) for content in (frame, table)]
    frame_at, table_at = (ctypes.addressof(buffer) for buffer in buffers)
    run = prototype(threads.symbols()["qd_parallel_scatter"])
    names = functions[element]
    return run(names["plain"], names["atomic"], frame_at, len(frame), 0, len(targets), cost, table_at, 1, 1)


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize(
    ("size", "count", "cost", "threads_used", "way"),
    [
        (1000, 100, 1, 4, SERIAL),
        (1003, 50_000, 1000, 1, SERIAL),
        (1003, 50_000, 100, 4, PRIVATE),
        (10, 50_000, 100, 2, PRIVATE),
        (100_003, 150_000, 100, 4, PRIVATE),
        (1_000_000, 20_000, 100, 4, ATOMIC),
    ],
)
def test_sums(scatter_tasks, element: str, size: int, count: int, cost: int, threads_used: int, way: int) -> None:
    targets = np.random.default_rng(3).integers(0, size, count)
    array = np.full(size, 2, DTYPES[element])
    before = threads.counters()
    threads.set_count(threads_used)
    try:
        ways = [scatter(scatter_tasks, element, array, targets, cost) for _ in range(3)]
    finally:
        threads.set_count(None)
    assert ways == [way] * 3
    assert (array == 2 + 3 * np.bincount(targets, minlength=size)).all()
    name = ("scatter_serial", "scatter_private", "scatter_atomic")[way]
    assert threads.counters()[name] == before[name] + 3


def test_strided_arrays_and_other_kinds_are_updated_atomically(scatter_tasks, four_threads) -> None:
    targets = np.random.default_rng(3).integers(0, 100, 50_000)
    whole = np.zeros(200, np.int64)
    assert scatter(scatter_tasks, "i64", np.zeros(100, np.int64), targets, 100, kind=4) == ATOMIC
    reversed_view = whole[::-1]
    assert reversed_view.strides[0] == -8
    indices = -targets  # the task indexes from the start of the data, forwards
    assert scatter(scatter_tasks, "i64", reversed_view, indices, 100) == ATOMIC
    assert (reversed_view[:100] == np.bincount(targets, minlength=100)).all()


def test_empty_loops_and_empty_arrays(scatter_tasks, four_threads) -> None:
    nothing = np.zeros(0, np.int64)
    assert scatter(scatter_tasks, "i64", np.zeros(3, np.int64), nothing, 100) == SERIAL


def test_private_copies_are_clean_for_the_next_loop_whatever_its_layout(scatter_tasks, four_threads) -> None:
    rng = np.random.default_rng(5)
    for element, size in (("float", 5003), ("i64", 10), ("double", 2001), ("i32", 5003), ("float", 64)):
        array = np.ones(size, DTYPES[element])
        targets = rng.integers(0, size, 50_000)
        assert scatter(scatter_tasks, element, array, targets, 100) == PRIVATE
        assert (array == 1 + np.bincount(targets, minlength=size)).all()


def test_elements_that_nobody_updates_keep_their_bits(scatter_tasks, four_threads) -> None:
    array = np.full(4096, -0.0, np.float32)
    targets = np.zeros(50_000, np.int64)
    assert scatter(scatter_tasks, "float", array, targets, 100) == PRIVATE
    assert array[0] == 50_000 and np.signbit(array[16:]).all()
