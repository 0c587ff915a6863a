"""Every operation on every dtype through kernels of every target, against the oracle's meaning of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quadrants as qd
from quadrants.evidence import numerics, operations, samples
from quadrants.ir import rules
from quadrants.ir.ops import OPS
from quadrants.ir.types import ScalarType, bf16, f32, f64, scalar_types, u1

pytestmark = pytest.mark.slow

COUNT = 256
SEEDS = st.integers(0, 2**32 - 1)
ARCHS = ("reference", "x64")
NUMPY_TYPES = tuple(scalar for scalar in scalar_types if scalar is not bf16)
INTERNAL = {"ctz", "select", "fma", "cast", "bitcast", "lookup"}
# Written for integers these give floats: the float rows cover them.
FLOAT_ONLY = {name for name, row in OPS.items() if row.rule is rules.floating}
BIT_ONLY = {"bit_and", "bit_or", "bit_xor", "bit_not", "shl", "shr", "ushr", "popcount", "clz", "truncdiv", "truncmod"}
SLOPPY_ZEROS = {"min", "max"}
ULPS = {"f16": 1, "bf16": 1, "f32": 2, "f64": 4}
EXACT = {"add", "sub", "mul", "div", "floordiv", "mod", "sqrt", "min", "max", "neg", "abs", "sign", "copysign"}
EXACT |= {"floor", "ceil", "trunc", "round"}


@pytest.fixture(scope="module", params=ARCHS)
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    """A target, initialised once for all operations."""
    qd.init(arch=getattr(qd, request.param), default_ip=qd.i64, default_fp=qd.f64)
    kernel_of.cache_clear()
    yield request.param
    qd.reset()


@cache
def kernel_of(function: Any) -> Any:
    return qd.kernel(function)


def has_meaning(name: str, scalar: ScalarType) -> bool:
    """Whether the operation is defined on the dtype, as users write it."""
    if scalar is u1:
        return name in ("bit_and", "bit_or", "bit_xor", "bit_not", *numerics.COMPARISONS)
    if scalar.kind == "f":
        return name not in BIT_ONLY
    return name not in FLOAT_ONLY and name not in ("is_nan", "is_inf")


def operands(name: str, scalar: ScalarType, seed: int) -> tuple[np.ndarray, ...]:
    """Samples that the operation has a meaning for."""
    random = np.random.default_rng(seed)
    a, b = samples.pairs(scalar, random, COUNT)
    if name == "pow" and scalar.kind != "f":
        b = random.integers(0, 70, COUNT).astype(scalar.numpy)
    if name in ("shl", "shr", "ushr"):
        b = random.integers(-2 if scalar.kind == "i" else 0, 2 * scalar.bits, COUNT).astype(scalar.numpy)
    return (a, b) if name in operations.BINARY else (a,)


def result_type(name: str, scalar: ScalarType) -> ScalarType:
    """The dtype of the array that takes the results."""
    return u1 if name in numerics.COMPARISONS or name in ("is_nan", "is_inf") else scalar


def meaning(name: str, scalar: ScalarType, values: tuple[np.ndarray, ...]) -> np.ndarray:
    """The results by the oracle's numbers."""
    if name in numerics.COMPARISONS:
        return numerics.compare(name, *values)
    if name in ("is_nan", "is_inf"):
        return np.isnan(values[0]) if name == "is_nan" else np.isinf(values[0])
    if name == "bit_not" and scalar is u1:
        return ~values[0]
    return numerics.binary(name, scalar, *values) if len(values) == 2 else numerics.unary(name, scalar, *values)


def disagreement(name: str, scalar: ScalarType, found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    if scalar.kind == "f" and expected.dtype.kind == "f" and name not in EXACT:
        return ~(samples.ulps(scalar, found, expected) <= ULPS[scalar.name])
    return ~samples.same_bits(found, expected, signed_zeros=name not in SLOPPY_ZEROS)


KERNELS = {**operations.BINARY, **operations.UNARY}
CASES = [(name, scalar) for name in KERNELS for scalar in NUMPY_TYPES if has_meaning(name, scalar)]


def test_every_elementwise_row_has_a_kernel() -> None:
    assert {name for name, row in OPS.items() if row.elementwise} - INTERNAL == set(KERNELS)


@pytest.mark.parametrize(("name", "scalar"), CASES, ids=str)
@settings(max_examples=5, deadline=None)
@given(seed=SEEDS)
def test_operation(arch: str, name: str, scalar: ScalarType, seed: int) -> None:
    values = operands(name, scalar, seed)
    found = np.zeros(COUNT, result_type(name, scalar).numpy)
    kernel_of(KERNELS[name])(*values, found)
    with numerics.quiet():
        expected = np.asarray(meaning(name, scalar, values))
        wrong = disagreement(name, scalar, found, expected)
    assert not wrong.any(), ([v[wrong][0] for v in values], found[wrong][0], expected[wrong][0])


@pytest.mark.parametrize("target", NUMPY_TYPES, ids=str)
@pytest.mark.parametrize("source", NUMPY_TYPES, ids=str)
@settings(max_examples=3, deadline=None)
@given(seed=SEEDS)
def test_conversion_by_store(arch: str, source: ScalarType, target: ScalarType, seed: int) -> None:
    values = samples.numbers(source, np.random.default_rng(seed), COUNT)
    found = np.zeros(COUNT, target.numpy)
    kernel_of(operations.cast_to)(values, found)
    with numerics.quiet():
        expected = np.asarray(numerics.convert(values, source, target))
    wrong = ~samples.same_bits(found, expected)
    assert not wrong.any(), (values[wrong][0], found[wrong][0], expected[wrong][0])


@pytest.mark.parametrize("name", ["add", "mul", "div", "sqrt", "min", "lt", "exp"])
@settings(max_examples=3, deadline=None)
@given(seed=SEEDS)
def test_bfloat_through_fields(arch: str, name: str, seed: int) -> None:
    values = operands(name, bf16, seed)
    held = [qd.ndarray(qd.bf16, COUNT) for _ in values]
    for array, value in zip(held, values, strict=True):
        array.from_numpy(value)
    out = qd.ndarray(qd.u1 if name == "lt" else qd.bf16, COUNT)
    kernel_of(KERNELS[name])(*held, out)
    with numerics.quiet():
        expected = np.asarray(meaning(name, bf16, values))
        wrong = disagreement(name, bf16, np.asarray(out.to_numpy()), expected)
    assert not wrong.any(), ([v[wrong][0] for v in values], out.to_numpy()[wrong][0], expected[wrong][0])


@pytest.mark.parametrize("scalar", [f32, f64], ids=str)
def test_nothing_of_floats_is_assumed_away(arch: str, scalar: ScalarType) -> None:
    """Identities that hold for real numbers but not for floats are not used."""
    values = samples.corners(scalar)
    results = np.zeros((6, len(values)), scalar.numpy)
    qd.kernel(_tempting)(values, results)
    with numerics.quiet():
        one = scalar.numpy.type(1)
        expected = [values - values, values * 0 * one, values + 0 * one, values / values, 0 * one - values, -(-values)]
    for row, reference in zip(results, expected, strict=True):
        assert samples.same_bits(row, reference).all()


def _tempting(x, out):
    for i in range(len(x)):
        out[0, i] = x[i] - x[i]
        out[1, i] = x[i] * 0.0
        out[2, i] = x[i] + 0.0
        out[3, i] = x[i] / x[i]
        out[4, i] = 0.0 - x[i]
        out[5, i] = -(-x[i])
