"""Functions of numbers: elementary ones, rounding, powers, and the smallest, largest and sum of several values."""

from __future__ import annotations

import ast
import builtins
import math
from typing import TYPE_CHECKING

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, operators
from quadrants.frontend.assign import unpacked
from quadrants.frontend.calls import Arguments
from quadrants.frontend.intrinsic_table import Handler, intrinsic, is_given, named_dtype
from quadrants.frontend.values import Binding, Run, Sequence, Static, all_static, is_list, is_number
from quadrants.ir.types import scalar_of, shape_of, u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__: list[str] = []

# Elementary functions.


def _float_function(op: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
        (operand,) = arguments.take(walker, node, ("x",))
        run = numbers.as_float(walker, operand, node)
        return Run(walker.builder.emit(op, run.value), run.weak)

    return handler


_FLOAT_FUNCTIONS = [
    "sqrt",
    "rsqrt",
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
]
_NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
for _op in _FLOAT_FUNCTIONS:
    _functions = [getattr(math, _op, None), getattr(np, _NUMPY_NAMES.get(_op, _op), None), getattr(np, _op, None)]
    intrinsic(_op, python=tuple(f for f in _functions if f is not None))(_float_function(_op))


def _float_pair(op: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
        left, right = arguments.take(walker, node, ("a", "b"))
        if (
            scalar_of(numbers.to_run(walker, left, node).type).is_float
            or scalar_of(numbers.to_run(walker, right, node).type).is_float
        ):
            a, b, weak = numbers.meet(walker, left, right, node)
        else:
            a, b, weak = numbers.meet(
                walker, numbers.as_float(walker, left, node), numbers.as_float(walker, right, node), node
            )
        return Run(walker.builder.emit(op, a, b), weak)

    return handler


intrinsic("atan2", python=(math.atan2, np.arctan2))(_float_pair("atan2"))
intrinsic("copysign", python=(math.copysign, np.copysign))(_float_pair("copysign"))
intrinsic("hypot", python=(np.hypot, math.hypot))(_float_pair("hypot"))


@intrinsic("fma", python=tuple(filter(None, [getattr(math, "fma", None)])))
def _fma(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    """Three floats meet as the operands of `a * b + c` do."""
    factors = arguments.take(walker, node, ("a", "b", "c"))
    if not any(scalar_of(numbers.to_run(walker, factor, node).type).is_float for factor in factors):
        factors[0] = numbers.as_float(walker, factors[0], node)
    a, b, weak = numbers.meet(walker, factors[0], factors[1], node)
    a, c, weak_too = numbers.meet(walker, Run(a, weak), factors[2], node)
    a, b, _ = numbers.meet(walker, Run(a, weak_too), Run(b, weak), node)
    return Run(walker.builder.emit("fma", a, b, c), weak_too)


def _rounding(op: str, to_integer: bool) -> Handler:
    """floor, ceil, round: of the language and NumPy floats stay floats; of Python and math they become integers."""

    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        names = ("x", "ndigits" if to_integer else "dtype")
        operand, *wish = arguments.take(walker, node, names, defaults=1)
        if to_integer and wish and is_given(wish[0]):
            hint = "round(x * 100) / 100 rounds to two digits"
            raise walker.error(node, "rounding to digits is not computed in a kernel", hint=hint)
        run = numbers.to_run(walker, operand, node)
        is_float = scalar_of(run.type).is_float
        value = walker.builder.emit(op, run.value) if is_float else run.value
        if wish and is_given(wish[0]):
            return Run(walker.builder.cast(value, named_dtype(walker, wish[0], node)))
        if to_integer and is_float:
            return Run(walker.builder.cast(value, walker.default_int), True)
        return Run(value, run.weak)

    return handler


for _op, _math in (("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc), ("round", builtins.round)):
    intrinsic(_op, python=(getattr(np, _op),))(_rounding(_op, False))
    intrinsic(python=(_math,))(_rounding(_op, True))
intrinsic(python=(np.rint,))(_rounding("round", False))


def _same_type(op: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        (operand,) = arguments.take(walker, node, ("x",))
        if type(operand) is Static and is_number(operand.value) and op == "abs":
            return Static(abs(operand.value))
        run = numbers.to_run(walker, operand, node)
        if scalar_of(run.type) is u1:
            run = Run(walker.builder.cast(run.value, walker.default_int), True)
        return Run(walker.builder.emit(op, run.value), run.weak)

    return handler


def _absolute(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    found = operators.of_record(walker, "abs", arguments.positional[0], node) if arguments.positional else None
    return _same_type("abs")(walker, arguments, node) if found is None else found


intrinsic("abs", python=(builtins.abs, np.abs))(_absolute)
intrinsic("sign", python=(np.sign,))(_same_type("sign"))


def _test(op: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
        (operand,) = arguments.take(walker, node, ("x",))
        run = numbers.as_float(walker, operand, node)
        return Run(walker.builder.emit(op, run.value))

    return handler


intrinsic("isnan", python=(math.isnan, np.isnan))(_test("is_nan"))
intrinsic("isinf", python=(math.isinf, np.isinf))(_test("is_inf"))


@intrinsic(python=(math.isfinite, np.isfinite))
def _is_finite(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    (operand,) = arguments.take(walker, node, ("x",))
    value = numbers.as_float(walker, operand, node).value
    builder = walker.builder
    return Run(
        builder.emit("bit_not", builder.emit("bit_or", builder.emit("is_nan", value), builder.emit("is_inf", value)))
    )


@intrinsic("pow", python=(builtins.pow, np.power))
def _pow(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    base, exponent = arguments.take(walker, node, ("base", "exponent"))
    return operators.binary(walker, "pow", base, exponent, node)


@intrinsic(python=(builtins.divmod, np.divmod))
def _divmod(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    left, right = arguments.take(walker, node, ("a", "b"))
    return Sequence([operators.binary(walker, kind, left, right, node) for kind in ("floordiv", "mod")])


@intrinsic(python=(math.fmod, np.fmod))
def _fmod(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    left, right = arguments.take(walker, node, ("a", "b"))
    a, b, weak = numbers.meet(walker, numbers.as_float(walker, left, node), numbers.as_float(walker, right, node), node)
    builder = walker.builder
    size = builder.emit("mod", builder.emit("abs", a), builder.emit("abs", b))
    return Run(builder.emit("copysign", size, a), weak)


# Smallest, largest, sums.


def _extreme(op: str) -> Handler:
    """Python's: of several values, or of the items of one; tuples and lists are compared as wholes."""

    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        operands = arguments.positional
        if arguments.keywords:
            given = ", ".join(f"{name}=" for name in arguments.keywords)
            hint = "write the comparison: `a if a > b else b`, or a loop"
            raise walker.error(node, f"{op} takes no {given} in a kernel", hint=hint, kind=QuadrantsTypeError)
        if not operands:
            raise walker.error(node, f"{op} takes one or more values", kind=QuadrantsTypeError)
        if len(operands) == 1:
            return _of_items(walker, operands[0], node, op, f"reduce_{op}")
        _check_wholes(walker, operands, node, op)
        return _fold_pairs(walker, operands, node, op)

    return handler


def _check_wholes(walker: Walker, operands: list[Binding], node: ast.AST, op: str) -> None:
    """Refuses to take tuples and lists apart, of which Python gives one."""
    if all(type(operand) is Sequence or is_list(operand) for operand in operands):
        sign = ">" if op == "max" else "<"
        raise walker.error(
            node,
            f"{op} of whole tuples or lists is one of them",
            hint=f"write `a if a {sign} b else b`; qd.{op} and np.{op}imum give the {op}imum of each item",
            kind=QuadrantsTypeError,
        )


def _extreme_of_each(op: str) -> Handler:
    """NumPy's for two, and ours for any number, item by item."""

    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        operands = arguments.positional
        if not operands or arguments.keywords:
            raise walker.error(node, f"{op} takes one or more values", kind=QuadrantsTypeError)
        if len(operands) == 1:
            return _of_items(walker, operands[0], node, op, f"reduce_{op}")
        return _fold_pairs(walker, operands, node, op)

    return handler


def _extreme_of_all(op: str) -> Handler:
    """NumPy's of all numbers in one."""

    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        (operand,) = arguments.take(walker, node, ("a",))
        run = numbers.to_run(walker, operand, node)
        return Run(walker.builder.emit(f"reduce_{op}", run.value), run.weak) if shape_of(run.type) else run

    return handler


def _fold_pairs(walker: Walker, operands: list[Binding], node: ast.AST, op: str) -> Binding:
    static = all_static(operands)
    if static is not None and all(is_number(operand.value) for operand in static):
        choose = builtins.min if op == "min" else builtins.max
        if not any(operand.value != operand.value for operand in static):
            return Static(choose(operand.value for operand in static))
    result = operands[0]
    for operand in operands[1:]:
        a, b, weak = numbers.meet(walker, result, operand, node)
        result = Run(walker.builder.emit(op, a, b), weak)
    return result


def _of_items(walker: Walker, operand: Binding, node: ast.AST, op: str, reduction: str) -> Binding:
    items: list[Binding] | None = None
    if type(operand) is Sequence:
        items = operand.items
    elif type(operand) is Static and isinstance(operand.value, (tuple, list, range)):
        items = [Static(item) for item in operand.value]
    if items is not None:
        if not items:
            raise walker.error(node, f"{op} of nothing")
        if len(items) > 1:
            _check_wholes(walker, items, node, op)
        return _fold_pairs(walker, items, node, op)
    run = numbers.to_run(walker, operand, node)
    return Run(walker.builder.emit(reduction, run.value), run.weak) if shape_of(run.type) else run


intrinsic(python=(builtins.min,))(_extreme("min"))
intrinsic(python=(builtins.max,))(_extreme("max"))
intrinsic("min", python=(np.minimum, np.fmin))(_extreme_of_each("min"))
intrinsic("max", python=(np.maximum, np.fmax))(_extreme_of_each("max"))
intrinsic(python=(np.min,))(_extreme_of_all("min"))
intrinsic(python=(np.max,))(_extreme_of_all("max"))


@intrinsic(python=(np.sum,))
def _sum_of_all(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    """NumPy's, of all numbers in one."""
    (operand,) = arguments.take(walker, node, ("a",))
    return _sum(walker, Arguments([numbers.to_run(walker, operand, node)], {}, []), node)


@intrinsic(python=(builtins.sum,))
def _sum(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    operand, *start = arguments.take(walker, node, ("iterable", "start"), defaults=1)
    total: Binding = start[0] if start else Static(0)
    if type(operand) in (Sequence, Static):
        for item in unpacked(walker, operand, node):
            total = operators.binary(walker, "add", total, item, node)
        return total
    run = numbers.to_run(walker, operand, node)
    if not shape_of(run.type):
        raise walker.error(
            node,
            "sum takes a vector or a tuple in a kernel",
            found=numbers.describe(run),
            hint="loop over an array and add up: `s += x[i]`",
        )
    run = operators.counted_run(walker, run)
    found = Run(walker.builder.emit("reduce_add", run.value), run.weak)
    return operators.binary(walker, "add", total, found, node) if start else found


def _quantifier(op: str, reduction: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        (operand,) = arguments.take(walker, node, ("x",))
        if type(operand) in (Sequence, Static):
            result: Binding = Static(op == "bit_and")
            for item in unpacked(walker, operand, node):
                test = numbers.truth(walker, item, node)
                if type(result) is Static:
                    result = test if result.value == (op == "bit_and") else result
                else:
                    result = operators.binary(walker, op, result, test, node)
            return result
        run = numbers.to_run(walker, operand, node)
        truths = walker.builder.cast(run.value, u1)
        return Run(walker.builder.emit(reduction, truths)) if shape_of(run.type) else Run(truths)

    return handler


intrinsic(python=(builtins.any, np.any))(_quantifier("bit_or", "reduce_or"))
intrinsic(python=(builtins.all, np.all))(_quantifier("bit_and", "reduce_and"))


def _scaled(factor: float) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        (operand,) = arguments.take(walker, node, ("x",))
        return operators.binary(walker, "mul", numbers.as_float(walker, operand, node), Static(factor), node)

    return handler


intrinsic(python=(math.degrees, np.degrees, np.rad2deg))(_scaled(180.0 / math.pi))
intrinsic(python=(math.radians, np.radians, np.deg2rad))(_scaled(math.pi / 180.0))


@intrinsic(python=(math.log,))
def _logarithm(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    """math.log(x) or math.log(x, base)."""
    operand, *base = arguments.take(walker, node, ("x", "base"), defaults=1)
    run = numbers.as_float(walker, operand, node)
    logarithm = Run(walker.builder.emit("log", run.value), run.weak)
    if not base:
        return logarithm
    other = numbers.as_float(walker, base[0], node)
    return operators.divide(walker, logarithm, Run(walker.builder.emit("log", other.value), other.weak), node)
