"""Inner loops as vector lanes: awkward trips, several reductions at once, NaN, at every width, on every target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs

pytestmark = pytest.mark.slow

ROWS = 23


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = knobs.current.lanes, knobs.current.arch, knobs.current.verify
    yield
    knobs.current.lanes, knobs.current.arch, knobs.current.verify = before


def rows(lanes: int) -> np.ndarray:
    """Where rows begin: none, one, one less than the lanes, as many, one more, many; some go backwards, and are empty."""
    trips = [0, 1, lanes - 1, lanes, lanes + 1, 3 * lanes + 2, 2, 0, 5]
    return np.cumsum([0, *(trips * 3)[:ROWS]])


def total(first, last, x, out):
    for i in range(len(out)):
        s = 2.5
        for k in range(first[i], last[i]):
            s += x[k] * x[k]
        out[i] = s


def conditional(first, last, x, out):
    for i in range(len(out)):
        s = 0.0
        n = 0
        for k in range(first[i], last[i]):
            if x[k] < 0.3:
                continue
            if x[k] > 0.6:
                s += x[k]
            else:
                n += 1
        out[i] = s + 1000 * n


def several(first, last, x, out):
    for i in range(len(out)):
        low, high, product, found, every = 9.0, -9.0, 1.0, False, True
        for k in range(first[i], last[i]):
            low = min(low, x[k])
            high = max(high, x[k])
            product *= 1.0 + 0.1 * x[k]
            found = found or x[k] > 0.95
            every = every and x[k] < 0.9
        out[i] = low + 10 * high + 100 * product
        if found:
            out[i] += 1000
        if every:
            out[i] += 2000


def largest_by_comparison(first, last, x, out):
    for i in range(len(out)):
        best = -1.0
        for k in range(first[i], last[i]):
            if x[k] > best:
                best = x[k]
        out[i] = best


def through_loops(first, last, x, out):
    for i in range(len(out)):
        s = 1.0
        for d in range(3):
            row = (i + d) % len(out)
            if row != 4:
                for k in range(first[row], last[row]):
                    s += x[k]
                for k in range(first[row], last[row]):
                    s -= 0.25 * x[k]
        out[i] = s


def with_steps_between(first, last, x, out):
    for i in range(len(out)):
        s = 1.0
        for d in range(3):
            s += d
            for k in range(first[i], last[i]):
                s += x[k]
        out[i] = s


FUNCTIONS = (total, conditional, several, largest_by_comparison, through_loops, with_steps_between)


def _run(function: Any, lanes: int, arch: knobs.Arch | None, *arguments: np.ndarray) -> tuple[np.ndarray, Any]:
    knobs.current.lanes, knobs.current.arch, knobs.current.verify = lanes, arch, True
    out = np.zeros(ROWS, arguments[-1].to_numpy().dtype)
    kernel = qd.kernel(function)
    kernel(*arguments, out)
    return out, kernel


@pytest.mark.parametrize("arch", [knobs.Arch.reference, None], ids=["reference", "host"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_awkward_trips(function: Any, arch: knobs.Arch | None, lanes: int, dtype: Any) -> None:
    starts = rows(lanes)
    x = np.random.default_rng(7).random(starts[-1] + 1).astype(dtype)
    first, last = fields(starts[:-1].copy(), starts[1:].copy())
    last.from_numpy(np.where(np.arange(ROWS) == 5, starts[:-1] - 3, starts[1:]))
    (held,) = fields(x)
    expected = np.zeros(ROWS, dtype)
    function(first.to_numpy(), last.to_numpy(), x, expected)
    found, kernel = _run(function, lanes, arch, first, last, held)
    assert np.allclose(found, expected, rtol=1e-5 if dtype is np.float32 else 1e-13)
    assert "lanes within an iteration" in kernel.report()


def fields(*arrays: np.ndarray) -> list[Any]:
    made = []
    for array in arrays:
        field = qd.field(array.dtype.type, array.shape)
        field.from_numpy(array)
        made.append(field)
    return made


def extremes(first, last, x, out):
    for i in range(len(out)):
        low, high = 9.0, -9.0
        for k in range(first[i], last[i]):
            low = min(low, x[k])
            high = max(high, x[k])
        out[i] = low + 100 * high


@pytest.mark.parametrize("arch", [knobs.Arch.reference, None], ids=["reference", "host"])
@pytest.mark.parametrize("function", [extremes, largest_by_comparison], ids=lambda function: function.__name__)
def test_nan_is_no_extreme(function: Any, arch: knobs.Arch | None) -> None:
    starts = rows(8)
    x = np.random.default_rng(8).random(starts[-1] + 1)
    x[::3] = np.nan
    arguments = fields(starts[:-1].copy(), starts[1:].copy(), x)
    alone, _ = _run(function, 1, knobs.Arch.reference, *arguments)
    found, _ = _run(function, 8, arch, *arguments)
    assert np.allclose(found, alone, rtol=1e-14, equal_nan=True)


def interpolated(first, last, table, x, out):
    for i in range(len(out)):
        s = 0.0
        for k in range(first[i], last[i]):
            t = x[k] * 15.0
            cell = int(t)
            u = t - cell
            w = table[cell] * (1.0 - u) + table[cell + 1] * u
            w = w * (0.5 + w * (0.25 + w * (0.125 + w * (0.0625 + w * (0.03 + w)))))
            s += w * w + 0.5 * x[k]
        out[i] = s


@pytest.mark.parametrize("arch", [knobs.Arch.reference, None], ids=["reference", "host"])
@pytest.mark.parametrize("lanes", [4, 16])
def test_some_elements_may_be_apart(arch: knobs.Arch | None, lanes: int) -> None:
    starts = rows(lanes)
    generator = np.random.default_rng(9)
    x = generator.random(starts[-1] + 1).astype(np.float32)
    table = generator.random(17).astype(np.float32)
    arguments = fields(starts[:-1].copy(), starts[1:].copy(), table, x)
    alone, _ = _run(interpolated, 1, knobs.Arch.reference, *arguments)
    found, kernel = _run(interpolated, lanes, arch, *arguments)
    assert np.allclose(found, alone, rtol=1e-5)
    assert "lanes within an iteration" in kernel.report()


def test_machine_code_has_vectors() -> None:
    starts = rows(8)
    x = np.random.default_rng(7).random(starts[-1] + 1).astype(np.float32)
    _, kernel = _run(conditional, 0, None, *fields(starts[:-1].copy(), starts[1:].copy(), x))
    assert "lanes within an iteration" in kernel.report()
    ir = kernel.ir()
    assert "load %x" not in ir.replace("lane_load %x", "")


def test_the_user_decides() -> None:
    starts = rows(8)
    x = np.random.default_rng(7).random(starts[-1] + 1).astype(np.float32)
    _, kernel = _run(total, 1, None, *fields(starts[:-1].copy(), starts[1:].copy(), x))
    assert "lanes within" not in kernel.report()


def polynomial(first, last, x, out):
    for i in range(len(out)):
        s = 0.0
        for k in range(first[i], last[i]):
            y = x[k]
            s += y * (1.0 + y * (0.5 + y * (0.25 + y * (0.125 + y * (0.0625 + y * (0.03 + y))))))
        out[i] = s


@pytest.mark.parametrize("arch", [knobs.Arch.reference, None], ids=["reference", "host"])
@pytest.mark.parametrize("function", [total, polynomial], ids=lambda function: function.__name__)
def test_ranges_that_begin_below_zero(function: Any, arch: knobs.Arch | None) -> None:
    """Indices of NumPy arrays may count from the end; ranges across zero reach both ends."""
    x = np.random.default_rng(3).random(50)
    first = np.arange(ROWS) * 2 - 24
    last = first + np.arange(ROWS)[::-1]
    expected = np.zeros(ROWS)
    function(first, last, x, expected)
    knobs.current.lanes, knobs.current.arch, knobs.current.verify = 4, arch, True
    found = np.zeros(ROWS)
    kernel = qd.kernel(function)
    kernel(first, last, x, found)
    assert np.allclose(found, expected, rtol=1e-13)
    assert "lanes within an iteration" in kernel.report()


def test_blocks_of_long_sums_are_left_to_the_code_generator() -> None:
    """Their vectors need no masks and are several."""
    qd.init(arch=qd.cpu)

    @qd.kernel
    def total(x: qd.types.ndarray(dtype=qd.f32)) -> qd.f32:
        found = qd.f32(0)
        for i in range(x.shape[0]):
            found += x[i]
        return found

    x = np.random.default_rng(0).random(100_000, np.float32)
    assert abs(total(x) / x.sum(dtype=np.float64) - 1) < 1e-6
    assert "added up in blocks" in total.report() and "lanes within" not in total.report()
