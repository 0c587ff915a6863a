"""The nodes of the IR: values, operations with regions, functions, modules.

A module is a set of functions at one stage. A function owns one block; operations own blocks (regions). A block ends in
one terminator. SSA: a value is defined once, by an operation or as a block's argument, and is visible in the rest of
its block and in all blocks nested there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from quadrants.ir.types import Type

__all__ = ["Block", "Function", "Location", "Module", "Op", "Value", "walk"]

STAGES = ("kernel", "tasks", "lowered")


class Location(NamedTuple):
    """Where in the user's source a node comes from: lines count from 1, columns from 0."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0


class Value:
    """A value of the program: `owner` is the Op that defines it, or the Block whose argument it is."""

    __slots__ = ("name", "owner", "type")

    def __init__(self, type_: Type, owner: Op | Block | None = None, name: str = "") -> None:
        self.type = type_
        self.owner = owner
        self.name = name

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


class Op:
    """One operation. `kind` names a row of the op table; what is not an operand is an attribute."""

    __slots__ = ("attributes", "kind", "location", "operands", "regions", "results")

    def __init__(
        self,
        kind: str,
        operands: tuple[Value, ...] = (),
        result_types: tuple[Type, ...] = (),
        attributes: dict[str, Any] | None = None,
        regions: tuple[Block, ...] = (),
        location: Location | None = None,
    ) -> None:
        self.kind = kind
        self.operands = operands
        if len(result_types) == 1:
            self.results = [Value(result_types[0], self)]
        else:
            self.results = [Value(type_, self) for type_ in result_types]
        self.attributes = attributes or {}
        self.regions = regions
        self.location = location

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.attributes or ''}>"


class Block:
    """A straight line of operations with arguments; the last operation is a terminator."""

    __slots__ = ("arguments", "ops")

    def __init__(self, argument_types: tuple[Type, ...] = ()) -> None:
        self.arguments = [Value(type_, self) for type_ in argument_types]
        self.ops: list[Op] = []

    def add_argument(self, type_: Type, name: str = "") -> Value:
        value = Value(type_, self, name)
        self.arguments.append(value)
        return value


class Function:
    """A kernel or a function: parameters are the body's arguments.

    `attributes`: 'kind' is 'kernel' or 'function'; 'parameter_names'; passes add facts under their own names.
    """

    __slots__ = ("attributes", "body", "location", "name", "result_types")

    def __init__(
        self,
        name: str,
        parameter_types: tuple[Type, ...] = (),
        result_types: tuple[Type, ...] = (),
        kind: str = "function",
    ) -> None:
        self.name = name
        self.body = Block(parameter_types)
        self.result_types = result_types
        self.attributes: dict[str, Any] = {"kind": kind}
        self.location: Location | None = None

    @property
    def parameters(self) -> list[Value]:
        return self.body.arguments

    @property
    def is_kernel(self) -> bool:
        return self.attributes["kind"] == "kernel"


class Module:
    """Functions by name, at one stage; the kernel is `entry`."""

    __slots__ = ("entry", "functions", "stage")

    def __init__(self, entry: str = "", stage: str = "kernel") -> None:
        self.entry = entry
        self.stage = stage
        self.functions: dict[str, Function] = {}

    def add(self, function: Function) -> Function:
        self.functions[function.name] = function
        return function

    @property
    def kernel(self) -> Function:
        return self.functions[self.entry]


def walk(block: Block) -> Iterator[Op]:
    """Every operation of a block and of the regions within, in program order, an operation before its regions."""
    open_blocks = [iter(block.ops)]
    while open_blocks:
        for op in open_blocks[-1]:
            yield op
            if op.regions:
                open_blocks.extend([iter(region.ops) for region in reversed(op.regions)])
                break
        else:
            open_blocks.pop()
