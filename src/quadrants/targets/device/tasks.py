"""A parallel loop as a function of its own: what a device compiles and runs.

The parameters are the loop's lows and highs, then what it uses from outside; constants and sizes of arrays are computed anew.
"""

from __future__ import annotations

from quadrants.ir.nodes import Function, Module, Op, Value, walk
from quadrants.ir.types import ArrayType
from quadrants.passes.clone import clone_ops
from quadrants.passes.fold import number_of
from quadrants.passes.structure import free_values
from quadrants.records import Record

__all__ = ["Task", "parallel_loops", "task_of"]

_READERS = frozenset({"load", "dim", "step", "lines_aligned", "copy_begin"})
"""Operations that write none of the arrays with descriptors that they name."""


class Task(Record):
    """A function whose body is constants, sizes and one parallel loop; `operands` are the values of the host that its
    parameters take."""

    function: Function
    operands: tuple[Value, ...]

    @property
    def loop(self) -> Op:
        (loop,) = [op for op in self.function.body.ops if op.kind == "for"]
        return loop

    @property
    def constant_arrays(self) -> frozenset[Value]:
        """The arrays with descriptors that no thread writes."""
        written = {value for op in walk(self.function.body) if op.kind not in _READERS for value in op.operands}
        return frozenset([value for value in self.function.parameters if _has_descriptor(value)]) - written

    @property
    def bounds(self) -> tuple[int | None, ...]:
        """The loop's lows and highs, where they are constants."""
        numbers = [number_of(value) for value in self.operands[: 2 * self.loop.attributes["rank"]]]
        return tuple([None if number is None else int(number) for number in numbers])

    @property
    def iterations(self) -> int | None:
        """How many iterations there are, where constants say it."""
        bounds = self.bounds
        rank = len(bounds) // 2
        count = 1
        for low, high in zip(bounds[:rank], bounds[rank:]):
            if low is None or high is None:
                return None
            count *= max(high - low, 0)
        return count


def _has_descriptor(value: Value) -> bool:
    return type(value.type) is ArrayType and value.type.has_descriptor


def parallel_loops(module: Module) -> list[Op]:
    """The parallel loops of a kernel that `offload` has been through, in program order."""
    return [op for op in walk(module.kernel.body) if op.attribute("parallel")]


def task_of(loop: Op, name: str) -> Task:
    """The task that runs a loop, as a function of that name."""
    bounds = loop.operands
    wanted = list(dict.fromkeys(free_values(loop)))
    arrays = [op.operands[0] for value in wanted if (op := _remade(value)) is not None for _ in op.operands[:1]]
    remade = [value for value in wanted if _remade(value) is not None]
    captured = list(dict.fromkeys([*[value for value in wanted if _remade(value) is None], *arrays]))
    operands = (*bounds, *captured)
    function = Function(name, tuple([value.type for value in operands]), (), "kernel")
    function.location = loop.location
    for parameter, value in zip(function.parameters, operands):
        parameter.name = value.name
    values = dict(zip(captured, function.parameters[len(bounds) :]))
    made = clone_ops([op for value in remade if (op := _remade(value)) is not None], values)
    (copy,) = clone_ops([loop], values)
    copy.operands = tuple(function.parameters[: len(bounds)])
    function.body.ops = [*made, copy, Op("return")]
    return Task(function, operands)


def _remade(value: Value) -> Op | None:
    owner = value.owner
    return owner if isinstance(owner, Op) and owner.kind in ("constant", "dim") else None
