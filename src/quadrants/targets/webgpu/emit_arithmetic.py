"""Elementwise rows of the op table as WGSL, with the language's meaning."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.nodes import Op
from quadrants.ir.types import ScalarType, f32, f64
from quadrants.targets.webgpu.helpers import cast_helper
from quadrants.targets.webgpu.scalars import from_memory, literal, narrowed, register, to_memory
from quadrants.targets.webgpu.writer import Writer, scalar

__all__ = ["HANDLERS", "combine", "converted"]

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "bit_and": "&", "bit_or": "|", "bit_xor": "^"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def combine(writer: Writer, kind: str, type_: ScalarType, left: str, right: str) -> str:
    """`left kind right` for the rows of two operands that updates use, too."""
    held = register(type_)
    if kind == "exchange":
        return right
    if kind in ("min", "max"):
        if type_.is_float:
            return f"{writer.shader.helper(f'{kind}_{held}')}({left}, {right})"
        return f"{kind}({left}, {right})"
    if type_.bits == 1:
        return f"({left} {'!=' if kind == 'bit_xor' else _SIGNS[kind]} {right})"
    if type_.is_float:
        if left == right and kind == "sub":
            right = f"{writer.shader.helper('opaque_' + held)}({right})"
        return writer.rounded(type_, f"({left} {_SIGNS[kind]} {right})")
    return narrowed(type_, f"({left} {_SIGNS[kind]} {right})")


def _binary(writer: Writer, op: Op) -> None:
    left, right = _operands(writer, op)
    writer.define(op.results[0], combine(writer, op.kind, scalar(op.results[0]), left, right))


def _operands(writer: Writer, op: Op) -> list[str]:
    return [writer.name(operand) for operand in op.operands]


def _division(writer: Writer, op: Op) -> None:
    """floordiv, mod, truncdiv, truncmod."""
    type_ = scalar(op.results[0])
    held, kind = register(type_), op.kind
    if held in ("u32", "u64"):
        kind = {"floordiv": "truncdiv", "mod": "truncmod"}.get(kind, kind)
    text = f"{writer.shader.helper(f'{kind}_{held}')}({', '.join(_operands(writer, op))})"
    writer.define(op.results[0], writer.rounded(type_, text) if type_.is_float else narrowed(type_, text))


def _power(writer: Writer, op: Op) -> None:
    if "callee" in op.attributes:
        _called(writer, op)
        return
    type_ = scalar(op.results[0])
    text = f"{writer.shader.helper(f'power_{register(type_)}')}({', '.join(_operands(writer, op))})"
    writer.define(op.results[0], narrowed(type_, text))


def _called(writer: Writer, op: Op) -> None:
    """A row that a function of the module computes."""
    symbol = writer.shader.symbol(op.attributes["callee"])
    writer.define(op.results[0], f"{symbol}({', '.join(_operands(writer, op))}).r0")


def _unary(writer: Writer, op: Op) -> None:
    """neg, abs, sign, bit_not."""
    type_ = scalar(op.results[0])
    held = register(type_)
    (a,) = _operands(writer, op)
    if op.kind == "bit_not":
        text = f"!{a}" if type_.bits == 1 else narrowed(type_, f"(~{a})")
    elif op.kind == "neg":
        text = f"(-{a})" if type_.is_float else narrowed(type_, f"({held}() - {a})")
    elif op.kind == "abs":
        text = narrowed(type_, f"abs({a})") if type_.is_float or type_.is_signed else a
    elif type_.is_float:
        text = f"{writer.shader.helper(f'sign_{held}')}({a})"
    else:
        text = f"sign({a})" if type_.is_signed else f"select({held}(), {literal(type_, 1)}, {a} != {held}())"
    writer.define(op.results[0], text)


def _shift(writer: Writer, op: Op) -> None:
    """Shifts by the width or more, or by a negative count, shift everything out."""
    type_ = scalar(op.results[0])
    held = register(type_)
    a, b = _operands(writer, op)
    wide = "u64" if type_.bits == 64 else "u32"
    count = f"u32({b})" if type_.bits < 64 else f"u32(min({wide}({b}), 127lu))"
    inside = f"({wide}({b}) < {type_.bits}{'lu' if type_.bits == 64 else 'u'})"
    if op.kind == "shr" and type_.is_signed:
        text = f"({a} >> select({type_.bits - 1}u, {count}, {inside}))"
    else:
        value = a
        if op.kind == "ushr" and type_.is_signed:
            value = f"{wide}({a})" if type_.bits >= 32 else f"(u32({a}) & {(1 << type_.bits) - 1}u)"
        sign = "<<" if op.kind == "shl" else ">>"
        shifted = f"({value} {sign} ({count} & {63 if type_.bits == 64 else 31}u))"
        text = narrowed(type_, f"select({held}(), {held}({shifted}), {inside})")
    writer.define(op.results[0], text)


def _count_bits(writer: Writer, op: Op) -> None:
    type_ = scalar(op.results[0])
    held = register(type_)
    (a,) = _operands(writer, op)
    if type_.bits == 64:
        text = f"{writer.shader.helper(f'{op.kind}64')}(u64({a}))"
    else:
        bits = f"(u32({a}) & {(1 << type_.bits) - 1}u)"
        text = {
            "popcount": f"countOneBits({bits})",
            "clz": f"(countLeadingZeros({bits}) - {32 - type_.bits}u)",
            "ctz": f"min(countTrailingZeros({bits}), {type_.bits}u)",
        }[op.kind]
    writer.define(op.results[0], f"{held}({text})")


def _compare(writer: Writer, op: Op) -> None:
    type_ = scalar(op.operands[0])
    a, b = _operands(writer, op)
    if type_.bits == 1 and op.kind not in ("eq", "ne"):
        a, b = f"u32({a})", f"u32({b})"
    if type_.is_float and op.kind == "ne":  # drivers take `!=` for ordered: false for NaN
        writer.define(op.results[0], f"!({a} == {b})")
    else:
        writer.define(op.results[0], f"({a} {_COMPARISONS[op.kind]} {b})")


def _test(writer: Writer, op: Op) -> None:
    (a,) = _operands(writer, op)
    writer.define(op.results[0], f"{writer.shader.helper(f'{op.kind}_{register(scalar(op.operands[0]))}')}({a})")


def _select(writer: Writer, op: Op) -> None:
    condition, yes, no = _operands(writer, op)
    writer.define(op.results[0], f"select({no}, {yes}, {condition})")


def _function(writer: Writer, op: Op) -> None:
    """floor, ceil, trunc, round, copysign: helpers of both widths, whose results need no rounding."""
    held = register(scalar(op.results[0]))
    text = f"{writer.shader.helper(f'{op.kind}_{held}')}({', '.join(_operands(writer, op))})"
    writer.define(op.results[0], text)


def _sqrt(writer: Writer, op: Op) -> None:
    (a,) = _operands(writer, op)
    writer.define(op.results[0], writer.rounded(scalar(op.results[0]), f"sqrt({a})"))


def _fma(writer: Writer, op: Op) -> None:
    """Fused where the driver does, or where it has to be (`exact`)."""
    type_ = scalar(op.results[0])
    a, b, c = _operands(writer, op)
    if register(type_) in writer.shader.driver.fused:
        text = f"fma({a}, {b}, {c})"
    elif op.attribute("exact"):
        text = f"{writer.shader.helper(f'fma_{register(type_)}')}({a}, {b}, {c})"
    else:
        product = writer.let(register(type_), writer.rounded(type_, f"({a} * {b})"))
        text = f"({product} + {c})"
    writer.define(op.results[0], writer.rounded(type_, text))


def _rsqrt(writer: Writer, op: Op) -> None:
    type_ = scalar(op.results[0])
    (a,) = _operands(writer, op)
    one = "1.0lf" if type_.bits == 64 else "1.0f"
    root = writer.let(register(type_), writer.rounded(type_, f"sqrt({a})"))
    writer.define(op.results[0], writer.rounded(type_, f"({one} / {root})"))


def _lookup(writer: Writer, op: Op) -> None:
    """Law: no index reaches beyond the table."""
    entries = tuple(op.attribute("table"))
    type_ = scalar(op.results[0])
    name = writer.shader.table(type_, entries)
    (index,) = _operands(writer, op)
    bits = f"{name}[u32(min(u64({index}), {len(entries) - 1}lu))]"
    writer.define(op.results[0], f"({bits} != 0u)" if type_.bits == 1 else f"bitcast<{register(type_)}>({bits})")


def _cast(writer: Writer, op: Op) -> None:
    (a,) = _operands(writer, op)
    writer.define(op.results[0], converted(writer, scalar(op.operands[0]), scalar(op.results[0]), a))


def converted(writer: Writer, source: ScalarType, target: ScalarType, value: str) -> str:
    """`value` as another type."""
    if source is target:
        return value
    held = register(target)
    if source.bits == 1:
        return f"select({literal(target, 0)}, {literal(target, 1)}, {value})"
    if target.bits == 1:
        zero = literal(source if not source.is_float else f64 if source.bits == 64 else f32, 0)
        return f"!({value} == {zero})"
    if not source.is_float and not target.is_float:
        if target.bits == 64 and source.bits < 64:  # drivers extend by the sign of the target, not of the source
            return f"{held}({source.kind}64({value}))"
        return narrowed(target, f"{held}({value})")
    if not source.is_float:
        return writer.rounded(target, f"{held}({value})")
    if not target.is_float:
        return f"{writer.shader.helper(cast_helper(source, target))}({value})"
    if target.name == "f16" and source.bits == 64:
        return writer.rounded(target, f"{writer.shader.helper('double_to_odd')}({value})")
    return writer.rounded(target, f"{held}({value})")


def _bitcast(writer: Writer, op: Op) -> None:
    source, target = scalar(op.operands[0]), scalar(op.results[0])
    (a,) = _operands(writer, op)
    writer.define(op.results[0], from_memory(target, to_memory(source, a)))


HANDLERS: dict[str, Callable[[Writer, Op], None]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "min", "max", "bit_and", "bit_or", "bit_xor"), _binary),
    **dict.fromkeys(("floordiv", "mod", "truncdiv", "truncmod"), _division),
    **dict.fromkeys(("neg", "abs", "sign", "bit_not"), _unary),
    **dict.fromkeys(("shl", "shr", "ushr"), _shift),
    **dict.fromkeys(("popcount", "clz", "ctz"), _count_bits),
    **dict.fromkeys(_COMPARISONS, _compare),
    **dict.fromkeys(("is_nan", "is_inf"), _test),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "copysign"), _function),
    "sqrt": _sqrt,
    "fma": _fma,
    "rsqrt": _rsqrt,
    "pow": _power,
    "select": _select,
    "lookup": _lookup,
    "cast": _cast,
    "bitcast": _bitcast,
}
CALLED = _called
"""For rows that `expand_functions` has made functions of."""
