"""Operators where an operand is a tuple, a list or a record: what Python does, and vectors' arithmetic for the rest."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, operators
from quadrants.frontend.assign import unpacked
from quadrants.frontend.calls import Arguments, call_binding
from quadrants.frontend.merge import same_static
from quadrants.frontend.values import Binding, Run, Sequence, Slot, Static, is_list, is_tile
from quadrants.ir.types import ScalarType, shape_of

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["METHODS", "compare_sequences", "join_sequences", "unary_of_record"]

METHODS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "truediv",
    "floordiv": "floordiv",
    "mod": "mod",
    "pow": "pow",
    "matmul": "matmul",
    "bit_and": "and",
    "bit_or": "or",
    "bit_xor": "xor",
    "shl": "lshift",
    "shr": "rshift",
}
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def join_sequences(walker: Walker, kind: str, left: Binding, right: Binding, node: ast.AST) -> Binding | None:
    """`left kind right` for an arithmetic operator: records by the methods of their classes; of tuples and lists + joins
    and * repeats. None for the rest, which are treated as vectors."""
    name = METHODS[kind]
    found = _by_methods(walker, left, right, f"__{name}__", f"__r{name}__", node)
    if found is not None:
        return found
    _refuse_objects(walker, left, right, name, node)
    if kind == "add":
        a, b = _items(walker, left, node), _items(walker, right, node)
        if a is not None and b is not None:
            return Sequence([*a, *b], _is_list(left))
    if kind == "mul":
        for sequence, count in ((left, right), (right, left)):
            items = _items(walker, sequence, node)
            times = _times(walker, sequence, count, node) if items is not None else None
            if items is not None and times is not None:
                return Sequence(items * times, _is_list(sequence))
    return None


def _times(walker: Walker, sequence: Binding, count: Binding, node: ast.AST) -> int | None:
    """How often an integer repeats a tuple or list; None for what is none, and multiplies its numbers as NumPy's do."""
    if type(count) is Static:
        return int(count.value) if isinstance(count.value, (int, np.integer, np.bool_)) else None
    if type(count) in (Sequence, Slot) or is_list(count):
        return None
    scalar = numbers.to_run(walker, count, node).type
    if type(scalar) is not ScalarType or scalar.is_float:
        return None
    raise walker.error(
        node,
        f"this repeats {numbers.describe(sequence)} in Python, by a number that is not known at compile time",
        hint="to multiply its numbers, make a vector of it: `n * qd.Vector([…])`",
        kind=QuadrantsTypeError,
    )


def _by_methods(
    walker: Walker, left: Binding, right: Binding, name: str, mirrored: str, node: ast.AST
) -> Binding | None:
    """What the method of the left operand gives, or the mirrored one of the right; None where neither knows."""
    from quadrants.frontend.record_values import method_for

    for owner, other, wanted in ((left, right, name), (right, left, mirrored)):
        method = method_for(walker, owner, wanted)
        if method is not None:
            found = call_binding(walker, method, Arguments([other], {}, [None]), node)
            if not (type(found) is Static and found.value is NotImplemented):
                return found
    return None


def _is_object(binding: Binding) -> bool:
    """Whether the binding is an object of a dataclass, which Python does not take for a tuple."""
    return type(binding) is Sequence and binding.record is not None and not issubclass(binding.record, tuple)


def _refuse_objects(walker: Walker, left: Binding, right: Binding, name: str, node: ast.AST) -> None:
    for owner in (left, right):
        if _is_object(owner):
            assert type(owner) is Sequence and owner.record is not None
            raise walker.error(
                node,
                f"{owner.record.__name__} has no such operator",
                found=f"{numbers.describe(left)} and {numbers.describe(right)}",
                hint=f"give the class a method __{name}__",
                kind=QuadrantsTypeError,
            )


def compare_sequences(walker: Walker, kind: str, left: Binding, right: Binding, node: ast.AST) -> Binding | None:
    """A comparison where both are tuples, lists or records: one truth value, as in Python. None for others."""
    found = _by_methods(walker, left, right, f"__{kind}__", f"__{_MIRRORED[kind]}__", node)
    if found is not None:
        return found
    if kind == "ne":
        equal = _by_methods(walker, left, right, "__eq__", "__eq__", node)
        if equal is not None:
            truth = numbers.truth(walker, equal, node)
            return Static(not truth.value) if isinstance(truth, Static) else operators.invert(walker, truth, node)
    if _is_object(left) or _is_object(right):
        return _compare_objects(walker, kind, left, right, node)
    a = _items(walker, left, node)
    b = a if same_static(left, right) else _items(walker, right, node)
    if a is not None and b is not None and _is_list(left) == _is_list(right):
        return _lexicographic(walker, kind, a, b, node)
    if (a is None or b is None) and not _is_of_python(left if a is None else right):
        return None
    if kind in ("eq", "ne"):
        return Static(kind == "ne")
    raise walker.error(
        node,
        "a tuple and a list have no order"
        if a is not None and b is not None
        else "a tuple or list has no order with this",
        found=f"{numbers.describe(left)} and {numbers.describe(right)}",
        hint="make both tuples: `tuple(…)`" if a is not None and b is not None else "compare its items",
        kind=QuadrantsTypeError,
    )


def _is_of_python(binding: Binding) -> bool:
    """Whether Python finds it unequal to a tuple or list, where NumPy's numbers compare with each element: text, None, numbers
    that are not typed."""
    if type(binding) is Static:
        return binding.value is None or (
            isinstance(binding.value, (int, float, str)) and not isinstance(binding.value, np.generic)
        )
    return type(binding) is Run and binding.weak and not shape_of(binding.type)


def _is_list(binding: Binding) -> bool:
    return isinstance(binding.value, list) if type(binding) is Static else is_list(binding)


def _compare_objects(walker: Walker, kind: str, left: Binding, right: Binding, node: ast.AST) -> Binding:
    """As the methods do that `dataclass` makes."""
    one = left.record if type(left) is Sequence else None
    other = right.record if type(right) is Sequence else None
    parameters = getattr(one, "__dataclass_params__", None)
    if one is other and parameters is not None and (parameters.eq if kind in ("eq", "ne") else parameters.order):
        assert type(left) is Sequence and type(right) is Sequence and one is not None
        import dataclasses  # which is there: it has made the class

        counted = {field.name for field in dataclasses.fields(one) if field.compare}
        a, b = ([item for name, item in zip(side.names, side.items) if name in counted] for side in (left, right))
        return _lexicographic(walker, kind, a, b, node)
    if one is not other and kind in ("eq", "ne"):
        return Static(kind == "ne")
    _refuse_objects(walker, left, right, kind, node)
    raise AssertionError


def _items(walker: Walker, binding: Binding, node: ast.AST) -> list[Binding] | None:
    """The items of a tuple or list, also of one that is held as a vector."""
    if type(binding) is Sequence and is_tile(binding):
        return None
    if type(binding) is not Sequence and is_list(binding):
        return unpacked(walker, binding, node)
    return operators.as_items(binding)


def _lexicographic(walker: Walker, kind: str, left: list[Binding], right: list[Binding], node: ast.AST) -> Binding:
    if kind in ("eq", "ne"):
        result: Binding = Static(len(left) == len(right))
        for a, b in zip(left, right):
            result = _and(walker, result, _equal(walker, a, b, node), node)
        return _not(walker, result, node) if kind == "ne" else result
    # Where all in common are equal, the longer one is greater.
    result = operators.compare(walker, kind, Static(len(left)), Static(len(right)), node)
    strict = {"le": "lt", "ge": "gt"}.get(kind, kind)
    for a, b in reversed([*zip(left, right)]):
        equal = _and(walker, _equal(walker, a, b, node), result, node)
        result = _or(walker, operators.compare(walker, strict, a, b, node), equal, node)
    return result


def _equal(walker: Walker, left: Binding, right: Binding, node: ast.AST) -> Binding:
    """Whether two items are the same or equal: Python asks a NaN that stands in both whether it is the same."""
    if type(left) is not Sequence and same_static(left, right):
        return Static(True)
    found = operators.compare(walker, "eq", left, right, node)
    if type(found) is Run and shape_of(found.type):
        return Run(walker.builder.emit("reduce_and", found.value))
    return found


def _and(walker: Walker, left: Binding, right: Binding, node: ast.AST) -> Binding:
    for one, other in ((left, right), (right, left)):
        if type(one) is Static:
            return other if one.value else Static(False)
    return operators.binary(walker, "bit_and", left, right, node)


def _or(walker: Walker, left: Binding, right: Binding, node: ast.AST) -> Binding:
    for one, other in ((left, right), (right, left)):
        if type(one) is Static:
            return Static(True) if one.value else other
    return operators.binary(walker, "bit_or", left, right, node)


def _not(walker: Walker, binding: Binding, node: ast.AST) -> Binding:
    return Static(not binding.value) if type(binding) is Static else operators.invert(walker, binding, node)


def unary_of_record(walker: Walker, name: str, operand: Sequence, node: ast.AST) -> Binding | None:
    """`-operand`, `~operand` or `abs(operand)` by the method of a record's class; None for a tuple or list without."""
    from quadrants.frontend.record_values import method_for

    method = method_for(walker, operand, f"__{name}__")
    if method is not None:
        return call_binding(walker, method, Arguments([], {}, []), node)
    _refuse_objects(walker, operand, operand, name, node)
    return None
