"""Accesses to memory: the heap, seen as words of 32 and of 64 bits and as atomic ones; slots are variables."""

from __future__ import annotations

import math
from collections.abc import Callable

from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ArrayType, ScalarType, scalar_types
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


_HELD = {scalar.name: scalar for scalar in scalar_types}


def _has_name(array: Value) -> bool:
    """Whether it is private memory, or a block's, which is reached by its name."""
    return type(array.type) is ArrayType and not array.type.has_descriptor


def _held_bits(type_: ScalarType) -> ScalarType:
    """The type whose bits in memory are those of the register that holds a number."""
    return type_ if type_.bits == 1 else _HELD[register(type_)]


def _get(writer: Writer, array: Value, indices: tuple[Value, ...]) -> str:
    """The expression of an element."""
    if not _has_name(array):
        return _read(writer, array, _address(writer, array, indices))
    element = _slot_element(writer, array, indices)
    if not writer.array(array).atomic:
        return element
    return from_memory(_held_bits(scalar(array)), f"atomicLoad(&{element})")


def _put(writer: Writer, array: Value, indices: tuple[Value, ...], name: str) -> None:
    if not _has_name(array):
        _write(writer, array, _address(writer, array, indices), name)
        return
    element = _slot_element(writer, array, indices)
    if writer.array(array).atomic:
        writer.line(f"atomicStore(&{element}, {to_memory(_held_bits(scalar(array)), name)});")
    else:
        writer.line(f"{element} = {name};")


def _load(writer: Writer, op: Op) -> None:
    array, *indices = op.operands
    writer.define(op.results[0], _get(writer, array, tuple(indices)))


def _store(writer: Writer, op: Op) -> None:
    value, array, *indices = op.operands
    _put(writer, array, tuple(indices), writer.name(value))


def _update(writer: Writer, op: Op) -> None:
    value, array, *indices = op.operands
    type_, name = scalar(value), writer.name(value)
    by = op.attribute("by")
    if array.type.is_slot or not op.attribute("atomic", True):
        writer.define(op.results[0], _get(writer, array, tuple(indices)))
        _put(writer, array, tuple(indices), combine(writer, by, type_, writer.names[op.results[0]], name))
        return
    if not _update_at_once(writer, op, array, tuple(indices)):
        _exchange(writer, op, array, tuple(indices), lambda current: combine(writer, by, type_, current, name))


_AT_ONCE = {
    "add": "atomicAdd",
    "bit_and": "atomicAnd",
    "bit_or": "atomicOr",
    "bit_xor": "atomicXor",
    "min": "atomicMin",
    "max": "atomicMax",
    "exchange": "atomicExchange",
}


def _update_at_once(writer: Writer, op: Op, array: Value, indices: tuple[Value, ...]) -> bool:
    """An update by one operation of the hardware, where it has it: of whole words, as numbers without a sign; sums of f32 where the
    device adds them."""
    type_, by, name = scalar(array), op.attributes["by"], writer.name(op.operands[0])
    views, driver = writer.shader.views, writer.shader.driver
    if type_.name == "f32" and by == "add" and driver.adds_floats and not _has_name(array):
        text = views.add_float(writer.array(array).windows, _address(writer, array, indices), name)
        if text:
            writer.define(op.results[0], text)
        return bool(text)
    whole = type_.bits >= 32 and by in _AT_ONCE
    if by != "exchange" and (type_.is_float or (type_.is_signed and by in ("min", "max"))):
        return False
    if not whole or (type_.bits == 64 and not driver.updates_wide):
        return False
    bits = to_memory(type_, name)
    if _has_name(array):
        found = f"{_AT_ONCE[by]}(&{_slot_element(writer, array, indices)}, {bits})"
    else:
        address = _address(writer, array, indices)
        found = views.update(writer.array(array).windows, type_.bits == 64, address, _AT_ONCE[by], bits)
    writer.define(op.results[0], from_memory(type_, found))
    return True


def _compare_exchange(writer: Writer, op: Op) -> None:
    expected, value, array, *indices = op.operands
    wanted, name = writer.name(expected), writer.name(value)
    if array.type.is_slot:
        writer.define(op.results[0], _get(writer, array, tuple(indices)))
        current = writer.names[op.results[0]]
        _put(writer, array, tuple(indices), f"select({current}, {name}, {current} == {wanted})")
        return
    _exchange(writer, op, array, tuple(indices), lambda current: f"select({current}, {name}, {current} == {wanted})")


def _exchange(writer: Writer, op: Op, array: Value, indices: tuple[Value, ...], changed: Callable[[str], str]) -> None:
    """A loop that puts `changed(current)` in place of the current value, unless another thread was there in between."""
    type_ = scalar(array)
    old = writer.variable(register(type_))
    write = _exchange_shared if _has_name(array) else _exchange_in_heap
    write(writer, array, indices, old, changed)
    writer.names[op.results[0]] = old


def _exchange_shared(
    writer: Writer, array: Value, indices: tuple[Value, ...], old: str, changed: Callable[[str], str]
) -> None:
    element = _slot_element(writer, array, indices)
    held = _held_bits(scalar(array))
    writer.line("loop {")
    writer.depth += 1
    word = writer.let(writer.array(array).atomic, f"atomicLoad(&{element})")
    writer.line(f"{old} = {from_memory(held, word)};")
    new = to_memory(held, changed(old))
    writer.line(f"if (atomicCompareExchangeWeak(&{element}, {word}, {new}).exchanged) {{ break; }}")
    writer.depth -= 1
    writer.line("}")


def _exchange_in_heap(
    writer: Writer, array: Value, indices: tuple[Value, ...], old: str, changed: Callable[[str], str]
) -> None:
    type_, views, windows = scalar(array), writer.shader.views, writer.array(array).windows
    address = _address(writer, array, indices)
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


def _shared(writer: Writer, op: Op) -> None:
    """Memory of the block; words that threads update are atomic."""
    (result,) = op.results
    type_ = result.type
    assert type(type_) is ArrayType
    atomic = ("u64" if type_.scalar.bits == 64 else "u32") if result in writer.shader.updated else ""
    held = f"atomic<{atomic}>" if atomic else register(type_.scalar)
    count = math.prod(type_.trailing)
    size = count * (8 if type_.scalar.bits == 64 else 4)  # narrow numbers take a word each
    name = writer.shader.shared(f"array<{held}, {count}>" if type_.trailing else held, size)
    writer.arrays[result] = ArrayNames(slot=name, atomic=atomic)


HANDLERS: dict[str, Callable[[Writer, Op], None]] = {
    "load": _load,
    "store": _store,
    "update": _update,
    "compare_exchange": _compare_exchange,
    "slot": _slot,
    "shared": _shared,
}
