"""What a compiled kernel relies on, as plain data: made after a compile, checked against this process's objects."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from quadrants import knobs
from quadrants.frontend import protocol
from quadrants.frontend.annotations import resolve_annotation
from quadrants.frontend.guards import (
    ContentGuard,
    Guard,
    LiveNumber,
    Observation,
    guards_of,
    live_type,
    place_of,
    shadows_of,
)
from quadrants.runtime.fingerprint import source_fingerprint
from quadrants.warm_start.calls import is_literal, is_repeatable, read_by
from quadrants.warm_start.descriptions import Describer, Unstable
from quadrants.warm_start.places import Places, follow

if TYPE_CHECKING:
    from quadrants.frontend.compilation import CompiledSource

__all__ = ["Dependencies", "Found", "check"]

Roots = dict[tuple[str, Any], Any]
_OWN = "quadrants."
_NAMES = ("global", "cell", "member")


class Dependencies:
    """The paths and facts that a compiled form of a kernel depends on.

    `data` is what a manifest keeps: 'steps' lead to objects, 'facts' (place, way of looking, description) have to hold
    of them, 'guards' are the places of what is checked again at every launch, 'captured' the kernel's further
    parameters. Raises Unstable where something cannot be told to another process.
    """

    def __init__(self, source: CompiledSource, roots: Roots) -> None:
        self.places = Places()
        self._facts: list[tuple[int, str]] = []
        self._guards: list[int] = []
        for (way, key), value in roots.items():
            place = self.places.root(way, key, value)
            if way != "kernel":
                self._facts.append((place, "value"))
        for observation in source.observations:
            self._observe(observation)
        for function in source.reached:
            self._reach(function)
        self._captured = [self._capture(entry) for entry in source.captured]

    def data(self) -> dict[str, Any]:
        describer = Describer()
        values = self.places.values
        facts = [(place, way, _LOOKS[way](describer, values[place])) for place, way in dict.fromkeys(self._facts)]
        return {"steps": self.places.steps, "facts": facts, "guards": self._guards, "captured": self._captured}

    def stand(self, function: types.FunctionType) -> int | None:
        """The place of a function that was compiled; None for one of this package."""
        return None if _is_own(function) else self.places.find(function)

    def rely_on_lines(self, place: int) -> None:
        """The program speaks of line numbers of this function."""
        self._facts.append((place, "lines"))

    def _observe(self, observation: Observation) -> None:
        way, owner, value = observation.way, observation.owner, observation.value
        if way == "output":
            raise Unstable("it prints while compiling")
        if way == "member" and is_literal(owner) and self.places.find(owner) is None:
            return  # a method of a number, text, tuple or vector that stands in the code
        if way in _NAMES and not (way != "member" and _is_own(owner)):
            place = self.places.named(owner, way, observation.name, value)
            self._facts.append((place, "value"))
            self._guards.append(place)
        elif way == "content":
            self._look_inside(value)
        elif way == "static call" and not is_repeatable(owner) and not _is_own(owner):
            self._place(owner)
            for read in read_by(owner, value):
                self._observe(read)
        elif way == "annotated" and not _is_own(owner):
            self._facts.append((self._place(owner), "source"))

    def _look_inside(self, value: Any) -> None:
        place = self.places.find(value)
        if place is None:
            Describer().describe(value, strict=True)  # made while compiling, of what has been described
        else:
            self._facts.append((place, "inside"))

    def _reach(self, function: types.FunctionType) -> None:
        if _is_own(function):
            return
        place = self._place(function)
        if function.__annotations__:
            self._facts.append((place, "signature"))
        if not _tells_all(function.__code__):
            self._facts.append((place, "source"))

    def _place(self, value: Any) -> int:
        place = self.places.find(value)
        if place is None:
            raise Unstable(f"no path of names leads to {getattr(value, '__qualname__', type(value).__qualname__)}")
        return place

    def _capture(self, entry: Any) -> tuple[Any, ...]:
        if not isinstance(entry, LiveNumber):
            return "array", self._place(entry)
        seen = entry.observation
        place = self.places.named(seen.owner, seen.way, seen.name, entry.read())
        return "number", place, entry.type.name


class Found:
    """The objects that a manifest speaks of, in this process: `values` by place, `guards`, and `captured` as a Program
    has them."""

    def __init__(self, values: list[Any], guards: list[Guard | ContentGuard], captured: list[Any]) -> None:
        self.values = values
        self.guards = guards
        self.captured = captured


def check(data: dict[str, Any], roots: Roots) -> Found | None:
    """The objects that a manifest's paths lead to, if all its facts hold of them; else None."""
    values: list[Any] = []
    steps = data["steps"]
    try:
        for step in steps:
            values.append(follow(step, values, roots))
        describer = Describer()
        for place, way, expected in data["facts"]:
            if _LOOKS[way](describer, values[place]) != expected:
                return None
        guards: dict[Any, Guard | ContentGuard] = {}
        for place in data["guards"]:
            parent, way, name = steps[place]
            _add(guards, guards_of(way, values[parent], name, values[place]))
        captured = [_captured(entry, steps, values, guards) for entry in data["captured"]]
    except Exception:  # users' objects may raise anything; whatever does not work as it did is not the same
        return None
    return Found(values, list(guards.values()), captured)


def _add(guards: dict[Any, Guard | ContentGuard], more: Iterable[Guard | ContentGuard]) -> None:
    for guard in more:
        guards[id(guard.container), guard.key] = guard


def _captured(
    entry: tuple[Any, ...], steps: list[Any], values: list[Any], guards: dict[Any, Guard | ContentGuard]
) -> Any:
    value = values[entry[1]]
    if entry[0] == "array":
        return value
    parent, way, name = steps[entry[1]]
    type_ = live_type(value, knobs.current.default_int)
    if type_ is None or type_.name != entry[2]:
        raise LookupError(name)
    place = place_of(way, values[parent], name, value)
    if place is None:
        raise LookupError(name)
    _add(guards, shadows_of(way, values[parent], name, place))
    return LiveNumber(*place, knobs.current.default_int, Observation(way, values[parent], name))


def _is_own(function: Any) -> bool:
    """Whether a function is this package's: the compiler's fingerprint covers it and what it refers to."""
    return (
        isinstance(function, types.FunctionType) and function.__module__.startswith(_OWN) and not function.__closure__
    )


def _tells_all(code: types.CodeType) -> bool:
    """Whether a code object shows any change of its source that matters, annotations of local names aside: it keeps
    columns, and `assert` statements."""
    if sys.version_info < (3, 11) or sys.flags.optimize:
        return False
    return any(column is not None for _, _, column, _ in code.co_positions())


# Ways of looking at an object.


def _value(describer: Describer, value: Any) -> Any:
    return describer.describe(value)


def _inside(describer: Describer, value: Any) -> Any:
    return describer.describe(value, strict=True)


def _source(describer: Describer, function: Any) -> Any:
    return source_fingerprint(function)


def _lines(describer: Describer, function: Any) -> Any:
    return function.__code__.co_filename, function.__code__.co_firstlineno


def _signature(describer: Describer, function: Any) -> Any:
    """What the annotations of a function mean to the compiler."""
    found = []
    for name, wish in function.__annotations__.items():
        meaning = protocol.annotation(resolve_annotation(function, wish))
        if meaning is None:
            found.append((name, None))
        else:
            kind = type(meaning.annotation).__qualname__
            found.append((name, (meaning.kind, str(meaning.scalar), meaning.shape, meaning.ndim, kind)))
    return found


_LOOKS: dict[str, Callable[[Describer, Any], Any]] = {
    "value": _value,
    "inside": _inside,
    "source": _source,
    "lines": _lines,
    "signature": _signature,
}
