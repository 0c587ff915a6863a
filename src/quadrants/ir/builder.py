"""The builder: appends operations to a block, with types inferred by the op table.

Every pure row of the table is a method: `builder.add(a, b)`, `builder.sin(a)`. Constants are shared per block.
"""

from __future__ import annotations

from typing import Any

from quadrants.ir.nodes import Block, Location, Op, Value
from quadrants.ir.ops import OPS
from quadrants.ir.types import MatrixType, ScalarType, Type, i64, scalar_of, u1, with_scalar

__all__ = ["Builder"]


class Builder:
    """Appends to `block`; `location` is given to each operation."""

    __slots__ = ("block", "location")

    def __init__(self, block: Block, location: Location | None = None) -> None:
        self.block = block
        self.location = location

    def op(self, kind: str, *operands: Value, regions: tuple[Block, ...] = (), **attributes: Any) -> Op:
        """Appends an operation of any kind; TypeError (of the rule) if the operands do not fit."""
        types = OPS[kind].rule(tuple([operand.type for operand in operands]), attributes)
        op = Op(kind, operands, types, attributes or None, regions, self.location)
        self.block.ops.append(op)
        return op

    def emit(self, kind: str, *operands: Value, **attributes: Any) -> Value:
        """Appends an operation with one result and no regions, and gives the result."""
        types = OPS[kind].rule(tuple([operand.type for operand in operands]), attributes)
        op = Op(kind, operands, types, attributes or None, (), self.location)
        self.block.ops.append(op)
        return op.results[0]

    def __getattr__(self, kind: str) -> Any:
        if kind not in OPS:
            raise AttributeError(kind)

        def row(*operands: Value, **attributes: Any) -> Value:
            return self.emit(kind, *operands, **attributes)

        return row

    def constant(self, value: Any, type_: Type) -> Value:
        """A constant; a number for a matrix type means that number everywhere."""
        if type(type_) is ScalarType:
            value = float(value) if type_.kind == "f" else bool(value) if type_ is u1 else int(value)
        elif type(type_) is MatrixType and not isinstance(value, tuple):
            return self.emit("splat", self.constant(value, type_.scalar), type=type_)
        op = Op("constant", (), (type_,), {"type": type_, "value": value}, (), self.location)
        self.block.ops.append(op)
        return op.results[0]

    def index(self, value: int) -> Value:
        return self.constant(value, i64)

    def cast(self, value: Value, scalar: Type) -> Value:
        """`value` with another element type; nothing is emitted where it has it already."""
        if value.type is scalar:
            return value
        target = with_scalar(value.type, scalar_of(scalar))
        return value if value.type is target else self.emit("cast", value, type=target)

    def splat(self, value: Value, type_: Type) -> Value:
        return value if value.type is type_ else self.emit("splat", value, type=type_)

    def literal_like(self, value: Value, number: float) -> Value:
        return self.constant(number, value.type)

    def zero_like(self, value: Value) -> Value:
        return self.constant(0, value.type)

    def one_like(self, value: Value) -> Value:
        return self.constant(1, value.type)

    def cast_like(self, value: Value, other: Value) -> Value:
        return self.cast(value, scalar_of(other.type))
