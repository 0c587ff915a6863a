"""Conversions, choices, bits and random numbers."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers
from quadrants.frontend.calls import Arguments
from quadrants.frontend.functions import library_function
from quadrants.frontend.intrinsic_table import Handler, intrinsic, named_dtype
from quadrants.frontend.values import Binding, Run, Sequence, Static, is_number
from quadrants.ir.nodes import Value
from quadrants.ir.types import f32, i32, i64, scalar_of, shape_of, u1, u64, with_scalar

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__: list[str] = []

# Conversions.


@intrinsic("cast")
def _cast(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    operand, wish = arguments.take(walker, node, ("x", "dtype"))
    return Run(numbers.coerce(walker, operand, numbers.to_run(walker, operand, node), named_dtype(walker, wish, node)))


@intrinsic("bit_cast")
def _bit_cast(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    operand, wish = arguments.take(walker, node, ("x", "dtype"))
    run, scalar = numbers.to_run(walker, operand, node), named_dtype(walker, wish, node)
    if scalar_of(run.type).bits != scalar.bits:
        raise walker.error(node, "bit_cast keeps the width", found=f"{run.type} to {scalar}", kind=QuadrantsTypeError)
    return Run(walker.builder.emit("bitcast", run.value, type=with_scalar(run.type, scalar)))


@intrinsic("lookup")
def _lookup(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    table, index, wish = arguments.take(walker, node, ("table", "index", "dtype"))
    entries = table.value if type(table) is Static else None
    if not isinstance(entries, tuple) or not entries or not all(map(is_number, entries)):
        expected = "a tuple of Python numbers that is known at compile time"
        raise walker.error(node, "no table", found=numbers.describe(table), expected=expected, kind=QuadrantsTypeError)
    at = numbers.to_run(walker, index, node)
    if scalar_of(at.type).is_float:
        found = numbers.describe(at)
        raise walker.error(node, "an index is an integer", found=found, kind=QuadrantsTypeError)
    scalar = named_dtype(walker, wish, node)
    typed = tuple([numbers.as_type(entry, scalar) for entry in entries])
    builder = walker.builder
    return Run(builder.emit("lookup", builder.cast(at.value, i64), type=with_scalar(at.type, scalar), table=typed))


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
    intrinsic(python=(_kind,))(_python_cast(_kind))


# Choosing, bits.


@intrinsic("select", python=(np.where,))
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


intrinsic("bit_shr")(_integer_pair("ushr"))
intrinsic("raw_div")(_integer_pair("truncdiv"))
intrinsic("raw_mod")(_integer_pair("truncmod"))


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


intrinsic("popcnt")(_bit_count("popcount"))
intrinsic("clz")(_bit_count("clz"))
intrinsic("ffs")(_bit_count("ffs"))


@intrinsic("fns")
def _find_nth_set(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return library_function(walker, "fns", arguments, node)


def _filled(number: int) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        (operand,) = arguments.take(walker, node, ("x",))
        run = numbers.to_run(walker, operand, node)
        return Run(walker.builder.constant(number, run.type), run.weak)

    return handler


intrinsic("zero")(_filled(0))
intrinsic("one")(_filled(1))


@intrinsic("frexp", python=(math.frexp, np.frexp))
def _frexp(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    """Mantissa in [0.5, 1) and exponent, by the bits; subnormals are scaled first."""
    (operand,) = arguments.take(walker, node, ("x",))
    run = numbers.as_float(walker, operand, node)
    scalar = scalar_of(run.type)
    if shape_of(run.type) or scalar.bits < 32:
        raise walker.error(
            node, "frexp takes an f32 or f64 number", found=numbers.describe(run), kind=QuadrantsTypeError
        )
    bits, fraction, bias, scale = (i32, 23, 126, 25) if scalar is f32 else (i64, 52, 1022, 54)
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


# Random numbers.


@intrinsic("random")
def _random(walker: Walker, arguments: Arguments, node: ast.AST) -> Run:
    """Floats take as many of the upper bits as they hold exactly, integers as many as they are wide."""
    (wish,) = arguments.take(walker, node, ("dtype",), defaults=1) or (Static(float),)
    scalar, builder = named_dtype(walker, wish, node), walker.builder
    kept = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}.get(scalar.name, scalar.bits)
    bits = builder.emit("random")
    if kept < 64:
        bits = builder.emit("shr", bits, builder.constant(64 - kept, u64))
    if not scalar.is_float:
        return Run(builder.cast(bits, scalar))
    whole = builder.cast(builder.cast(bits, i64 if kept > 31 else i32), scalar)
    return Run(builder.emit("mul", whole, builder.constant(2.0**-kept, scalar)))
