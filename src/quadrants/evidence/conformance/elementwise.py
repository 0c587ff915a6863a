"""Every operation on every dtype through a kernel, against the oracle's meaning of it: cases for tests and evidence.

The target and the options are those of `qd.init`, which the caller has called with default widths i64 and f64.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

import quadrants as qd
from quadrants import knobs
from quadrants.evidence import numerics, operations, samples
from quadrants.ir import rules
from quadrants.ir.ops import OPS
from quadrants.ir.types import ScalarType, bf16, f32, f64, scalar_types, u1

__all__ = [
    "FLOATS",
    "INTERNAL",
    "KERNELS",
    "OPERATIONS",
    "check_conversion",
    "check_identities",
    "check_operation",
    "has_meaning",
]

COUNT = 256
KERNELS = {**operations.BINARY, **operations.UNARY}
INTERNAL = frozenset({"ctz", "select", "fma", "cast", "bitcast", "lookup"})
"""Rows that users have no operator or function of one loop for; `cast` has its own cases."""
FLOATS = (f32, f64)

# Written for integers these give floats: the float rows cover them.
_FLOAT_ONLY = {name for name, row in OPS.items() if row.rule is rules.floating}
_BIT_ONLY = {"bit_and", "bit_or", "bit_xor", "bit_not", "shl", "shr", "ushr", "popcount", "clz", "truncdiv", "truncmod"}
_SLOPPY_ZEROS = {"min", "max"}
# NumPy's, that the oracle computes with, are off by up to 4 in f32, too (logarithms on AVX-512); ours are never more than 2.
_ULPS = {"f16": 1, "bf16": 1, "f32": 4, "f64": 4}
_EXACT = {"add", "sub", "mul", "div", "floordiv", "mod", "sqrt", "min", "max", "neg", "abs", "sign", "copysign"}
_EXACT |= {"floor", "ceil", "trunc", "round"}


def has_meaning(name: str, scalar: ScalarType) -> bool:
    """Whether the operation is defined on the dtype, as users write it."""
    if scalar is u1:
        return name in ("bit_and", "bit_or", "bit_xor", "bit_not", *numerics.COMPARISONS)
    if scalar.kind == "f":
        return name not in _BIT_ONLY
    return name not in _FLOAT_ONLY and name not in ("is_nan", "is_inf")


OPERATIONS = [(name, scalar) for name in KERNELS for scalar in scalar_types if has_meaning(name, scalar)]


def check_operation(name: str, scalar: ScalarType, seed: int) -> None:
    """AssertionError with the operands where a kernel gives something else than the oracle's numbers."""
    values = _operands(name, scalar, seed)
    results = u1 if name in numerics.COMPARISONS or name in ("is_nan", "is_inf") else scalar
    found = _run(KERNELS[name], [(value, scalar) for value in values], results)
    with numerics.quiet():
        expected = np.asarray(_meaning(name, scalar, values))
        if scalar.kind == "f" and expected.dtype.kind == "f" and name not in _EXACT:
            wrong = ~(samples.ulps(scalar, found, expected) <= _ULPS[scalar.name])
        else:
            wrong = ~samples.same_bits(found, expected, signed_zeros=name not in _SLOPPY_ZEROS)
    _tell(wrong, values, found, expected)


def check_conversion(source: ScalarType, target: ScalarType, seed: int) -> None:
    """The same for elements of one dtype that are stored to an array of another. bf16 is within one unit: wide numbers
    may be f32 on the way."""
    values = samples.numbers(source, np.random.default_rng(seed), COUNT)
    found = _run(operations.cast_to, [(values, source)], target)
    with numerics.quiet():
        expected = np.asarray(numerics.convert(values, source, target))
        if target is bf16:
            wrong = ~(samples.ulps(target, found, expected) <= 1)
        else:
            wrong = ~samples.same_bits(found, expected)
    _tell(wrong, [values], found, expected)


def check_identities(scalar: ScalarType) -> None:
    """Identities that hold for real numbers but not for floats are not used."""
    values = samples.corners(scalar)
    found = np.zeros((6, len(values)), scalar.numpy)
    qd.kernel(_tempting)(values, found)
    with numerics.quiet():
        one = numerics.held(scalar).type(1)
        expected = [values - values, values * 0 * one, values + 0 * one, values / values, 0 * one - values, values]
        for row, reference in zip(found, expected, strict=True):
            _tell(~samples.same_bits(row, reference), [values], row, np.asarray(reference))


def _tempting(x, out):
    for i in range(len(x)):
        out[0, i] = x[i] - x[i]
        out[1, i] = x[i] * 0.0
        out[2, i] = x[i] + 0.0
        out[3, i] = x[i] / x[i]
        out[4, i] = 0.0 - x[i]
        out[5, i] = -(-x[i])  # noqa: B002 - what it looks like is what is tested


def _operands(name: str, scalar: ScalarType, seed: int) -> tuple[np.ndarray, ...]:
    """Samples that the operation has a meaning for."""
    random = np.random.default_rng(seed)
    a, b = samples.pairs(scalar, random, COUNT)
    if name == "pow" and scalar.kind != "f":
        b = random.integers(0, 70, COUNT).astype(scalar.numpy)
    if name in ("shl", "shr", "ushr"):
        b = random.integers(-2 if scalar.kind == "i" else 0, 2 * scalar.bits, COUNT).astype(scalar.numpy)
    return (a, b) if name in operations.BINARY else (a,)


def _meaning(name: str, scalar: ScalarType, values: tuple[np.ndarray, ...]) -> Any:
    """The results by the oracle's numbers."""
    if name in numerics.COMPARISONS:
        return numerics.compare(name, *values)
    if name in ("is_nan", "is_inf"):
        return np.isnan(values[0]) if name == "is_nan" else np.isinf(values[0])
    if name == "bit_not" and scalar is u1:
        return ~values[0]
    return numerics.binary(name, scalar, *values) if len(values) == 2 else numerics.unary(name, scalar, *values)


@cache
def _kernel(function: Any, epoch: int) -> Any:
    """One kernel for all samples of the options in force."""
    return qd.kernel(function)


def _run(function: Any, values: Sequence[tuple[np.ndarray, ScalarType]], results: ScalarType) -> np.ndarray:
    """What the loop writes. NumPy has no bf16: where it is met, all arrays are ours."""
    kernel = _kernel(function, knobs.current.epoch)
    if bf16 not in (results, *(scalar for _, scalar in values)):
        found = np.zeros(COUNT, results.numpy)
        kernel(*(value for value, _ in values), found)
        return found
    held = [qd.ndarray(getattr(qd, scalar.name), COUNT) for _, scalar in values]
    for array, (value, _) in zip(held, values, strict=True):
        array.from_numpy(value)
    out = qd.ndarray(getattr(qd, results.name), COUNT)
    kernel(*held, out)
    return np.asarray(out.to_numpy())


def _tell(wrong: np.ndarray, values: Sequence[np.ndarray], found: np.ndarray, expected: np.ndarray) -> None:
    if wrong.any():
        operands = ", ".join(repr(value[wrong][0]) for value in values)
        count = int(wrong.sum())
        raise AssertionError(
            f"of {operands}: {found[wrong][0]!r}, expected {expected[wrong][0]!r}; {count} of {len(wrong)}"
        )
