"""The language's own functions, and Python's, math's and NumPy's, as operations: one table, handler(walker, arguments, node)."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, protocol
from quadrants.frontend.calls import Arguments
from quadrants.frontend.values import Array, Binding, Iteration, Run, Sequence, Slot, Static, is_number
from quadrants.ir.nodes import Value
from quadrants.ir.types import ScalarType, f32, i32, i64, matrix_type, scalar_of, shape_of, u1, u64, with_scalar

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["INTRINSICS", "construct_annotated", "python_intrinsic"]

Handler = Callable[[Any, Arguments, Any], Binding]
INTRINSICS: dict[str, Handler] = {}
_PYTHON: dict[int, tuple[Any, Handler]] = {}


def _intrinsic(*names: str, python: tuple[Any, ...] = ()) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names:
            INTRINSICS[name] = handler
        for function in python:
            _PYTHON[id(function)] = (function, handler)
        return handler

    return register


def python_intrinsic(function: Any) -> Handler | None:
    """The handler of a builtin or a function of math or NumPy, None if it is none."""
    found = _PYTHON.get(id(function))
    return found[1] if found is not None else None


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
    _intrinsic(_op, python=tuple(f for f in _functions if f is not None))(_float_function(_op))


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


_intrinsic("atan2", python=(math.atan2, np.arctan2))(_float_pair("atan2"))
_intrinsic("copysign", python=(math.copysign, np.copysign))(_float_pair("copysign"))
_intrinsic("hypot", python=(np.hypot, math.hypot))(_float_pair("hypot"))


def _rounding(op: str, to_integer: bool) -> Handler:
    """floor, ceil, round: of the language and NumPy floats stay floats; of Python and math they become integers."""

    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        operand, *wish = arguments.take(walker, node, ("x", "dtype"), defaults=1)
        run = numbers.to_run(walker, operand, node)
        is_float = scalar_of(run.type).is_float
        value = walker.builder.emit(op, run.value) if is_float else run.value
        if wish and not (type(wish[0]) is Static and wish[0].value is None):
            return Run(walker.builder.cast(value, _dtype(walker, wish[0], node)))
        if to_integer and is_float:
            return Run(walker.builder.cast(value, walker.default_int), True)
        return Run(value, run.weak)

    return handler


for _op, _math in (("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc), ("round", builtins.round)):
    _intrinsic(_op, python=(getattr(np, _op),))(_rounding(_op, False))
    _intrinsic(python=(_math,))(_rounding(_op, True))
_intrinsic(python=(np.rint,))(_rounding("round", False))


def _dtype(walker: Walker, wish: Binding, node: ast.AST) -> ScalarType:
    """The scalar type that a dtype argument names; Python's int, float and bool are the defaults."""
    value = wish.value if type(wish) is Static else None
    if isinstance(value, ScalarType):
        return value
    if value is int or value is float or value is bool:
        return {int: walker.default_int, float: walker.default_float, bool: u1}[value]
    try:
        found = numbers.scalar_of_numpy(np.dtype(value)) if value is not None else None
    except TypeError:
        found = None
    if found is None:
        raise walker.error(
            node, "not a data type", found=numbers.describe(wish), expected="qd.f32, qd.i64, …", kind=QuadrantsTypeError
        )
    return found


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


_intrinsic("abs", python=(builtins.abs, np.abs, math.fabs))(_same_type("abs"))
_intrinsic("sign", python=(np.sign,))(_same_type("sign"))


def _test(op: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
        (operand,) = arguments.take(walker, node, ("x",))
        run = numbers.as_float(walker, operand, node)
        return Run(walker.builder.emit(op, run.value))

    return handler


_intrinsic("isnan", python=(math.isnan, np.isnan))(_test("is_nan"))
_intrinsic("isinf", python=(math.isinf, np.isinf))(_test("is_inf"))


@_intrinsic(python=(math.isfinite, np.isfinite))
def _is_finite(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    (operand,) = arguments.take(walker, node, ("x",))
    value = numbers.as_float(walker, operand, node).value
    builder = walker.builder
    return Run(
        builder.emit("bit_not", builder.emit("bit_or", builder.emit("is_nan", value), builder.emit("is_inf", value)))
    )


@_intrinsic("pow", python=(builtins.pow, math.pow, np.power))
def _pow(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    base, exponent = arguments.take(walker, node, ("base", "exponent"))
    return numbers.binary(walker, "pow", base, exponent, node)


@_intrinsic(python=(builtins.divmod,))
def _divmod(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    left, right = arguments.take(walker, node, ("a", "b"))
    return Sequence([numbers.binary(walker, kind, left, right, node) for kind in ("floordiv", "mod")])


@_intrinsic(python=(math.fmod, np.fmod))
def _fmod(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    left, right = arguments.take(walker, node, ("a", "b"))
    a, b, weak = numbers.meet(walker, numbers.as_float(walker, left, node), numbers.as_float(walker, right, node), node)
    builder = walker.builder
    size = builder.emit("mod", builder.emit("abs", a), builder.emit("abs", b))
    return Run(builder.emit("copysign", size, a), weak)


# Smallest, largest, sums.


def _extreme(op: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        operands = arguments.positional
        if not operands or arguments.keywords:
            raise walker.error(node, f"{op} takes one or more values", kind=QuadrantsTypeError)
        if len(operands) == 1:
            return _of_items(walker, operands[0], node, op, f"reduce_{op}")
        return _fold_pairs(walker, operands, node, op)

    return handler


def _fold_pairs(walker: Walker, operands: list[Binding], node: ast.AST, op: str) -> Binding:
    if all(type(operand) is Static and is_number(operand.value) for operand in operands):
        choose = builtins.min if op == "min" else builtins.max
        if not any(operand.value != operand.value for operand in operands):  # type: ignore[attr-defined]
            return Static(choose(operand.value for operand in operands))  # type: ignore[attr-defined]
    result = operands[0]
    for operand in operands[1:]:
        a, b, weak = numbers.meet(walker, result, operand, node)
        result = Run(walker.builder.emit(op, a, b), weak)
    return result


def _of_items(walker: Walker, operand: Binding, node: ast.AST, op: str, reduction: str) -> Binding:
    if type(operand) is Sequence or (type(operand) is Static and isinstance(operand.value, (tuple, list, range))):
        items = operand.items if type(operand) is Sequence else [Static(item) for item in operand.value]  # type: ignore[union-attr]
        if not items:
            raise walker.error(node, f"{op} of nothing")
        return _fold_pairs(walker, items, node, op)
    run = numbers.to_run(walker, operand, node)
    return Run(walker.builder.emit(reduction, run.value), run.weak) if shape_of(run.type) else run


_intrinsic("min", python=(builtins.min, np.minimum, np.fmin, np.min))(_extreme("min"))
_intrinsic("max", python=(builtins.max, np.maximum, np.fmax, np.max))(_extreme("max"))


@_intrinsic(python=(builtins.sum, np.sum))
def _sum(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    operand, *start = arguments.take(walker, node, ("iterable", "start"), defaults=1)
    total: Binding = start[0] if start else Static(0)
    if type(operand) in (Sequence, Static):
        from quadrants.frontend.assign import unpacked

        for item in unpacked(walker, operand, node):
            total = numbers.binary(walker, "add", total, item, node)
        return total
    run = numbers.to_run(walker, operand, node)
    if not shape_of(run.type):
        raise walker.error(
            node,
            "sum takes a vector or a tuple in a kernel",
            found=numbers.describe(run),
            hint="loop over an array and add up: `s += x[i]`",
        )
    return (
        numbers.binary(walker, "add", total, Run(walker.builder.emit("reduce_add", run.value), run.weak), node)
        if start
        else Run(walker.builder.emit("reduce_add", run.value), run.weak)
    )


def _quantifier(op: str, reduction: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        (operand,) = arguments.take(walker, node, ("x",))
        if type(operand) in (Sequence, Static):
            from quadrants.frontend.assign import unpacked

            result: Binding = Static(op == "bit_and")
            for item in unpacked(walker, operand, node):
                test = numbers.truth(walker, item, node)
                if type(result) is Static:
                    result = test if result.value == (op == "bit_and") else result
                else:
                    result = numbers.binary(walker, op, result, test, node)
            return result
        run = numbers.to_run(walker, operand, node)
        truths = walker.builder.cast(run.value, u1)
        return Run(walker.builder.emit(reduction, truths)) if shape_of(run.type) else Run(truths)

    return handler


_intrinsic(python=(builtins.any, np.any))(_quantifier("bit_or", "reduce_or"))
_intrinsic(python=(builtins.all, np.all))(_quantifier("bit_and", "reduce_and"))


# Conversions.


@_intrinsic("cast")
def _cast(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    operand, wish = arguments.take(walker, node, ("x", "dtype"))
    return Run(numbers.coerce(walker, operand, numbers.to_run(walker, operand, node), _dtype(walker, wish, node)))


@_intrinsic("bit_cast")
def _bit_cast(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    operand, wish = arguments.take(walker, node, ("x", "dtype"))
    run, scalar = numbers.to_run(walker, operand, node), _dtype(walker, wish, node)
    if scalar_of(run.type).bits != scalar.bits:
        raise walker.error(node, "bit_cast keeps the width", found=f"{run.type} to {scalar}", kind=QuadrantsTypeError)
    return Run(walker.builder.emit("bitcast", run.value, type=with_scalar(run.type, scalar)))


def _python_cast(kind: type) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        if not arguments.positional:
            return Static(kind())
        operand = arguments.positional[0]
        if type(operand) is Static and (is_number(operand.value) or isinstance(operand.value, (np.generic, str))):
            try:
                return Static(kind(operand.value))
            except (ValueError, OverflowError) as reason:
                raise walker.error(node, str(reason)) from None
        if kind is bool:
            return numbers.truth(walker, operand, node)
        run = numbers.to_run(walker, operand, node)
        scalar = walker.default_int if kind is int else walker.default_float
        own = scalar_of(run.type)
        if run.weak and own.is_float == scalar.is_float and own is not u1:
            return run
        return Run(walker.builder.cast(run.value, scalar), True)

    return handler


for _kind in (int, float, bool):
    _intrinsic(python=(_kind,))(_python_cast(_kind))


# Choosing, bits.


@_intrinsic("select", python=(np.where,))
def _select(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    condition, yes, no = arguments.take(walker, node, ("cond", "x1", "x2"))
    test = numbers.to_run(walker, condition, node)
    truths = walker.builder.cast(test.value, u1)
    a, b, weak = numbers.meet(walker, yes, no, node, arithmetic=False)
    if shape_of(truths.type) and not shape_of(a.type):
        target = with_scalar(truths.type, scalar_of(a.type))
        a, b = walker.builder.splat(a, target), walker.builder.splat(b, target)
    return Run(walker.builder.emit("select", truths, a, b), weak)


def _integer_pair(op: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
        left, right = arguments.take(walker, node, ("a", "b"))
        a, b, weak = numbers.meet(walker, left, right, node)
        if scalar_of(a.type).is_float:
            if op in ("truncdiv", "truncmod"):
                return _truncating(walker, op, a, b, weak)
            raise walker.error(node, f"takes integers, not {a.type}", kind=QuadrantsTypeError)
        return Run(walker.builder.emit(op, a, b), weak)

    return handler


def _truncating(walker: Walker, op: str, a: Value, b: Value, weak: bool) -> Run:
    builder = walker.builder
    quotient = builder.emit("trunc", builder.emit("div", a, b)) if op == "truncmod" else builder.emit("div", a, b)
    return Run(builder.emit("sub", a, builder.emit("mul", b, quotient)) if op == "truncmod" else quotient, weak)


_intrinsic("bit_shr")(_integer_pair("ushr"))
_intrinsic("raw_div")(_integer_pair("truncdiv"))
_intrinsic("raw_mod")(_integer_pair("truncmod"))


def _bit_count(op: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
        (operand,) = arguments.take(walker, node, ("x",))
        run = numbers.to_run(walker, operand, node)
        builder = walker.builder
        if op == "ffs":
            one = builder.constant(1, run.type)
            zero = builder.constant(0, run.type)
            value = builder.emit(
                "select",
                builder.emit("eq", run.value, zero),
                zero,
                builder.emit("add", builder.emit("ctz", run.value), one),
            )
        else:
            value = builder.emit(op, run.value)
        return Run(builder.cast(value, i32))

    return handler


_intrinsic("popcnt")(_bit_count("popcount"))
_intrinsic("clz")(_bit_count("clz"))
_intrinsic("ffs")(_bit_count("ffs"))


@_intrinsic("fns")
def _find_nth_set(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    from quadrants.frontend.functions import library_function

    return library_function(walker, "fns", arguments, node)


def _filled(number: int) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        (operand,) = arguments.take(walker, node, ("x",))
        run = numbers.to_run(walker, operand, node)
        return Run(walker.builder.constant(number, run.type), run.weak)

    return handler


_intrinsic("zero")(_filled(0))
_intrinsic("one")(_filled(1))


@_intrinsic("frexp")
def _frexp(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    """Mantissa in [0.5, 1) and exponent, by the bits; subnormals are scaled first."""
    (operand,) = arguments.take(walker, node, ("x",))
    run = numbers.as_float(walker, operand, node)
    scalar = scalar_of(run.type)
    if shape_of(run.type) or scalar.bits < 32:
        raise walker.error(
            node, "frexp takes an f32 or f64 number", found=numbers.describe(run), kind=QuadrantsTypeError
        )
    bits, fraction, bias, scale = (i32, 23, 126, 25) if scalar is f32 else (numbers.i64, 52, 1022, 54)
    b = walker.builder
    tiny = b.emit("lt", b.emit("abs", run.value), b.constant(2.0 ** (2 - bias), scalar))
    scaled = b.emit("select", tiny, b.emit("mul", run.value, b.constant(2.0**scale, scalar)), run.value)
    raw = b.emit("bitcast", scaled, type=bits)
    mask = ((1 << (bits.bits - 1 - fraction)) - 1) << fraction
    exponent = b.emit(
        "sub",
        b.emit("ushr", b.emit("bit_and", raw, b.constant(mask, bits)), b.constant(fraction, bits)),
        b.constant(bias, bits),
    )
    exponent = b.emit("sub", exponent, b.emit("select", tiny, b.constant(scale, bits), b.constant(0, bits)))
    mantissa = b.emit(
        "bitcast",
        b.emit("bit_or", b.emit("bit_and", raw, b.constant(~mask, bits)), b.constant(bias << fraction, bits)),
        type=scalar,
    )
    plain = b.emit(
        "bit_or",
        b.emit("eq", run.value, b.constant(0, scalar)),
        b.emit("bit_or", b.emit("is_nan", run.value), b.emit("is_inf", run.value)),
    )
    return Sequence(
        [
            Run(b.emit("select", plain, run.value, mantissa)),
            Run(b.cast(b.emit("select", plain, b.constant(0, bits), exponent), i32)),
        ]
    )


# Vectors and matrices.


def _made(walker: Walker, binding: Binding, wish: list[Binding], node: ast.AST) -> Run:
    if type(binding) is Static and isinstance(binding.value, (tuple, list)):
        from quadrants.frontend.domains import wrap

        binding = wrap(binding.value)
    if type(binding) is Static and isinstance(binding.value, np.ndarray):
        from quadrants.frontend.domains import wrap

        walker.compilation.evaluated(binding.value)
        binding = wrap(binding.value.tolist())
    if type(binding) is Sequence:
        binding = numbers.sequence_to_matrix(walker, binding, node)
    run = numbers.to_run(walker, binding, node)
    if not shape_of(run.type):
        raise walker.error(
            node,
            f"{numbers.describe(run)} does not make a vector or matrix",
            hint="pass a list of numbers",
            kind=QuadrantsTypeError,
        )
    if wish and not (type(wish[0]) is Static and wish[0].value is None):
        return Run(walker.builder.cast(run.value, _dtype(walker, wish[0], node)))
    return run


@_intrinsic("Vector", "Matrix", python=(np.array, np.asarray))
def _matrix(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    binding, *wish = arguments.take(
        walker, node, ("arr", "dt") if "dt" in arguments.keywords else ("arr", "dtype"), defaults=1
    )
    return _made(walker, binding, wish, node)


def _uniform(number: int) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
        dtype, *sizes = arguments.take(walker, node, ("dt", "n", "m"), defaults=1)
        shape = tuple(
            _static_int(walker, size, node) for size in sizes if not (type(size) is Static and size.value is None)
        )
        return Run(walker.builder.constant(number, matrix_type(_dtype(walker, dtype, node), shape)))

    return handler


_intrinsic("Matrix.zero")(_uniform(0))
_intrinsic("Matrix.one")(_uniform(1))


def _static_int(walker: Walker, binding: Binding, node: ast.AST) -> int:
    if type(binding) is Static and isinstance(binding.value, (int, np.integer)):
        return int(binding.value)
    raise walker.error(node, "this size must be known at compile time", found=numbers.describe(binding))


@_intrinsic("Matrix.identity", python=())
def _identity(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    dtype, size = arguments.take(walker, node, ("dt", "n"))
    return Run(diagonal(walker, _static_int(walker, size, node), Static(1), _dtype(walker, dtype, node), node))


@_intrinsic("eye")
def _eye(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    (size,) = arguments.take(walker, node, ("n",))
    return Run(diagonal(walker, _static_int(walker, size, node), Static(1), walker.default_float, node), True)


@_intrinsic("Matrix.diag")
def _diag(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    size, value = arguments.take(walker, node, ("dim", "val"))
    run = numbers.to_run(walker, value, node)
    return Run(diagonal(walker, _static_int(walker, size, node), value, scalar_of(run.type), node), run.weak)


def diagonal(walker: Walker, size: int, value: Binding, scalar: ScalarType, node: ast.AST) -> Value:
    zero = walker.builder.constant(0, scalar)
    on = numbers.convert(walker, value, scalar, node)
    return walker.builder.emit(
        "construct",
        *[on if row == column else zero for row in range(size) for column in range(size)],
        type=matrix_type(scalar, (size, size)),
    )


@_intrinsic("Matrix.unit")
def _unit(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    size, position, *wish = arguments.take(walker, node, ("n", "i", "dt"), defaults=1)
    count, at = _static_int(walker, size, node), _static_int(walker, position, node)
    scalar = (
        _dtype(walker, wish[0], node)
        if wish and not (type(wish[0]) is Static and wish[0].value is None)
        else walker.default_int
    )
    values = [walker.builder.constant(int(index == at), scalar) for index in range(count)]
    return Run(walker.builder.emit("construct", *values, type=matrix_type(scalar, (count,))))


@_intrinsic("Matrix.rows")
def _rows(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    (rows,) = arguments.take(walker, node, ("rows",))
    return _made(walker, rows, [], node)


@_intrinsic("Matrix.cols")
def _cols(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    (columns,) = arguments.take(walker, node, ("cols",))
    run = _made(walker, columns, [], node)
    return Run(walker.builder.emit("transpose", run.value), run.weak)


def construct_annotated(walker: Walker, wish: protocol.Annotation, arguments: Arguments, node: ast.AST) -> Run:
    """`vec3(0.0)`, `vec4(v2, 3, 4)`, `mat2(…)`: one number fills, pieces are strung together."""
    assert wish.scalar is not None or wish.shape
    pieces: list[Value] = []
    scalar = wish.scalar or walker.default_float
    type_ = matrix_type(scalar, wish.shape)
    for position, binding in enumerate(arguments.positional):
        if type(binding) is Sequence or (type(binding) is Static and isinstance(binding.value, (tuple, list))):
            run = _made(walker, binding, [], node)
        else:
            run = numbers.to_run(walker, binding, node)
        value = numbers.coerce(walker, binding, run, scalar)
        pieces.extend(numbers.elements(walker, value) if shape_of(value.type) else [value])
    if len(pieces) == 1 and type_.count > 1:
        pieces *= type_.count
    if not pieces:
        pieces = [walker.builder.constant(0, scalar)] * type_.count
    if len(pieces) != type_.count:
        raise walker.error(
            node, f"{len(pieces)} numbers do not fill {type_}", expected=f"{type_.count}", kind=QuadrantsTypeError
        )
    return Run(walker.builder.emit("construct", *pieces, type=type_))


def _method_function(name: str) -> Handler:
    """np.dot(a, b) and its like: the method of the first operand."""

    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        from quadrants.frontend.methods import method_of

        owner, *rest = arguments.positional
        found = method_of(walker, numbers.to_run(walker, owner, node), name, node)
        assert found is not None
        return found.handler(walker, found.owner, Arguments(rest, arguments.keywords, arguments.nodes[1:]), node)  # type: ignore[attr-defined]

    return handler


for _name, _function in (
    ("dot", np.dot),
    ("cross", np.cross),
    ("outer_product", np.outer),
    ("norm", np.linalg.norm),
    ("determinant", np.linalg.det),
    ("inverse", np.linalg.inv),
    ("transpose", np.transpose),
):
    _intrinsic(python=(_function,))(_method_function(_name))


# Loops, static evaluation.


@_intrinsic(python=(builtins.range,))
def _range(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    parts = arguments.positional
    if not 1 <= len(parts) <= 3 or arguments.keywords:
        raise walker.error(node, "range takes one to three integers", kind=QuadrantsTypeError)
    start, stop, step = (
        (Static(0), parts[0], Static(1))
        if len(parts) == 1
        else (parts[0], parts[1], parts[2] if len(parts) == 3 else Static(1))
    )
    if walker.static_depth and all(type(part) is Static for part in (start, stop, step)):
        return Static(range(start.value, stop.value, step.value))  # type: ignore[attr-defined]
    return Iteration("range", [start, stop, step])


@_intrinsic("ndrange", "lang.ndrange")
def _ndrange(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    parts: list[Any] = []
    for binding in arguments.positional:
        pair = (
            binding.items
            if type(binding) is Sequence
            else [Static(item) for item in binding.value]
            if type(binding) is Static and isinstance(binding.value, (tuple, list))
            else None
        )
        if pair is not None and len(pair) != 2:
            raise walker.error(node, "a bound of ndrange is an integer or a pair of integers", kind=QuadrantsTypeError)
        parts.append(binding if pair is None else (pair[0], pair[1]))
    if not parts:
        raise walker.error(node, "ndrange takes one or more sizes", kind=QuadrantsTypeError)
    return Iteration("ndrange", parts)


@_intrinsic("grouped")
def _grouped(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (domain,) = arguments.take(walker, node, ("x",))
    return Iteration("grouped", [domain])


@_intrinsic(python=(builtins.enumerate,))
def _enumerate(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return Iteration("enumerate", arguments.take(walker, node, ("iterable", "start"), defaults=1))


@_intrinsic(python=(builtins.zip,))
def _zip(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return Iteration("zip", list(arguments.positional))


@_intrinsic(python=(builtins.reversed,))
def _reversed(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return Iteration("reversed", arguments.take(walker, node, ("sequence",)))


@_intrinsic("static")
def _static(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    if len(arguments.positional) > 1:
        return Sequence([_as_static(walker, binding, node) for binding in arguments.positional])
    (binding,) = arguments.take(walker, node, ("x",))
    return _as_static(walker, binding, node)


def _as_static(walker: Walker, binding: Binding, node: ast.AST) -> Binding:
    from quadrants.frontend.domains import static_items, static_product

    if type(binding) in (Static, Sequence, Array):
        return binding
    if type(binding) is Iteration:
        inner = binding.parts[0] if binding.kind == "grouped" else binding
        if type(inner) is Iteration and inner.kind == "ndrange":
            items = static_product(inner)
            if items is not None:
                return Sequence(
                    [numbers.sequence_to_matrix(walker, item, node) for item in items]
                    if binding.kind == "grouped"
                    else items
                    if len(inner.parts) > 1
                    else [item.items[0] for item in items]
                )  # type: ignore[arg-type,attr-defined]
        found = static_items(walker, _static_parts(binding), node)
        if found is not None:
            return Sequence(found)
    if (
        type(binding) is Run
        and binding.value.owner is not None
        and getattr(binding.value.owner, "kind", "") == "constant"
    ):
        return Static(binding.value.owner.attribute("value"))  # type: ignore[union-attr]
    raise walker.error(
        node,
        "qd.static takes what is known at compile time",
        found=numbers.describe(binding),
        hint="constants, template arguments, shapes and types are; values of arrays and loop variables are not",
    )


def _static_parts(binding: Iteration) -> Iteration:
    parts = [
        Static(range(*[b.value for b in part.parts]))
        if type(part) is Iteration and part.kind == "range" and all(type(b) is Static for b in part.parts)
        else part
        for part in binding.parts
    ]
    return Iteration(binding.kind, parts)


@_intrinsic("static_assert")
def _static_assert(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    condition, *message = arguments.take(walker, node, ("cond", "msg"), defaults=1)
    if type(condition) is not Static:
        raise walker.error(node, "static_assert takes a condition known at compile time", kind=QuadrantsTypeError)
    if not condition.value:
        raise AssertionError(str(walker.error(node, str(message[0].value) if message else "static assertion failed")))  # type: ignore[attr-defined]
    return Static(None)


@_intrinsic("static_print")
def _static_print(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    print(
        *[binding.value if type(binding) is Static else numbers.describe(binding) for binding in arguments.positional]
    )
    walker.compilation.printed()
    return Static(None)


@_intrinsic("loop_config")
def _loop_config(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    for name, binding in arguments.keywords.items():
        if type(binding) is not Static:
            raise walker.error(node, "loop_config takes values known at compile time")
        walker.loop_config[name] = binding.value
    if arguments.positional:
        raise walker.error(node, "loop_config takes keywords", kind=QuadrantsTypeError)
    return Static(None)


@_intrinsic("block_local", "cache_read_only", "no_activate")
def _hint(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return Static(None)


@_intrinsic("assume_in_range")
def _assume(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return arguments.take(walker, node, ("val", "base", "low", "high"))[0]


@_intrinsic("volatile_load")
def _volatile(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (element,) = arguments.take(walker, node, ("x",))
    return numbers.to_run(walker, element, node)


# Sizes, text, sequences.


@_intrinsic(python=(builtins.len,))
def _len(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (operand,) = arguments.take(walker, node, ("x",))
    if type(operand) is Sequence:
        return Static(len(operand.items))
    if type(operand) is Static and protocol.is_array(operand.value):
        operand = walker.compilation.array_of(walker, operand.value, node)
    if type(operand) is Array:
        return axis_size(walker, operand, len(operand.prefix))
    if type(operand) is Static and protocol.matrix_constant(operand.value) is None:
        walker.compilation.evaluated(operand.value)
        try:
            return Static(len(operand.value))
        except TypeError as reason:
            raise walker.error(node, str(reason), kind=QuadrantsTypeError) from None
    type_ = operand.element if type(operand) is Slot else numbers.to_run(walker, operand, node).type
    if not shape_of(type_):
        raise walker.error(node, f"{numbers.describe(operand)} has no length", kind=QuadrantsTypeError)
    return Static(shape_of(type_)[0])


def axis_size(walker: Walker, array: Array, axis: int) -> Binding:
    """The size of an axis: static where the type knows it, else read at run time (a weak 64-bit integer)."""
    first_static = array.type.rank - len(array.type.trailing)
    if axis >= first_static:
        return Static(array.type.trailing[axis - first_static])
    return Run(walker.builder.emit("dim", array.value, axis=axis), True)


@_intrinsic(python=(builtins.tuple, builtins.list))
def _sequence(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    from quadrants.frontend.assign import unpacked

    if not arguments.positional:
        return Sequence([])
    return Sequence(
        unpacked(
            walker,
            _as_static(walker, arguments.positional[0], node)
            if type(arguments.positional[0]) is Iteration
            else arguments.positional[0],
            node,
        ),
        is_list=True,
    )


@_intrinsic(
    python=(
        builtins.isinstance,
        builtins.hasattr,
        builtins.getattr,
        builtins.type,
        builtins.callable,
        builtins.issubclass,
    )
)
def _reflection(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    raise walker.error(
        node, "this asks Python about an object: use it inside qd.static(…) on what is known at compile time"
    )


@_intrinsic(python=(builtins.print,))
def _print(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    from quadrants.frontend.printing import emit_print

    emit_print(walker, arguments, node)
    return Static(None)


# Atomics.


def _atomic(by: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        from quadrants.frontend.atomics import atomic

        target, value = arguments.take(walker, node, ("x", "y"))
        return atomic(walker, by, arguments.nodes[0], target, value, node)

    return handler


for _name, _by in (
    ("add", "add"),
    ("sub", "sub"),
    ("mul", "mul"),
    ("min", "min"),
    ("max", "max"),
    ("and", "bit_and"),
    ("or", "bit_or"),
    ("xor", "bit_xor"),
    ("exchange", "exchange"),
):
    _intrinsic(f"atomic_{_name}")(_atomic(_by))


@_intrinsic("atomic_cas")
def _compare_exchange(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    from quadrants.frontend.atomics import compare_exchange

    target, expected, desired = arguments.take(walker, node, ("x", "expected", "desired"))
    return compare_exchange(walker, arguments.nodes[0], target, expected, desired, node)


# Random numbers.


@_intrinsic("random")
def _random(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    """Floats take as many of the upper bits as they hold exactly, integers as many as they are wide."""
    (wish,) = arguments.take(walker, node, ("dtype",), defaults=1) or (Static(float),)
    scalar, builder = _dtype(walker, wish, node), walker.builder
    kept = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}.get(scalar.name, scalar.bits)
    bits = builder.emit("random")
    if kept < 64:
        bits = builder.emit("shr", bits, builder.constant(64 - kept, u64))
    if not scalar.is_float:
        return Run(builder.cast(bits, scalar))
    whole = builder.cast(builder.cast(bits, i64 if kept > 31 else i32), scalar)
    return Run(builder.emit("mul", whole, builder.constant(2.0**-kept, scalar)))
