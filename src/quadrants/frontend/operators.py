"""The arithmetic, bit and comparison operators over all bindings."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers
from quadrants.frontend.values import (
    Binding,
    Run,
    Sequence,
    Static,
    is_list,
    is_number,
)
from quadrants.frontend.walker import Walker
from quadrants.ir.nodes import Value
from quadrants.ir.types import (
    ScalarType,
    bf16,
    scalar_of,
    scalar_of_numpy,
    shape_of,
    u1,
)

if TYPE_CHECKING:
    import ast


_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "matmul": operator.matmul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_BITS = frozenset({"bit_and", "bit_or", "bit_xor"})
_OF_INTEGERS = _BITS | {"shl", "shr"}


def fold(kind: str, left: Any, right: Any) -> Static | None:
    """The operator on two static objects by Python itself; None where Python raises and the kernel has a meaning."""
    try:
        with np.errstate(all="ignore"):
            return Static(_FOLD[kind](left, right))
    except (ZeroDivisionError, OverflowError, ValueError, TypeError):
        return None


def binary(walker: Walker, kind: str, left: Binding, right: Binding, node: ast.AST) -> Binding:
    """`left kind right` for an arithmetic or bit operator."""
    if type(left) is Static and type(right) is Static:
        folded = fold(kind, left.value, right.value)
        if folded is not None and type(folded.value) is not complex:
            walker.compilation.evaluated(left.value, right.value)
            return folded
    if type(left) is Sequence or type(right) is Sequence or is_list(left) or is_list(right):
        from quadrants.frontend.sequence_operators import join_sequences

        joined = join_sequences(walker, kind, left, right, node)
        if joined is not None:
            return joined
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(walker, left, right, node)
    a, b, weak = numbers.meet(walker, left, right, node, arithmetic=kind not in _BITS)
    if kind in _OF_INTEGERS:
        _require_integers(walker, kind, a, b, node)
    return Run(walker.builder.emit(kind, a, b), weak)


def _require_integers(walker: Walker, kind: str, a: Value, b: Value, node: ast.AST) -> None:
    if scalar_of(a.type).is_float:
        raise walker.error(
            node,
            f"'{kind}' takes integers",
            found=f"{a.type} and {b.type}",
            hint="convert with int(x) or qd.cast(x, qd.i32)",
            kind=QuadrantsTypeError,
        )


def as_items(binding: Binding) -> list[Binding] | None:
    if isinstance(binding, Sequence):
        return binding.items
    if isinstance(binding, Static) and isinstance(binding.value, (tuple, list)):
        return [Static(item) for item in binding.value]
    return None


def divide(walker: Walker, left: Binding, right: Binding, node: ast.AST) -> Run:
    """True division: integers give the default float."""
    (a, facts_a), (b, facts_b) = numbers.read(walker, left, node), numbers.read(walker, right, node)
    scalar, weak = numbers.join(walker, numbers.counted(walker, facts_a), numbers.counted(walker, facts_b))
    if not scalar.is_float:
        scalar = walker.default_float
    x, y = numbers.shaped(
        walker, numbers.coerce(walker, left, a, scalar), numbers.coerce(walker, right, b, scalar), node
    )
    return Run(walker.builder.emit("div", x, y), weak)


def power(walker: Walker, left: Binding, right: Binding, node: ast.AST) -> Run:
    """`left ** right`: small static exponents by multiplication; an integer to a static negative power is a float."""
    exponent = right.value if type(right) is Static and is_number(right.value) else None
    base = numbers.to_run(walker, left, node)
    if exponent is not None and float(exponent).is_integer():
        if exponent < 0 and not scalar_of(base.type).is_float:
            base = Run(numbers.coerce(walker, left, base, walker.default_float), base.weak)
            left = base
        if type(exponent) is int and 0 <= abs(exponent) <= 8:
            return _small_power(walker, counted_run(walker, base), exponent)
    a, b, weak = numbers.meet(walker, left, right, node)
    return Run(walker.builder.emit("pow", a, b), weak)


def counted_run(walker: Walker, run: Run) -> Run:
    return Run(walker.builder.cast(run.value, walker.default_int), True) if scalar_of(run.type) is u1 else run


def _small_power(walker: Walker, base: Run, exponent: int) -> Run:
    builder = walker.builder
    if exponent == 0:
        return Run(builder.constant(1, base.type), base.weak)
    square, count, result = base.value, abs(exponent), None
    while count:
        if count & 1:
            result = square if result is None else builder.emit("mul", result, square)
        count >>= 1
        if count:
            square = builder.emit("mul", square, square)
    assert result is not None
    return Run(result if exponent > 0 else builder.emit("div", builder.constant(1, base.type), result), base.weak)


def matmul(walker: Walker, left: Binding, right: Binding, node: ast.AST) -> Run:
    a, b = numbers.to_run(walker, left, node), numbers.to_run(walker, right, node)
    scalar, weak = numbers.join(
        walker, numbers.counted(walker, numbers.facts_of(a)), numbers.counted(walker, numbers.facts_of(b))
    )
    x, y = numbers.coerce(walker, left, a, scalar), numbers.coerce(walker, right, b, scalar)
    shape_x, shape_y = shape_of(x.type), shape_of(y.type)
    if not shape_x or not shape_y or shape_x[-1] != shape_y[0]:
        raise walker.error(
            node,
            "these do not multiply as matrices",
            found=f"{x.type} @ {y.type}",
            expected="(n, k) @ (k, m), (n, k) @ (k,) or (k,) @ (k, m)",
            kind=QuadrantsTypeError,
        )
    if len(shape_x) == 1 and len(shape_y) == 1:
        return Run(walker.builder.emit("reduce_add", walker.builder.emit("mul", x, y)), weak)
    return Run(walker.builder.emit("matmul", x, y), weak)


_SPECIAL: dict[str, Callable[[Walker, Binding, Binding, ast.AST], Run]] = {
    "matmul": matmul,
    "div": divide,
    "pow": power,
}


def _as_scalar_type(value: Any) -> Any:
    """The scalar type that NumPy or torch name by an object of theirs; other objects as they are."""
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return scalar_of_numpy(np.dtype(value)) or value
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        name = str(value).removeprefix("torch.")
        return bf16 if name == "bfloat16" else scalar_of_numpy(np.dtype(name)) if hasattr(np, name) else value
    return value


def compare(walker: Walker, kind: str, left: Binding, right: Binding, node: ast.AST) -> Binding:
    """One comparison; u1, elementwise on vectors."""
    if type(left) is Static and type(right) is Static:
        if isinstance(left.value, ScalarType) or isinstance(right.value, ScalarType):
            left, right = Static(_as_scalar_type(left.value)), Static(_as_scalar_type(right.value))
        folded = fold(kind, left.value, right.value)
        if folded is not None:
            walker.compilation.evaluated(left.value, right.value)
            return folded
    if type(left) is Sequence or type(right) is Sequence or is_list(left) or is_list(right):
        from quadrants.frontend.sequence_operators import compare_sequences

        found = compare_sequences(walker, kind, left, right, node)
        if found is not None:
            return found
    a, b, _ = numbers.meet(walker, left, right, node, arithmetic=False)
    return Run(walker.builder.emit(kind, a, b))


def _has_bits(value: Any) -> bool:
    return isinstance(value, (int, np.generic))


def _is_typed_number(value: Any) -> bool:
    return is_number(value) or isinstance(value, np.generic)


def of_record(walker: Walker, name: str, operand: Binding, node: ast.AST) -> Binding | None:
    """A unary operator that the class of a record defines."""
    if type(operand) is not Sequence or operand.record is None:
        return None
    from quadrants.frontend.sequence_operators import unary_of_record

    return unary_of_record(walker, name, operand, node)


def negate(walker: Walker, operand: Binding, node: ast.AST) -> Binding:
    if type(operand) is Static and _is_typed_number(operand.value):
        return Static(-operand.value)
    found = of_record(walker, "neg", operand, node)
    if found is not None:
        return found
    run = counted_run(walker, numbers.to_run(walker, operand, node))
    return Run(walker.builder.emit("neg", run.value), run.weak)


def invert(walker: Walker, operand: Binding, node: ast.AST) -> Binding:
    if type(operand) is Static and _has_bits(operand.value):
        return Static(~operand.value)
    found = of_record(walker, "invert", operand, node)
    if found is not None:
        return found
    run = numbers.to_run(walker, operand, node)
    _require_integers(walker, "~", run.value, run.value, node)
    return Run(walker.builder.emit("bit_not", run.value), run.weak)
