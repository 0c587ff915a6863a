"""The executable meaning of every row of the op table, against the meaning written a second time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrants.evidence import numerics, samples
from quadrants.ir import evaluate
from quadrants.ir.ops import OPS
from quadrants.ir.types import ScalarType, bf16, f32, f64, i32, scalar_types

from .examples import EXAMPLES

pytestmark = pytest.mark.slow

COUNT = 256
SEEDS = st.integers(0, 2**32 - 1)
FLOATS = tuple(scalar for scalar in scalar_types if scalar.kind == "f")
INTEGERS = tuple(scalar for scalar in scalar_types if scalar.kind != "f" and scalar.bits > 1)
BINARY = {name for name in numerics.BINARY if name in OPS}
UNARY = {name for name in numerics.UNARY if name in OPS}
COMPARISONS = set(numerics.COMPARISONS)
APART = {"cast", "bitcast", "lookup", "select", "fma", "is_nan", "is_inf"}
SLOPPY_ZEROS = {"min", "max"}


def accepted(name: str, scalar: ScalarType) -> bool:
    """Whether the row takes operands of that type."""
    try:
        OPS[name].rule((scalar,) * OPS[name].arity, {})
    except TypeError:
        return False
    return True


CASES = [
    (name, scalar) for name in sorted(BINARY | UNARY | COMPARISONS) for scalar in scalar_types if accepted(name, scalar)
]


def operands(name: str, scalar: ScalarType, seed: int) -> tuple[np.ndarray, ...]:
    """Samples that the operation has a meaning for."""
    random = np.random.default_rng(seed)
    a, b = samples.pairs(scalar, random, COUNT)
    if name == "pow" and scalar.kind != "f":
        b = random.integers(0, 70, COUNT).astype(numerics.held(scalar))
    if name in ("shl", "shr", "ushr"):
        near = random.integers(-2 if scalar.kind == "i" else 0, 2 * scalar.bits, COUNT)
        b = near.astype(numerics.held(scalar))
    return (a, b)[: OPS[name].arity]


def agree(name: str, scalar: ScalarType, found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where the results agree: to the bit, or within the error that an elementary function may have."""
    if scalar.kind == "f" and expected.dtype.kind == "f" and OPS[name].cost > 5 and name not in ("mod", "floordiv"):
        return samples.ulps(scalar, found, expected) <= 2
    return samples.same_bits(found, expected, signed_zeros=name not in SLOPPY_ZEROS)


def test_every_elementwise_row_is_covered() -> None:
    rows = {name for name, row in OPS.items() if row.elementwise}
    assert rows == BINARY | UNARY | COMPARISONS | APART


@pytest.mark.parametrize(("name", "scalar"), CASES, ids=str)
@settings(EXAMPLES, max_examples=4)
@given(seed=SEEDS)
def test_row(name: str, scalar: ScalarType, seed: int) -> None:
    values = operands(name, scalar, seed)
    with numerics.quiet():
        found = evaluate.finish(
            scalar if name not in COMPARISONS else scalar_types[0], OPS[name].evaluate(scalar, *values)
        )
        if name in COMPARISONS:
            expected = numerics.compare(name, *values)
        elif name in BINARY:
            expected = numerics.binary(name, scalar, *values)
        else:
            expected = numerics.unary(name, scalar, *values)
        wrong = ~agree(name, scalar, np.asarray(found), np.asarray(expected))
    assert not wrong.any(), [(v[wrong][0] for v in values), np.asarray(found)[wrong][0], np.asarray(expected)[wrong][0]]


@pytest.mark.parametrize("target", scalar_types, ids=str)
@pytest.mark.parametrize("source", scalar_types, ids=str)
@settings(EXAMPLES, max_examples=4)
@given(seed=SEEDS)
def test_cast(source: ScalarType, target: ScalarType, seed: int) -> None:
    values = samples.numbers(source, np.random.default_rng(seed), COUNT)
    with numerics.quiet():
        found = evaluate.finish(target, OPS["cast"].evaluate(target, values, type=target))
        expected = numerics.convert(values, source, target)
    if target is bf16:  # targets round wide numbers to f32 on the way
        wrong = samples.ulps(target, found, expected) > 1
    else:
        wrong = ~samples.same_bits(found, expected)
    assert not wrong.any(), (values[wrong][0], np.asarray(found)[wrong][0], np.asarray(expected)[wrong][0])


@settings(EXAMPLES, max_examples=20)
@given(seed=SEEDS)
def test_bitcast_there_and_back(seed: int) -> None:
    values = samples.numbers(f32, np.random.default_rng(seed), COUNT)
    bits = OPS["bitcast"].evaluate(i32, values, type=i32)
    assert samples.same_bits(OPS["bitcast"].evaluate(f32, bits, type=f32), values).all()
    assert (bits == numerics.bit_cast(values, f32, i32)).all()


@pytest.mark.parametrize("scalar", FLOATS, ids=str)
def test_tests_of_special_values(scalar: ScalarType) -> None:
    values = samples.corners(scalar)
    assert (OPS["is_nan"].evaluate(scalar, values) == (values != values)).all()
    assert (OPS["is_inf"].evaluate(scalar, values) == (abs(values) == np.inf)).all()


def test_fma_and_select() -> None:
    a, b, c = np.float64([2.0, -1.0]), np.float64([3.0, 4.0]), np.float64([1.0, 0.5])
    assert OPS["fma"].evaluate(f64, a, b, c).tolist() == [7.0, -3.5]
    assert OPS["select"].evaluate(f64, np.array([True, False]), a, b).tolist() == [2.0, 4.0]
