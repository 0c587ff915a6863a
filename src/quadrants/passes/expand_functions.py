"""Elementary functions that the target has no code for, written out: the sine becomes its polynomial.

The bodies are IR text, one file a function and type, made from `library/elementary_*.py`; each is parsed once a process.
They have no loops and no memory, so they run in vector lanes wherever the operation would have. What few arguments need
(sines of huge numbers) is a function that they call.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Location, Module, Op, Value
from quadrants.ir.text import parse_module
from quadrants.ir.types import ScalarType, f32, f64, scalar_of
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext

__all__ = ["EXPANDED", "path_of", "run"]

_FOLDER = Path(__file__).parent / "functions"
EXPANDED = frozenset(
    {
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "exp", "exp2"),
        *("expm1", "hypot", "log", "log10", "log1p", "log2", "pow", "sin", "sinh", "tan", "tanh"),
    }
)
"""The rows of the op table that have bodies (`pow`: that of floats)."""


def path_of(name: str, scalar: ScalarType) -> Path:
    """The file of a function's body."""
    return _FOLDER / f"{name}_{scalar.name}.qir"


def far_name(row: str) -> str:
    """The name of the function that computes a row for arguments that its body does not cover."""
    return f"far_{row}"


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`."""
    if context.record is None:
        return
    wanted = EXPANDED - context.record.functions
    called: set[tuple[str, ScalarType]] = set()
    for function in module.functions.values():
        _block(function.body, wanted, called)
    for row, scalar in sorted(called, key=str):
        module.add(_body(far_name(row), scalar))


def _block(block: Block, wanted: frozenset[str], called: set[tuple[str, ScalarType]]) -> None:
    out: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _block(region, wanted, called)
        if op.kind in wanted and scalar_of(op.results[0].type).is_float:
            out += _expansion(op, called)
        else:
            out.append(op)
    block.ops = out


def _expansion(op: Op, called: set[tuple[str, ScalarType]]) -> list[Op]:
    """The code that computes an operation's result. Narrow floats are computed as f32."""
    scalar = scalar_of(op.results[0].type)
    if scalar is f32 or scalar is f64:
        copied, result = _copied(op.kind, scalar, op.operands, op.location, called)
        last = op.results[0]
        owner = result.owner
        assert isinstance(owner, Op)
        owner.results[owner.results.index(result)] = last
        last.owner = owner
        return copied
    builder = Builder(Block(), op.location)
    widened = tuple([builder.cast(operand, f32) for operand in op.operands])
    copied, result = _copied(op.kind, f32, widened, op.location, called)
    back = Op("cast", (result,), (), {"type": scalar}, (), op.location)
    back.results = op.results
    op.results[0].owner = back
    return [*builder.block.ops, *copied, back]


def _copied(
    row: str,
    scalar: ScalarType,
    operands: tuple[Value, ...],
    location: Location | None,
    called: set[tuple[str, ScalarType]],
) -> tuple[list[Op], Value]:
    """A body for these operands, and its result (which nothing in the body uses). The row itself within its body, which
    stands under a branch, gets the function that computes it (`callee`): emitters call that, lane by lane in lanes."""
    body = _body(row, scalar).body
    values = dict(zip(body.arguments, operands))
    copied = clone_ops(body.ops[:-1], values)
    for op in copied:
        op.location = location
        for inner in [inner for region in op.regions for inner in region.ops]:
            inner.location = location
            if inner.kind == row:
                inner.attributes["callee"] = f"{far_name(row)}_{scalar.name}"
                called.add((row, scalar))
    return copied, values[body.ops[-1].operands[0]]


@lru_cache(maxsize=64)
def _body(row: str, scalar: ScalarType) -> Function:
    module = parse_module(path_of(row, scalar).read_text())
    (function,) = module.functions.values()
    return function
