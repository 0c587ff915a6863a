"""Every row of the op table on every type that it takes, as machine code, against the row's own meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quadrants.ir import evaluate as ev
from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module
from quadrants.ir.ops import OPS
from quadrants.ir.types import ScalarType, array_type, i64, scalar_types, u1

pytestmark = pytest.mark.slow

FLOAT_EDGES = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 0.3, 3.0, 7.0, -7.0, 10.0, 1e-3, 100.25, 1e5, -1e5),
    *(np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38, 2.0**31, -(2.0**31), 2.0**63, 1e300, 16777217.0, 4194303.7),
]
LOOSE = {"f64": 1e-14, "f32": 5e-7, "f16": 2e-3, "bf16": 1.6e-2}
# Rows whose results compare exactly, bit for bit but for the payload of NaN.
EXACT_ROWS = frozenset(
    {
        *("add", "sub", "mul", "div", "floordiv", "mod", "neg", "abs", "sign", "min", "max", "sqrt", "floor", "ceil"),
        *("trunc", "round", "copysign", "select", "cast", "bitcast"),
    }
)


def samples(scalar: ScalarType) -> np.ndarray:
    rng = np.random.default_rng(7)
    if scalar is u1:
        return np.array([False, True])
    with np.errstate(all="ignore"):
        if scalar.is_float:
            edges = np.array(FLOAT_EDGES + list(rng.normal(0, 10, 12)), np.float64)
            return ev.finish(scalar, edges)
    low, high = scalar.minimum, scalar.maximum
    edges = [low, low + 1, high, high - 1, 0, 1, 2, 3, 5, 7, 8, 31, 32, 63, 64, 100]
    if scalar.is_signed:
        edges += [-1, -2, -3, -7, -8, -64]
    edges += [int(x) for x in rng.integers(low, high, 10, dtype=np.int64 if scalar.kind == "i" else np.uint64)]
    return np.array([ev.wrap(scalar, x) for x in edges], scalar.numpy)


def accepted(kind: str, types: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    try:
        return OPS[kind].rule(types, attributes)[0]
    except TypeError:
        return None


def elementwise_module(kind: str, operands: tuple[ScalarType, ...], result: ScalarType, **attributes: Any) -> Module:
    module = Module("rows", "lowered")
    types = tuple(array_type(scalar, 1) for scalar in (result, *operands))
    kernel = module.add(Function("rows", types, (), "kernel"))
    out, *arrays = kernel.parameters
    builder = Builder(kernel.body)
    zero, count = builder.index(0), builder.emit("dim", out, axis=0)
    region = Block((i64,))
    inner = Builder(region)
    values = [inner.emit("load", array, region.arguments[0]) for array in arrays]
    inner.op("store", inner.emit(kind, *values, **attributes), out, region.arguments[0])
    inner.op("yield")
    builder.op("for", zero, count, regions=(region,), rank=1, parallel=True)
    builder.op("return")
    return module


def to_memory(values: np.ndarray, scalar: ScalarType) -> np.ndarray:
    if scalar.name == "bf16":
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(values)


def from_memory(values: np.ndarray, scalar: ScalarType) -> np.ndarray:
    return (values.astype(np.uint32) << 16).view(np.float32) if scalar.name == "bf16" else values


def check_row(
    compile_built: Callable, kind: str, operands: tuple, result: ScalarType, columns: list, **attributes: Any
):
    with np.errstate(all="ignore"):
        inputs = [column.astype(np.longdouble) for column in columns] if kind == "fma" else columns
        expected = ev.finish(result, OPS[kind].evaluate(result, *inputs, **attributes))
    memory = [to_memory(column, scalar) for column, scalar in zip(columns, operands)]
    out = np.zeros(len(columns[0]), memory_dtype(result))
    compile_built(elementwise_module(kind, operands, result, **attributes))(out, *memory)
    compare(kind, result, from_memory(out, result), expected, columns)


def memory_dtype(scalar: ScalarType) -> Any:
    return np.dtype(np.uint16) if scalar.name == "bf16" else scalar.numpy


def compare(kind: str, result: ScalarType, got: np.ndarray, expected: np.ndarray, columns: list) -> None:
    same = (got == expected) | ((got != got) & (expected != expected))
    if result.is_float:
        if kind not in ("min", "max", "mod", "fma"):
            zero = (got == 0) & (expected == 0)
            same &= ~zero | (np.signbit(got) == np.signbit(expected))
        if kind not in EXACT_ROWS:
            with np.errstate(all="ignore"):
                near = np.abs(got.astype(np.float64) - expected.astype(np.float64))
                same |= near <= LOOSE[result.name] * size_of(kind, expected, columns) + smallest(result)
    if not same.all():
        at = int(np.argmin(same))
        raise AssertionError(f"{kind} of {[column[at] for column in columns]}: {got[at]!r}, not {expected[at]!r}")


def size_of(kind: str, expected: np.ndarray, columns: list) -> np.ndarray:
    """What an error is measured against: fma is rounded once here and twice there."""
    if kind == "fma":
        a, b, c = [np.abs(column.astype(np.float64)) for column in columns]
        return a * b + c
    return np.abs(expected.astype(np.float64))


def smallest(result: ScalarType) -> float:
    return {"f64": 0.0, "f32": 2e-38, "f16": 1e-7, "bf16": 2e-38}[result.name]


def columns_of(types: tuple[ScalarType, ...]) -> list[np.ndarray]:
    grids = np.meshgrid(*[np.arange(len(samples(scalar))) for scalar in types], indexing="ij")
    return [samples(scalar)[grid.reshape(-1)] for scalar, grid in zip(types, grids)]


CASES = [
    (kind, scalar)
    for kind, row in OPS.items()
    if row.elementwise and kind not in ("cast", "bitcast", "lookup", "select")
    for scalar in scalar_types
    if accepted(kind, (scalar,) * row.arity, {}) is not None
]


@pytest.mark.parametrize("kind, scalar", CASES, ids=[f"{kind}-{scalar}" for kind, scalar in CASES])
def test_row(compile_built, kind: str, scalar: ScalarType) -> None:
    types = (scalar,) * OPS[kind].arity
    columns = columns_of(types)
    if kind == "fma":
        columns = [column[::5] for column in columns]
    check_row(compile_built, kind, types, accepted(kind, types, {}), columns)


@pytest.mark.parametrize("source", scalar_types, ids=str)
def test_casts(compile_built, source: ScalarType) -> None:
    for result in scalar_types:
        check_row(compile_built, "cast", (source,), result, [samples(source)], type=result)


@pytest.mark.parametrize("source", scalar_types, ids=str)
def test_bitcasts(compile_built, source: ScalarType) -> None:
    for result in scalar_types:
        if result.bits != source.bits or "bf16" in (result.name, source.name):
            continue
        values = samples(source)
        expected = values.view(result.numpy)
        out = np.zeros(len(values), result.numpy)
        compile_built(elementwise_module("bitcast", (source,), result, type=result))(out, values)
        assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("scalar", scalar_types, ids=str)
def test_select(compile_built, scalar: ScalarType) -> None:
    types = (u1, scalar, scalar)
    check_row(compile_built, "select", types, scalar, columns_of(types))
