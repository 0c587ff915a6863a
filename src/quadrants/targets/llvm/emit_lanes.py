"""Lanes as LLVM vectors: elementwise rows in one instruction where there is one, else lane by lane as scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import LaneType, ScalarType, scalar_of
from quadrants.passes.elementary import EXPANDED
from quadrants.targets.llvm.emit_arithmetic import flags
from quadrants.targets.llvm.functions import INTRINSICS
from quadrants.targets.llvm.masks import is_mask
from quadrants.targets.llvm.scalars import is_narrow_float, literal, register_type
from quadrants.targets.llvm.writer import Writer, value_type

__all__ = ["HANDLERS", "combine_lanes", "each_lane", "extract", "fenced", "insert", "splat", "vectorised"]

Handler = Callable[[Writer, Op], None]

_INTEGER_OPS = {"add": "add", "sub": "sub", "mul": "mul", "bit_and": "and", "bit_or": "or", "bit_xor": "xor"}
_FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")
# Functions of floats that processors have for vectors; the others are called lane by lane.
_VECTOR_FUNCTIONS = frozenset({"abs", "ceil", "copysign", "floor", "fma", "round", "sqrt", "trunc"})


def splat(writer: Writer, type_: LaneType, name: str) -> str:
    """A scalar in every lane."""
    scalar = register_type(type_.scalar)
    wide = value_type(type_)
    first = writer.assign(f"insertelement {wide} poison, {scalar} {name}, i64 0")
    return writer.assign(f"shufflevector {wide} {first}, {wide} poison, <{type_.lanes} x i32> zeroinitializer")


def extract(writer: Writer, value: Value, lane: int) -> str:
    """The number in a lane."""
    return writer.assign(f"extractelement {writer.typed(value)}, i64 {lane}")


def insert(writer: Writer, type_: LaneType, wide: str, name: str, lane: int) -> str:
    """A vector with the number in a lane replaced."""
    return writer.assign(f"insertelement {value_type(type_)} {wide}, {register_type(type_.scalar)} {name}, i64 {lane}")


def fenced(writer: Writer, type_: LaneType, name: str) -> str:
    """A vector of 32-bit or 64-bit numbers of which no pass knows how it was made. It costs nothing."""
    bits, wide = type_.scalar.bits, value_type(type_)
    floats = f"<{type_.lanes} x {'double' if bits == 64 else 'float'}>"
    if wide != floats:
        name = writer.assign(f"bitcast {wide} {name} to {floats}")
    name = writer.call(floats, f"llvm.arithmetic.fence.v{type_.lanes}f{bits}", f"{floats} {name}", floats)
    return name if wide == floats else writer.assign(f"bitcast {floats} {name} to {wide}")


def vectorised(scalar_handler: Handler) -> Handler:
    """The handler of an elementwise row for scalars and lanes, from that for scalars."""

    def handle(writer: Writer, op: Op) -> None:
        if type(op.results[0].type) is not LaneType:
            scalar_handler(writer, op)
            return
        if writer.masks is not None and is_mask(op.results[0].type) and writer.masks.combined(op):
            return
        narrow = any(is_narrow_float(scalar_of(value.type)) for value in (*op.operands, *op.results))
        vector = None if narrow else _VECTORS.get(op.kind)
        name = vector(writer, op) if vector is not None else None
        writer.names[op.results[0]] = name if name is not None else each_lane(writer, op, scalar_handler)

    return handle


def each_lane(writer: Writer, op: Op, scalar_handler: Handler) -> str:
    """An operation lane by lane, by its handler for scalars."""
    type_ = op.results[0].type
    assert type(type_) is LaneType
    attributes = dict(op.attributes or {})
    if "type" in attributes:
        attributes["type"] = type_.scalar
    wide = "poison"
    for lane in range(type_.lanes):
        operands = [_in_lane(writer, operand, lane) for operand in op.operands]
        one = Op(op.kind, tuple(operands), (type_.scalar,), attributes, location=op.location)
        scalar_handler(writer, one)
        wide = insert(writer, type_, wide, writer.names[one.results[0]], lane)
    return wide


def _called(writer: Writer, op: Op) -> str | None:
    """A function of numbers, called for each lane in a loop: it stands under a branch that is rarely taken, or where
    there is much code already, so code should be short rather than fast."""
    if "callee" not in op.attributes:
        return None
    type_ = _wide(op)
    wide, scalar = value_type(type_), register_type(type_.scalar)
    head, done, start = writer.new_label(), writer.new_label(), writer.label
    lane, total, following = writer.fresh(), writer.fresh(), writer.fresh()
    names = _names(writer, op)
    program, callee = writer.program, op.attributes["callee"]
    writer.jump(head)
    writer.begin(head)
    places = writer.reserve(), writer.reserve()
    numbers = [writer.assign(f"extractelement {wide} {name}, i64 {lane}") for name in names]
    attributes, convention = program.attributes[callee], program.convention(callee)
    struct = f"{{ {scalar} }}"
    symbol = program.symbols[callee]
    arguments = ", ".join([f"{scalar} {number}" for number in numbers])
    parameters = ", ".join([scalar] * len(numbers))
    returned = writer.call(struct, symbol, arguments, parameters, attributes, convention)
    result = writer.assign(f"extractvalue {struct} {returned}, 0")
    filled = writer.assign(f"insertelement {wide} {total}, {scalar} {result}, i64 {lane}")
    writer.line(f"{following} = add nuw nsw i64 {lane}, 1")
    writer.fill_phi(places[0], lane, "i64", [("0", start), (following, head)])
    writer.fill_phi(places[1], total, wide, [("poison", start), (filled, head)])
    last = writer.assign(f"icmp eq i64 {following}, {type_.lanes}")
    rolled = writer.unit.shared_metadata('!{!"llvm.loop.unroll.disable"}')
    loop = writer.unit.add_metadata(f"distinct !{{!{{id}}, !{rolled}}}")
    writer.line(f"br i1 {last}, label {done}, label {head}, !llvm.loop !{loop}")
    writer.begin(done)
    return filled


def _in_lane(writer: Writer, operand: Value, lane: int) -> Value:
    if type(operand.type) is not LaneType:
        return operand
    owner = operand.owner
    if isinstance(owner, Op) and owner.kind == "constant":
        attributes = {"type": operand.type.scalar, "value": owner.attribute("value")}
        return Op("constant", (), (operand.type.scalar,), attributes).results[0]
    value = Value(operand.type.scalar)
    writer.names[value] = extract(writer, operand, lane)
    return value


def _constant(op: Op, index: int) -> int | None:
    owner = op.operands[index].owner
    if isinstance(owner, Op) and owner.kind == "constant":
        return int(owner.attribute("value"))
    return None


def _number(type_: LaneType, value: float) -> str:
    return f"splat ({register_type(type_.scalar)} {literal(type_.scalar, value)})"


def _suffix(type_: LaneType) -> str:
    return f"v{type_.lanes}{_scalar_suffix(type_.scalar)}"


def _scalar_suffix(scalar: ScalarType) -> str:
    return f"{'f' if scalar.is_float else 'i'}{scalar.bits}"


def _intrinsic(writer: Writer, stem: str, type_: LaneType, operands: Sequence[str], more: tuple[str, ...] = ()) -> str:
    wide = value_type(type_)
    arguments = [f"{wide} {operand}" for operand in operands] + list(more)
    parameters = [wide] * len(operands) + [argument.split()[0] for argument in more]
    return writer.call(wide, f"llvm.{stem}.{_suffix(type_)}", ", ".join(arguments), ", ".join(parameters))


def combine_lanes(
    writer: Writer, kind: str, type_: LaneType, left: str, right: str, float_flags: str = "contract"
) -> str:
    """`left kind right` for the rows that updates use, on vectors that are no narrow floats."""
    scalar = type_.scalar
    if kind in ("min", "max"):
        stem = f"{kind}num" if scalar.is_float else ("s" if scalar.is_signed else "u") + kind
        return _intrinsic(writer, stem, type_, [left, right])
    if scalar.is_float:
        return writer.assign(f"{_FLOAT_OPS[kind]} {float_flags} {value_type(type_)} {left}, {right}")
    return writer.assign(f"{_INTEGER_OPS[kind]} {value_type(type_)} {left}, {right}")


def _wide(op: Op) -> LaneType:
    type_ = op.results[0].type
    assert type(type_) is LaneType
    return type_


def _names(writer: Writer, op: Op) -> list[str]:
    return [writer.name(operand) for operand in op.operands]


def _binary(writer: Writer, op: Op) -> str:
    type_ = _wide(op)
    left, right = _names(writer, op)
    if not type_.scalar.is_float and op.attribute("exact") and op.kind in ("add", "sub", "mul"):
        flag = "nsw" if type_.scalar.is_signed else "nuw"
        return writer.assign(f"{_INTEGER_OPS[op.kind]} {flag} {value_type(type_)} {left}, {right}")
    return combine_lanes(writer, op.kind, type_, left, right, flags(op))


def _compare(writer: Writer, op: Op) -> str:
    type_ = op.operands[0].type
    scalar = scalar_of(type_)
    a, b = _names(writer, op)
    if scalar.is_float:
        text = f"fcmp {'u' if op.kind == 'ne' else 'o'}{op.kind}"
    elif op.kind in ("eq", "ne"):
        text = f"icmp {op.kind}"
    else:
        text = f"icmp {'s' if scalar.is_signed else 'u'}{op.kind}"
    return writer.assign(f"{text} {value_type(type_)} {a}, {b}")


def _test(writer: Writer, op: Op) -> str:
    type_ = op.operands[0].type
    assert type(type_) is LaneType
    (a,) = _names(writer, op)
    if op.kind == "is_nan":
        return writer.assign(f"fcmp uno {value_type(type_)} {a}, zeroinitializer")
    size = _intrinsic(writer, "fabs", type_, [a])
    return writer.assign(f"fcmp oeq {value_type(type_)} {size}, {_number(type_, float('inf'))}")


def _select(writer: Writer, op: Op) -> str:
    condition, yes, no = [writer.typed(operand) for operand in op.operands]
    return writer.assign(f"select {condition}, {yes}, {no}")


def _function(writer: Writer, op: Op) -> str:
    return _intrinsic(writer, INTRINSICS[op.kind], _wide(op), _names(writer, op))


def _fma(writer: Writer, op: Op) -> str | None:
    return _function(writer, op) if writer.program.record.fused_multiply_add else None


def _unary(writer: Writer, op: Op) -> str | None:
    """neg, abs, bit_not."""
    type_ = _wide(op)
    wide, scalar = value_type(type_), type_.scalar
    (a,) = _names(writer, op)
    if op.kind == "bit_not":
        return writer.assign(f"xor {wide} {a}, splat ({register_type(scalar)} {'true' if scalar.bits == 1 else -1})")
    if op.kind == "neg":
        return writer.assign(f"fneg {wide} {a}" if scalar.is_float else f"sub {wide} zeroinitializer, {a}")
    if scalar.is_float:
        return _function(writer, op)
    return _intrinsic(writer, "abs", type_, [a], ("i1 false",)) if scalar.is_signed else a


def _count_bits(writer: Writer, op: Op) -> str:
    stem = {"popcount": "ctpop", "clz": "ctlz", "ctz": "cttz"}[op.kind]
    return _intrinsic(writer, stem, _wide(op), _names(writer, op), () if stem == "ctpop" else ("i1 false",))


def _shift(writer: Writer, op: Op) -> str:
    type_ = _wide(op)
    wide, scalar = value_type(type_), type_.scalar
    a, b = _names(writer, op)
    arithmetic = op.kind == "shr" and scalar.is_signed
    kind = "shl" if op.kind == "shl" else "ashr" if arithmetic else "lshr"
    known = _constant(op, 1)
    if known is not None and 0 <= known < scalar.bits:
        return writer.assign(f"{kind} {wide} {a}, {b}")
    inside = writer.assign(f"icmp ult {wide} {b}, splat ({register_type(scalar)} {scalar.bits})")
    mask = f"<{type_.lanes} x i1> {inside}"
    if arithmetic:
        most = f"splat ({register_type(scalar)} {scalar.bits - 1})"
        count = writer.assign(f"select {mask}, {wide} {b}, {wide} {most}")
        return writer.assign(f"ashr {wide} {a}, {count}")
    shifted = writer.assign(f"{kind} {wide} {a}, {b}")
    return writer.assign(f"select {mask}, {wide} {shifted}, {wide} zeroinitializer")


def _division(writer: Writer, op: Op) -> str | None:
    """Integers by a positive constant; others go lane by lane, as processors do it."""
    type_ = _wide(op)
    known = _constant(op, 1) if not type_.scalar.is_float else None
    if known is None or known <= 0:
        return None
    wide, scalar = value_type(type_), type_.scalar
    a, b = _names(writer, op)
    floor, remainder = op.kind in ("floordiv", "mod"), op.kind.endswith("mod")
    if not scalar.is_signed:
        return writer.assign(f"{'urem' if remainder else 'udiv'} {wide} {a}, {b}")
    if not floor:
        return writer.assign(f"{'srem' if remainder else 'sdiv'} {wide} {a}, {b}")
    if known & (known - 1) == 0:
        register = register_type(scalar)
        if remainder:
            return writer.assign(f"and {wide} {a}, splat ({register} {known - 1})")
        return writer.assign(f"ashr {wide} {a}, splat ({register} {known.bit_length() - 1})")
    rest = writer.assign(f"srem {wide} {a}, {b}")
    sign = writer.assign(f"ashr {wide} {rest}, splat ({register_type(scalar)} {scalar.bits - 1})")
    if remainder:
        return writer.assign(f"add {wide} {rest}, {writer.assign(f'and {wide} {sign}, {b}')}")
    return writer.assign(f"add {wide} {writer.assign(f'sdiv {wide} {a}, {b}')}, {sign}")


def _cast(writer: Writer, op: Op) -> str:
    source, target = op.operands[0].type, _wide(op)
    assert type(source) is LaneType
    (a,) = _names(writer, op)
    old, new = source.scalar, target.scalar
    if old is new:
        return a
    wide, into = value_type(source), value_type(target)
    if new.bits == 1:
        test = "fcmp une" if old.is_float else "icmp ne"
        return writer.assign(f"{test} {wide} {a}, zeroinitializer")
    if old.is_float and not new.is_float:
        kind = "si" if new.is_signed else "ui"
        if op.attribute("exact"):
            return writer.assign(f"fpto{kind} {wide} {a} to {into}")
        symbol = f"llvm.fpto{kind}.sat.{_suffix(target)}.{_suffix(source)}"
        return writer.call(into, symbol, f"{wide} {a}", wide)
    if old.is_float:
        return writer.assign(f"{'fpext' if new.bits > old.bits else 'fptrunc'} {wide} {a} to {into}")
    if new.is_float:
        return writer.assign(f"{'sitofp' if old.is_signed else 'uitofp'} {wide} {a} to {into}")
    if old.bits == new.bits:
        return a
    kind = ("sext" if old.is_signed else "zext") if new.bits > old.bits else "trunc"
    if kind == "trunc" and op.attribute("exact"):
        kind += " nsw" if old.is_signed else " nuw"
    return writer.assign(f"{kind} {wide} {a} to {into}")


def _bitcast(writer: Writer, op: Op) -> str:
    source, target = value_type(op.operands[0].type), value_type(op.results[0].type)
    (a,) = _names(writer, op)
    return a if source == target else writer.assign(f"bitcast {source} {a} to {target}")


def _table() -> dict[str, Callable[[Writer, Op], str | None]]:
    table: dict[str, Callable[[Writer, Op], str | None]] = {}
    for handler, kinds in (
        (_binary, (*_INTEGER_OPS, "div", "min", "max")),
        (_compare, _PREDICATES),
        (_test, ("is_nan", "is_inf")),
        (_select, ("select",)),
        (_function, tuple(_VECTOR_FUNCTIONS)),
        (_fma, ("fma",)),
        (_unary, ("neg", "abs", "bit_not")),
        (_count_bits, ("popcount", "clz", "ctz")),
        (_shift, ("shl", "shr", "ushr")),
        (_division, ("floordiv", "mod", "truncdiv", "truncmod")),
        (_cast, ("cast",)),
        (_bitcast, ("bitcast",)),
        (_called, tuple(EXPANDED)),
    ):
        table.update(dict.fromkeys(kinds, handler))
    return table


_VECTORS = _table()


# Rows that only lanes have.


def _lane_index(writer: Writer, op: Op) -> None:
    numbers = ", ".join([f"i64 {lane}" for lane in range(_wide(op).lanes)])
    writer.names[op.results[0]] = f"<{numbers}>"


def _broadcast(writer: Writer, op: Op) -> None:
    if writer.masks is None or not is_mask(_wide(op)) or not writer.masks.combined(op):
        writer.names[op.results[0]] = splat(writer, _wide(op), writer.name(op.operands[0]))


def _extract_lane(writer: Writer, op: Op) -> None:
    writer.names[op.results[0]] = extract(writer, op.operands[0], op.attribute("lane"))


def _lane_test(writer: Writer, op: Op) -> None:
    type_ = op.operands[0].type
    assert type(type_) is LaneType
    kind = "or" if op.kind == "any_lane" else "and"
    if writer.masks is not None:
        writer.names[op.results[0]] = writer.masks.test(op.operands[0], kind)
        return
    symbol = f"llvm.vector.reduce.{kind}.v{type_.lanes}i1"
    writer.names[op.results[0]] = writer.call("i1", symbol, writer.typed(op.operands[0]), value_type(type_))


def _reduce(writer: Writer, op: Op) -> None:
    """The order of a float sum is the processor's choice where the operation allows it, else that of the lanes."""
    type_ = op.operands[0].type
    assert type(type_) is LaneType
    kind, scalar = op.kind.partition("_")[2], type_.scalar
    if is_narrow_float(scalar):
        writer.names[op.results[0]] = _fold(writer, op, kind)
        return
    result, wide = register_type(scalar), value_type(type_)
    arguments, parameters = writer.typed(op.operands[0]), wide
    if scalar.is_float:
        stem = {"add": "fadd", "mul": "fmul", "min": "fmin", "max": "fmax"}[kind]
        if kind in ("add", "mul"):
            start = literal(scalar, -0.0 if kind == "add" else 1.0)
            arguments, parameters = f"{result} {start}, {arguments}", f"{result}, {wide}"
    else:
        sign = ("s" if scalar.is_signed else "u") if kind in ("min", "max") else ""
        stem = sign + kind
    symbol = f"llvm.vector.reduce.{stem}.{_suffix(type_)}"
    writer.unit.declare(symbol, f"declare {result} @{symbol}({parameters})")
    flags = "reassoc " if op.attribute("reassociate") else ""
    writer.names[op.results[0]] = writer.assign(f"call {flags}{result} @{symbol}({arguments})")


def _fold(writer: Writer, op: Op, kind: str) -> str:
    from quadrants.targets.llvm.emit_arithmetic import combine

    type_ = op.operands[0].type
    assert type(type_) is LaneType
    total = extract(writer, op.operands[0], 0)
    for lane in range(1, type_.lanes):
        total = combine(writer, kind, type_.scalar, total, extract(writer, op.operands[0], lane))
    return total


HANDLERS: dict[str, Handler] = {
    "lane_index": _lane_index,
    "broadcast": _broadcast,
    "extract_lane": _extract_lane,
    "any_lane": _lane_test,
    "all_lanes": _lane_test,
    **dict.fromkeys([f"reduce_{kind}" for kind in ("add", "mul", "min", "max", "and", "or")], _reduce),
}
