"""Compiled programs as plain data, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadrants.frontend.guards import LiveNumber
from quadrants.ir.types import ArrayType, parse_type
from quadrants.program import Program
from quadrants.runtime.fingerprint import last_line
from quadrants.targets.frame import Frame
from quadrants.warm_start.descriptions import PLAIN, Unstable

if TYPE_CHECKING:
    from quadrants.frontend.compilation import CompiledSource
    from quadrants.ir.nodes import Location
    from quadrants.warm_start.manifests import Dependencies, Found

__all__ = ["decode", "encode"]


def encode(program: Program, source: CompiledSource, dependencies: Dependencies) -> dict[str, Any]:
    """All of a program but its objects and what it depends on. Raises Unstable for a result that cannot be told."""
    writer = _Writer(source, dependencies)
    frame = program.frame
    return {
        "name": program.name,
        "frame": (
            [type_.name for type_ in frame.parameter_types],
            [type_.name for type_ in frame.result_types],
            list(frame.parameters),
            list(frame.results),
            frame.size,
        ),
        "result": writer.result(program.result),
        "written": [writer.origin(origin, program.captured) for origin in program.written],
        "static_shapes": list(program.static_shapes.items()),
        "notices": writer.notices(program.notices),
        "tasks": [(writer.place(place), text) for place, text in program.tasks],
        "counters": dict(program.counters),
        "times": dict(program.times),
        "may_alias": program.may_alias,
        "options": (program.lane_options, program.threads_are_free),
        "messages": [
            (number, message.text, message.error, writer.place(message.location), message.types)
            for number, message in program.messages.items()
        ],
        "prints": [(number, form.pieces, form.specs, form.types) for number, form in program.prints.items()],
    }


def decode(data: dict[str, Any], found: Found) -> Program:
    """The program of that data, over the objects of this process; its machine code is loaded by the caller."""
    parameter_types, result_types, parameters, results, size = data["frame"]
    frame = Frame(_types(parameter_types), _types(result_types), tuple(parameters), tuple(results), size)
    program = Program(
        data["name"],
        frame,
        _result(data["result"], found.values),
        found.guards,
        found.captured,
        {_origin(origin, found.captured) for origin in data["written"]},
        _notices(data["notices"], found.values),
        data["counters"],
        data["times"],
        data["may_alias"],
    )
    program.tasks = [(_location(place, found.values), text) for place, text in data["tasks"]]
    program.static_shapes = dict(data["static_shapes"])
    program.lane_options, program.threads_are_free = data["options"]
    if data["messages"] or data["prints"]:
        _read_texts(program, data, found.values)
    return program


def _types(names: list[str]) -> tuple[Any, ...]:
    return tuple([parse_type(name) for name in names])


class _Writer:
    """Writes what speaks of places in the source by function and line within it, so that functions may move."""

    def __init__(self, source: CompiledSource, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._functions: list[tuple[str, int, int, int]] = []
        for function in source.reached:
            place = dependencies.stand(function)
            code = function.__code__
            if place is not None:
                self._functions.append((code.co_filename, code.co_firstlineno, last_line(code), place))

    def place(self, location: Location | None) -> Any:
        """(place of the function or -1 and the file, line, columns)."""
        if location is None:
            return None
        number, first = self._function(location)
        if number < 0:
            return (-1, location.file, location.line, location.column, location.end_column)
        return (number, "", location.line - first, location.column, location.end_column)

    def _function(self, location: Location) -> tuple[int, int]:
        for file, first, last, place in self._functions:
            if file == location.file and first <= location.line <= last:
                return place, first
        return -1, 0

    def notices(self, notices: list[Any]) -> list[Any]:
        """Notices name lines in their texts: they hold as long as the functions stand where they stood."""
        for notice in notices:
            for location in notice.locations:
                number = -1 if location is None else self._function(location)[0]
                if number >= 0:
                    self._dependencies.rely_on_lines(number)
        return [
            (notice.pass_name, notice.text, [self.place(location) for location in notice.locations])
            for notice in notices
        ]

    def result(self, shape: Any) -> Any:
        if shape[0] == "sequence":
            place = None if shape[3] is None else self._place(shape[3])
            return ("sequence", [self.result(part) for part in shape[1]], shape[2], place)
        if shape[0] == "run":
            return ("run",)
        value = shape[1]
        if type(value) in PLAIN and type(value) not in (range, slice):
            return ("static", value)
        return ("found", self._place(value))

    def _place(self, value: Any) -> int:
        place = self._dependencies.places.find(value)
        if place is None:
            raise Unstable(f"it returns an object of type {type(value).__qualname__} made while compiling")
        return place

    def origin(self, origin: tuple[str, int], captured: list[Any]) -> tuple[str, int]:
        if origin[0] == "argument":
            return origin
        return ("captured", [id(value) for value in captured].index(origin[1]))


def _result(shape: Any, values: list[Any]) -> Any:
    if shape[0] == "sequence":
        record = None if shape[3] is None else values[shape[3]]
        return ("sequence", [_result(part, values) for part in shape[1]], shape[2], record)
    return ("static", values[shape[1]]) if shape[0] == "found" else shape


def _origin(origin: tuple[str, int], captured: list[Any]) -> tuple[str, int]:
    return origin if origin[0] == "argument" else ("array", id(captured[origin[1]]))


def _location(place: Any, values: list[Any]) -> Any:
    from quadrants.ir.nodes import Location

    if place is None:
        return None
    number, file, line, column, end = place
    if number < 0:
        return Location(file, line, column, end)
    code = values[number].__code__
    return Location(code.co_filename, code.co_firstlineno + line, column, end)


def _notices(data: list[Any], values: list[Any]) -> list[Any]:
    if not data:
        return []
    from quadrants.passes.context import Notice

    return [Notice(name, text, tuple([_location(place, values) for place in places])) for name, text, places in data]


def _read_texts(program: Program, data: dict[str, Any], values: list[Any]) -> None:
    """Messages and formats of prints."""
    from quadrants.targets.artifact import Message, PrintFormat

    for number, text, error, place, types in data["messages"]:
        program.messages[number] = Message(text, error, _location(place, values), tuple(types))
    for number, pieces, specs, types in data["prints"]:
        program.prints[number] = PrintFormat(tuple(pieces), tuple(specs), tuple(types))


def captured_arrays_fit(program: Program) -> bool:
    """Whether the captured arrays have the sizes that the program was compiled for."""
    first = len(program.frame.parameters) - len(program.captured)
    for source, type_ in zip(program.captured, program.frame.parameter_types[first:]):
        if not isinstance(source, LiveNumber):
            assert type(type_) is ArrayType
            trailing = type_.trailing
            if trailing and _shape(source)[-len(trailing) :] != trailing:
                return False
    return True


def _shape(value: Any) -> tuple[int, ...]:
    from quadrants.frontend.arguments import as_numpy

    return tuple(as_numpy(value).shape)
