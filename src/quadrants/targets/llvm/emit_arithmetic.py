"""Elementwise rows of the op table as LLVM text, with the language's meaning: wrap, floor, saturation, NaN."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.nodes import Op
from quadrants.ir.types import ScalarType
from quadrants.passes.elementary import EXPANDED
from quadrants.targets.llvm.functions import EXACT, INTRINSICS
from quadrants.targets.llvm.helpers import call_helper
from quadrants.targets.llvm.scalars import literal, register_type
from quadrants.targets.llvm.writer import Writer, scalar

__all__ = ["HANDLERS", "combine", "flags", "round_narrow"]

_INTEGER_OPS = {"add": "add", "sub": "sub", "mul": "mul", "bit_and": "and", "bit_or": "or", "bit_xor": "xor"}
_FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def round_narrow(writer: Writer, scalar: ScalarType, value: str) -> str:
    """A float result rounded to the precision of its type, where that is narrower than the register."""
    if scalar.name == "f16":
        half = writer.assign(f"fptrunc float {value} to half")
        return writer.assign(f"fpext half {half} to float")
    if scalar.name == "bf16":
        return call_helper(writer, "round_bf16", scalar, value)
    return value


def flags(op: Op) -> str:
    """What may become of a float operation: `exact` ones are rounded as they are written; those that a pass has marked are
    reassociated. Law: LLVM fuses a product into a sum only if both carry `contract`, so only products that a pass has
    marked are fused by it."""
    if op.attribute("exact"):
        return ""
    if op.attribute("reassociate"):
        return "reassoc contract"
    return "contract" if op.kind != "mul" or op.attribute("contract") else ""


def combine(writer: Writer, kind: str, scalar: ScalarType, left: str, right: str, float_flags: str = "contract") -> str:
    """`left kind right` for the two-operand rows that updates and reductions use; gives the result's name."""
    llvm_type = register_type(scalar)
    if kind in ("min", "max"):
        return _extremum(writer, kind, scalar, left, right)
    if not scalar.is_float:
        return writer.assign(f"{_INTEGER_OPS[kind]} {llvm_type} {left}, {right}")
    result = writer.assign(f"{_FLOAT_OPS[kind]} {float_flags} {llvm_type} {left}, {right}")
    return round_narrow(writer, scalar, result)


def _intrinsic(writer: Writer, stem: str, suffix: str, llvm_type: str, operands: list[str]) -> str:
    arguments = ", ".join([f"{llvm_type} {operand}" for operand in operands])
    return writer.call(llvm_type, f"llvm.{stem}.{suffix}", arguments, ", ".join([llvm_type] * len(operands)))


def _suffix(scalar: ScalarType) -> str:
    if scalar.is_float:
        return "f64" if scalar.bits == 64 else "f32"
    return f"i{scalar.bits}"


def _extremum(writer: Writer, kind: str, scalar: ScalarType, left: str, right: str) -> str:
    if scalar.is_float:
        stem = "minnum" if kind == "min" else "maxnum"
    else:
        stem = ("s" if scalar.is_signed else "u") + kind
    return _intrinsic(writer, stem, _suffix(scalar), register_type(scalar), [left, right])


def _operands(writer: Writer, op: Op) -> list[str]:
    return [writer.name(operand) for operand in op.operands]


def _binary(writer: Writer, op: Op) -> None:
    result = op.results[0]
    type_ = scalar(result)
    left, right = _operands(writer, op)
    kind = op.kind
    if not type_.is_float and kind in ("add", "sub", "mul") and op.attribute("exact"):
        flag = "nsw" if type_.is_signed else "nuw"
        text = f"{_INTEGER_OPS[kind]} {flag} {register_type(type_)} {left}, {right}"
        writer.names[result] = writer.assign(text)
        return
    writer.names[result] = combine(writer, kind, type_, left, right, flags(op))


def _function(writer: Writer, op: Op) -> None:
    """A row that is an intrinsic."""
    result = op.results[0]
    type_ = scalar(result)
    llvm_type = register_type(type_)
    value = _intrinsic(writer, INTRINSICS[op.kind], _suffix(type_), llvm_type, _operands(writer, op))
    writer.names[result] = value if op.kind in EXACT else round_narrow(writer, type_, value)


def _called(writer: Writer, op: Op) -> None:
    """A row that a function of the module computes (passes/expand_functions.py)."""
    program, callee = writer.program, op.attributes["callee"]
    llvm_type = register_type(scalar(op.results[0]))
    arguments = ", ".join([f"{llvm_type} {operand}" for operand in _operands(writer, op)])
    parameters = ", ".join([llvm_type] * len(op.operands))
    attributes, convention = program.attributes[callee], program.convention(callee)
    struct = f"{{ {llvm_type} }}"
    returned = writer.call(struct, program.symbols[callee], arguments, parameters, attributes, convention)
    writer.names[op.results[0]] = writer.assign(f"extractvalue {struct} {returned}, 0")


def _power(writer: Writer, op: Op) -> None:
    if "callee" in op.attributes:
        return _called(writer, op)
    writer.names[op.results[0]] = call_helper(writer, "integer_power", scalar(op.results[0]), *_operands(writer, op))
    return None


def _constant(op: Op, index: int) -> int | None:
    owner = op.operands[index].owner
    if isinstance(owner, Op) and owner.kind == "constant":
        return int(owner.attributes["value"])
    return None


def _safe_divisor(writer: Writer, op: Op, type_: ScalarType, a: str, b: str) -> tuple[str, str | None]:
    """(a divisor that does not trap, whether the divisor was 0): 1 stands in for 0, and for -1 under the smallest
    number, where quotient and remainder of 1 are those that wrapping gives."""
    llvm_type = register_type(type_)
    known = _constant(op, 1)
    if known is not None and known not in (0, -1):
        return b, None
    zero = writer.assign(f"icmp eq {llvm_type} {b}, 0")
    unsafe = zero
    if type_.is_signed:
        minus = writer.assign(f"icmp eq {llvm_type} {b}, -1")
        smallest = writer.assign(f"icmp eq {llvm_type} {a}, {type_.minimum}")
        overflows = writer.assign(f"and i1 {minus}, {smallest}")
        unsafe = writer.assign(f"or i1 {zero}, {overflows}")
    return writer.assign(f"select i1 {unsafe}, {llvm_type} 1, {llvm_type} {b}"), zero


def _power_of_two(op: Op) -> int | None:
    """The exponent where the divisor is a constant power of two."""
    known = _constant(op, 1)
    return known.bit_length() - 1 if known is not None and known > 0 and known & (known - 1) == 0 else None


def _division(writer: Writer, op: Op) -> None:
    """floordiv, mod, truncdiv, truncmod."""
    result = op.results[0]
    type_ = scalar(result)
    a, b = _operands(writer, op)
    if type_.is_float:
        helper = "float_mod" if op.kind == "mod" else "float_floordiv"
        writer.names[result] = round_narrow(writer, type_, call_helper(writer, helper, type_, a, b))
        return
    floor, remainder = op.kind in ("floordiv", "mod"), op.kind.endswith("mod")
    exponent = _power_of_two(op)
    if exponent is not None and (floor or not type_.is_signed):
        writer.names[result] = _shifted_division(writer, type_, a, exponent, remainder)
        return
    divisor, zero = _safe_divisor(writer, op, type_, a, b)
    llvm_type = register_type(type_)
    if not type_.is_signed:
        value = writer.assign(f"{'urem' if remainder else 'udiv'} {llvm_type} {a}, {divisor}")
    elif not floor:
        value = writer.assign(f"{'srem' if remainder else 'sdiv'} {llvm_type} {a}, {divisor}")
    else:
        value = _floored(writer, llvm_type, a, divisor, remainder)
    if zero is not None:
        value = writer.assign(f"select i1 {zero}, {llvm_type} 0, {llvm_type} {value}")
    writer.names[result] = value


def _shifted_division(writer: Writer, type_: ScalarType, a: str, exponent: int, remainder: bool) -> str:
    llvm_type = register_type(type_)
    if remainder:
        return writer.assign(f"and {llvm_type} {a}, {(1 << exponent) - 1}")
    return writer.assign(f"{'ashr' if type_.is_signed else 'lshr'} {llvm_type} {a}, {exponent}")


def _floored(writer: Writer, llvm_type: str, a: str, b: str, remainder: bool) -> str:
    quotient = writer.assign(f"sdiv {llvm_type} {a}, {b}")
    product = writer.assign(f"mul {llvm_type} {quotient}, {b}")
    rest = writer.assign(f"sub {llvm_type} {a}, {product}")
    mixed = writer.assign(f"xor {llvm_type} {rest}, {b}")
    differ = writer.assign(f"icmp slt {llvm_type} {mixed}, 0")
    some = writer.assign(f"icmp ne {llvm_type} {rest}, 0")
    wrong = writer.assign(f"and i1 {differ}, {some}")
    if remainder:
        moved = writer.assign(f"add {llvm_type} {rest}, {b}")
        return writer.assign(f"select i1 {wrong}, {llvm_type} {moved}, {llvm_type} {rest}")
    one = writer.assign(f"sext i1 {wrong} to {llvm_type}")
    return writer.assign(f"add {llvm_type} {quotient}, {one}")


def _shift(writer: Writer, op: Op) -> None:
    """Shifts by the width or more, or by a negative count, shift everything out: an unsigned comparison finds both."""
    result = op.results[0]
    type_ = scalar(result)
    llvm_type = register_type(type_)
    a, b = _operands(writer, op)
    known = _constant(op, 1)
    if known is not None and 0 <= known < type_.bits:
        kind = {"shl": "shl", "shr": "ashr" if type_.is_signed else "lshr", "ushr": "lshr"}[op.kind]
        writer.names[result] = writer.assign(f"{kind} {llvm_type} {a}, {b}")
        return
    inside = writer.assign(f"icmp ult {llvm_type} {b}, {type_.bits}")
    if op.kind == "shr" and type_.is_signed:
        count = writer.assign(f"select i1 {inside}, {llvm_type} {b}, {llvm_type} {type_.bits - 1}")
        writer.names[result] = writer.assign(f"ashr {llvm_type} {a}, {count}")
        return
    shifted = writer.assign(f"{'shl' if op.kind == 'shl' else 'lshr'} {llvm_type} {a}, {b}")
    writer.names[result] = writer.assign(f"select i1 {inside}, {llvm_type} {shifted}, {llvm_type} 0")


def _unary(writer: Writer, op: Op) -> None:
    """neg, abs, sign, bit_not."""
    result = op.results[0]
    type_ = scalar(result)
    llvm_type = register_type(type_)
    (a,) = _operands(writer, op)
    if op.kind == "bit_not":
        value = writer.assign(f"xor {llvm_type} {a}, {'true' if type_.bits == 1 else -1}")
    elif op.kind == "sign":
        value = _sign(writer, type_, llvm_type, a)
    elif type_.is_float:
        if op.kind == "abs":
            return _function(writer, op)
        value = writer.assign(f"fneg {llvm_type} {a}")
    elif op.kind == "neg":
        value = writer.assign(f"sub {llvm_type} 0, {a}")
    elif not type_.is_signed:
        value = a
    else:
        symbol = f"llvm.abs.{llvm_type}"
        value = writer.call(llvm_type, symbol, f"{llvm_type} {a}, i1 false", f"{llvm_type}, i1")
    writer.names[result] = value
    return None


def _sign(writer: Writer, type_: ScalarType, llvm_type: str, a: str) -> str:
    if type_.is_float:
        zero = writer.assign(f"fcmp oeq {llvm_type} {a}, 0.0")
        flat = writer.assign(f"select i1 {zero}, {llvm_type} 0.0, {llvm_type} {a}")
        below = writer.assign(f"fcmp olt {llvm_type} {a}, 0.0")
        low = writer.assign(f"select i1 {below}, {llvm_type} -1.0, {llvm_type} {flat}")
        above = writer.assign(f"fcmp ogt {llvm_type} {a}, 0.0")
        return writer.assign(f"select i1 {above}, {llvm_type} 1.0, {llvm_type} {low}")
    if not type_.is_signed:
        some = writer.assign(f"icmp ne {llvm_type} {a}, 0")
        return writer.assign(f"zext i1 {some} to {llvm_type}")
    above = writer.assign(f"icmp sgt {llvm_type} {a}, 0")
    high = writer.assign(f"zext i1 {above} to {llvm_type}")
    low = writer.assign(f"ashr {llvm_type} {a}, {type_.bits - 1}")
    return writer.assign(f"or {llvm_type} {high}, {low}")


def _count_bits(writer: Writer, op: Op) -> None:
    llvm_type = register_type(scalar(op.results[0]))
    (a,) = _operands(writer, op)
    stem = {"popcount": "ctpop", "clz": "ctlz", "ctz": "cttz"}[op.kind]
    more = ("", "") if stem == "ctpop" else (", i1 false", ", i1")
    symbol = f"llvm.{stem}.{llvm_type}"
    writer.names[op.results[0]] = writer.call(llvm_type, symbol, f"{llvm_type} {a}{more[0]}", llvm_type + more[1])


def _compare(writer: Writer, op: Op) -> None:
    type_ = scalar(op.operands[0])
    a, b = _operands(writer, op)
    predicate = _COMPARISONS[op.kind]
    if type_.is_float:
        text = f"fcmp {'u' if predicate == 'ne' else 'o'}{predicate}"
    elif predicate in ("eq", "ne"):
        text = f"icmp {predicate}"
    else:
        text = f"icmp {'s' if type_.is_signed else 'u'}{predicate}"
    writer.names[op.results[0]] = writer.assign(f"{text} {register_type(type_)} {a}, {b}")


def _test(writer: Writer, op: Op) -> None:
    llvm_type = register_type(scalar(op.operands[0]))
    (a,) = _operands(writer, op)
    if op.kind == "is_nan":
        writer.names[op.results[0]] = writer.assign(f"fcmp uno {llvm_type} {a}, 0.0")
        return
    size = _intrinsic(writer, "fabs", "f64" if llvm_type == "double" else "f32", llvm_type, [a])
    writer.names[op.results[0]] = writer.assign(f"fcmp oeq {llvm_type} {size}, 0x7FF0000000000000")


def _select(writer: Writer, op: Op) -> None:
    llvm_type = register_type(scalar(op.results[0]))
    condition, yes, no = _operands(writer, op)
    text = f"select i1 {condition}, {llvm_type} {yes}, {llvm_type} {no}"
    writer.names[op.results[0]] = writer.assign(text)


def _lookup(writer: Writer, op: Op) -> None:
    """Law: no index reaches beyond the table, for the operation may run where the program does not ask for it (in lanes
    that are off, in front of a condition)."""
    type_ = scalar(op.results[0])
    llvm_type = register_type(type_)
    entries = [f"{llvm_type} {literal(type_, entry)}" for entry in op.attribute("table")]
    array = f"[{len(entries)} x {llvm_type}]"
    symbol = writer.unit.table(f"{array} [{', '.join(entries)}]")
    (index,) = _operands(writer, op)
    index = writer.call("i64", "llvm.umin.i64", f"i64 {index}, i64 {len(entries) - 1}", "i64, i64")
    address = writer.assign(f"getelementptr inbounds {array}, ptr {symbol}, i64 0, i64 {index}")
    writer.names[op.results[0]] = writer.assign(f"load {llvm_type}, ptr {address}, !invariant.load !0")


def _fma(writer: Writer, op: Op) -> None:
    """Fused where that is one instruction, or where it has to be (`exact`; then the C library may have to do it)."""
    type_ = scalar(op.results[0])
    if not writer.program.record.fused_multiply_add and not op.attribute("exact"):
        llvm_type = register_type(type_)
        a, b, c = _operands(writer, op)
        product = writer.assign(f"fmul {llvm_type} {a}, {b}")
        total = writer.assign(f"fadd {llvm_type} {product}, {c}")
        writer.names[op.results[0]] = round_narrow(writer, type_, total)
    else:
        _function(writer, op)


def _table() -> dict[str, Callable[[Writer, Op], None]]:
    table: dict[str, Callable[[Writer, Op], None]] = {}
    for handler, kinds in (
        (_binary, ("add", "sub", "mul", "div", "min", "max", "bit_and", "bit_or", "bit_xor")),
        (_division, ("floordiv", "mod", "truncdiv", "truncmod")),
        (_shift, ("shl", "shr", "ushr")),
        (_unary, ("neg", "abs", "sign", "bit_not")),
        (_count_bits, ("popcount", "clz", "ctz")),
        (_compare, tuple(_COMPARISONS)),
        (_test, ("is_nan", "is_inf")),
        (_function, tuple(INTRINSICS)),
        (_called, tuple(EXPANDED - {"pow"})),
        (_power, ("pow",)),
        (_select, ("select",)),
        (_fma, ("fma",)),
        (_lookup, ("lookup",)),
        (_unary, ("abs",)),
    ):
        table.update(dict.fromkeys(kinds, handler))
    return table


HANDLERS = _table()
