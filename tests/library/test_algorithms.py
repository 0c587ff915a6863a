"""Sorting and prefix sums against NumPy: every type of keys, fields, ndarrays and arrays, one chunk and several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.slow

DTYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")


def numbers(dtype: str, count: int, seed: int = 0) -> np.ndarray:
    """Numbers of the whole range with many that are equal; floats with infinities, zeros of both signs and NaN."""
    source = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        found = np.concatenate([source.normal(size=count) * 1e3, source.integers(-5, 5, count)])
        found[: min(4, count)] = [np.inf, -np.inf, 0.0, np.nan][: min(4, count)]
    else:
        info = np.iinfo(kind)
        whole = source.integers(info.min, info.max, count, dtype=kind, endpoint=True)
        found = np.concatenate([whole, source.integers(0, 5, count).astype(kind)])
    return source.permutation(found)[:count].astype(kind)


def test_sorting_is_an_algorithm_of_the_package() -> None:
    from quadrants.algorithms import parallel_sort

    assert qd.algorithms.parallel_sort is parallel_sort


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys(dtype: str) -> None:
    for count in (1, 2, 300, 20_000):
        keys = numbers(dtype, count)
        found = keys.copy()
        qd.algorithms.parallel_sort(found)
        np.testing.assert_array_equal(found, np.sort(keys))


@pytest.mark.parametrize("dtype", ("i4", "f8"))
def test_on_every_target(arch: Any, dtype: str) -> None:
    qd.init(arch=arch)
    keys = numbers(dtype, 200)
    values = np.arange(200)
    qd.algorithms.parallel_sort(found := keys.copy(), values)
    np.testing.assert_array_equal(values, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(found, np.sort(keys))


@pytest.mark.parametrize("dtype", ("u1", "i4", "f4", "u8", "f8"))
def test_values_of_equal_keys_keep_their_order(dtype: str) -> None:
    keys = numbers(dtype, 20_000)
    values = np.arange(20_000, dtype=np.float32)
    qd.algorithms.parallel_sort(keys.copy(), values)
    np.testing.assert_array_equal(values, np.argsort(keys, kind="stable"))


def test_fields_and_ndarrays() -> None:
    keys = numbers("f4", 5000)
    order = np.argsort(keys, kind="stable")
    points = np.random.default_rng(1).normal(size=(5000, 3)).astype(np.float32)
    for storage, vectors in (
        (qd.field(qd.f32, 5000), qd.Vector.field(3, qd.f32, 5000)),
        (qd.field(qd.f32, 5000, offset=7), qd.Vector.field(3, qd.f32, 5000, layout=qd.Layout.SOA)),
        (qd.ndarray(qd.f32, 5000), qd.Vector.ndarray(3, qd.f32, 5000)),
    ):
        storage.from_numpy(keys)
        vectors.from_numpy(points)
        qd.algorithms.parallel_sort(storage, vectors)
        np.testing.assert_array_equal(storage.to_numpy(), keys[order])
        np.testing.assert_array_equal(vectors.to_numpy(), points[order])


def test_strided_arrays_and_matrices() -> None:
    keys = np.zeros((400, 2), np.int16)
    keys[:, 0] = numbers("i2", 400)
    order = np.argsort(keys[:, 0], kind="stable")
    matrices = np.random.default_rng(1).normal(size=(400, 2, 2))
    found, values = keys.copy(), matrices.copy().transpose(0, 2, 1)
    qd.algorithms.parallel_sort(found[:, 0], values)
    np.testing.assert_array_equal(found[:, 0], keys[order, 0])
    np.testing.assert_array_equal(values, matrices.transpose(0, 2, 1)[order])
    assert not found[:, 1].any()
    qd.algorithms.parallel_sort(found[::-1, 0])
    np.testing.assert_array_equal(found[::-1, 0], keys[order, 0])


def test_brain_floats() -> None:
    field = qd.field(qd.bf16, 6)
    for k, number in enumerate((1.0, -2.0, float("nan"), -0.5, float("inf"), 0.0)):
        field[k] = number
    qd.algorithms.parallel_sort(field)
    assert [field[k] for k in range(5)] == [-2.0, -0.5, 0.0, 1.0, float("inf")] and np.isnan(field[5])


def test_negative_nan_and_zeros() -> None:
    keys = np.array([np.nan, 1.0, 0.0, -np.nan, -0.0, -1.0], np.float32)
    values = np.arange(6)
    qd.algorithms.parallel_sort(keys, values)
    assert values.tolist() == [5, 4, 2, 1, 0, 3]
    assert np.signbit(keys[1]) and not np.signbit(keys[2]) and np.isnan(keys[4:]).all()


def test_the_same_whatever_the_threads() -> None:
    found = []
    for threads in (1, 2):
        qd.init(cpu_max_num_threads=threads)
        keys, values = np.random.default_rng(0).normal(size=50_000), np.arange(50_000)
        sums = keys.astype(np.float32)
        qd.algorithms.parallel_sort(keys, values)
        qd.algorithms.PrefixSumExecutor(50_000).run(sums)
        found.append((keys, values, sums))
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)


def test_what_cannot_be_sorted() -> None:
    sort = qd.algorithms.parallel_sort
    with pytest.raises(TypeError, match="list"):
        sort([2, 1])
    with pytest.raises(ValueError, match="one axis"):
        sort(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="one axis"):
        sort(qd.Vector.field(2, qd.f32, 4))
    with pytest.raises(ValueError, match="3 keys"):
        sort(np.zeros(3), np.zeros(2))
    with pytest.raises(TypeError, match="byte order"):
        sort(np.zeros(3, ">i4"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_prefix_sums(dtype: str) -> None:
    kind = np.dtype(dtype)
    source = np.random.default_rng(3)
    for count in (1, 20_000):
        given = source.uniform(-1, 1, count) if kind.kind == "f" else source.integers(0, 100, count)
        given = given.astype(kind)
        qd.algorithms.PrefixSumExecutor(count).run(found := given.copy())
        if kind.kind == "f":
            exact = np.cumsum(given.astype(np.float64))
            np.testing.assert_allclose(found, exact, rtol=2 * np.finfo(kind).eps, atol=1e-11)
        else:
            np.testing.assert_array_equal(found, np.cumsum(given, dtype=kind))


def test_prefix_sum_of_a_field(arch: Any) -> None:
    qd.init(arch=arch)
    field = qd.field(qd.i32, 100)
    field.fill(2)
    qd.algorithms.PrefixSumExecutor(100).run(field)
    np.testing.assert_array_equal(field.to_numpy(), np.arange(2, 202, 2))


def test_what_has_no_prefix_sum() -> None:
    with pytest.raises(ValueError, match="at least one"):
        qd.algorithms.PrefixSumExecutor(0)
    executor = qd.algorithms.PrefixSumExecutor(4)
    with pytest.raises(ValueError, match="shape"):
        executor.run(np.zeros(5))
    with pytest.raises(TypeError, match="bf16"):
        executor.run(qd.field(qd.bf16, 4))
    with pytest.raises(TypeError, match="u1"):
        executor.run(np.zeros(4, bool))
