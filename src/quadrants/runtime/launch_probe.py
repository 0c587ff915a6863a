"""Where CPython and NumPy keep what a launch reads: looked up in known objects, so that a surprise is noticed.

`facts()` gives None where anything is not as expected; launches then go through Python.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import types

import numpy as np

from quadrants.records import Record
from quadrants.runtime import native

__all__ = ["Facts", "array_words", "dtype_word", "facts", "members_words", "slot_offset"]

_HEAD = object.__basicsize__
_WORD_MASK = 0xFFFFFFFF_00FF_0000  # of the second word of a dtype: its number and its byte order
_ARRAY_FIELDS = ("data", "rank", "shape", "strides", "base", "dtype", "flags")
_MANAGED_DICTIONARY = -24  # from an object of a class of Python's, in CPython 3.11 and later
_MEMBER_RECORD = 24  # in a slot's descriptor: after its type, name and qualified name


class Facts(Record):
    """Offsets in bytes from the start of an object; `dictionary_version` is -1 where dictionaries have none."""

    data: int
    rank: int
    shape: int
    strides: int
    dtype: int
    flags: int
    dtype_word: int
    dtype_mask: int
    number: int
    integer_tag: int
    integer_digits: int
    integers_are_tagged: bool
    bytes_size: int
    bytes_content: int
    tuple_size: int
    tuple_items: int
    cell_content: int
    dictionary_version: int
    type_flags: int


@functools.cache
def facts() -> Facts | None:
    """What this interpreter and this NumPy look like, or None if launches must not rely on it."""
    if not native.available() or _HEAD != 16:
        return None
    try:
        found = _assumed()
        checks = (_arrays, _dtypes, _floats, _integers, _strings_of_bytes, _tuples, _cells, _types)
        return found if all(check(found) for check in checks) else None
    except (AttributeError, TypeError, ValueError):
        return None


def dtype_word(dtype: np.dtype) -> int:
    """What a launch compares of a dtype: its number and its byte order."""
    return _word(id(dtype) + _HEAD + 8) & _WORD_MASK


def array_words(array: np.ndarray) -> list[tuple[int, int]] | None:
    """(address, 64-bit word) of what tells where an array's memory is, how it is divided, and what its elements are;
    pointers come before what they point to. None where launches must not rely on it."""
    found = facts()
    if found is None:
        return None
    at = id(array)
    addresses = [at + place for place in (found.data, found.rank, found.shape, found.strides, found.dtype, found.flags)]
    if array.ndim:
        first = _word(at + found.shape)  # the strides follow the sizes
        addresses += range(first, first + 16 * array.ndim, 8)
    return [(address, _word(address)) for address in addresses]


def members_words(owner: object) -> list[tuple[int, int]]:
    """(address, word) of where an object keeps its dictionary of members; none where that is not as expected."""
    place = type(owner).__dictoffset__
    address = id(owner) + (place if place > 0 else _MANAGED_DICTIONARY)
    expected = id(getattr(owner, "__dict__", None))
    return [(address, expected)] if facts() is not None and place and _word(address) == expected else []


def slot_offset(owner: type, name: str) -> int:
    """Where instances of a class keep the slot of that name. Raises TypeError if it is no slot."""
    for base in owner.__mro__:
        member = base.__dict__.get(name)
        if isinstance(member, types.MemberDescriptorType):
            return _word(_word(id(member) + _HEAD + _MEMBER_RECORD) + 16)
    raise TypeError(f"{owner.__qualname__} has no slot {name!r}")


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _assumed() -> Facts:
    array = {name: _HEAD + 8 * index for index, name in enumerate(_ARRAY_FIELDS)}
    return Facts(
        data=array["data"],
        rank=array["rank"],
        shape=array["shape"],
        strides=array["strides"],
        dtype=array["dtype"],
        flags=array["flags"],
        dtype_word=_HEAD + 8,
        dtype_mask=_WORD_MASK,
        number=_HEAD,
        integer_tag=_HEAD,
        integer_digits=_HEAD + 8,
        integers_are_tagged=sys.version_info >= (3, 12),
        bytes_size=_HEAD,
        bytes_content=bytes.__basicsize__ - 1,
        tuple_size=_HEAD,
        tuple_items=tuple.__basicsize__,
        cell_content=_HEAD,
        dictionary_version=_dictionary_version(),
        type_flags=168,
    )


def _arrays(found: Facts) -> bool:
    array = np.zeros((3, 5, 7), np.int32)[:, ::-1, ::2]
    at = id(array)
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    return (
        _word(at + found.data) == array.ctypes.data
        and ctypes.c_int32.from_address(at + found.rank).value == 3
        and tuple((ctypes.c_int64 * 3).from_address(_word(at + found.shape))) == array.shape
        and tuple((ctypes.c_int64 * 3).from_address(_word(at + found.strides))) == array.strides
        and _word(at + found.strides) == _word(at + found.shape) + 8 * array.ndim
        and _word(at + found.dtype) == id(array.dtype)
        and ctypes.c_int32.from_address(at + found.flags).value & 0x501 == 0x500
        and ctypes.c_int32.from_address(id(read_only) + found.flags).value & 0x501 == 0x101
    )


def _dtypes(found: Facts) -> bool:
    names = ["b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d", "?", ">i4", ">f8"]
    for dtype in map(np.dtype, names):
        order, number = {"=": 0x3D, "|": 0x7C, ">": 0x3E}[dtype.byteorder], dtype.num
        if _word(id(dtype) + found.dtype_word) & found.dtype_mask != number << 32 | order << 16:
            return False
    return True


def _floats(found: Facts) -> bool:
    values = (1.5, -2e300, np.float64(0.1))
    numbers = [np.float32(2.5), np.int64(-7), np.uint8(200), np.int16(-3), np.bool_(True)]
    return all(ctypes.c_double.from_address(id(value) + found.number).value == value for value in values) and all(
        ctypes.string_at(id(value) + found.number, value.itemsize) == value.tobytes() for value in numbers
    )


def _integers(found: Facts) -> bool:
    for value in (0, 1, -1, 7, -255, (1 << 30) - 1, -(1 << 30) + 1):
        tag = ctypes.c_int64.from_address(id(value) + found.integer_tag).value
        digit = ctypes.c_uint32.from_address(id(value) + found.integer_digits).value
        if found.integers_are_tagged:
            sign, small = 1 - (tag & 3), tag < 16
        else:
            sign, small = tag, -1 <= tag <= 1
        if not small or sign * digit != value:
            return False
    big = 1 << 30
    tag = ctypes.c_int64.from_address(id(big) + found.integer_tag).value
    return tag >= 16 if found.integers_are_tagged else tag == 2


def _strings_of_bytes(found: Facts) -> bool:
    content = b"a sample of bytes"
    at = id(content)
    return (
        _word(at + found.bytes_size) == len(content)
        and ctypes.string_at(at + found.bytes_content, len(content)) == content
    )


def _tuples(found: Facts) -> bool:
    items = ("first", "second", "third")
    at = id(items)
    inside = (ctypes.c_uint64 * 3).from_address(at + found.tuple_items)
    return _word(at + found.tuple_size) == 3 and list(inside) == [id(item) for item in items]


def _cells(found: Facts) -> bool:
    content = "content"
    cell = types.CellType(content)
    return _word(id(cell) + found.cell_content) == id(content)


class _Sample:
    __slots__ = ("first", "second")


def _types(found: Facts) -> bool:
    sample = _Sample()
    sample.first, sample.second = "one", "two"
    slots = [_word(id(sample) + slot_offset(_Sample, name)) for name in _Sample.__slots__]
    flags = all(_word(id(kind) + found.type_flags) == kind.__flags__ for kind in (_Sample, int, np.ndarray, dict))
    return flags and slots == [id(sample.first), id(sample.second)]


def _dictionary_version() -> int:
    """Where dictionaries keep a number that every change of theirs renews; -1 where they have none."""
    offset = _HEAD + 8
    samples: tuple[dict[str, object], ...] = ({}, {"a": 1})
    for sample in samples:
        seen = [_word(id(sample) + offset)]
        for value in ("x", "y", "x"):
            sample["name"] = value
            seen.append(_word(id(sample) + offset))
        del sample["name"]
        seen.append(_word(id(sample) + offset))
        if len(set(seen)) != len(seen) or _word(id(sample) + offset) != seen[-1]:
            return -1
    return offset
