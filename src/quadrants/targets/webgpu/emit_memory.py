"""Accesses to memory: the heap, seen as words of 32 and of 64 bits and as atomic ones; slots are variables."""

from __future__ import annotations

import math
from collections.abc import Callable

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ArrayType
from quadrants.targets.webgpu.emit_arithmetic import combine
from quadrants.targets.webgpu.scalars import from_memory, is_narrow, register, to_memory
from quadrants.targets.webgpu.writer import ArrayNames, Writer, scalar

__all__ = ["HANDLERS"]


def _address(writer: Writer, array: Value, indices: tuple[Value, ...]) -> str:
    """The place of an element in bytes behind the start of its array's first window."""
    names = writer.array(array)
    held = writer.shader.views.held(names.windows)
    parts = [f"{held}({writer.name(index)}) * {stride}" for index, stride in zip(indices, names.strides)]
    return writer.let(held, " + ".join([names.base, *parts]))


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


def _read(writer: Writer, array: Value, address: str) -> str:
    """The expression of an element at an address."""
    type_, views, windows = scalar(array), writer.shader.views, writer.array(array).windows
    bits = views.load(windows, type_.bits == 64, address)
    if is_narrow(type_):
        bits = f"extractBits({bits}, (u32({address}) & 3u) * 8u, {8 * type_.bytes}u)"
    return from_memory(type_, bits)


def _write(writer: Writer, array: Value, address: str, value: str) -> None:
    type_, views, windows = scalar(array), writer.shader.views, writer.array(array).windows
    bits = to_memory(type_, value)
    if is_narrow(type_):
        writer.line(views.store_narrow(windows, address, 8 * type_.bytes, bits))
        return
    if type_.bits == 64:
        bits = writer.let("u64", bits)
    for line in views.store(windows, type_.bits == 64, address, bits):
        writer.line(line)


def _load(writer: Writer, op: Op) -> None:
    array, *indices = op.operands
    if array.type.is_slot:
        writer.define(op.results[0], _slot_element(writer, array, tuple(indices)))
        return
    address = _address(writer, array, tuple(indices))
    writer.define(op.results[0], _read(writer, array, address))


def _store(writer: Writer, op: Op) -> None:
    value, array, *indices = op.operands
    name = writer.name(value)
    if array.type.is_slot:
        writer.line(f"{_slot_element(writer, array, tuple(indices))} = {name};")
        return
    _write(writer, array, _address(writer, array, tuple(indices)), name)


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
        writer.define(op.results[0], _read(writer, array, address))
        _write(writer, array, address, combine(writer, by, type_, writer.names[op.results[0]], name))
        return
    old = writer.variable(register(type_))
    _exchange(writer, array, address, old, lambda current: combine(writer, by, type_, current, name))
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
    _exchange(writer, array, address, old, lambda current: f"select({current}, {name}, {current} == {wanted})")
    writer.names[op.results[0]] = old


def _exchange(writer: Writer, array: Value, address: str, old: str, changed: Callable[[str], str]) -> None:
    """A loop that puts `changed(current)` in place of the current value, unless another thread was there in between."""
    type_, views, windows = scalar(array), writer.shader.views, writer.array(array).windows
    wide = type_.bits == 64
    writer.line("loop {")
    writer.depth += 1
    word = writer.let("u64" if wide else "u32", views.atomic_load(windows, wide, address))
    bits = word
    offset = f"(u32({address}) & 3u) * 8u, {8 * type_.bytes}u"
    if is_narrow(type_):
        bits = f"extractBits({word}, {offset})"
    writer.line(f"{old} = {from_memory(type_, bits)};")
    new_bits = to_memory(type_, changed(old))
    new_word = f"insertBits({word}, {new_bits}, {offset})" if is_narrow(type_) else new_bits
    writer.line(f"if ({views.exchange(windows, wide, address, word, new_word)}) {{ break; }}")
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
