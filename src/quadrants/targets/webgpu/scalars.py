"""How numbers of the IR are held in WGSL, and how they lie in memory.

WGSL has no integers below 32 bits and no bf16; f16 is optional. Narrow numbers are held in 32 bits, wrapped or rounded after
every operation; in memory they share words with their neighbours.
"""

from __future__ import annotations

import math
import struct

from quadrants.ir.types import ScalarType

__all__ = ["bits_of", "from_memory", "is_narrow", "literal", "narrowed", "register", "to_memory", "zero"]


def register(scalar: ScalarType) -> str:
    """The WGSL type that holds a number."""
    if scalar.bits == 1:
        return "bool"
    if scalar.is_float:
        return "f64" if scalar.bits == 64 else "f32"
    return f"{scalar.kind}{64 if scalar.bits == 64 else 32}"


def is_narrow(scalar: ScalarType) -> bool:
    """Whether a number shares its word of memory with others."""
    return scalar.bits < 32


def zero(scalar: ScalarType) -> str:
    return f"{register(scalar)}()"


def literal(scalar: ScalarType, value: float | int | bool) -> str:
    """A number as an expression whose value is known when the shader is compiled."""
    if scalar.bits == 1:
        return "true" if value else "false"
    if scalar.is_float:
        return _float_literal(scalar, float(value))
    number = int(value)
    if scalar.bits == 64:
        if scalar.kind == "u":
            return f"{number}lu"
        return f"({number + 1}li - 1li)" if number == -(1 << 63) else f"{number}li"
    if scalar.kind == "u":
        return f"{number}u"
    return f"({number + 1}i - 1i)" if number == -(1 << 31) else f"{number}i"


def bits_of(scalar: ScalarType, value: float | int | bool) -> int:
    """The bits of a number as it is held: 64 of them, or 32."""
    if scalar.is_float:
        wide = scalar.bits == 64
        return struct.unpack("<Q" if wide else "<I", struct.pack("<d" if wide else "<f", float(value)))[0]
    return int(value) & ((1 << (64 if scalar.bits == 64 else 32)) - 1)


def _float_literal(scalar: ScalarType, value: float) -> str:
    if scalar.bits == 64:
        if math.isfinite(value) and (value == 0 or abs(value) >= 2.3e-308) and str(value) != "-0.0":
            return f"{value!r}lf"
        return f"bitcast<f64>({bits_of(scalar, value)}lu)"
    return f"bitcast<f32>({bits_of(scalar, value):#x}u)"


def narrowed(scalar: ScalarType, value: str) -> str:
    """An integer of 32 bits wrapped to its width."""
    if not scalar.is_integer or scalar.bits >= 32:
        return value
    if scalar.kind == "u":
        return f"({value} & {scalar.maximum}u)"
    return f"(({value} << {32 - scalar.bits}u) >> {32 - scalar.bits}u)"


_IN_MEMORY: dict[str, tuple[str, str]] = {
    "u1": ("({} != 0u)", "select(0u, 1u, {})"),
    "i8": ("((bitcast<i32>({}) << 24u) >> 24u)", "(bitcast<u32>({}) & 255u)"),
    "i16": ("((bitcast<i32>({}) << 16u) >> 16u)", "(bitcast<u32>({}) & 65535u)"),
    "i32": ("bitcast<i32>({})", "bitcast<u32>({})"),
    "i64": ("bitcast<i64>({})", "bitcast<u64>({})"),
    **dict.fromkeys(("u8", "u16", "u32", "u64"), ("{}", "{}")),
    "f16": ("unpack2x16float({}).x", "(pack2x16float(vec2<f32>({}, 0.0f)) & 0xffffu)"),
    "bf16": ("bitcast<f32>({} << 16u)", "(bitcast<u32>({}) >> 16u)"),
    "f32": ("bitcast<f32>({})", "bitcast<u32>({})"),
    "f64": ("bitcast<f64>({})", "bitcast<u64>({})"),
}
"""By type, what makes a number of its bits in memory, and what makes bits of a number."""


def from_memory(scalar: ScalarType, bits: str) -> str:
    """A number of its bits in memory: a u64 for 64 bits, else a u32 with what does not belong to it cut off."""
    return _IN_MEMORY[scalar.name][0].format(bits)


def to_memory(scalar: ScalarType, value: str) -> str:
    """The bits of a number as they lie in memory."""
    return _IN_MEMORY[scalar.name][1].format(value)
