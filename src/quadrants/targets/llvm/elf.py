"""The symbols that a relocatable ELF object defines and wants, without LLVM."""

from __future__ import annotations

import struct

__all__ = ["defined_symbols", "undefined_symbols"]

_SYMBOL_TABLE = 2


def _global_symbols(data: bytes) -> list[tuple[str, bool]]:
    """(name, whether defined) of the global symbols of an ELF64 little-endian object."""
    (section_offset,) = struct.unpack_from("<Q", data, 40)
    entry_size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, section_offset + k * entry_size) for k in range(count)]
    found = []
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, _, index = struct.unpack_from("<IBBH", data, at)
            if info >> 4 and name:
                end = data.index(b"\0", strings + name)
                found.append((data[strings + name : end].decode(), index != 0))
    return found


def undefined_symbols(data: bytes) -> list[str]:
    """The symbols that an object refers to and does not define."""
    return [name for name, defined in _global_symbols(data) if not defined]


def defined_symbols(data: bytes) -> list[str]:
    """The global symbols that an object defines."""
    return [name for name, defined in _global_symbols(data) if defined]
