"""`Record`: what a frozen dataclass is, without the code that a dataclass generates when its module is imported, which
took a third of the time that importing this package takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda cls: cls


__all__ = ["Record"]


@dataclass_transform(frozen_default=True)
class Record:
    """An immutable group of values: a subclass lists its fields as annotations, with defaults where it has any.

    Fields are given by position or name. Records are equal if their class and all fields are; they hash if their fields
    do. TypeError for missing, unknown and doubly given fields, AttributeError for assignment.
    """

    _names: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        own = tuple([name for name in cls.__annotations__ if name not in cls._names])
        cls._defaults = {**cls._defaults, **{name: cls.__dict__[name] for name in own if name in cls.__dict__}}
        cls._names = cls._names + own

    def __init__(self, *values: Any, **named: Any) -> None:
        names = self._names
        given = dict(zip(names, values))
        if len(values) > len(names) or not given.keys().isdisjoint(named) or not named.keys() <= set(names):
            raise TypeError(f"{type(self).__name__} takes ({', '.join(names)}), got {values!r} and {named!r}")
        given.update(named)
        if len(given) < len(names):
            given = {**self._defaults, **given}
            missing = [name for name in names if name not in given]
            if missing:
                raise TypeError(f"{type(self).__name__} needs {', '.join(missing)}")
        self.__dict__.update(given)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be removed")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *[self.__dict__[name] for name in self._names]))

    def __repr__(self) -> str:
        shown = [f"{name}={self.__dict__[name]!r}" for name in self._names]
        return f"{type(self).__qualname__}({', '.join(shown)})"
