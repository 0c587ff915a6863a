"""Elementary functions that the target has no code for, written out: the sine becomes its polynomial.

The bodies are IR text, one file a function and type, made from `library/elementary_*.py`; each is parsed once a process.
They have no loops and no memory, so they run in vector lanes wherever the operation would have. What few arguments need
(sines of huge numbers) is a function that they call.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Location, Module, Op
from quadrants.ir.text import parse_module
from quadrants.ir.types import ScalarType, f32, f64, scalar_of
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.elementary import EXPANDED

__all__ = ["path_of", "run"]

_FOLDER = Path(__file__).parent / "functions"
_MOST = 2000
"""Operations by which a function grows at most; what would be written out beyond that is called."""


def path_of(name: str, scalar: ScalarType, alone: bool = False) -> Path:
    """The file of a function's body; `alone`: of that for targets without f64, where it is another."""
    return _FOLDER / f"{name}_{scalar.name}{'_alone' if alone else ''}.qir"


def far_name(row: str) -> str:
    """The name of the function that computes a row for arguments that its body does not cover."""
    return f"far_{row}"


def run(module: Module, context: PassContext) -> None:
    """Stage `lowered`."""
    if context.record is None:
        return
    wanted = EXPANDED - context.record.functions
    alone = not context.record.has_dtype(f64)
    called: set[tuple[str, ScalarType]] = set()
    for function in module.functions.values():
        _Expander(wanted, called, alone).block(function.body)
    whole = {(name, scalar) for name, scalar in called if not name.startswith("far_")}
    for name, scalar in sorted(whole, key=str):
        module.add(_function(name, scalar, called, alone))
    for name, scalar in sorted(called - whole, key=str):
        module.add(_function(name, scalar, called, alone))


class _Expander:
    """Expands one function. `called` gets the bodies that are to be functions of the module."""

    def __init__(self, wanted: frozenset[str], called: set[tuple[str, ScalarType]], alone: bool) -> None:
        self.wanted = wanted
        self.called = called
        self.alone = alone
        self.left = _MOST

    def block(self, block: Block) -> None:
        out: list[Op] = []
        for op in block.ops:
            for region in op.regions:
                self.block(region)
            if op.kind in self.wanted and scalar_of(op.results[0].type).is_float:
                out += self._expansion(op)
            else:
                out.append(op)
        block.ops = out

    def _expansion(self, op: Op) -> list[Op]:
        """The code that computes an operation's result. Narrow floats are computed as f32."""
        scalar = scalar_of(op.results[0].type)
        if scalar is f32 or scalar is f64:
            return self._written_out(op, scalar)
        builder = Builder(Block(), op.location)
        widened = tuple([builder.cast(operand, f32) for operand in op.operands])
        inner = Op(op.kind, widened, (f32,), dict(op.attributes), (), op.location)
        back = Op("cast", (inner.results[0],), (), {"type": scalar}, (), op.location)
        back.results = op.results
        op.results[0].owner = back
        return [*builder.block.ops, *self._written_out(inner, f32), back]

    def _written_out(self, op: Op, scalar: ScalarType) -> list[Op]:
        """The body in place of an operation on f32 or f64, or the operation with a function to call, where much has been
        written out already. Either defines the result."""
        body = _body(op.kind, scalar, self.alone).body
        self.left -= len(body.ops)
        if self.left < 0:
            op.attributes["callee"] = f"{op.kind}_{scalar.name}"
            self.called.add((op.kind, scalar))
            return [op]
        values = dict(zip(body.arguments, op.operands))
        copied = clone_ops(body.ops[:-1], values)
        _settle(copied, op.kind, scalar, op.location, self.called)
        result, last = values[body.ops[-1].operands[0]], op.results[0]  # nothing in the body uses the result
        owner = result.owner
        assert isinstance(owner, Op)
        owner.results[owner.results.index(result)] = last
        last.owner = owner
        return copied


def _settle(
    ops: list[Op], row: str, scalar: ScalarType, location: Location | None, called: set[tuple[str, ScalarType]]
) -> None:
    """Gives the operations of a body their place, and the row itself, which stands under a branch there, the function
    that computes it (`callee`): emitters call that, lane by lane in lanes."""
    for op in ops:
        op.location = location
        for inner in [inner for region in op.regions for inner in region.ops]:
            inner.location = location
            if inner.kind == row:
                inner.attributes["callee"] = f"{far_name(row)}_{scalar.name}"
                called.add((far_name(row), scalar))


def _function(name: str, scalar: ScalarType, called: set[tuple[str, ScalarType]], alone: bool) -> Function:
    """A body as a function that a module can own."""
    parsed = _body(name, scalar, alone)
    function = Function(parsed.name, tuple([value.type for value in parsed.parameters]), parsed.result_types)
    function.body.ops = clone_ops(parsed.body.ops, dict(zip(parsed.parameters, function.parameters)))
    _settle(function.body.ops, name, scalar, None, called)
    return function


@lru_cache(maxsize=128)
def _body(name: str, scalar: ScalarType, alone: bool) -> Function:
    """`alone`: the target has no f64."""
    path = path_of(name, scalar, alone)
    module = parse_module((path if path.exists() else path_of(name, scalar)).read_text())
    (function,) = module.functions.values()
    return function
