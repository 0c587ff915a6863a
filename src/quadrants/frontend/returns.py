"""Results of functions and kernels: all returns brought to one shape and type."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsSyntaxError, QuadrantsTypeError
from quadrants.frontend import numbers, protocol
from quadrants.frontend.merge import NoUnion, append_yield, same_static, unify, value_facts
from quadrants.frontend.scan import names_in
from quadrants.frontend.values import (
    Array,
    Binding,
    Nature,
    Run,
    Sequence,
    Slot,
    Static,
    all_sequences,
    common_nature,
    is_number,
    nature_of,
)
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import Type, matrix_type, scalar_of, shape_of, with_scalar

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["UNREACHABLE", "Result", "drop_unchanged", "settle_returns"]


# What is "returned" at the end of a block that control does not reach.
UNREACHABLE = Binding()


def _is_typed_number(value: Any) -> bool:
    return is_number(value) or isinstance(value, np.generic)


class Result:
    """The shape of a result: `shape` is a tree of ('static', binding) | ('run', type, weak, nature) | ('sequence', …); template
    parameters that come back follow the result proper."""

    __slots__ = ("shape", "templates", "types")

    def __init__(self, shape: Any, templates: tuple[Any, ...] = ()) -> None:
        self.shape = shape
        self.templates = templates
        self.types: tuple[Type, ...] = tuple(_types(shape)) + tuple(t for shape in templates for t in _types(shape))

    def is_like(self, other: Result) -> bool:
        """Whether both have the same parts, of the same types and known at compile time alike."""
        return _alike(self.shape, other.shape)

    def rebuild(self, values: list[Value]) -> tuple[Binding, list[Binding]]:
        supply = iter(values)
        return _rebuild(self.shape, supply), [_rebuild(shape, supply) for shape in self.templates]


def _alike(left: Any, right: Any) -> bool:
    if left[0] != right[0]:
        return False
    if left[0] == "static":
        return same_static(left[1], right[1])
    if left[0] == "sequence":
        return left[2:] == right[2:] and len(left[1]) == len(right[1]) and all(map(_alike, left[1], right[1]))
    return left == right


def _types(shape: Any) -> Any:
    if shape[0] == "run":
        yield shape[1]
    elif shape[0] == "sequence":
        for part in shape[1]:
            yield from _types(part)


def _rebuild(shape: Any, values: Any) -> Binding:
    if shape[0] == "run":
        return Run(next(values), shape[2], shape[3])
    if shape[0] == "sequence":
        return Sequence([_rebuild(part, values) for part in shape[1]], *shape[2:])
    return shape[1]


def settle_returns(walker: Walker, wish: protocol.Annotation | None, harden: bool = False) -> Result:
    """Appends the `return` operations, with what is returned cast to the common types. `harden`: weak results take
    their default types (kernels)."""
    node = walker.node
    reached = [entry for entry in walker.returns if entry[1] is not UNREACHABLE]
    bindings: list[Binding] = [_valued(walker, entry) for entry in reached]
    if not bindings:
        bindings = [Static(None)]
    shape = _shape(walker, bindings, next((entry[3] for entry in reached if entry[3] is not None), node))
    if wish is not None:
        shape = _annotated(walker, shape, wish)
    if harden:
        shape = _hardened(walker, shape)
    given_back = [_given_back(walker, entry) for entry in reached]
    templates = tuple(
        _shape(walker, [values[position] for values in given_back], node)
        for position in range(len(walker.template_names))
    )
    result = Result(shape, templates)
    for (block, _, _, at), binding, template_values in zip(reached, bindings, given_back):
        with walker.inside(block):
            walker.builder.location = None
            if at is not None:
                walker.at(at)
            values = list(_values(walker, shape, binding, at or node))
            for part, value in zip(templates, template_values):
                values.extend(_values(walker, part, value, at or node))
            append_yield(block, values, "return", walker.builder.location)
    for block, binding, _, _ in walker.returns:
        if binding is UNREACHABLE:
            with walker.inside(block):
                append_yield(block, [walker.builder.constant(0, type_) for type_ in result.types], "return")
    sink_returns(walker.function.body, result.types)
    return result


def sink_returns(block: Block, types: tuple[Type, ...]) -> None:
    """Where both branches of an `if` that ends a block return, the `if` yields the results and the block returns them:
    so a function has one return at its end wherever it can, and can be inlined."""
    for op in block.ops:
        for region in op.regions:
            sink_returns(region, types)
    last = block.ops[-1] if block.ops else None
    if (
        last is None
        or last.kind != "if"
        or any(not region.ops or region.ops[-1].kind != "return" for region in last.regions)
    ):
        return
    for region in last.regions:
        region.ops[-1].kind = "yield"
    op = Op("if", last.operands, types, {"types": types}, last.regions, last.location)
    block.ops[-1] = op
    append_yield(block, op.results, "return", last.location)


def _valued(walker: Walker, entry: Any) -> Binding:
    """The returned binding with elements and views read where the return stands."""
    block, binding, _, at = entry
    with walker.inside(block):
        return _read(walker, binding, at)


def _given_back(walker: Walker, entry: Any) -> list[Binding]:
    """The template parameters as they are where the return stands."""
    block, _, templates, at = entry
    with walker.inside(block):
        return [
            _read(walker, binding, at, walker.entry.get(name))
            for name, binding in zip(walker.template_names, templates)
        ]


def drop_unchanged(walker: Walker) -> None:
    """Records that no path has changed do not come back."""
    kept = [
        position
        for position, name in enumerate(walker.template_names)
        if not (
            type(walker.entry[name]) is Sequence
            and all(same_static(walker.entry[name], entry[2][position]) for entry in walker.returns if entry[2])
        )
    ]
    walker.template_names = tuple([walker.template_names[position] for position in kept])
    for _, _, templates, _ in walker.returns:
        templates[:] = [templates[position] for position in kept if templates]


def _read(walker: Walker, binding: Binding, at: Any, before: Binding | None = None) -> Binding:
    """The binding with what it holds of elements and views read; arrays of what was there `before` stay."""
    if type(binding) is Sequence:
        earlier = before.items if type(before) is Sequence else [None] * len(binding.items)
        return binding.of([_read(walker, item, at, old) for item, old in zip(binding.items, earlier)])
    if type(binding) is Array and before is not None and same_static(binding, before):
        return binding
    if type(binding) in (Array, Slot):
        if type(binding) is Array and not binding.indexed:
            raise walker.error(
                at,
                "a function cannot return an array",
                hint="write to it in place, or return its elements",
                kind=QuadrantsTypeError,
            )
        run = numbers.to_run(walker, binding, at)
        return Run(run.value, run.weak, nature_of(binding))
    return binding


def _shape(walker: Walker, bindings: list[Binding], node: ast.AST) -> Any:
    first = bindings[0]
    constant = type(first) is Static if walker.is_kernel else not isinstance(first, (Run, Sequence))
    if constant and all(same_static(first, other) for other in bindings[1:]):
        if not (
            type(first) is Static
            and (_is_typed_number(first.value) or protocol.matrix_constant(first.value) is not None)
            and walker.is_kernel
        ):
            _check_closure(walker, first, node)
            return ("static", first)
    sequences = all_sequences(bindings)
    if sequences is not None and len({(len(sequence.items), sequence.record) for sequence in sequences}) == 1:
        members = zip(*[sequence.items for sequence in sequences])
        parts = tuple([_shape(walker, list(member), node) for member in members])
        return ("sequence", parts, sequences[0].is_list, sequences[0].names, sequences[0].record)
    try:
        type_, weak = unify(walker, bindings, node) if len(bindings) > 1 else value_facts(walker, first, node)
    except QuadrantsSyntaxError:
        raise
    except NoUnion as reason:
        raise walker.error(
            walker.returns[0][3] or node,
            f"the returns differ in kind: {reason}",
            hint="return the same kind of value on every path",
            kind=QuadrantsTypeError,
        ) from None
    return ("run", type_, weak, common_nature(bindings) if shape_of(type_) else Nature.VALUE)


def _check_closure(walker: Walker, result: Binding, node: ast.AST) -> None:
    """Refuses a nested function as a result that would bring values of this function along."""
    from quadrants.frontend.calls import LocalFunction

    if type(result) is not LocalFunction or result.owner is not walker:
        return
    kept = [*result.defaults.values(), *[walker.env.get(name) for name in names_in(result.node)]]
    if any(type(binding) not in (Static, LocalFunction, type(None)) for binding in kept):
        raise walker.error(
            node,
            "a nested function that uses values of the function around it cannot be its result",
            hint="return the values, or define the function where it is called",
        )


def _annotated(walker: Walker, shape: Any, wish: protocol.Annotation) -> Any:
    if shape[0] == "sequence" and wish.kind == "tuple" and len(wish.parts) == len(shape[1]):
        parts = tuple(
            _annotated(walker, part, own) if own is not None else part for part, own in zip(shape[1], wish.parts)
        )
        return ("sequence", parts, *shape[2:])
    if shape[0] != "run":
        return shape
    scalar = {"int": walker.default_int, "float": walker.default_float}.get(wish.kind, wish.scalar)
    if scalar is None:
        return shape
    target = matrix_type(scalar, wish.shape) if wish.kind == "matrix" else with_scalar(shape[1], scalar)
    return ("run", target, False, Nature.VALUE)


def _hardened(walker: Walker, shape: Any) -> Any:
    if shape[0] == "run":
        return ("run", numbers.default_type(walker, Run(Value(shape[1]), shape[2])), False, shape[3])
    if shape[0] == "sequence":
        return ("sequence", tuple(_hardened(walker, part) for part in shape[1]), *shape[2:])
    return shape


def _values(walker: Walker, shape: Any, binding: Binding, node: ast.AST) -> Any:
    if shape[0] == "run":
        run = numbers.to_run(walker, binding, node)
        value = numbers.coerce(walker, binding, run, scalar_of(shape[1]))
        yield value if value.type is shape[1] else numbers.convert(walker, Run(value), shape[1], node)
    elif shape[0] == "sequence":
        assert type(binding) is Sequence
        for part, item in zip(shape[1], binding.items):
            yield from _values(walker, part, item, node)
