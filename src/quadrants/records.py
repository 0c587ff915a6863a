"""`Record` and `MutableRecord`: what dataclasses are, without the code that a dataclass generates when its module is
imported, which took a third of the time that importing this package takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda cls: cls


__all__ = ["Field", "MutableRecord", "Record", "dataclass_names", "fresh", "replace"]

T = TypeVar("T")


class Field:
    """A field whose value `make` makes for each object that is not given one (None: one has to be given); `doc`: what the field
    is for."""

    __slots__ = ("doc", "make")

    def __init__(self, make: Callable[[], Any] | None, doc: str = "") -> None:
        self.make = make
        self.doc = doc


def fresh(make: Callable[[], T]) -> T:
    """The default of a field that each object has one of its own of: `names: list[str] = fresh(list[str])`."""
    field: Any = Field(make)
    return field


class _Fields:
    """A subclass lists its fields as annotations, with defaults where it has any, behind those of its base.

    Fields are given by position or name. Objects are equal if their class and all fields are. TypeError for missing,
    unknown and doubly given fields.
    """

    _names: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    _fields: ClassVar[dict[str, Field]] = {}

    @classmethod
    def fields(cls) -> dict[str, Field]:
        """The fields that are declared as a `Field`, by name."""
        return cls._fields

    def __init_subclass__(cls) -> None:
        annotations = cls.__annotations__
        own = [name for name in annotations if name not in cls._names and not annotations[name].startswith("ClassVar")]
        given = {name: cls.__dict__[name] for name in own if name in cls.__dict__}
        made = {name: value for name, value in given.items() if type(value) is Field}
        for name in made:
            delattr(cls, name)
            del given[name]
        cls._fields = {**cls._fields, **made}
        cls._defaults = {**cls._defaults, **given}
        cls._names = (*cls._names, *own)

    def __init__(self, *values: Any, **named: Any) -> None:
        names = self._names
        fields = {**self._defaults, **dict(zip(names, values)), **named}
        for name, field in self._fields.items():
            if name not in fields and field.make is not None:
                fields[name] = field.make()
        if named or len(fields) != len(names) or len(values) > len(names):
            self._check(values, named, fields)
        self.__dict__.update(fields)

    def _check(self, values: tuple[Any, ...], named: dict[str, Any], fields: dict[str, Any]) -> None:
        names = self._names
        doubly = named.keys() & set(names[: len(values)])
        if len(values) > len(names) or doubly or not named.keys() <= set(names):
            raise TypeError(f"{type(self).__name__} takes ({', '.join(names)}), got {values!r} and {named!r}")
        missing = [name for name in names if name not in fields]
        if missing:
            raise TypeError(f"{type(self).__name__} needs {', '.join(missing)}")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __repr__(self) -> str:
        shown = [f"{name}={self.__dict__[name]!r}" for name in self._names]
        return f"{type(self).__qualname__}({', '.join(shown)})"


@dataclass_transform(frozen_default=True)
class Record(_Fields):
    """An immutable group of values: see `_Fields`. AttributeError for assignment. A record hashes if its fields do."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be removed")

    def __hash__(self) -> int:
        return hash((type(self), *[self.__dict__[name] for name in self._names]))


@dataclass_transform()
class MutableRecord(_Fields):
    """A group of values that may change: see `_Fields`. It has no hash."""


R = TypeVar("R", bound=_Fields)


def replace(record: R, **changes: Any) -> R:
    """A new record with the values of this one, but for the fields that are named."""
    return type(record)(**{**record.__dict__, **changes})


def dataclass_names(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a dataclass of the user's, None for any other class."""
    if not hasattr(kind, "__dataclass_fields__"):
        return None
    import dataclasses  # which is there: it has made the class

    return tuple([field.name for field in dataclasses.fields(kind)])
