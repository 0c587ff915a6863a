"""What a code object says of its kernels: registers, spills, memory. It is a map in MessagePack, in a note of the ELF file."""

from __future__ import annotations

import struct
from typing import Any

from quadrants.records import Record

__all__ = ["Usage", "unpack", "usage"]

_NOTE_SECTION, _METADATA = 7, 32


class Usage(Record):
    """What one kernel takes of a GPU.

    vgprs, agprs, sgprs: registers of a thread, its accumulation registers, registers of a wave; vgpr_spills, sgpr_spills: how many
    had to go to memory (scalar ones go to lanes of a vector register first); stack_bytes: memory of a thread; dynamic_stack:
    whether it takes more than that, of unknown size; frame_bytes: arguments, hidden ones with them; wave: threads of a wave;
    block: threads of a block at most; shared_bytes: memory that a block shares.
    """

    symbol: str
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    stack_bytes: int
    dynamic_stack: bool
    frame_bytes: int
    wave: int
    block: int
    shared_bytes: int


def usage(code_object: bytes) -> tuple[Usage, ...]:
    """The kernels of a code object, in its order. ValueError for bytes that are none."""
    kernels = unpack(_note(code_object)).get("amdhsa.kernels", [])
    return tuple(
        Usage(
            symbol=kernel[".name"],
            vgprs=kernel[".vgpr_count"],
            agprs=kernel.get(".agpr_count", 0),
            sgprs=kernel[".sgpr_count"],
            vgpr_spills=kernel.get(".vgpr_spill_count", 0),
            sgpr_spills=kernel.get(".sgpr_spill_count", 0),
            stack_bytes=kernel[".private_segment_fixed_size"],
            dynamic_stack=bool(kernel.get(".uses_dynamic_stack", False)),
            frame_bytes=kernel[".kernarg_segment_size"],
            wave=kernel[".wavefront_size"],
            block=kernel[".max_flat_workgroup_size"],
            shared_bytes=kernel[".group_segment_fixed_size"],
        )
        for kernel in kernels
    )


def _note(data: bytes) -> bytes:
    """The description of AMD's metadata note in an ELF64 file."""
    if data[:5] != b"\x7fELF\x02":
        raise ValueError("no ELF64 file")
    (sections,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for k in range(count):
        kind, at, length = struct.unpack_from("<4xI16xQQ", data, sections + k * size)
        end = at + length if kind == _NOTE_SECTION else at
        while at < end:
            name_length, length, type_ = struct.unpack_from("<III", data, at)
            name = data[at + 12 : at + 12 + name_length].rstrip(b"\0")
            start = at + 12 + (name_length + 3 & ~3)
            if name == b"AMDGPU" and type_ == _METADATA:
                return data[start : start + length]
            at = start + (length + 3 & ~3)
    raise ValueError("no note of AMD's metadata in it")


_FIXED = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_LENGTHS = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_ARRAYS = {0xDC: ">H", 0xDD: ">I"}
_MAPS = {0xDE: ">H", 0xDF: ">I"}


def unpack(data: bytes) -> Any:
    """A value in MessagePack; ValueError for what AMD's metadata have no use for (extension types)."""
    return _value(data, 0)[0]


def _value(data: bytes, at: int) -> tuple[Any, int]:
    """The value that begins at a byte, and the byte behind it."""
    code = data[at]
    at += 1
    if code < 0x80 or code >= 0xE0:
        return (code if code < 0x80 else code - 256), at
    if code < 0x90:
        return _map(data, at, code & 15)
    if code < 0xA0:
        return _array(data, at, code & 15)
    if code < 0xC0:
        return _text(data, at, code & 31, False)
    if code in _FIXED:
        return _FIXED[code], at
    for table in (_NUMBERS, _LENGTHS, _ARRAYS, _MAPS):
        if code in table:
            (number,) = struct.unpack_from(table[code], data, at)
            at += struct.calcsize(table[code])
            if table is _NUMBERS:
                return number, at
            if table is _LENGTHS:
                return _text(data, at, number, code < 0xD0)
            return (_array if table is _ARRAYS else _map)(data, at, number)
    raise ValueError(f"a value of the unknown kind 0x{code:02x}")


def _text(data: bytes, at: int, length: int, raw: bool) -> tuple[Any, int]:
    found = data[at : at + length]
    return (found if raw else found.decode()), at + length


def _array(data: bytes, at: int, count: int) -> tuple[Any, int]:
    made: list[Any] = []
    for _ in range(count):
        item, at = _value(data, at)
        made.append(item)
    return made, at


def _map(data: bytes, at: int, count: int) -> tuple[Any, int]:
    made: dict[Any, Any] = {}
    for _ in range(count):
        key, at = _value(data, at)
        made[key], at = _value(data, at)
    return made, at
