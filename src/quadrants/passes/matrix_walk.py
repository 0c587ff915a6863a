"""The walk of `lower_matrices` through one function: how each value is held, and how regions pass values on."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.nodes import Block, Function, Op, Value, walk
from quadrants.ir.types import ArrayType, MatrixType, Type, matrix_type, shape_of
from quadrants.passes.matrix_code import Held, MatrixCode, fits_selects

__all__ = ["Ends", "Handler", "Lowering"]

Ends = list[Value | None]
"""Where the values of a region's terminator go: a slot for each large matrix, None for what is passed on."""

Split = list[tuple[Value, tuple[Value, ...]]]
"""Matrices, each with the scalars that take its place."""


def part_names(name: str, type_: Type) -> list[str]:
    if type(type_) is not MatrixType:
        return [name]
    return [f"{name}.{part}" if name else "" for part in range(type_.count)]


def flat_types(types: tuple[Type, ...]) -> tuple[Type, ...]:
    found: list[Type] = []
    for type_ in types:
        found += [type_.scalar] * type_.count if type(type_) is MatrixType else [type_]
    return tuple(found)


class Lowering(MatrixCode):
    """One function. `held` maps matrices to their elements or slot, and scalars to what takes their place; `spilled` are
    the small matrices that a run-time index reads through memory, with their slots; `yields` and `loops` are the ends
    of the regions and loops around the code at hand."""

    __slots__ = (
        "_elementwise",
        "_function",
        "_handlers",
        "_homes",
        "_last_uses",
        "_small",
        "held",
        "loops",
        "spilled",
        "yields",
    )

    def __init__(self, function: Function, handlers: dict[str, Handler], elementwise: Handler, small: int) -> None:
        super().__init__()
        self.held: dict[Value, Held] = {}
        self.yields: list[Ends] = []
        self.loops: list[Ends] = []
        self.spilled: dict[Value, Value | None] = {}
        self._function = function
        self._handlers = handlers
        self._elementwise = elementwise
        self._small = small
        self._homes: dict[Value, list[Op]] = {}
        self._last_uses: dict[Value, Op] = {}

    def function(self) -> None:
        function = self._function
        self._look_ahead(function)
        self._signature(function)
        body = function.body
        parameters, body.arguments = body.arguments, []
        split = self.split_arguments(parameters, body)
        self.block(body, [], lambda: self.define_all(split))
        body.ops[:0] = self.top

    def _look_ahead(self, function: Function) -> None:
        """Finds the matrices to spill, and the last use of each large one."""
        any_large = any(self.is_large(parameter.type) for parameter in function.parameters)
        for op in walk(function.body):
            if op.kind == "extract" and not fits_selects(shape_of(op.operands[0].type), op.operands[1:]):
                self.spilled[op.operands[0]] = None
            any_large = any_large or any(self.is_large(result.type) for result in op.results)
        if any_large:
            for op in walk(function.body):
                for operand in op.operands:
                    self._last_uses[operand] = op

    def _signature(self, function: Function) -> None:
        attributes = function.attributes
        types = tuple([parameter.type for parameter in function.parameters])
        if function.is_kernel:
            attributes["unlowered_parameters"] = types
            attributes["unlowered_results"] = tuple(function.result_types)
        names = attributes.get("parameter_names")
        if names is not None:
            attributes["parameter_names"] = tuple([part for n, t in zip(names, types) for part in part_names(n, t)])
        function.result_types = flat_types(function.result_types)

    # Values.

    def value(self, value: Value) -> Value:
        """What takes a scalar's or array's place."""
        found = self.held.get(value, value)
        assert type(found) is Value
        return found

    def matrix(self, value: Value) -> Held:
        return self.held[value]

    def define(self, value: Value, held: Held) -> None:
        """Records how a matrix is held, small ones in registers, large ones in memory, whichever it came in."""
        type_ = value.type
        assert type(type_) is MatrixType
        if type_.count > self._small:
            self.define_in(value, self.memory(held, type_))
            return
        if value in self.spilled:
            self.spilled[value] = self.memory(held, type_)
        self.held[value] = self.elements(held)

    def define_in(self, value: Value, slot: Value) -> None:
        """Records that a large matrix, defined at this point, is held in a slot."""
        self.held[value] = slot
        self._homes[value] = self.ops

    def dies_at(self, matrix: Value, op: Op) -> bool:
        """Whether a large matrix was defined in the block at hand and nothing needs it after `op`, so that its slot can
        be written to. (What is defined in an outer block may be needed in a loop's next iteration.)"""
        return self._last_uses.get(matrix) is op and self._homes.get(matrix) is self.ops

    def is_large(self, type_: Type) -> bool:
        """Whether values of a type live in memory."""
        return type(type_) is MatrixType and type_.count > self._small

    def define_all(self, split: Split) -> None:
        for value, parts in split:
            self.define(value, parts)

    def flat(self, values: tuple[Value, ...] | list[Value]) -> tuple[Value, ...]:
        """Values with matrices element by element."""
        found: list[Value] = []
        for value in values:
            if type(value.type) is MatrixType:
                found += self.elements(self.held[value])
            else:
                found.append(self.value(value))
        return tuple(found)

    def split_arguments(self, arguments: list[Value], block: Block) -> Split:
        """Adds arguments to a block, matrices element by element; those with their elements."""
        split: Split = []
        for argument in arguments:
            type_ = argument.type
            if type(type_) is not MatrixType:
                block.arguments.append(argument)
                continue
            parts = [block.add_argument(type_.scalar, name) for name in part_names(argument.name, type_)]
            split.append((argument, tuple(parts)))
        return split

    def split_results(self, op: Op, results: list[Value]) -> Split:
        """Gives an operation these results, matrices element by element; those with their elements."""
        split: Split = []
        kept: list[Value] = []
        for result in results:
            type_ = result.type
            if type(type_) is not MatrixType:
                kept.append(result)
                continue
            parts = [Value(type_.scalar, op, name) for name in part_names(result.name, type_)]
            kept += parts
            split.append((result, tuple(parts)))
        op.results = kept
        return split

    # The walk.

    def block(self, block: Block, ends: Ends, first: Callable[[], None] | None = None) -> None:
        """Rewrites a block in place; `first` writes what goes before its operations."""
        ops, outer = block.ops, self.ops
        block.ops = self.ops = []
        self.yields.append(ends)
        if first is not None:
            self.location = None
            first()
        handlers = self._handlers
        for op in ops:
            self.location = op.location
            handler = handlers.get(op.kind)
            if handler is not None:
                handler(self, op)
            elif op.results and type(op.results[0].type) is MatrixType:
                self._elementwise(self, op)
            else:
                self.keep(op)
        self.yields.pop()
        self.ops = outer

    def keep(self, op: Op) -> None:
        """An operation that stays, with its operands replaced."""
        held = self.held
        for operand in op.operands:
            if operand in held:
                op.operands = tuple([self.value(value) for value in op.operands])
                break
        self.ops.append(op)

    def terminate(self, op: Op, ends: Ends) -> None:
        """A terminator: large matrices are copied into the slots where their takers read them, all at once."""
        passed: list[Value] = []
        copies: list[tuple[Value, Value]] = []
        for position, value in enumerate(op.operands):
            slot = ends[position] if ends else None
            if slot is None:
                passed.append(value)
            else:
                type_ = value.type
                assert type(type_) is MatrixType
                source = self.memory(self.held[value], type_)
                if source is not slot:
                    copies.append((source, slot))
        targets = {target for _, target in copies}
        for number, (source, target) in enumerate(copies):
            if source in targets:
                copies[number] = (self.duplicate(source), target)
        for source, target in copies:
            self.copy(source, target)
        op.operands = self.flat(passed)
        self.ops.append(op)

    def duplicate(self, source: Value) -> Value:
        type_ = source.type
        assert type(type_) is ArrayType
        duplicate = self.slot(matrix_type(type_.scalar, type_.trailing))
        self.copy(source, duplicate)
        return duplicate


Handler = Callable[[Lowering, Op], None]
