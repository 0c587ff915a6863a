"""Descriptions of Python objects that are the same in every process: what a manifest compares in place of identities.

A description is plain data (nested tuples of text and numbers). Two objects of one description are the same to compiled
code. Objects that are no plain data are known by their class, and by a number in the order in which they are met: what
compiled code relies on inside of them are facts of their own.
"""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from quadrants.digest import blake2b
from quadrants.frontend import protocol
from quadrants.frontend.arguments import as_numpy
from quadrants.frontend.guards import ABSENT
from quadrants.ir.types import ScalarType
from quadrants.records import dataclass_names
from quadrants.runtime.fingerprint import code_fingerprint

__all__ = ["PLAIN", "Describer", "Unstable", "children"]

PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None), type(Ellipsis), range, slice, type(ABSENT)})
# How many parts a described object may have.
LARGEST = 50_000
_DEEPEST = 40
_OWN = "quadrants."
_NUMBERS: tuple[Any, ...] = (int, float, str)
_VIEWS = ("dict_items", "dict_keys", "dict_values")
_OPERATORS = ("__eq__", "__bool__", "__len__", "__iter__", "__getitem__", "__contains__", "__call__", "__index__")


class Unstable(Exception):
    """Something that compiled code depends on cannot be described; the text says what, for `kernel.report()`."""


class Describer:
    """Describes objects; one for all that belong together, so that the same object gets the same number."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._cached: dict[int, Any] = {}
        self._parts = 0
        self._depth = 0

    def describe(self, value: Any, strict: bool = False) -> Any:
        """The description of an object; `strict` ones cover the inside of objects that Python has compared, counted or
        asked for elements, or raise Unstable."""
        self._parts += 1
        if self._parts > LARGEST or self._depth > _DEEPEST:
            raise Unstable(f"a captured object has more than {LARGEST} parts, or parts nested too deeply")
        kind = type(value)
        if kind in PLAIN:
            return kind.__name__, repr(value)
        self._depth += 1
        try:
            handler = _HANDLERS.get(kind)
            if handler is not None:
                return handler(self, value, strict)
            return self._other(value, strict)
        finally:
            self._depth -= 1

    def _other(self, value: Any, strict: bool) -> Any:
        name = protocol.intrinsic_name(value)
        if name is not None:
            return "intrinsic", name
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, enum.Enum):
            return "enumeration", self._class(type(value)), value.name, self.describe(value.value)
        if isinstance(value, types.ModuleType):
            return "module", value.__name__
        if isinstance(value, np.dtype):
            return "dtype", repr(value.descr) if value.names else value.str
        if isinstance(value, np.generic):
            return "numpy scalar", value.dtype.str, value.tobytes()
        if protocol.is_array(value):
            return self._array(value, strict)
        external = protocol.external(value)
        if external is not None:
            if getattr(external, "library", None) is None:
                raise Unstable("a C function is known by its address alone")
            return "external", repr(external)
        plain = protocol.plain_function(value)
        if plain is not None:
            return "decorated", _name_of(type(value)), self.describe(plain)
        matrix = protocol.matrix_constant(value)
        if matrix is not None:
            return "matrix", matrix[1], str(matrix[2]), repr(matrix[0])
        return self._annotation(value) or self._named(value) or self._object(value, strict)

    def _annotation(self, value: Any) -> Any:
        found = protocol.annotation(value)
        if found is None:
            return None
        return "annotation", found.kind, str(found.scalar), found.shape, found.ndim, repr(value)

    def _named(self, value: Any) -> Any:
        """Things that their module knows by name, as the functions of NumPy."""
        module, name = (
            getattr(value, "__module__", None),
            getattr(value, "__qualname__", getattr(value, "__name__", "")),
        )
        if type(module) is not str or type(name) is not str or not name:
            return None
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        return ("named", type(value).__qualname__, module, name) if found is value else None

    def _object(self, value: Any, strict: bool) -> Any:
        kind = type(value)
        if isinstance(value, tuple):
            return "named tuple", self._class(kind), tuple([self.describe(item, strict) for item in value])
        for base in _NUMBERS:
            if isinstance(value, base):
                return "number", self._class(kind), base.__repr__(value)
        if kind.__name__ in _VIEWS:
            return kind.__name__, tuple([self.describe(item, strict) for item in value])
        if strict:
            return self._inside(value)
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._numbers)
            self._kept.append(value)
        return "object", self._class(kind), number

    def _inside(self, value: Any) -> Any:
        """An object that Python has compared or counted: by its fields, or by identity where it has no operators."""
        kind = type(value)
        names = dataclass_names(kind)
        if names is not None:
            return "dataclass", self._class(kind), tuple([self.describe(getattr(value, name), True) for name in names])
        for base in kind.__mro__[:-1]:
            if any(name in base.__dict__ for name in _OPERATORS):
                raise Unstable(f"an object of type {kind.__qualname__} was looked into while compiling")
        return self.describe(value)

    def _class(self, kind: type) -> Any:
        known = self._cached.get(id(kind))
        if known is None:
            bases = tuple([_name_of(base) for base in kind.__mro__[:-1]])
            fields = getattr(kind, "_fields", None) or tuple(getattr(kind, "__dataclass_fields__", ()))
            named: dict[str, Any] = dict(kind.__members__) if isinstance(kind, enum.EnumMeta) else {}
            members = tuple([(name, self.describe(member.value)) for name, member in named.items()])
            known = self._cached[id(kind)] = ("class", bases, fields, members)
            self._kept.append(kind)
        return known

    def _function(self, function: types.FunctionType, strict: bool) -> Any:
        known = self._cached.get(id(function))
        if known is None:
            known = self._cached[id(function)] = self._new_function(function)
            self._kept.append(function)
        return known

    def _new_function(self, function: types.FunctionType) -> Any:
        name = protocol.intrinsic_name(function)
        if name is not None:
            return "intrinsic", name
        if function.__module__.startswith(_OWN) and not function.__closure__:
            return "own", function.__module__, function.__qualname__
        code = code_fingerprint(function, layout=True)
        defaults = self.describe((function.__defaults__, function.__kwdefaults__))
        return "function", function.__module__, function.__qualname__, code, defaults

    def _method(self, method: types.MethodType, strict: bool) -> Any:
        return "method", self.describe(method.__self__), self.describe(method.__func__)

    def _property(self, value: property, strict: bool) -> Any:
        return "property", self.describe(value.fget)

    def _builtin(self, function: Any, strict: bool) -> Any:
        owner = getattr(function, "__self__", None)
        bound = None if owner is None or isinstance(owner, types.ModuleType) else self.describe(owner, strict)
        return "builtin", str(getattr(function, "__module__", "")), function.__qualname__, bound

    def _items(self, value: Any, strict: bool) -> Any:
        return type(value).__name__, tuple([self.describe(item, strict) for item in value])

    def _dictionary(self, value: dict[Any, Any], strict: bool) -> Any:
        items = [(self.describe(key, strict), self.describe(item, strict)) for key, item in value.items()]
        return "dict", tuple(items)

    def _set(self, value: Any, strict: bool) -> Any:
        return type(value).__name__, tuple(sorted([self.describe(item, strict) for item in value], key=repr))

    def _array(self, value: Any, strict: bool) -> Any:
        if protocol.is_storage(value):
            if strict:
                raise Unstable(f"Python looked into a {type(value).__name__} while compiling")
            value.place()
            return "storage", type(value).__name__, str(value._array_type), value._kind, tuple(value._offset or ())
        array = as_numpy(value)
        flags = array.flags
        facts = (type(value).__name__, array.dtype.str, array.ndim, flags.c_contiguous, flags.writeable, flags.aligned)
        if strict:
            return "array", facts, array.shape, blake2b(array.tobytes(), digest_size=16).hexdigest()
        return "array", facts


def _scalar_type(describer: Describer, value: ScalarType, strict: bool) -> Any:
    return "type", value.name


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


_HANDLERS: dict[type, Callable[[Describer, Any, bool], Any]] = {
    types.FunctionType: Describer._function,
    types.MethodType: Describer._method,
    property: Describer._property,
    types.BuiltinFunctionType: Describer._builtin,
    types.MethodDescriptorType: Describer._builtin,
    types.WrapperDescriptorType: Describer._builtin,
    types.MethodWrapperType: Describer._builtin,
    types.ClassMethodDescriptorType: Describer._builtin,
    tuple: Describer._items,
    list: Describer._items,
    dict: Describer._dictionary,
    set: Describer._set,
    frozenset: Describer._set,
    ScalarType: _scalar_type,
    np.ndarray: Describer._array,
}


def children(value: Any) -> Iterator[tuple[str, Any, Any]]:
    """(way, key, part) of the objects that are reached through a container, a method, a property, a decorated function
    or a function's defaults; `paths.follow` goes the same ways."""
    kind = type(value)
    if isinstance(value, (tuple, list)):
        yield from [("item", position, item) for position, item in enumerate(value)]
    elif kind is dict:
        yield from [("value", position, item) for position, item in enumerate(value.values())]
    elif kind is types.MethodType:
        yield "self", None, value.__self__
        yield "function", None, value.__func__
    elif kind is property:
        yield "member", "fget", value.fget
    elif kind is types.FunctionType:
        yield from [("default", position, item) for position, item in enumerate(value.__defaults__ or ())]
    elif (plain := protocol.plain_function(value)) is not None:
        yield "plain", None, plain
