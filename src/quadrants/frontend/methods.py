"""Members of run-time values: methods of vectors and matrices, sizes of arrays."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsIndexError, QuadrantsTypeError
from quadrants.frontend import numbers, operators
from quadrants.frontend.assign import assign, unpacked
from quadrants.frontend.calls import Arguments
from quadrants.frontend.functions import library_function
from quadrants.frontend.tiles import method_of_tile
from quadrants.frontend.values import Array, Binding, BoundMethod, Run, Sequence, Slot, Static, is_list, is_tile
from quadrants.ir.types import matrix_type, scalar_of, shape_of, u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["method_of"]

Method = Callable[[Any, Run, Arguments, ast.AST], Binding]
_METHODS: dict[str, Method] = {}
# What an array without axes has, too, as long as it is not its element that is meant.
_OF_ARRAYS = ("shape", "ndim", "dtype", "size")


def method_of(walker: Walker, base: Binding, name: str, node: ast.AST) -> Binding | None:
    """The member `name` of a run-time value, None if there is none."""
    if type(base) is Array and (base.domain > len(base.prefix) or (not base.indexed and name in _OF_ARRAYS)):
        return _array_member(walker, base, name, node)
    if is_tile(base):
        return method_of_tile(base, name)
    if name in ("n", "m", "shape", "ndim", "T"):
        return _size_member(walker, base, name, node)
    if type(base) is Sequence and base.is_list and name in _OF_LISTS:
        return BoundMethod(base, name, _OF_LISTS[name])
    method = _METHODS.get(name)
    if method is None:
        return None
    if name == "copy" and is_list(base):
        return BoundMethod(base, name, lambda walker, owner, arguments, node: _listed(walker, owner, node))

    def handler(walker: Walker, owner: Binding, arguments: Arguments, node: ast.AST) -> Binding:
        assert method is not None
        return method(walker, numbers.to_run(walker, owner, node), arguments, node)

    return BoundMethod(base, name, handler)


def _listed(walker: Walker, owner: Binding, node: ast.AST) -> Binding:
    """list.copy."""
    return Sequence(unpacked(walker, owner, node), is_list=True)


def _append(walker: Walker, owner: Binding, arguments: Arguments, node: ast.AST) -> Binding:
    """list.append while the length of the list is known at compile time."""
    return _grown(walker, owner, arguments.take(walker, node, ("object",)), node)


def _extend(walker: Walker, owner: Binding, arguments: Arguments, node: ast.AST) -> Binding:
    """list.extend by a tuple, a list or a vector."""
    (more,) = arguments.take(walker, node, ("iterable",))
    return _grown(walker, owner, unpacked(walker, more, node), node)


def _insert(walker: Walker, owner: Binding, arguments: Arguments, node: ast.AST) -> Binding:
    """list.insert at an index that is known at compile time."""
    position, item = arguments.take(walker, node, ("index", "object"))
    assert type(owner) is Sequence
    items = [*owner.items]
    items.insert(_position(walker, position, node), numbers.settled(walker, item, node))
    return _changed(walker, owner, items, node)


def _pop(walker: Walker, owner: Binding, arguments: Arguments, node: ast.AST) -> Binding:
    """list.pop at an index that is known at compile time."""
    given = arguments.take(walker, node, ("index",), defaults=1)
    assert type(owner) is Sequence
    items = [*owner.items]
    try:
        found = items.pop(_position(walker, given[0], node) if given else -1)
    except IndexError as reason:
        raise walker.error(node, f"IndexError: {reason}", kind=QuadrantsIndexError) from None
    _changed(walker, owner, items, node)
    return found


def _position(walker: Walker, index: Binding, node: ast.AST) -> int:
    if type(index) is Static and type(index.value) is int:
        return index.value
    raise walker.error(
        node, "a list changes its length at indices known at compile time", hint="use a vector, and count its elements"
    )


_OF_LISTS: dict[str, Callable[..., Binding]] = {
    "append": _append,
    "extend": _extend,
    "insert": _insert,
    "pop": _pop,
}


def _grown(walker: Walker, owner: Binding, more: list[Binding], node: ast.AST) -> Binding:
    assert type(owner) is Sequence
    return _changed(walker, owner, [*owner.items, *(numbers.settled(walker, item, node) for item in more)], node)


def _changed(walker: Walker, owner: Sequence, items: list[Binding], node: ast.AST) -> Binding:
    """The list with other items, under all its names."""
    grown = owner.of(items)
    around = [binding for loop in walker.loops for binding in loop.before.values()]
    if any(_with(binding, owner, grown) is not binding for binding in around):
        raise walker.error(
            node,
            "a list cannot change its length in a run-time loop",
            hint="use a vector and count its elements, or loop over qd.static(range(…))",
        )
    found = False
    for name, binding in walker.env.items():
        changed = _with(binding, owner, grown)
        if changed is not binding:
            walker.env[name] = changed
            found = True
    outer = walker.outer
    while outer is not None and not found:
        if any(_with(binding, owner, grown) is not binding for binding in outer.env.values()):
            raise walker.error(
                node,
                "this list belongs to the function around this one, which cannot be changed here",
                hint="return what is to be appended, or define the function at the top of the file",
            )
        outer = outer.outer
    return Static(None)


def _with(binding: Binding, old: Sequence, new: Sequence) -> Binding:
    """The binding with one list, wherever it is in it, replaced by another."""
    if binding is old:
        return new
    if type(binding) is not Sequence:
        return binding
    items = [_with(item, old, new) for item in binding.items]
    if all(map(operator.is_, items, binding.items)):
        return binding
    return binding.of(items)


def _array_member(walker: Walker, base: Array, name: str, node: ast.AST) -> Binding | None:
    from quadrants.frontend.intrinsics import axis_size

    done = len(base.prefix)
    if name == "shape":
        return Sequence([axis_size(walker, base, axis) for axis in range(done, base.domain)])
    if name == "ndim":
        return Static(base.domain - done)
    if name == "dtype":
        return Static(base.type.scalar)
    if name == "size":
        size: Binding = Static(1)
        for axis in range(done, base.domain):
            size = operators.binary(walker, "mul", size, axis_size(walker, base, axis), node)
        return size
    if name == "fill" and not base.indexed:
        return BoundMethod(base, name, _fill_array)
    if base.is_view and base.indexed and name in _METHODS:
        method = _METHODS[name]
        return BoundMethod(
            base,
            name,
            lambda walker, owner, arguments, node: method(walker, numbers.to_run(walker, owner, node), arguments, node),
        )
    return None


def _size_member(walker: Walker, base: Binding, name: str, node: ast.AST) -> Binding | None:
    type_ = base.element if type(base) is Slot else numbers.to_run(walker, base, node).type
    shape = shape_of(type_)
    if not shape:
        return None
    if name == "n":
        return Static(shape[0])
    if name == "m":
        return Static(shape[1] if len(shape) > 1 else 1)
    if name == "T":
        return _transpose(walker, numbers.to_run(walker, base, node), Arguments([], {}, []), node)
    return Static(shape if name == "shape" else len(shape))


def _method(*names: str) -> Callable[[Method], Method]:
    def register(method: Method) -> Method:
        for name in names:
            _METHODS[name] = method
        return method

    return register


def _vector(walker: Walker, run: Run, node: ast.AST, what: str) -> None:
    if not shape_of(run.type):
        raise walker.error(
            node, f"{what} takes a vector or matrix", found=numbers.describe(run), kind=QuadrantsTypeError
        )


@_method("dot", "frobenius_inner")
def _dot(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    (other,) = arguments.take(walker, node, ("other",))
    _vector(walker, run, node, "dot")
    right = numbers.to_run(walker, other, node)
    if shape_of(right.type) != shape_of(run.type):
        raise walker.error(
            node, "dot takes two vectors of one length", found=f"{run.type} and {right.type}", kind=QuadrantsTypeError
        )
    a, b, weak = numbers.meet(walker, run, other, node)
    return Run(walker.builder.emit("reduce_add", walker.builder.emit("mul", a, b)), weak)


@_method("cross")
def _cross(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    (other,) = arguments.take(walker, node, ("other",))
    a, b, weak = numbers.meet(walker, run, other, node)
    if shape_of(a.type) not in ((2,), (3,)):
        raise walker.error(node, "cross takes two vectors of 2 or 3", found=f"{a.type}", kind=QuadrantsTypeError)
    x, y, builder = numbers.elements(walker, a), numbers.elements(walker, b), walker.builder

    def minor(i: int, j: int) -> Any:
        return builder.emit("sub", builder.emit("mul", x[i], y[j]), builder.emit("mul", x[j], y[i]))

    if len(x) == 2:
        return Run(minor(0, 1), weak)
    return Run(builder.emit("construct", minor(1, 2), minor(2, 0), minor(0, 1), type=a.type), weak)


@_method("outer_product", "outer")
def _outer(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    (other,) = arguments.take(walker, node, ("other",))
    right = numbers.to_run(walker, other, node)
    if len(shape_of(run.type)) != 1 or len(shape_of(right.type)) != 1:
        raise walker.error(
            node, "outer_product takes two vectors", found=f"{run.type} and {right.type}", kind=QuadrantsTypeError
        )
    scalar, weak = numbers.join(walker, (scalar_of(run.type), run.weak), (scalar_of(right.type), right.weak))
    a = numbers.elements(walker, walker.builder.cast(run.value, scalar))
    b = numbers.elements(walker, walker.builder.cast(right.value, scalar))
    products = [walker.builder.emit("mul", x, y) for x in a for y in b]
    return Run(walker.builder.emit("construct", *products, type=matrix_type(scalar, (len(a), len(b)))), weak)


def _eps(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding | None:
    found = arguments.take(walker, node, ("eps",), defaults=1)
    return found[0] if found and not (type(found[0]) is Static and found[0].value == 0) else None


@_method("norm_sqr")
def _norm_sqr(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    _vector(walker, run, node, "norm_sqr")
    return Run(walker.builder.emit("reduce_add", walker.builder.emit("mul", run.value, run.value)), run.weak)


@_method("norm")
def _norm(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    eps = _eps(walker, arguments, node)
    square: Binding = _norm_sqr(walker, numbers.as_float(walker, run, node), arguments, node)
    if eps is not None:
        square = operators.binary(walker, "add", square, eps, node)
    value = numbers.to_run(walker, square, node)
    return Run(walker.builder.emit("sqrt", value.value), value.weak)


@_method("norm_inv")
def _norm_inv(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    eps = _eps(walker, arguments, node)
    square: Binding = _norm_sqr(walker, numbers.as_float(walker, run, node), arguments, node)
    if eps is not None:
        square = operators.binary(walker, "add", square, eps, node)
    value = numbers.to_run(walker, square, node)
    return Run(walker.builder.emit("rsqrt", value.value), value.weak)


@_method("normalized")
def _normalized(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    eps = _eps(walker, arguments, node)
    length = _norm(walker, run, Arguments([], {}, []), node)
    if eps is not None:
        length = operators.binary(walker, "add", length, eps, node)
    return operators.divide(walker, run, length, node)


@_method("transpose")
def _transpose(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    shape = shape_of(run.type)
    if len(shape) == 1:
        return Run(numbers.reshape(walker, run.value, matrix_type(scalar_of(run.type), (1, shape[0]))), run.weak)
    _vector(walker, run, node, "transpose")
    return Run(walker.builder.emit("transpose", run.value), run.weak)


@_method("trace")
def _trace(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    size = _square(walker, run, node, "trace")
    builder = walker.builder
    total = builder.emit("extract", run.value, builder.index(0), builder.index(0))
    for position in range(1, size):
        total = builder.emit(
            "add", total, builder.emit("extract", run.value, builder.index(position), builder.index(position))
        )
    return Run(total, run.weak)


def _square(walker: Walker, run: Run, node: ast.AST, what: str) -> int:
    shape = shape_of(run.type)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise walker.error(node, f"{what} takes a square matrix", found=numbers.describe(run), kind=QuadrantsTypeError)
    return shape[0]


def _by_library(name: str) -> Method:
    """Methods written in the language itself (library/linalg.py)."""

    def method(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
        # Determinants up to 4 by 4 are sums of products, which integers have; what eliminates needs floats.
        exact = _square(walker, run, node, name) <= 4 and name == "determinant"
        operand = run if exact else numbers.as_float(walker, run, node)
        return library_function(walker, name, Arguments([operand], {}, [None]), node)

    return method


for _name in ("determinant", "inverse"):
    _method(_name)(_by_library(_name))


def _reduction(op: str) -> Method:
    def method(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
        _vector(walker, run, node, op)
        counted = operators.counted_run(walker, run) if op == "reduce_add" else run
        return Run(walker.builder.emit(op, counted.value), counted.weak)

    return method


for _name in ("add", "min", "max"):
    _method({"add": "sum"}.get(_name, _name))(_reduction(f"reduce_{_name}"))


def _quantifier(op: str) -> Method:
    def method(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
        _vector(walker, run, node, op)
        return Run(walker.builder.emit(op, walker.builder.cast(run.value, u1)))

    return method


_method("any")(_quantifier("reduce_or"))
_method("all")(_quantifier("reduce_and"))


@_method("cast", "astype")
def _cast(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    from quadrants.frontend.intrinsics import INTRINSICS

    return INTRINSICS["cast"](walker, Arguments([run, *arguments.take(walker, node, ("dt",))], {}, []), node)


@_method("copy")
def _copy(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    return run


@_method("to_list")
def _to_list(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    return Sequence(unpacked(walker, run, node), is_list=True)


@_method("get_shape")
def _get_shape(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    return Static(shape_of(run.type))


def _fill_array(walker: Walker, owner: Binding, arguments: Arguments, node: ast.AST) -> Binding:
    """array.fill(x): a loop over all elements, as any that stands in its place."""
    (value,) = arguments.take(walker, node, ("val",))
    return library_function(walker, "fill", Arguments([owner, value], {}, [None, None]), node)


@_method("fill")
def _fill(walker: Walker, run: Run, arguments: Arguments, node: ast.AST) -> Binding:
    """v.fill(x) on a local name: the name is bound to the filled vector."""
    (value,) = arguments.take(walker, node, ("val",))
    target = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    if target is None:
        raise walker.error(node, "fill changes a vector that has a name")
    assign(walker, target, Run(numbers.convert(walker, value, run.type, node)))
    return Static(None)
