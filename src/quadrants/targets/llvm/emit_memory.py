"""Loads, stores, slots and atomic updates."""

from __future__ import annotations

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ScalarType
from quadrants.targets.llvm.arrays import from_memory, to_memory
from quadrants.targets.llvm.emit_arithmetic import combine
from quadrants.targets.llvm.scalars import memory_type
from quadrants.targets.llvm.writer import Writer, scalar

__all__ = ["HANDLERS"]

_KINDS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "min": "min",
    "max": "max",
    "bit_and": "and",
    "bit_or": "or",
    "bit_xor": "xor",
    "exchange": "xchg",
}


def _indices(writer: Writer, operands: tuple[Value, ...]) -> list[str]:
    return [writer.name(operand) for operand in operands]


def _refuse_wrap(op: Op) -> None:
    if op.attribute("wrap"):
        raise QuadrantsInternalError(f"{op.kind} with `wrap` in a lowered module")


def _load(writer: Writer, op: Op) -> None:
    _refuse_wrap(op)
    array, *indices = op.operands
    names = _indices(writer, tuple(indices))
    writer.names[op.results[0]] = writer.array(array).load(names, op.attribute("aligned", 0))


def _store(writer: Writer, op: Op) -> None:
    _refuse_wrap(op)
    value, array, *indices = op.operands
    stored = writer.name(value)
    writer.array(array).store(stored, _indices(writer, tuple(indices)), op.attribute("aligned", 0))


def _slot(writer: Writer, op: Op) -> None:
    access = writer.add_slot(op.results[0])
    if writer.loops:
        writer.start_life(access.pointer)


def _step(writer: Writer, op: Op) -> None:
    writer.names[op.results[0]] = writer.array(op.operands[0]).step(op.attributes["axis"])


def _lines_aligned(writer: Writer, op: Op) -> None:
    access, size = writer.array(op.operands[0]), op.attributes["bytes"]
    writer.names[op.results[0]] = access.lines_aligned(size)


def _update(writer: Writer, op: Op) -> None:
    _refuse_wrap(op)
    value, array, *indices = op.operands
    names = _indices(writer, tuple(indices))
    access, count = writer.array(array).reach(names)
    type_ = access.type.scalar
    operand = writer.name(value)
    address = access.address(names[:count])
    by = op.attributes["by"]
    atomic = writer.atomic_needed and op.attribute("atomic", True) and not access.type.is_slot
    if by == "add" and array in writer.plain_updates:
        atomic = False
    if not atomic:
        old = _plain(writer, by, type_, operand, address, access.annotations)
    elif _is_native(by, type_):
        old = _read_modify_write(writer, by, type_, operand, address, access.annotations)
    else:
        old = _exchange_loop(writer, by, type_, operand, address, access.annotations)
    writer.names[op.results[0]] = old


def _is_native(by: str, type_: ScalarType) -> bool:
    """Whether `atomicrmw` has the operation on the form that the type has in memory."""
    if by == "exchange":
        return True
    if type_.bits == 1 and by in ("add", "sub"):
        return False  # they wrap in one bit, which takes a byte in memory
    return by != "mul" and not (type_.is_float and type_.bits == 16)


def _new_value(writer: Writer, by: str, type_: ScalarType, old: str, operand: str) -> str:
    return operand if by == "exchange" else combine(writer, by, type_, old, operand)


def _plain(writer: Writer, by: str, type_: ScalarType, operand: str, address: str, annotations: str) -> str:
    memory = memory_type(type_)
    old = from_memory(writer, type_, writer.assign(f"load {memory}, ptr {address}{annotations}"))
    new = to_memory(writer, type_, _new_value(writer, by, type_, old, operand))
    writer.line(f"store {memory} {new}, ptr {address}{annotations}")
    return old


def _read_modify_write(writer: Writer, by: str, type_: ScalarType, operand: str, address: str, annotations: str) -> str:
    kind = _KINDS[by]
    if type_.is_float and by != "exchange":
        kind = "f" + kind
    elif by in ("min", "max") and not type_.is_signed:
        kind = "u" + kind
    memory = memory_type(type_)
    stored = to_memory(writer, type_, operand)
    alignment, scopes = _split(annotations)
    scope = writer.program.atomic_scope
    if kind.startswith("f"):
        scopes += writer.program.sum_annotations
    old = writer.assign(f"atomicrmw {kind} ptr {address}, {memory} {stored}{scope} monotonic{alignment}{scopes}")
    return from_memory(writer, type_, old)


def _split(annotations: str) -> tuple[str, str]:
    """The alignment and the rest of an access's annotations."""
    alignment, _, scopes = annotations.partition(", !")
    return alignment, ", !" + scopes if scopes else ""


def _exchange_loop(writer: Writer, by: str, type_: ScalarType, operand: str, address: str, annotations: str) -> str:
    """A compare-exchange loop on the bits of the element; gives the old value."""
    bits = f"i{8 * type_.bytes}"
    memory = memory_type(type_)
    scope = writer.program.atomic_scope
    first = writer.assign(f"load atomic {bits}, ptr {address}{scope} monotonic{annotations}")
    start, again, done = writer.label, writer.new_label(), writer.new_label()
    writer.jump(again)
    writer.begin(again)
    place, expected = writer.reserve(), writer.fresh()
    held = expected if bits == memory else writer.assign(f"bitcast {bits} {expected} to {memory}")
    old = from_memory(writer, type_, held)
    new = to_memory(writer, type_, _new_value(writer, by, type_, old, operand))
    new_bits = new if bits == memory else writer.assign(f"bitcast {memory} {new} to {bits}")
    alignment, scopes = _split(annotations)
    pair = writer.assign(
        f"cmpxchg weak ptr {address}, {bits} {expected}, {bits} {new_bits}{scope} monotonic monotonic{alignment}{scopes}"
    )
    found = writer.assign(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
    success = writer.assign(f"extractvalue {{ {bits}, i1 }} {pair}, 1")
    writer.fill_phi(place, expected, bits, [(first, start), (found, writer.label)])
    writer.branch(success, done, again, likely=True)
    writer.begin(done)
    return old


def _compare_exchange(writer: Writer, op: Op) -> None:
    _refuse_wrap(op)
    expected, value, array, *indices = op.operands
    type_ = scalar(value)
    names = _indices(writer, tuple(indices))
    access, count = writer.array(array).reach(names)
    address = access.address(names[:count])
    memory = memory_type(type_)
    wanted = to_memory(writer, type_, writer.name(expected))
    stored = to_memory(writer, type_, writer.name(value))
    alignment, scopes = _split(access.annotations)
    scope = writer.program.atomic_scope
    pair = writer.assign(
        f"cmpxchg ptr {address}, {memory} {wanted}, {memory} {stored}{scope} monotonic monotonic{alignment}{scopes}"
    )
    old = writer.assign(f"extractvalue {{ {memory}, i1 }} {pair}, 0")
    writer.names[op.results[0]] = from_memory(writer, type_, old)


HANDLERS = {
    "load": _load,
    "store": _store,
    "slot": _slot,
    "step": _step,
    "lines_aligned": _lines_aligned,
    "update": _update,
    "compare_exchange": _compare_exchange,
}
