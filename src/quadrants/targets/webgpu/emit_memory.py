"""Accesses to memory: one buffer, the heap, seen as words of 32 and of 64 bits and as atomic ones; slots are variables."""

from __future__ import annotations

import math
from collections.abc import Callable

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ArrayType, ScalarType
from quadrants.targets.webgpu.emit_arithmetic import combine
from quadrants.targets.webgpu.scalars import from_memory, is_narrow, register, to_memory
from quadrants.targets.webgpu.writer import ArrayNames, Writer, scalar

__all__ = ["HANDLERS"]


def _address(writer: Writer, array: Value, indices: tuple[Value, ...]) -> str:
    """The place of an element in bytes of the heap."""
    names = writer.array(array)
    parts = [f"{writer.name(index)} * {stride}" for index, stride in zip(indices, names.strides)]
    return writer.let("i64", " + ".join([names.base, *parts]))


def _slot_element(writer: Writer, array: Value, indices: tuple[Value, ...]) -> str:
    names = writer.array(array)
    type_ = array.type
    assert type(type_) is ArrayType
    if not type_.trailing:
        return f"({names.slot})"
    parts: list[str] = []
    for k, index in enumerate(indices):
        step = math.prod(type_.trailing[k + 1 :])
        parts.append(f"u32({writer.name(index)})" + (f" * {step}u" if step > 1 else ""))
    return f"({names.slot})[{' + '.join(parts)}]"


def _read(writer: Writer, type_: ScalarType, address: str) -> str:
    """The expression of an element at an address."""
    if type_.bits == 64:
        return from_memory(type_, f"heap64[u32({address} >> 3u)]")
    if is_narrow(type_):
        return from_memory(type_, f"{writer.shader.helper('load_narrow')}({address}, {8 * type_.bytes}u)")
    return from_memory(type_, f"heap[u32({address} >> 2u)]")


def _write(writer: Writer, type_: ScalarType, address: str, value: str) -> None:
    bits = to_memory(type_, value)
    if type_.bits == 64:
        writer.line(f"heap64[u32({address} >> 3u)] = {bits};")
    elif is_narrow(type_):
        writer.line(f"{writer.shader.helper('store_narrow')}({address}, {8 * type_.bytes}u, {bits});")
    else:
        writer.line(f"heap[u32({address} >> 2u)] = {bits};")


def _load(writer: Writer, op: Op) -> None:
    array, *indices = op.operands
    if array.type.is_slot:
        writer.define(op.results[0], _slot_element(writer, array, tuple(indices)))
        return
    address = _address(writer, array, tuple(indices))
    writer.define(op.results[0], _read(writer, scalar(op.results[0]), address))


def _store(writer: Writer, op: Op) -> None:
    value, array, *indices = op.operands
    name = writer.name(value)
    if array.type.is_slot:
        writer.line(f"{_slot_element(writer, array, tuple(indices))} = {name};")
        return
    _write(writer, scalar(value), _address(writer, array, tuple(indices)), name)


def _update(writer: Writer, op: Op) -> None:
    value, array, *indices = op.operands
    type_, name = scalar(value), writer.name(value)
    by = op.attribute("by")
    if array.type.is_slot:
        element = _slot_element(writer, array, tuple(indices))
        writer.define(op.results[0], element)
        writer.line(f"{element} = {combine(writer, by, type_, writer.names[op.results[0]], name)};")
        return
    address = _address(writer, array, tuple(indices))
    if not op.attribute("atomic", True):
        writer.define(op.results[0], _read(writer, type_, address))
        _write(writer, type_, address, combine(writer, by, type_, writer.names[op.results[0]], name))
        return
    old = writer.variable(register(type_))
    _exchange(writer, type_, address, old, lambda current: combine(writer, by, type_, current, name))
    writer.names[op.results[0]] = old


def _compare_exchange(writer: Writer, op: Op) -> None:
    expected, value, array, *indices = op.operands
    type_, wanted, name = scalar(value), writer.name(expected), writer.name(value)
    if array.type.is_slot:
        element = _slot_element(writer, array, tuple(indices))
        writer.define(op.results[0], element)
        current = writer.names[op.results[0]]
        writer.line(f"{element} = select({current}, {name}, {current} == {wanted});")
        return
    old = writer.variable(register(type_))
    address = _address(writer, array, tuple(indices))
    _exchange(writer, type_, address, old, lambda current: f"select({current}, {name}, {current} == {wanted})")
    writer.names[op.results[0]] = old


def _exchange(writer: Writer, type_: ScalarType, address: str, old: str, changed: Callable[[str], str]) -> None:
    """A loop that puts `changed(current)` in place of the current value, unless another thread was there in between."""
    wide = type_.bits == 64
    view, held, shift = ("heap64_atomic", "u64", 3) if wide else ("heap_atomic", "u32", 2)
    place = f"&{view}[u32({address} >> {shift}u)]"
    writer.line("loop {")
    writer.depth += 1
    word = writer.let(held, f"atomicLoad({place})")
    bits = word
    offset = f"(u32({address}) & 3u) * 8u, {8 * type_.bytes}u"
    if is_narrow(type_):
        bits = f"extractBits({word}, {offset})"
    writer.line(f"{old} = {from_memory(type_, bits)};")
    new_bits = to_memory(type_, changed(old))
    new_word = f"insertBits({word}, {new_bits}, {offset})" if is_narrow(type_) else new_bits
    writer.line(f"if (atomicCompareExchangeWeak({place}, {word}, {new_word}).exchanged) {{ break; }}")
    writer.depth -= 1
    writer.line("}")


def _slot(writer: Writer, op: Op) -> None:
    (result,) = op.results
    type_ = result.type
    assert type(type_) is ArrayType
    held = register(type_.scalar)
    count = math.prod(type_.trailing)
    name = writer.variable(f"array<{held}, {count}>" if type_.trailing else held)
    writer.arrays[result] = ArrayNames(slot=name)


HANDLERS: dict[str, Callable[[Writer, Op], None]] = {
    "load": _load,
    "store": _store,
    "update": _update,
    "compare_exchange": _compare_exchange,
    "slot": _slot,
}
