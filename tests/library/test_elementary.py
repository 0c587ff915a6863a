"""Elementary functions on x86-64: errors against the host's 80-bit functions, special values, vector code.

`benchmarks/math/errors.py` measures f32 functions on all their arguments, and f64 ones against mpmath.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.ir.types import f32, f64
from quadrants.knobs import Arch
from quadrants.library import elementary_alone, elementary_f32, elementary_f64, elementary_text
from quadrants.passes.elementary import EXPANDED
from quadrants.passes.expand_functions import path_of
from quadrants.records import replace
from quadrants.targets import table

ONE = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "exp", "exp2", "expm1"),
    *("log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"),
)
TWO = {"atan2": np.arctan2, "hypot": np.hypot, "pow": np.power}
pytestmark = pytest.mark.slow

TYPES = (np.float32, np.float64)
ULPS = {np.float32: 2.0, np.float64: 3.0}
on_host = pytest.mark.skipif(bool(table.missing(knobs.host_arch())), reason="no code for this machine")
wide_enough = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no 80-bit numbers on this machine")


def in_python(name: str) -> Callable[..., Any]:
    """NumPy's function, which kernels take, too."""
    if name in TWO:
        return TWO[name]
    return math.erf if name == "erf" else getattr(np, re.sub("^a(?=(sin|cos|tan))", "arc", name))


@lru_cache(maxsize=None)
def kernel_of(name: str) -> Any:
    function = in_python(name)
    if name in TWO:

        @qd.kernel
        def two(a, b, out):
            for i in range(len(out)):
                out[i] = function(a[i], b[i])

        return two

    @qd.kernel
    def one(a, out):
        for i in range(len(out)):
            out[i] = function(a[i])

    return one


def computed(name: str, *columns: np.ndarray) -> np.ndarray:
    qd.init(arch=qd.cpu)
    out = np.empty_like(columns[0])
    kernel_of(name)(*columns, out)
    return out


def expected(name: str, *columns: np.ndarray) -> np.ndarray:
    """In 80 bits; erf in 64, whose error is added to what is allowed."""
    with np.errstate(all="ignore"):
        if name == "erf":
            return np.vectorize(math.erf, otypes=[np.float64])(columns[0]).astype(np.longdouble)
        return in_python(name)(*[column.astype(np.longdouble) for column in columns])


def errors(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """In units of the last place of the exact result, as a number of `found`'s type; infinite where NaN, infinities or
    signs of zeros differ."""
    with np.errstate(all="ignore"):
        near = exact.astype(found.dtype)
        distance = np.abs(found.astype(np.longdouble) - exact)
        unit = np.spacing(np.where(np.isfinite(near), np.abs(near), np.finfo(near.dtype).max))
        apart = (distance / unit).astype(np.float64)
    special = ~np.isfinite(near) | ~np.isfinite(found) | (near == 0)
    same = (found == near) | (np.isnan(found) & np.isnan(near))
    apart[special & same] = 0.0
    # One above the largest number is infinity: rounding may lead to either.
    border = np.isinf(found) & np.isfinite(near) & (np.abs(near) == np.finfo(near.dtype).max)
    apart[border] = 1.0
    apart[special & ~same & ~border & ~(np.isfinite(found) & (near == 0))] = np.inf
    apart[(np.signbit(found) != np.signbit(near)) & ~np.isnan(near)] = np.inf
    return apart


def samples(dtype: Any, seed: int, count: int = 4000) -> np.ndarray:
    """All bit patterns alike, numbers near 0 and 1, usual ones, multiples of pi / 2, and the edges."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 8 * np.dtype(dtype).itemsize, count, np.uint64, endpoint=False)
    turns = np.rint(rng.uniform(-1, 1, count) * 2.0 ** rng.uniform(0, 40, count)) * (math.pi / 2)
    parts = [
        bits.astype(f"uint{8 * np.dtype(dtype).itemsize}").view(dtype),
        1 + rng.uniform(-1, 1, count) * 2.0 ** rng.uniform(-40, 0, count),
        rng.uniform(-1, 1, count) * 2.0 ** rng.uniform(-60, 12, count),
        rng.uniform(-12, 12, count),
        turns,
        edges(dtype),
    ]
    with np.errstate(all="ignore"):
        return np.concatenate([part.astype(dtype) for part in parts])


def edges(dtype: Any) -> np.ndarray:
    facts = np.finfo(dtype)
    sizes = [
        *(0.0, facts.smallest_subnormal, facts.tiny, 1e-20, facts.eps, 0.5, 1 - facts.epsneg, 1.0, 1 + facts.eps),
        *(2.0, 3.0, math.pi, 88.72284, 104.0, 709.7827128933840, 745.2, 2.0**17, 2.0**30, 1e22, facts.max, np.inf),
    ]
    return np.array([*sizes, *[-size for size in sizes], np.nan], dtype)


@pytest.mark.parametrize("name", sorted(EXPANDED))
@pytest.mark.parametrize("scalar", (f32, f64), ids=str)
def test_texts_are_up_to_date(name: str, scalar: Any) -> None:
    module = elementary_f32 if scalar is f32 else elementary_f64
    assert path_of(name, scalar).read_text() == elementary_text.text_of(name, scalar, module.FUNCTIONS[name])


@pytest.mark.parametrize("name", sorted(elementary_alone.FUNCTIONS))
def test_texts_for_targets_without_f64_are_up_to_date(name: str) -> None:
    text = path_of(name, f32, alone=True).read_text()
    assert text == elementary_text.text_of(name, f32, elementary_alone.FUNCTIONS[name])
    assert "f64" not in text.replace(f"{name}_f64", "")


@on_host
@wide_enough
@pytest.mark.parametrize("name", sorted({*elementary_alone.FUNCTIONS, *elementary_alone.FAR}))
def test_errors_without_f64(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = table.find(None)
    less = replace(target.record(), dtypes=target.record().dtypes - {"f64"})
    monkeypatch.setattr(target, "record", lambda machine=None: less)
    kernel_of.cache_clear()
    columns = [samples(np.float32, 7)]
    if name in TWO:
        columns.append(np.random.default_rng(8).permutation(columns[0]))
    worst = errors(computed(name, *columns), expected(name, *columns))
    kernel_of.cache_clear()
    assert worst.max() <= ULPS[np.float32], [column[worst.argmax()] for column in columns]


def test_no_text_is_left_over() -> None:
    found = {path for path, _ in elementary_text.texts()}
    assert found == set(path_of("sin", f32).parent.iterdir())


@on_host
@wide_enough
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ONE)
def test_errors(name: str, dtype: Any) -> None:
    values = samples(dtype, 1)
    apart = errors(computed(name, values), expected(name, values))
    assert apart.max() <= ULPS[dtype], f"{name} of {values[apart.argmax()]!r}"


@on_host
@wide_enough
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", TWO)
def test_errors_of_pairs(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    a = np.concatenate([samples(dtype, 3), *[np.repeat(edges(dtype), edges(dtype).size)]])
    b = np.concatenate([rng.permutation(samples(dtype, 4)), np.tile(edges(dtype), edges(dtype).size)])
    if name == "pow":  # near overflow and underflow, and whole numbers
        base = np.exp2(rng.uniform(-100, 100, 4000)).astype(dtype)
        limit = 128 if dtype is np.float32 else 1024
        reach = (rng.uniform(-1.06, 1, 4000) * limit / np.log2(base)).astype(dtype)
        whole = np.rint(rng.uniform(-9, 9, 4000)).astype(dtype)
        a, b = np.concatenate([a, base, -base]), np.concatenate([b, reach, whole])
    apart = errors(computed(name, a, b), expected(name, a, b))
    at = apart.argmax()
    assert apart[at] <= ULPS[dtype], f"{name} of {a[at]!r}, {b[at]!r}"


@on_host
@pytest.mark.parametrize("name", (*ONE, *TWO))
@pytest.mark.parametrize("dtype", TYPES)
def test_loops_are_vector_code_without_calls(name: str, dtype: Any) -> None:
    values = np.full(64, 0.5, dtype)
    computed(name, *[values] * (2 if name in TWO else 1))
    kernel = kernel_of(name)
    assert kernel._last.artifact.externals in ((), ("qd_parallel_for",))
    packed = "p[sd]" if dtype is np.float32 else "pd"  # some f32 functions compute in f64
    assert re.search(rf"\bv?f?n?m(add|sub|ul)\w*{packed}\s", kernel.assembly()), "no packed multiplication"


@on_host
def test_half_precision_goes_through_f32() -> None:
    qd.init(arch=qd.cpu)
    values = np.linspace(-8, 8, 999).astype(np.float16)
    found = computed("sin", values)
    assert np.abs(found.astype(float) - np.sin(values.astype(float))).max() <= 2.0**-11


def test_fma_and_lookup(arch: Arch) -> None:
    qd.init(arch=arch)
    table = (3, 2**64 - 1, 5)

    @qd.kernel
    def run(x, y, entries):
        for i in range(len(x)):
            y[i] = qd.fma(x[i], x[i], -1.0)
            entries[i] = qd.lookup(table, i % 3, qd.u64)

    x, y, entries = np.linspace(0, 2, 20), np.zeros(20), np.zeros(20, np.uint64)
    run(x, y, entries)
    np.testing.assert_allclose(y, x * x - 1, atol=1e-15)
    assert entries.tolist() == [table[i % 3] for i in range(20)]
    assert qd.lookup(table, 1, qd.u64) == 2**64 - 1
    assert qd.fma(2.0, 3.0, 1.0) == 7.0


@on_host
def test_many_functions_are_called_out_of_line() -> None:
    qd.init(arch=qd.cpu)

    @qd.kernel
    def many(a, b, out):
        for i in range(len(out)):
            x = a[i]
            for k in qd.static(range(30)):
                x = np.sin(0.5 * x + k) + np.arctan2(x, b[i] + k)
            out[i] = x

    a, b = np.linspace(-2, 2, 133).astype(np.float32), np.linspace(1, 3, 133).astype(np.float32)
    out = np.empty_like(a)
    many(a, b, out)
    x = a
    for k in range(30):
        x = np.sin(np.float32(0.5) * x + np.float32(k)) + np.arctan2(x, b + np.float32(k))
    np.testing.assert_allclose(out, x, rtol=1e-4, atol=1e-5)
    assert any("sin_f32" in name for name, _ in many._last.artifact.objects)
