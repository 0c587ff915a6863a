"""What a Python name or expression stands for while a function is compiled."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from quadrants.ir.nodes import Value
from quadrants.ir.types import ArrayType, MatrixType, Type

__all__ = [
    "Array",
    "Binding",
    "BoundMethod",
    "Broken",
    "Formatted",
    "Iteration",
    "Run",
    "Sequence",
    "Slot",
    "Static",
    "all_sequences",
    "all_static",
    "is_number",
]


class Binding:
    """Base of all that a name can be bound to."""

    __slots__ = ()


class Static(Binding):
    """A Python object known at compile time. Numbers are weak."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Run(Binding):
    """A scalar or matrix computed at run time; `weak` ones take the other operand's type."""

    __slots__ = ("value", "weak")

    def __init__(self, value: Value, weak: bool = False) -> None:
        self.value = value
        self.weak = weak

    @property
    def type(self) -> Type:
        return self.value.type


class Slot(Binding):
    """A local matrix that lives in private memory because it is indexed at run time."""

    __slots__ = ("element", "memory", "weak")

    def __init__(self, memory: Value, element: MatrixType, weak: bool) -> None:
        self.memory = memory
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


class Sequence(Binding):
    """A tuple or list of bindings; `names` for a named tuple or a namespace of members."""

    __slots__ = ("is_list", "items", "names")

    def __init__(self, items: list[Binding], is_list: bool = False, names: tuple[str, ...] = ()) -> None:
        self.items = items
        self.is_list = is_list
        self.names = names


class Iteration(Binding):
    """Something that a `for` can run over: 'range', 'ndrange', 'domain', 'enumerate', 'zip', 'reversed'."""

    __slots__ = ("grouped", "kind", "parts")

    def __init__(self, kind: str, parts: list[Any], grouped: bool = False) -> None:
        self.kind = kind
        self.parts = parts
        self.grouped = grouped


class BoundMethod(Binding):
    """A method of a run-time value: calling it runs `handler(walker, owner, arguments, keywords, node)`."""

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


def all_static(bindings: Collection[Binding]) -> list[Static] | None:
    """The bindings where all are known at compile time, else None."""
    found = [binding for binding in bindings if type(binding) is Static]
    return found if len(found) == len(bindings) else None


def all_sequences(bindings: Collection[Binding]) -> list[Sequence] | None:
    """The bindings where all are tuples or lists, else None."""
    found = [binding for binding in bindings if type(binding) is Sequence]
    return found if len(found) == len(bindings) else None


def is_number(value: object) -> bool:
    """Whether a static object is a plain number (bool, int, float)."""
    kind = type(value)
    return kind is int or kind is float or kind is bool
