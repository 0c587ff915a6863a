"""What a Python name or expression stands for while a function is compiled."""

from __future__ import annotations

import ast
import enum
import itertools
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeAlias, TypeGuard

from quadrants.ir.nodes import Value
from quadrants.ir.types import ArrayType, MatrixType, Type

__all__ = [
    "TILE",
    "Array",
    "Binding",
    "BoundMethod",
    "Broken",
    "Formatted",
    "Identity",
    "Iteration",
    "Nature",
    "Outer",
    "Part",
    "Run",
    "Sequence",
    "Slot",
    "Static",
    "all_sequences",
    "all_static",
    "common_nature",
    "is_changeable",
    "is_list",
    "is_number",
    "is_open",
    "is_tile",
    "nature_of",
    "static_range",
    "static_tuple",
]


class Binding:
    """Base of all that a name can be bound to."""

    __slots__ = ()


class Static(Binding):
    """A Python object known at compile time. Numbers are weak."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Nature(enum.Enum):
    """What a run-time value would be in Python, which says who sees it change in place.

    VALUE: a number, vector or matrix of its own. COPY: it holds, or may hold, what in Python is a part of an array: it
    cannot be changed in place. LIST: a list of numbers; a function that is given one changes the caller's.
    """

    VALUE = 0
    COPY = 1
    LIST = 2


class Run(Binding):
    """A scalar or matrix computed at run time; `weak` ones take the other operand's type."""

    __slots__ = ("nature", "value", "weak")

    def __init__(self, value: Value, weak: bool = False, nature: Nature = Nature.VALUE) -> None:
        self.value = value
        self.weak = weak
        self.nature = nature

    @property
    def type(self) -> Type:
        return self.value.type


class Slot(Binding):
    """A local matrix that lives in private memory because it is indexed at run time."""

    __slots__ = ("element", "memory", "nature", "weak")

    def __init__(self, memory: Value, element: MatrixType, weak: bool, nature: Nature) -> None:
        self.memory = memory
        self.nature = nature
        self.element = element
        self.weak = weak


class Array(Binding):
    """An array, or the part of it that `prefix` indices reach.

    `kind`: 'numpy' (a partial index is a view, a loop runs over the elements, as in Python), 'external' (a NumPy array
    whose parameter is annotated as an array: views, too, but loops run over the indices), 'ndarray' or 'field' (elements
    are values, loops run over the indices). `domain`: how many axes the
    user indexes (rank less the element's axes). `offset`: what a field's indices start at. `origin`: the parameter it came
    in by, for asking static sizes; `example`: the Python object of the first call.
    """

    __slots__ = ("domain", "example", "indexed", "kind", "offset", "origin", "prefix", "value")

    def __init__(
        self,
        value: Value,
        kind: str,
        domain: int,
        prefix: tuple[Value, ...] = (),
        offset: tuple[int, ...] = (),
        origin: Any = None,
        example: Any = None,
        indexed: bool = False,
    ) -> None:
        self.value = value
        self.kind = kind
        self.domain = domain
        self.prefix = prefix
        # Whether it has been indexed, if only by None as 0-D arrays are.
        self.indexed = indexed or bool(prefix)
        self.offset = offset
        self.origin = origin
        self.example = example

    @property
    def type(self) -> ArrayType:
        type_: Any = self.value.type
        return type_

    @property
    def is_numpy(self) -> bool:
        """Whether partial indices follow NumPy."""
        return self.kind in ("numpy", "external")

    @property
    def is_view(self) -> bool:
        """Whether a name bound to this stays a window on the array (NumPy), rather than a copy of the element."""
        return self.is_numpy and len(self.prefix) < self.type.rank

    def extended(self, indices: tuple[Value, ...]) -> Array:
        prefix = self.prefix + indices
        return Array(self.value, self.kind, self.domain, prefix, self.offset, self.origin, self.example, True)

    @property
    def is_element(self) -> bool:
        """Whether reading it gives a value: an element, or part of one, that is no view."""
        return self.indexed and not self.is_view


class Part(Binding):
    """A part of an array that slices cut out, which tiles read and write; in Python, a view. `axes` has for each axis of
    the array an index, or a range as its low and high end, within the array. `node`: the subscript, where other uses are
    told to be none."""

    __slots__ = ("array", "axes", "node")

    def __init__(self, array: Array, axes: list[tuple[Value, ...]], node: ast.AST) -> None:
        self.array = array
        self.axes = axes
        self.node = node

    @property
    def ranges(self) -> int:
        """How many of the axes are left."""
        return sum(len(axis) == 2 for axis in self.axes)


class Outer(Binding):
    """`qd.outer(a, b)`: the product of a column and a row, for tiles to add or subtract."""

    __slots__ = ("factors",)

    def __init__(self, factors: list[Binding]) -> None:
        self.factors = factors


Identity: TypeAlias = "frozenset[int]"
_objects = itertools.count()


class Sequence(Binding):
    """A tuple or list of bindings; `names` for a record (an object of the named tuple or dataclass `record`) or a
    namespace of members. A record that is `given` is the caller's of the kernel: it cannot be changed. `identity`: the
    objects that a list or record may be; a changed one stays the same object."""

    __slots__ = ("given", "identity", "is_list", "items", "names", "record")

    def __init__(
        self,
        items: list[Binding],
        is_list: bool = False,
        names: tuple[str, ...] = (),
        record: type | None = None,
        given: bool = False,
    ) -> None:
        self.items = items
        self.is_list = is_list
        self.names = names
        self.record = record
        self.given = given
        self.identity: Identity = frozenset((next(_objects),)) if is_list or record is not None else frozenset()

    def of(self, items: list[Binding]) -> Sequence:
        """The same sequence, with other items."""
        found = Sequence(items, self.is_list, self.names, self.record, self.given)
        found.identity = self.identity
        return found


class Iteration(Binding):
    """Something that a `for` can run over: 'range', 'ndrange', 'domain', 'enumerate', 'zip', 'reversed'."""

    __slots__ = ("grouped", "kind", "parts")

    def __init__(self, kind: str, parts: list[Any], grouped: bool = False) -> None:
        self.kind = kind
        self.parts = parts
        self.grouped = grouped


def static_range(binding: Binding) -> Static | None:
    """The range that a binding is, where its bounds are known at compile time."""
    if type(binding) is Iteration and binding.kind == "range":
        parts = all_static(binding.parts)
        return None if parts is None else Static(range(*[part.value for part in parts]))
    return None


class BoundMethod(Binding):
    """A method of a run-time value: calling it runs `handler(walker, owner, arguments, node)`."""

    __slots__ = ("handler", "name", "owner")

    def __init__(self, owner: Binding, name: str, handler: Callable[..., Binding]) -> None:
        self.owner = owner
        self.name = name
        self.handler = handler


class Broken(Binding):
    """A name that cannot be used here; reading it raises the error that `explain` makes."""

    __slots__ = ("explain",)

    def __init__(self, explain: Callable[[Any], Exception]) -> None:
        self.explain = explain


class Formatted(Binding):
    """An f-string or a formatted text with run-time values: pieces of text and (binding, format specification)."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts


TILE = ("SIZE", "row of a tile")
"""The names of what a tile consists of, as a sequence: users see how many rows it has, not the row that a thread holds."""


def is_tile(binding: Binding) -> TypeGuard[Sequence]:
    """Whether the binding is a tile (frontend/tiles.py): a value, of which each thread holds a row."""
    return type(binding) is Sequence and binding.names == TILE


def is_list(binding: Binding) -> bool:
    """Whether the binding is a list in Python, whatever holds it here."""
    return binding.is_list if type(binding) is Sequence else nature_of(binding) is Nature.LIST


def is_changeable(binding: Binding) -> bool:
    """Whether a function that is given the binding may change what it is to the caller: a list, or an object of a
    dataclass that is not frozen."""
    if type(binding) is Sequence and binding.record is not None and not binding.given:
        return is_open(binding.record)
    return is_list(binding)


def is_open(record: type) -> bool:
    """Whether members of an object of the class can be assigned: it is a dataclass that is not frozen."""
    parameters = getattr(record, "__dataclass_params__", None)
    return parameters is not None and not parameters.frozen


def nature_of(binding: Binding | None) -> Nature:
    """What a value made of the binding is."""
    if type(binding) is Run or type(binding) is Slot:
        return binding.nature
    if type(binding) is Sequence:
        return Nature.LIST if binding.is_list else Nature.VALUE
    return Nature.COPY if type(binding) is Array and binding.is_view else Nature.VALUE


def common_nature(bindings: Iterable[Binding | None]) -> Nature:
    """What a value is that may be any of the bindings."""
    found = {nature_of(binding) for binding in bindings if binding is not None}
    return Nature.COPY if Nature.COPY in found else Nature.LIST if found == {Nature.LIST} else Nature.VALUE


def all_static(bindings: Collection[Binding]) -> list[Static] | None:
    """The bindings where all are known at compile time, else None."""
    found = [binding for binding in bindings if type(binding) is Static]
    return found if len(found) == len(bindings) else None


def static_tuple(binding: Binding) -> Binding:
    """A tuple of what is known at compile time as one object, everything else as it is."""
    if type(binding) is not Sequence or binding.is_list or binding.record is not None or binding.names:
        return binding
    items = all_static([static_tuple(item) for item in binding.items])
    return binding if items is None else Static(tuple([item.value for item in items]))


def all_sequences(bindings: Collection[Binding]) -> list[Sequence] | None:
    """The bindings where all are tuples or lists, else None."""
    found = [binding for binding in bindings if type(binding) is Sequence]
    return found if len(found) == len(bindings) else None


def is_number(value: object) -> bool:
    """Whether a static object is a plain number (bool, int, float)."""
    kind = type(value)
    return kind is int or kind is float or kind is bool
