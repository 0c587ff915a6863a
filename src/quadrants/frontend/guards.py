"""What compiled code depends on besides the types of its arguments: captured objects, and facts found out about them."""

from __future__ import annotations

import gc
import types
from typing import Any

import numpy as np

from quadrants.frontend import protocol
from quadrants.ir.types import ScalarType, f64, i64

__all__ = [
    "ABSENT",
    "ContentGuard",
    "Guard",
    "LiveNumber",
    "MembersGuard",
    "Observation",
    "cell_of",
    "guards_of",
    "live_type",
    "place_of",
    "shadows_of",
]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""The value of a name that was looked for and not there."""


class Guard:
    """A captured object that must still be the same: `container` is a dictionary with `key`, or a closure's cell (key
    None)."""

    __slots__ = ("container", "key", "value")

    def __init__(self, container: Any, key: str | None, value: Any) -> None:
        self.container = container
        self.key = key
        self.value = value

    def holds(self) -> bool:
        if self.key is not None:
            return self.container.get(self.key, ABSENT) is self.value
        try:
            return self.container.cell_contents is self.value
        except ValueError:
            return False


class ContentGuard:
    """A captured object that can be changed in place (a host vector or matrix, a list, a dictionary, a set) and must
    still hold what it held; elements of containers are compared by identity. A NumPy array must still be the same memory,
    divided in the same way: its elements may change; a field must still have its memory."""

    __slots__ = ("container", "kept", "key", "snapshot", "value")

    def __init__(self, container: Any) -> None:
        self.container = container
        self.key = "content"
        self.value = None
        self.snapshot, self.kept = _content(container)

    def holds(self) -> bool:
        return _content(self.container)[0] == self.snapshot

    def words(self) -> list[tuple[int, int]] | None:
        """(address, 64-bit word) of memory that holds the content, for a check in machine code; None where it is not
        made of whole words."""
        return protocol.content_words(self.container)


class MembersGuard(ContentGuard):
    """A captured object whose members are looked up in the dictionary that it has now."""

    __slots__ = ()

    def __init__(self, owner: Any) -> None:
        self.container = owner
        self.key = "members"
        self.value = None
        self.kept = owner.__dict__
        self.snapshot = id(self.kept)

    def holds(self) -> bool:
        return self.container.__dict__ is self.kept

    def words(self) -> list[tuple[int, int]] | None:
        return protocol.content_words(self)


def _content(value: Any) -> tuple[Any, Any]:
    """(what is compared, what has to stay alive for that)"""
    matrix = protocol.matrix_constant(value)
    if matrix is not None:
        return repr(matrix), None
    if isinstance(value, np.ndarray):
        facts = value.__array_interface__["data"], value.shape, value.strides, value.dtype
        return facts, value.dtype  # words know the type by identity
    if protocol.is_storage(value):
        return id(value._view), None  # there until the storage is freed, for good
    if isinstance(value, dict):
        return [(id(key), id(item)) for key, item in value.items()], list(value.items())
    kept = list(value)
    return [id(item) for item in kept], kept


def _content_guards(value: Any) -> list[ContentGuard]:
    """Guards on the inside of a captured object and of what it holds."""
    if isinstance(value, np.ndarray) or protocol.matrix_constant(value) is not None:
        return [ContentGuard(value)]
    if type(value) in (list, dict, set):
        inside = value.values() if type(value) is dict else value
        return [ContentGuard(value), *(guard for item in inside for guard in _content_guards(item))]
    if type(value) is tuple:
        return [guard for item in value for guard in _content_guards(item)]
    return []


class Observation:
    """Something about the surroundings that compiled code relies on.

    `way` says how it was found: 'global', 'cell': what `name` stands for in the function `owner` (`value` ABSENT: a
    builtin's name that no global hides); 'member': `owner.name` is `value`; 'content': Python was asked about the inside
    of `value`; 'static call': the function `owner` was called on the objects `value` while compiling; 'annotated': the
    function `owner` annotates local names, which its code object does not tell; 'output': compiling prints.
    """

    __slots__ = ("name", "owner", "value", "way")

    def __init__(self, way: str, owner: Any, name: str = "", value: Any = None) -> None:
        self.way = way
        self.owner = owner
        self.name = name
        self.value = value


class LiveNumber:
    """A captured number that has changed before: a parameter of the kernel, read at each launch. It has the `type` that the
    number as a constant would have, so that results do not depend on what it was before; of floats the widest, which are
    rounded where they meet others, as constants are (and before, where the target has no f64: the parameter's type tells)."""

    __slots__ = ("container", "default_int", "key", "observation", "type")

    def __init__(self, container: Any, key: str | None, default_int: ScalarType, observation: Observation) -> None:
        self.container = container
        self.key = key
        self.default_int = default_int
        self.observation = observation
        found = live_type(self.read(), default_int)
        assert found is not None
        self.type = found

    def read(self) -> Any:
        return self.container.cell_contents if self.key is None else self.container[self.key]

    def fits(self) -> bool:
        """Whether what is there now is a number of the type."""
        return live_type(self.read(), self.default_int) is self.type

    def span(self) -> tuple[int, int]:
        """The least and the greatest of the integers of the type that are on the same side as the present one."""
        low, high = self.type.minimum, self.type.maximum
        if self.type is self.default_int:
            return low, high
        return (self.default_int.maximum + 1, high) if self.read() > 0 else (low, self.default_int.minimum - 1)


def live_type(value: Any, default_int: ScalarType) -> ScalarType | None:
    """The type of a number as a parameter that is read at each launch; None for what cannot be one."""
    if type(value) is float:
        return f64
    types = (default_int, i64) if type(value) is int else ()
    return next((found for found in types if found.minimum <= value <= found.maximum), None)


def place_of(way: str, owner: Any, name: str, value: Any) -> tuple[Any, str | None] | None:
    """(dictionary, key) or (cell, None) where a 'global', 'cell' or 'member' is kept; None for a member that is computed
    (a property, a slot, a method)."""
    if way == "global":
        return owner.__globals__, name
    if way == "cell":
        return cell_of(owner, name), None
    members = getattr(owner, "__dict__", None)
    if type(members) is dict and name in members:
        return (members, name) if members[name] is value else None
    return _place_in_class(owner, name, value)


def _place_in_class(owner: Any, name: str, value: Any) -> tuple[Any, str] | None:
    for base in (owner if isinstance(owner, type) else type(owner)).__mro__:
        if name in base.__dict__:
            members = gc.get_referents(base.__dict__)[0]  # what the read-only view of a class's members shows
            return (members, name) if type(members) is dict and members[name] is value else None
    return None


def cell_of(function: types.FunctionType, name: str) -> types.CellType:
    """The cell of a function's free variable; KeyError if it has none of that name."""
    return dict(zip(function.__code__.co_freevars, function.__closure__ or ()))[name]


def guards_of(way: str, owner: Any, name: str, value: Any) -> list[Guard | ContentGuard]:
    """What has to stay the same for a 'global', 'cell' or 'member' to stay what it is, as far as that can be told
    cheaply."""
    if value is ABSENT or isinstance(value, types.ModuleType):
        return []
    is_method = way == "member" and isinstance(value, types.MethodType)
    kept = value.__func__ if is_method else value
    place = _place_in_class(owner, name, kept) if is_method else place_of(way, owner, name, kept)
    if place is None:
        return []
    return [Guard(*place, kept), *_content_guards(kept), *shadows_of(way, owner, name, place)]


def shadows_of(way: str, owner: Any, name: str, place: tuple[Any, str | None]) -> list[Guard | ContentGuard]:
    """What keeps a member where it was found: that the object's dictionary is still the same and, for a member of the
    class, has none of that name."""
    own = getattr(owner, "__dict__", None) if way == "member" else None
    if type(own) is not dict or isinstance(owner, types.ModuleType):
        return []
    members = MembersGuard(owner)
    return [members] if own is place[0] else [members, Guard(own, name, ABSENT)]
