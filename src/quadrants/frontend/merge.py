"""Where paths meet: the bindings of one name on several paths brought to one, and loops' carried names."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsTypeError, SourceLocation
from quadrants.frontend import numbers, protocol
from quadrants.frontend.identity import may_be
from quadrants.frontend.scan import last_assignment
from quadrants.frontend.source import place as location_of
from quadrants.frontend.source import source_location
from quadrants.frontend.values import (
    Array,
    Binding,
    Broken,
    Part,
    Run,
    Sequence,
    Slot,
    Static,
    common_nature,
    is_number,
)
from quadrants.ir.nodes import Block, Location, Op, Value
from quadrants.ir.types import ScalarType, Type, matrix_type, scalar_of, shape_of, u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Env, Walker

__all__ = [
    "NoUnion",
    "Parts",
    "Path",
    "have_one_form",
    "meet",
    "merge_names",
    "part_names",
    "parts_of",
    "rebuild_wholes",
    "same_static",
    "unify",
    "whole_of",
]


class Path:
    """One of the paths that meet: its block (still open) and its names."""

    __slots__ = ("block", "env")

    def __init__(self, block: Block, env: Env) -> None:
        self.block = block
        self.env = env


def same_static(left: Binding, right: Binding) -> bool:
    """Whether two bindings are the same without any code."""
    if left is right:
        return True
    if type(left) is Static and type(right) is Static:
        a, b = left.value, right.value
        return a is b or (type(a) is type(b) and (is_number(a) or isinstance(a, str)) and a == b and str(a) == str(b))
    if type(left) is Run and type(right) is Run:
        return left.value is right.value and left.weak == right.weak
    if type(left) is Slot and type(right) is Slot:
        return left.memory is right.memory
    if type(left) is Array and type(right) is Array:
        return left.value is right.value and left.prefix == right.prefix and left.indexed == right.indexed
    if type(left) is Sequence and type(right) is Sequence:
        alike = len(left.items) == len(right.items) and left.record is right.record
        return alike and all(map(same_static, left.items, right.items))
    return False


def merge_names(
    walker: Walker, names: Any, paths: list[Path], node: ast.AST
) -> list[tuple[str, list[Value], Type, bool]]:
    """For each name with different values on the paths that can be one run-time value: (name, a value a path, type,
    weak), with the casts appended to the paths' blocks. Other names are settled in the paths' envs: the same binding in
    all, or Broken. Of a single path, what it made itself leaves it so."""
    merged: list[tuple[str, list[Value], Type, bool]] = []
    if len(paths) == 1:
        names = [name for name in names if _is_own(paths[0].env.get(name), walker.env.get(name))]
    for name in names:
        _merge(walker, name, [path.env.get(name) for path in paths], paths, node, merged)
    return merged


def _is_own(binding: Binding | None, before: Binding | None) -> bool:
    """Whether a path has made a value of a name, or of a part of it."""
    if binding is None or (before is not None and same_static(binding, before)):
        return False
    parts = parts_of(binding)
    return type(binding) in (Run, Slot) if parts is None else any(_is_own(part, None) for part in parts)


def _merge(
    walker: Walker, name: str, bindings: list[Binding | None], paths: list[Path], node: ast.AST, merged: list[Any]
) -> None:
    present = [binding for binding in bindings if binding is not None]
    if not present:
        return
    alike = len(present) == len(bindings) and all(same_static(present[0], other) for other in present[1:])
    if alike and (len(paths) > 1 or not _is_own(present[0], None)):
        if type(present[0]) is Sequence:
            settle(paths, name, may_be(present[0], present[1:]))
        return
    if len(present) < len(bindings) and (all(type(b) is Broken for b in present) or not _is_value(walker, present[0])):
        settle(
            paths,
            name,
            Broken(
                lambda at: walker.error(
                    at, f'"{name}" is not assigned on every path', hint="assign it before the `if` or loop"
                )
            ),
        )
        return
    if have_one_form(present):
        _merge_parts(walker, name, bindings, paths, node, merged)
        return
    try:
        type_, weak = unify(walker, present, node)
    except NoUnion as reason:
        settle(paths, name, Broken(_no_meeting(walker, name, str(reason), node)))
        return
    values = [_value_on(walker, path, binding, type_, node) for path, binding in zip(paths, bindings)]
    merged.append((name, values, type_, weak))


def settle(paths: list[Path], name: str, binding: Binding) -> None:
    for path in paths:
        path.env[name] = binding


def _no_meeting(walker: Walker, name: str, reason: str, node: ast.AST) -> Any:
    """The error of a name that two paths bind to different kinds of things: it names the lines that bind it."""
    what = "the result has no single type" if name.startswith("$value") else f'"{name}" has no single type here'
    places = [place for place in _assignments(walker, name, node) if place is not None]

    def explain(at: ast.AST) -> Exception:
        return QuadrantsTypeError.at(
            source_location(location_of(walker.file, at)),
            f"{what}: the paths that meet bind it to {reason}",
            "use different names, or bring both to one kind",
            notes=[(place, "assigned here") for place in places],
        )

    return explain


def _assignments(walker: Walker, name: str, node: ast.AST) -> list[SourceLocation | None]:
    """Where the branches (or the loop, and what stands before it) assign the name last."""
    stretches = [
        part for part in (getattr(node, "body", None), getattr(node, "orelse", None)) if isinstance(part, list) and part
    ]
    lines = {last_assignment(walker.node, name, part[0].lineno, part[-1].end_lineno or 0) for part in stretches}
    if len(lines - {None}) < 2:
        lines.add(last_assignment(walker.node, name, 0, getattr(node, "lineno", 1) - 1))
    return [source_location(Location(walker.file, line)) for line in sorted(line for line in lines if line)]


# Tuples, lists and views meet part by part.


class Parts(Binding):
    """Stands for a tuple, list or view whose parts are bound to names of their own while paths meet."""

    __slots__ = ("names", "whole")

    def __init__(self, whole: Binding, names: list[str]) -> None:
        self.whole = whole
        self.names = names


def parts_of(binding: Binding) -> list[Binding] | None:
    """What a tuple or list consists of, or the indices that a view or part of an array stands at; None for what is no
    such thing."""
    if type(binding) is Sequence:
        return binding.items
    if type(binding) is Static and type(binding.value) in (tuple, list):
        return [Static(item) for item in binding.value]
    if type(binding) is Array and binding.is_view and binding.prefix:
        return [Run(index) for index in binding.prefix]
    if type(binding) is Part:
        values = [*binding.array.prefix, *itertools.chain.from_iterable(binding.axes)]
        return [Run(value) for value in values]
    return None


def _record_of(binding: Binding) -> type | None:
    """The class of a record, None for all else."""
    return binding.record if type(binding) is Sequence else None


def have_one_form(bindings: list[Binding]) -> bool:
    """Whether the bindings differ in their parts alone: all are tuples of one length, or views of one array."""
    first = bindings[0]
    parts = parts_of(first)
    if parts is None:
        return False
    for other in bindings[1:]:
        if len(parts_of(other) or ()) != len(parts) or (type(first) is Array) != (type(other) is Array):
            return False
        if _record_of(first) is not _record_of(other):
            return False
        if type(first) is Array and type(other) is Array and first.value is not other.value:
            return False
        if type(first) is not type(other) and Part in (type(first), type(other)):
            return False
        if type(first) is Part and type(other) is Part and not _cut_alike(first, other):
            return False
    return True


def part_names(name: str, binding: Binding) -> list[str]:
    return [f"{name}.{position}" for position in range(len(parts_of(binding) or ()))]


def whole_of(binding: Binding, parts: list[Binding]) -> Binding:
    """A binding of the form of `binding` with these parts."""
    if type(binding) is Sequence:
        return binding.of(parts)
    if type(binding) is Static:
        return Sequence(parts, type(binding.value) is list)
    indices = tuple([part.value for part in parts if type(part) is Run])
    assert len(indices) == len(parts)
    if type(binding) is Part:
        supply = iter(indices)
        array = _with_prefix(binding.array, tuple([next(supply) for _ in binding.array.prefix]))
        return Part(array, [tuple([next(supply) for _ in axis]) for axis in binding.axes], binding.node)
    assert type(binding) is Array
    return _with_prefix(binding, indices)


def _with_prefix(array: Array, prefix: tuple[Value, ...]) -> Array:
    indexed = array.indexed or bool(prefix)
    return Array(array.value, array.kind, array.domain, prefix, array.offset, array.origin, array.example, indexed)


def _cut_alike(left: Part, right: Part) -> bool:
    """Whether two parts are of one array, with the same axes left."""
    axes = [len(axis) for axis in left.axes] == [len(axis) for axis in right.axes]
    return left.array.value is right.array.value and len(left.array.prefix) == len(right.array.prefix) and axes


def _merge_parts(
    walker: Walker, name: str, bindings: list[Binding | None], paths: list[Path], node: ast.AST, merged: list[Any]
) -> None:
    """Part by part, under names of their own that `rebuild_wholes` puts together again."""
    whole = next(binding for binding in bindings if binding is not None)
    names = part_names(name, whole)
    for position, part in enumerate(names):
        column = [None if binding is None else (parts_of(binding) or ())[position] for binding in bindings]
        for path, binding in zip(paths, column):
            if binding is not None:
                path.env[part] = binding
        _merge(walker, part, column, paths, node, merged)
    settle(paths, name, Parts(may_be(whole, bindings), names))


def rebuild_wholes(env: Env, names: Any) -> None:
    """Puts what met part by part together, and drops the parts' names."""
    for name in names:
        binding = env.get(name)
        if type(binding) is Parts:
            rebuild_wholes(env, binding.names)
            env[name] = whole_of(binding.whole, [env.pop(part) for part in binding.names])


def meet(
    walker: Walker,
    condition: Run,
    paths: list[Path],
    results: list[Binding],
    node: ast.AST,
    location: Location | None,
    names: Collection[str] = (),
) -> Binding:
    """The one of two results that `condition` says, as an `if` with the paths' blocks; `names`, which the paths bind, are
    from here on what the path taken makes them."""
    for path, result in zip(paths, results):
        path.env["$value"] = result
    merged = merge_names(walker, ["$value", *names], paths, node)
    for position, path in enumerate(paths):
        append_yield(path.block, [entry[1][position] for entry in merged])
    types = tuple(entry[2] for entry in merged)
    op = Op("if", (condition.value,), types, {"types": types}, tuple(path.block for path in paths), location)
    walker.builder.block.ops.append(op)
    env = dict(paths[0].env)
    for (name, _, _, weak), value in zip(merged, op.results):
        env[name] = Run(value, weak, common_nature(path.env.get(name) for path in paths))
    rebuild_wholes(env, ["$value", *names])
    found = env.pop("$value")
    if names:
        walker.env = env
        for name in walker.memory.intersection([entry[0] for entry in merged]):
            walker.bind(name, env[name], node)
    if type(found) is Broken:
        raise found.explain(node)
    return found


class NoUnion(Exception):
    """Bindings that have no run-time value in common; the text says what they are."""


def _is_value(walker: Walker, binding: Binding) -> bool:
    if type(binding) in (Run, Slot):
        return True
    if type(binding) is Static:
        return (
            isinstance(binding.value, (int, float))
            or protocol.matrix_constant(binding.value) is not None
            or hasattr(binding.value, "dtype")
        )
    if type(binding) is Sequence:
        return all(_is_value(walker, item) for item in binding.items) and bool(binding.items)
    return type(binding) is Array and binding.indexed


def unify(walker: Walker, bindings: list[Binding], node: ast.AST) -> tuple[Type, bool]:
    """The type in which run-time values meet, and whether it is weak."""
    facts: tuple[ScalarType, bool] | None = None
    shape: tuple[int, ...] | None = None
    records = {_record_of(binding) for binding in bindings}
    for binding in bindings:
        if not _is_value(walker, binding) or len(records) > 1:
            raise NoUnion(" and ".join(dict.fromkeys(numbers.describe(b) for b in bindings)))
        type_, weak = value_facts(walker, binding, node)
        if shape is None or not shape:
            if shape is not None and shape_of(type_) != shape:
                raise NoUnion(" and ".join(dict.fromkeys(numbers.describe(b) for b in bindings)))
            shape = shape_of(type_)
        elif shape_of(type_) != shape:
            raise NoUnion(" and ".join(dict.fromkeys(numbers.describe(b) for b in bindings)))
        mine = (scalar_of(type_), weak)
        facts = mine if facts is None else numbers.join(walker, facts, mine)
    assert facts is not None and shape is not None
    scalar, weak = facts
    if shape:
        return matrix_type(scalar, shape), weak
    return scalar, weak


def value_facts(walker: Walker, binding: Binding, node: ast.AST) -> tuple[Type, bool]:
    """Type and weakness of a value binding, without leaving code."""
    if type(binding) is Run:
        return binding.type, binding.weak
    if type(binding) is Slot:
        return binding.element, binding.weak
    if type(binding) is Static and is_number(binding.value):
        scalar = numbers.literal_scalar(walker, binding.value)
        return scalar, scalar is not u1
    _, run = walker.trial(lambda: numbers.to_run(walker, binding, node))
    return run.type, run.weak


def _value_on(walker: Walker, path: Path, binding: Binding | None, type_: Type, node: ast.AST) -> Value:
    with walker.inside(path.block):
        if binding is None:
            return walker.builder.constant(0, type_)
        return convert_to(walker, binding, type_, node)


def convert_to(walker: Walker, binding: Binding, type_: Type, node: ast.AST) -> Value:
    """A value binding as a value of a type of its own shape."""
    if type(binding) is Static and is_number(binding.value):
        return numbers.constant(walker, binding.value, type_)
    return walker.builder.cast(numbers.to_run(walker, binding, node).value, scalar_of(type_))


def append_yield(block: Block, values: list[Value], kind: str = "yield", location: Any = None) -> None:
    block.ops.append(Op(kind, tuple(values), (), None, (), location))
