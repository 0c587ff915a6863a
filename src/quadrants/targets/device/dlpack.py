"""DLPack's structures: arrays in a device's memory, given to other packages and taken from them without a copy.

A capsule holds a managed tensor, of which its one consumer calls the `deleter` when it needs the memory no more.
"""

from __future__ import annotations

import ctypes
from typing import Any

from quadrants.ir.types import ScalarType, scalar_types
from quadrants.records import Record

__all__ = ["CPU", "CUDA", "Exchange", "Taken", "exchange_of", "give", "place_word", "take", "type_word"]

CPU, CUDA = 1, 2
"""Kinds of devices."""
_VERSION = (1, 0)
_READ_ONLY = 1


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_FORMS: dict[bytes, type[_Managed] | type[_Versioned]] = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


def _code(scalar: ScalarType) -> tuple[int, int]:
    """DLPack's code and bits of a type. Truth values take a byte."""
    if scalar.name == "bf16":
        return 4, 16
    return (_CODES["b"], 8) if scalar.bits == 1 else (_CODES[scalar.name[0]], scalar.bits)


_SCALARS = {_code(scalar): scalar for scalar in scalar_types}
_api = ctypes.pythonapi
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _api)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _api))
# What destroys a capsule gets the object in its last moment: a reference of ours would make it live again.
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_GetName", _api))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))

_given: dict[int, Any] = {}


@_Deleter
def _delete(address: int) -> None:
    _given.pop(address, None)


@_Deleter
def _destroy(capsule: int) -> None:
    """A capsule that nobody took."""
    name = _name_of(capsule)
    if name in _FORMS:
        _given.pop(_pointer_of(capsule, name), None)


def give(
    address: int,
    scalar: ScalarType,
    shape: tuple[int, ...],
    strides_in_bytes: tuple[int, ...],
    device: tuple[int, int],
    keep: Any,
    versioned: bool,
) -> Any:
    """A capsule of an array in a device's memory; `keep` lives until its consumer lets go."""
    made = _Versioned() if versioned else _Managed()
    if isinstance(made, _Versioned):
        made.major, made.minor = _VERSION
    rank = len(shape)
    sizes = (ctypes.c_int64 * max(rank, 1))(*shape)
    steps = (ctypes.c_int64 * max(rank, 1))(*[stride // scalar.bytes for stride in strides_in_bytes])
    code, bits = _code(scalar)
    made.tensor = _Tensor(address, *device, rank, code, bits, 1, sizes, steps, 0)
    made.deleter = ctypes.cast(_delete, ctypes.c_void_p).value
    place = ctypes.addressof(made)
    _given[place] = (made, sizes, steps, keep)
    name = b"dltensor_versioned" if versioned else b"dltensor"
    return _new_capsule(place, name, ctypes.cast(_destroy, ctypes.c_void_p))


class Exchange(Record):
    """What a class's table of functions has for us, as addresses: `read` fills in a DLTensor of an array without owning it, `ask` tells
    in which stream of a device the package works."""

    read: int
    ask: int

    def stream(self, device: tuple[int, ...]) -> int:
        """The stream in which the package works on a device, by the driver's number. The package's own errors."""
        found = ctypes.c_void_p()
        _Ask(self.ask)(*device, ctypes.byref(found))
        return found.value or _DEFAULT_STREAM


_Ask = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
_DEFAULT_STREAM = 1


class _Table(ctypes.Structure):
    """DLPackExchangeAPI; `before` is a table of an older version."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("before", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("give", ctypes.c_void_p),
        ("take", ctypes.c_void_p),
        ("read", ctypes.c_void_p),
        ("ask", ctypes.c_void_p),
    ]


_TABLE, _TABLE_NAME = "__dlpack_c_exchange_api__", b"dlpack_exchange_api"


def exchange_of(kind: type, owner: type) -> Exchange | None:
    """The functions in the table that the class `owner` itself has, for its arrays and those of a class `kind` derived from it;
    None where it has none that we know."""
    capsule = vars(owner).get(_TABLE)
    if not issubclass(kind, owner) or not _is_valid(capsule, _TABLE_NAME):
        return None
    place = _pointer(capsule, _TABLE_NAME)
    while place and (table := _Table.from_address(place)).major > _VERSION[0]:
        place = table.before
    if not place or table.major != _VERSION[0] or not table.read or not table.ask:
        return None
    return Exchange(table.read, table.ask)


def type_word(scalar: ScalarType) -> int:
    """A type as a DLTensor has it, in one word: code, bits, lanes."""
    code, bits = _code(scalar)
    return code | bits << 8 | 1 << 16


def place_word(device: tuple[int, int]) -> int:
    """A device as a DLTensor has it, in one word."""
    return device[0] | device[1] << 32


class _Hold:
    """What was taken from a capsule, until nobody needs it."""

    def __init__(self, place: int, deleter: int | None) -> None:
        self._place, self._deleter = place, deleter

    def __del__(self) -> None:
        if self._deleter:
            _Deleter(self._deleter)(self._place)


class Taken(Record):
    """An array of another package. `scalar` is None for a type that kernels do not have; `keep` holds its memory."""

    address: int
    scalar: ScalarType | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: tuple[int, int]
    is_read_only: bool
    keep: Any


def take(capsule: Any) -> Taken:
    """The array in a capsule, which cannot be taken again. ValueError for what is no capsule, or was taken."""
    for name, form in _FORMS.items():
        if _is_valid(capsule, name):
            place = _pointer(capsule, name)
            managed = form.from_address(place)
            _rename(capsule, b"used_" + name)
            return _taken(managed, _Hold(place, managed.deleter))
    raise ValueError("this is no DLPack capsule, or somebody has taken its array")


def _taken(managed: _Managed | _Versioned, keep: _Hold) -> Taken:
    tensor = managed.tensor
    scalar = _SCALARS.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    shape = tuple(tensor.shape[k] for k in range(tensor.rank))
    size = tensor.bits // 8
    if tensor.strides:
        strides = tuple(tensor.strides[k] * size for k in range(tensor.rank))
    else:
        strides = dense(shape, size)
    read_only = isinstance(managed, _Versioned) and bool(managed.flags & _READ_ONLY)
    address = (tensor.data or 0) + tensor.byte_offset
    return Taken(address, scalar, shape, strides, (tensor.device_kind, tensor.device_number), read_only, keep)


def dense(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The strides in bytes of an array without gaps, the last axis fastest."""
    strides: list[int] = []
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= extent
    return tuple(strides)
