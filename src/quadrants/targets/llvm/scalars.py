"""Scalar types in LLVM text: in registers, in memory, as literals.

f16 and bf16 are held as `float`, always rounded to their own precision, and computed with as float; a u1 is an i1.
In memory f16 is `half`, bf16 an i16 of its bits, u1 an i8 that is 0 or 1.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from quadrants.ir.evaluate import round_bf16
from quadrants.ir.types import ScalarType

__all__ = ["is_narrow_float", "literal", "memory_type", "register_type"]

_REGISTER = {"u1": "i1", "f16": "float", "bf16": "float", "f32": "float", "f64": "double"}
_MEMORY = {"u1": "i8", "f16": "half", "bf16": "i16", "f32": "float", "f64": "double"}


def register_type(scalar: ScalarType) -> str:
    """The LLVM type of a value."""
    return _REGISTER.get(scalar.name) or f"i{scalar.bits}"


def memory_type(scalar: ScalarType) -> str:
    """The LLVM type of an element in memory."""
    return _MEMORY.get(scalar.name) or f"i{scalar.bits}"


def is_narrow_float(scalar: ScalarType) -> bool:
    """Whether values are held as `float` and need rounding after an operation."""
    return scalar.kind == "f" and scalar.bits == 16


def literal(scalar: ScalarType, value: Any) -> str:
    """A constant as an operand; floats exactly, as the hexadecimal form of the double that equals them."""
    if not scalar.is_float:
        return ("true" if value else "false") if scalar.bits == 1 else str(int(value))
    with np.errstate(over="ignore", invalid="ignore"):
        if scalar.name == "bf16":
            value = round_bf16(np.float32(value))
        elif scalar.bits < 64 and scalar.numpy is not None:
            value = scalar.numpy.type(value)
    return f"0x{struct.unpack('>Q', struct.pack('>d', float(value)))[0]:016X}"
