"""Numbers by the language's rules: weak and typed, joins, coercions, truth, and what bindings are called in messages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import protocol
from quadrants.frontend.source import source_location
from quadrants.frontend.values import (
    Array,
    Binding,
    Broken,
    Formatted,
    Iteration,
    Outer,
    Part,
    Run,
    Sequence,
    Slot,
    Static,
    is_number,
    is_tile,
)
from quadrants.frontend.walker import Walker
from quadrants.ir import evaluate
from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import (
    MatrixType,
    ScalarType,
    Type,
    f32,
    f64,
    i64,
    matrix_type,
    promote,
    scalar_of,
    scalar_of_numpy,
    shape_of,
    u1,
    u64,
    with_scalar,
)

if TYPE_CHECKING:
    import ast


def literal_scalar(walker: Walker, value: float) -> ScalarType:
    """The type that a Python number has by default; integers beyond it take i64, then u64."""
    if type(value) is bool:
        return u1
    if type(value) is float:
        return walker.default_float
    scalar = walker.default_int
    if scalar.minimum <= value <= scalar.maximum:
        return scalar
    if i64.minimum <= value <= i64.maximum:
        return i64
    if 0 < value <= u64.maximum:
        return u64
    raise QuadrantsTypeError.at(
        source_location(walker.builder.location), f"the integer {str(value)[:40]} has more than 64 bits"
    )


def constant(walker: Walker, value: Any, type_: Type) -> Value:
    """A constant of any value type from a Python number, wrapped where the type is narrower."""
    if not isinstance(value, tuple):
        value = as_type(value, scalar_of(type_))
    return walker.builder.constant(value, type_)


def as_type(value: Any, scalar: ScalarType) -> Any:
    """A Python number as one of the type: wrapped where that is narrower, floats cast to integers as everywhere."""
    if scalar.is_float:
        return value if type(value) is float else _float(value)
    if scalar.bits == 1:
        return value
    if isinstance(value, float):
        return int(evaluate.cast(scalar, np.float64(value), type=scalar))
    return evaluate.wrap(scalar, int(value))


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def settled(walker: Walker, binding: Binding, node: ast.AST) -> Binding:
    """An element's value, read now: what is evaluated next may write it."""
    return walker.load(binding, node) if type(binding) is Array and binding.is_element else binding


def to_run(walker: Walker, binding: Binding, node: ast.AST) -> Run:
    """The binding as a run-time value; an error if it is no number, vector or matrix."""
    if type(binding) is Run:
        return binding
    if type(binding) is Static:
        run = static_to_run(walker, binding.value)
        if run is not None:
            return run
    elif type(binding) is Slot:
        return Run(walker.builder.emit("load", binding.memory), binding.weak)
    elif type(binding) is Array:
        return walker.load(binding, node)
    elif type(binding) is Sequence and not is_tile(binding):
        return sequence_to_matrix(walker, binding, node)
    if type(binding) is Formatted or (type(binding) is Static and isinstance(binding.value, str)):
        raise walker.error(
            node, "a kernel has no strings at run time", hint="f-strings stand in print(…) and assert messages"
        )
    place = binding.node if type(binding) is Part else node
    raise walker.error(place, f"{describe(binding)} is not a number or vector", hint=_value_hint(binding))


def _value_hint(binding: Binding) -> str:
    if type(binding) is Static and binding.value is None:
        return "give it a number; a function that is used as a value must return one on every path"
    if type(binding) is Static and isinstance(binding.value, dict):
        return "a dictionary is read at compile time: it cannot change, and its keys are constants"
    if is_tile(binding):
        return "threads hold the elements of a tile: assign it to a part of an array, `a[0:16, 0:16] = t`, and read them there"
    if type(binding) is Part:
        return "whole arrays are not sliced in a kernel, but for tiles: loop over the indices, or slice before the call"
    return ""


def static_to_run(walker: Walker, value: Any) -> Run | None:
    """A Python object as a run-time value, None if it is none."""
    if is_number(value):
        return Run(constant(walker, value, literal_scalar(walker, value)), type(value) is not bool)
    if isinstance(value, np.generic) and (scalar := scalar_of_numpy(value.dtype)) is not None:
        return Run(constant(walker, value.item(), scalar))
    if isinstance(value, (int, float)):
        return static_to_run(walker, float(value) if isinstance(value, float) else int(value))
    matrix = protocol.matrix_constant(value)
    if matrix is not None:
        elements, shape, scalar = matrix
        weak = scalar is None
        if scalar is None:
            scalar = walker.default_float if any(isinstance(e, float) for e in elements) else walker.default_int
        values = [constant(walker, element, scalar) for element in elements]
        return Run(walker.builder.emit("construct", *values, type=matrix_type(scalar, shape)), weak)
    return None


def join(walker: Walker, left: tuple[ScalarType, bool], right: tuple[ScalarType, bool]) -> tuple[ScalarType, bool]:
    """The type where two meet, each given as (type, weak)."""
    (a, a_weak), (b, b_weak) = left, right
    if a_weak == b_weak:
        return promote(a, b), a_weak
    if b_weak:
        a, b = b, a
    # `a` is weak, `b` typed.
    if b is u1:
        return a, True
    return (walker.default_float, False) if a.is_float and not b.is_float else (b, False)


def facts_of(run: Run) -> tuple[ScalarType, bool]:
    return scalar_of(run.value.type), run.weak


def read(walker: Walker, binding: Binding, node: ast.AST) -> tuple[Run | None, tuple[ScalarType, bool]]:
    """The binding as a run-time value with its type and weakness; None for a number, which `coerce` makes of the type
    that is wanted."""
    if type(binding) is Static and is_number(binding.value):
        scalar = literal_scalar(walker, binding.value)
        return None, (scalar, scalar is not u1)
    run = binding if type(binding) is Run else to_run(walker, binding, node)
    return run, (scalar_of(run.value.type), run.weak)


def coerce(walker: Walker, binding: Binding, run: Run | None, scalar: ScalarType) -> Value:
    """`run` (made from `binding`) with the element type `scalar`; literals keep their full precision."""
    if type(binding) is Static and (run is None or is_number(binding.value)):
        return constant(walker, binding.value, scalar)
    assert run is not None
    return walker.builder.cast(run.value, scalar)


def convert(walker: Walker, binding: Binding, type_: Type, node: ast.AST) -> Value:
    """The binding as a value of exactly that type: cast, and scalars spread over a matrix; the shapes must fit."""
    if type(binding) is Sequence and shape_of(type_):
        binding = sequence_to_matrix(walker, binding, node, scalar_of(type_))
    value = coerce(walker, binding, read(walker, binding, node)[0], scalar_of(type_))
    if value.type is type_:
        return value
    if not shape_of(value.type):
        return walker.builder.splat(value, type_)
    if sorted(shape_of(value.type)) == sorted((*shape_of(type_), 1)) or sorted((*shape_of(value.type), 1)) == sorted(
        shape_of(type_)
    ):
        return reshape(walker, value, type_)
    raise walker.error(
        node,
        "the shapes do not fit",
        found=describe(to_run(walker, binding, node)),
        expected=describe(Run(Value(type_))),
        kind=QuadrantsTypeError,
    )


def reshape(walker: Walker, value: Value, type_: Type) -> Value:
    return walker.builder.emit("construct", *elements(walker, value), type=type_)


def elements(walker: Walker, value: Value) -> list[Value]:
    """The scalars of a matrix value, row by row."""
    builder = walker.builder
    owner = value.owner
    shape = shape_of(value.type)
    if type(owner) is Op and owner.kind == "construct":
        return list(owner.operands)
    if type(owner) is Op and owner.kind == "splat":
        return [owner.operands[0]] * math.prod(shape)
    return [builder.emit("extract", value, *map(builder.index, position)) for position in np.ndindex(*shape)]


def sequence_to_matrix(walker: Walker, sequence: Sequence, node: ast.AST, scalar: ScalarType | None = None) -> Run:
    """A list of numbers as a vector, a list of rows as a matrix."""
    if sequence.record is not None and not issubclass(sequence.record, tuple):
        text = f"{describe(sequence)} is not a number or vector"
        raise walker.error(node, text, hint="use its members", kind=QuadrantsTypeError)
    rows = [to_run(walker, item, node) for item in sequence.items]
    shapes = {shape_of(row.type) for row in rows}
    if not rows or len(shapes) != 1 or len(next(iter(shapes))) > 1:
        raise walker.error(
            node,
            f"{describe(sequence)} does not make a vector or matrix",
            hint="all elements must be numbers, or vectors of one length",
            kind=QuadrantsTypeError,
        )
    weak = False
    if scalar is None:
        facts = facts_of(rows[0])
        for row in rows[1:]:
            facts = join(walker, facts, facts_of(row))
        scalar, weak = facts
        if scalar is u1 and weak:
            scalar = walker.default_int
    shape = (len(rows), *next(iter(shapes)))
    parts: list[Value] = []
    for item, row in zip(sequence.items, rows):
        value = coerce(walker, item, row, scalar)
        parts.extend(elements(walker, value) if len(shape) > 1 else [value])
    return Run(walker.builder.emit("construct", *parts, type=matrix_type(scalar, shape)), weak)


def meet(
    walker: Walker, left: Binding, right: Binding, node: ast.AST, arithmetic: bool = True
) -> tuple[Value, Value, bool]:
    """Two operands brought to one type (see semantics: Numbers) and one shape; and whether the result is weak."""
    (a, facts_a), (b, facts_b) = read(walker, left, node), read(walker, right, node)
    if facts_a == facts_b and a is not None and b is not None and facts_a[0] is not u1:
        return *shaped(walker, a.value, b.value, node), facts_a[1]
    if arithmetic:
        facts_a, facts_b = counted(walker, facts_a), counted(walker, facts_b)
    scalar, weak = join(walker, facts_a, facts_b)
    return *shaped(walker, coerce(walker, left, a, scalar), coerce(walker, right, b, scalar), node), weak


def counted(walker: Walker, facts: tuple[ScalarType, bool]) -> tuple[ScalarType, bool]:
    """Truth values count as weak integers in arithmetic."""
    return (walker.default_int, True) if facts[0] is u1 else facts


def shaped(walker: Walker, a: Value, b: Value, node: ast.AST) -> tuple[Value, Value]:
    if a.type is b.type:
        return a, b
    if not shape_of(a.type):
        return walker.builder.splat(a, b.type), b
    if not shape_of(b.type):
        return a, walker.builder.splat(b, a.type)
    raise walker.error(
        node,
        "the shapes of the operands differ",
        found=f"{a.type} and {b.type}",
        expected="one shape, or a number with a vector",
        kind=QuadrantsTypeError,
    )


def as_float(walker: Walker, binding: Binding, node: ast.AST) -> Run:
    """A float operand: integers become the default float, weak ones a weak float."""
    run, (scalar, weak) = read(walker, binding, node)
    if scalar.is_float:
        return run or to_run(walker, binding, node)
    return Run(coerce(walker, binding, run, walker.default_float), weak or scalar is u1)


def truth(walker: Walker, binding: Binding, node: ast.AST) -> Static | Run:
    """The truth of a value as a u1 scalar, or Static(bool)."""
    if type(binding) is Static and protocol.matrix_constant(binding.value) is None:
        walker.compilation.evaluated(binding.value)
        return Static(bool(binding.value))
    if type(binding) is Sequence and binding.record is not None:
        from quadrants.frontend.record_values import truth_of_record

        return truth(walker, truth_of_record(walker, binding, node), node)
    if type(binding) is Sequence:
        return Static(bool(binding.items))
    run = to_run(walker, binding, node)
    if shape_of(run.type):
        raise walker.error(
            node,
            "the truth of a vector is ambiguous",
            found=str(run.type),
            hint="use .any() or .all()",
            kind=QuadrantsTypeError,
        )
    return run if run.type is u1 else Run(walker.builder.cast(run.value, u1))


def describe(binding: Binding) -> str:
    """What a binding is, for messages."""
    if type(binding) is Run:
        shape = shape_of(binding.type)
        scalar = scalar_of(binding.type)
        what = {
            0: "a number",
            1: f"a vector of {shape[0] if shape else 0}",
            2: f"a matrix of {'x'.join(map(str, shape))}",
        }[len(shape)]
        return f"{what} ({scalar})"
    if type(binding) is Slot:
        return describe(Run(Value(binding.element)))
    if type(binding) is Array:
        left = binding.type.rank - len(binding.prefix)
        return (
            f"an array of {binding.type.scalar} with {left} {'axis' if left == 1 else 'axes'} left"
            if left
            else f"an element ({binding.type.scalar})"
        )
    if type(binding) is Part:
        return f"a part of an array of {binding.array.type.scalar}"
    if is_tile(binding):
        return f"a tile (of each thread {describe(binding.items[1])})"
    if type(binding) is Outer:
        return "an outer product, which tiles add or subtract,"
    if type(binding) is Sequence and binding.record is not None:
        return f"an object of {binding.record.__name__}"
    if type(binding) is Sequence:
        return f"a {'list' if binding.is_list else 'tuple'} of {len(binding.items)}"
    if type(binding) is Iteration:
        return f"a loop range ({binding.kind})"
    if type(binding) is Static:
        value = binding.value
        return (
            f"{type(value).__name__} {str(value)[:60]!s}"
            if is_number(value) or value is None or isinstance(value, str)
            else f"an object of type {type(value).__name__}"
        )
    if type(binding) is Formatted:
        return "a string"
    if type(binding) is Broken:
        return "a name without one meaning here"
    if type(binding).__name__ == "LocalFunction":
        return "a nested function"
    return type(binding).__name__


def default_type(walker: Walker, run: Run) -> Type:
    """The type that a value has once it stops being weak."""
    scalar = scalar_of(run.type)
    if run.weak:
        scalar = walker.default_float if scalar.is_float else scalar if scalar is i64 else walker.default_int
    return with_scalar(run.type, scalar)


def is_matrix(type_: Type) -> bool:
    return type(type_) is MatrixType


FLOATS = (f32, f64)
