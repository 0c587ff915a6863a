"""Algorithms that kernels call, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import algorithms
from quadrants.knobs import Arch

pytestmark = pytest.mark.slow

SIZES = (0, 1, 5, 1000)
DTYPES = ("i32", "u32", "f32", "i64", "u64", "f64")
numpy_of = {
    "i32": np.int32, "u32": np.uint32, "f32": np.float32, "i64": np.int64, "u64": np.uint64, "f64": np.float64
}  # fmt: skip


def sizes(arch: Arch) -> tuple[int, ...]:
    return SIZES if arch.name == "reference" else (*SIZES, 70_000)


def start(arch: Arch) -> None:
    qd.init(arch=arch, default_ip=qd.i32, default_fp=qd.f32)


def numbers(dtype: str, size: int) -> np.ndarray:
    low = 0 if dtype[0] == "u" else -50
    return np.random.default_rng(size).integers(low, 50, size).astype(numpy_of[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_and_scans(arch: Arch, dtype: str) -> None:
    start(arch)
    kind = getattr(qd, dtype)

    @qd.kernel
    def run(x, total, least, most, sums, below, above, scratch, n):
        algorithms.reduce_add(x, total, scratch, n, kind, 2)
        algorithms.reduce_min(x, least, scratch, n, kind, 2)
        algorithms.reduce_max(x, most, scratch, n, kind, 2)
        algorithms.exclusive_scan_add(x, sums, scratch, n, kind, 2)
        algorithms.exclusive_scan_min(x, below, scratch, n, kind, 2)
        algorithms.exclusive_scan_max(x, above, scratch, n, kind, 2)

    info: Any = np.finfo if dtype[0] == "f" else np.iinfo
    lowest, highest = (-np.inf, np.inf) if dtype[0] == "f" else (info(numpy_of[dtype]).min, info(numpy_of[dtype]).max)
    for n in sizes(arch):
        x = numbers(dtype, n + 3)
        total, least, most = (np.zeros((), x.dtype), np.zeros(1, x.dtype), np.zeros((), x.dtype))
        sums, below, above = (np.full(n + 3, 9, x.dtype) for _ in range(3))
        run(x, total, least, most, sums, below, above, np.zeros(1000, np.uint32), n)
        part = x[:n]
        assert total == part.sum()
        assert least[0] == min([*part, highest]) and most == max([*part, lowest])
        assert (sums[:n] == np.cumsum(part) - part).all() and (sums[n:] == 9).all()
        before = np.array([highest, *part], x.dtype)[:n], np.array([lowest, *part], x.dtype)[:n]
        assert (below[:n] == np.minimum.accumulate(before[0])).all()
        assert (above[:n] == np.maximum.accumulate(before[1])).all()


def test_selection(arch: Arch) -> None:
    start(arch)

    @qd.kernel
    def run(
        x: qd.types.ndarray(), flags: qd.types.ndarray(), out: qd.types.ndarray(), count: qd.types.ndarray(), n: int
    ):
        algorithms.select(x, flags, out, count, flags, n, 3)

    for n in sizes(arch):
        x, flags = numbers("f32", n), (numbers("i32", n) % 3).astype(np.int32)
        out, count = np.zeros(n, np.float32), np.zeros((), np.int32)
        run(x, flags, out, count, n)
        expected = x[flags != 0]
        assert count == len(expected) and (out[:count] == expected).all()


def test_sums_by_key(arch: Arch) -> None:
    start(arch)

    @qd.kernel
    def run(keys, values, keys_out, values_out, runs, scratch, n):
        algorithms.reduce_by_key_add(keys, values, keys_out, values_out, runs, scratch, n, qd.i32, 2)

    for n in sizes(arch):
        keys, values = np.sort(numbers("i32", n)), numbers("i32", n)
        keys_out, values_out, runs = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros((), np.int32)
        run(keys, values, keys_out, values_out, runs, np.zeros(2 * n + 9, np.int32), n)
        expected, inverse = np.unique(keys, return_inverse=True)
        assert runs == len(expected) and (keys_out[:runs] == expected).all()
        assert (values_out[:runs] == np.bincount(inverse, values, len(expected))).all()


@pytest.mark.parametrize(
    ("dtype", "end_bit"), [*[(dtype, int(dtype[1:])) for dtype in DTYPES], ("u32", 8), ("u64", 20)]
)
def test_sorting(arch: Arch, dtype: str, end_bit: int) -> None:
    start(arch)
    kind = getattr(qd, dtype)

    @qd.kernel
    def run(keys, tmp_keys, values, tmp_values, scratch, n):
        algorithms.sort(keys, tmp_keys, values, tmp_values, scratch, n, kind, True, end_bit, 3)

    @qd.kernel
    def run_keys(keys, tmp_keys, scratch, n):
        algorithms.sort(keys, tmp_keys, keys, keys, scratch, n, kind, False, end_bit, 3)

    for n in sizes(arch) if end_bit != 20 else (1000,):
        keys = numbers(dtype, n)
        if dtype[0] == "f":
            keys *= np.float32(0.37)
        if end_bit == 20:
            keys = keys << 13 | numbers("u64", n)
        masked = keys if end_bit == int(dtype[1:]) else keys & keys.dtype.type((1 << end_bit) - 1)
        order = np.argsort(masked, kind="stable")
        expected, values = keys[order], np.arange(n, dtype=np.int32)
        only, scratch = keys.copy(), np.zeros(algorithms.sort_scratch_slots(n), np.int32)
        run(keys, np.zeros_like(keys), values, np.zeros_like(values), scratch, np.array(n, np.int32))
        assert (keys == expected).all() and (values == order).all()
        run_keys(only, np.zeros_like(only), scratch, np.array(n, np.int32))
        assert (only == expected).all()


def test_scratch() -> None:
    found = [
        getattr(algorithms, f"{name}_scratch_slots")(1000, 2)
        for name in ("reduce", "exclusive_scan", "select", "sort", "reduce_by_key")
    ]
    assert found == [4, 4, 1004, 1028, 1004]
    assert algorithms.reduce_scratch_slots(1) == 1 and algorithms.reduce_scratch_slots(100_000) == 393


def test_what_there_is_not(arch: Arch) -> None:
    start(arch)

    @qd.kernel
    def halves(x, out):
        algorithms.reduce_add(x, out, x, 3, qd.f16, 2)

    @qd.kernel
    def deep(x, out):
        algorithms.reduce_add(x, out, x, 3, qd.f32, 5)

    x = np.zeros(3, np.float32)
    with pytest.raises(qd.QuadrantsSyntaxError, match="reduce_add is for i32, u32, f32, i64, u64, f64, not f16"):
        halves(x, x)
    with pytest.raises(qd.QuadrantsSyntaxError, match=r"log256_max_n lies in 1\.\.4, not 5"):
        deep(x, x)
