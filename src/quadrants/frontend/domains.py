"""What a `for` runs over: run-time domains (rectangles of counters) and static items."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from quadrants.frontend import numbers, protocol
from quadrants.frontend.values import Array, Binding, Iteration, Run, Sequence, Static, is_number, is_tile
from quadrants.ir.nodes import Value
from quadrants.ir.types import ScalarType, i64, matrix_type, shape_of, u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["Domain", "domain_of", "static_items"]


class Domain:
    """`rank` counters from lows to highs; `bind(walker, counters, node)` gives what the targets are bound to. `spread`:
    the bindings are separate targets. `reads`: binding reads memory, so a last value cannot be computed after the loop."""

    __slots__ = ("bind", "highs", "lows", "rank", "reads", "spread")

    def __init__(
        self,
        rank: int,
        lows: list[Value],
        highs: list[Value],
        bind: Callable[..., list[Binding]],
        spread: bool = True,
        reads: bool = False,
    ) -> None:
        self.rank = rank
        self.lows = lows
        self.highs = highs
        self.bind = bind
        self.spread = spread
        self.reads = reads


def static_items(walker: Walker, iterated: Binding, node: ast.AST) -> list[Binding] | None:
    """The items of a loop known at compile time (tuples, lists, `qd.static`), None for a run-time loop."""
    if type(iterated) is Sequence and not is_tile(iterated):
        return iterated.items
    if (
        type(iterated) is Static
        and not protocol.is_array(iterated.value)
        and protocol.matrix_constant(iterated.value) is None
    ):
        value = iterated.value
        if isinstance(value, (tuple, list, range, dict, str, frozenset, set)) or type(value).__name__ in (
            "dict_items",
            "dict_keys",
            "dict_values",
        ):
            walker.compilation.evaluated(value)
            return [wrap(item) for item in value]
        if isinstance(value, Iterator):  # enumerate(…), zip(…) and their like inside qd.static
            return [wrap(item) for item in value]
        if isinstance(value, type) and hasattr(value, "__members__"):
            return [Static(member) for member in iterated.value]
    if type(iterated) is Iteration and iterated.kind in ("enumerate", "zip", "reversed"):
        return _static_compound(walker, iterated, node)
    return None


def _static_compound(walker: Walker, iterated: Iteration, node: ast.AST) -> list[Binding] | None:
    parts = [part for part in iterated.parts if isinstance(part, Binding)]
    known = [static_items(walker, part, node) for part in parts]
    found = [_vector_items(walker, part) if items is None else items for part, items in zip(parts, known)]
    lists = [items for items in found if items is not None]
    if len(lists) < len(found):
        return None
    if iterated.kind == "enumerate":
        start = iterated.parts[1].value if len(iterated.parts) > 1 else 0
        return [Sequence([Static(start + position), item]) for position, item in enumerate(lists[0])]
    if iterated.kind == "reversed":
        return list(reversed(lists[0]))
    return [Sequence(list(row)) for row in zip(*lists)]


def _vector_items(walker: Walker, part: Binding) -> list[Binding] | None:
    if type(part) is Run and len(shape_of(part.type)) == 1:
        return [Run(element, part.weak) for element in numbers.elements(walker, part.value)]
    return None


def wrap(item: Any) -> Binding:
    return (
        Sequence([wrap(part) for part in item], isinstance(item, list)) if type(item) in (tuple, list) else Static(item)
    )


def domain_of(walker: Walker, iterated: Binding, node: ast.AST) -> Domain:
    """The run-time domain of an iterated binding; an error if a kernel cannot loop over it."""
    if type(iterated) is Iteration:
        return _ITERATIONS[iterated.kind](walker, iterated, node)
    if type(iterated) is Static and protocol.is_array(iterated.value):
        iterated = walker.compilation.array_of(walker, iterated.value, node)
    if type(iterated) is Array:
        return (
            _element_domain(walker, iterated, node)
            if iterated.kind == "numpy"
            else _array_domain(walker, iterated, node)
        )
    if type(iterated) is Run and shape_of(iterated.type):
        return _vector_domain(walker, iterated)
    raise walker.error(
        node,
        f"a kernel cannot loop over {numbers.describe(iterated)}",
        expected="range(…), qd.ndrange(…), a field, an array, a tuple or a vector",
        hint="use range(len(…)) and index",
    )


def _array_domain(walker: Walker, array: Array, node: ast.AST, grouped: bool = False) -> Domain:
    """The indices of an array's domain: all axes but the element's and those already indexed."""
    builder = walker.builder
    done = len(array.prefix)
    rank = array.domain - done
    if rank <= 0:
        raise walker.error(node, f"a kernel cannot loop over {numbers.describe(array)}", hint="use range(…) and index")
    offset = array.offset or (0,) * rank
    lows = [builder.index(0)] * rank
    highs = [builder.emit("dim", array.value, axis=done + axis) for axis in range(rank)]

    def bind(walker: Walker, counters: list[Value], node: ast.AST) -> list[Binding]:
        shifted = [
            walker.builder.emit("add", counter, walker.builder.index(by)) if by else counter
            for counter, by in zip(counters, offset)
        ]
        if grouped:
            return [Run(walker.builder.emit("construct", *shifted, type=matrix_type(i64, (rank,))), True)]
        return [Run(counter, True) for counter in shifted]

    return Domain(rank, lows, highs, bind, spread=not grouped)


def _element_domain(walker: Walker, array: Array, node: ast.AST) -> Domain:
    """The elements along an array's first axis (rows are views), as Python iterates."""
    done = len(array.prefix)
    if array.domain - done <= 0:
        raise walker.error(node, f"a kernel cannot loop over {numbers.describe(array)}", hint="use range(…) and index")

    def bind(walker: Walker, counters: list[Value], node: ast.AST) -> list[Binding]:
        element = array.extended((counters[0],))
        return [element if element.is_view else walker.load(element, node)]

    high = walker.builder.emit("dim", array.value, axis=done)
    return Domain(1, [walker.builder.index(0)], [high], bind, spread=False, reads=True)


def _items_domain(walker: Walker, iterated: Binding, node: ast.AST) -> Domain:
    """The domain of a part of zip or enumerate: arrays of every kind give their elements, as in Python."""
    if type(iterated) is Static and protocol.is_array(iterated.value):
        iterated = walker.compilation.array_of(walker, iterated.value, node)
    if type(iterated) is Array and iterated.domain - len(iterated.prefix) == 1:
        return _element_domain(walker, iterated, node)
    return domain_of(walker, iterated, node)


def _vector_domain(walker: Walker, run: Run) -> Domain:
    """The elements of a vector (rows of a matrix), in order."""
    builder = walker.builder
    shape = shape_of(run.type)

    def bind(walker: Walker, counters: list[Value], node: ast.AST) -> list[Binding]:
        if len(shape) == 1:
            return [Run(walker.builder.emit("extract", run.value, counters[0]), run.weak)]
        row = [
            walker.builder.emit("extract", run.value, counters[0], walker.builder.index(column))
            for column in range(shape[1])
        ]
        return [Run(walker.builder.emit("construct", *row, type=matrix_type(run.type.scalar, shape[1:])), run.weak)]

    return Domain(1, [builder.index(0)], [builder.index(shape[0])], bind, spread=False)


def _counter_type(walker: Walker, bounds: list[Binding], node: ast.AST) -> ScalarType | None:
    """The type of a range's counter: that of typed bounds, None (a weak 64-bit integer) where all are weak."""
    facts: tuple[ScalarType, bool] | None = None
    for bound in bounds:
        if type(bound) is Static and is_number(bound.value):
            continue
        run = numbers.to_run(walker, bound, node)
        type_ = run.type
        if type(type_) is not ScalarType or type_.is_float:
            raise _no_integer(walker, bound, node)
        mine = (type_, run.weak or type_ is u1)
        facts = mine if facts is None else numbers.join(walker, facts, mine)
    return None if facts is None or facts[1] else facts[0]


def _no_integer(walker: Walker, bound: Binding, node: ast.AST) -> Exception:
    is_tuple = type(bound) is Sequence or (type(bound) is Static and isinstance(bound.value, tuple))
    hint = "a shape has a size for each axis: `range(a.shape[0])`" if is_tuple else "convert with int(x)"
    return walker.error(node, "a range takes integers", found=numbers.describe(bound), hint=hint)


def _range_domain(walker: Walker, iteration: Iteration, node: ast.AST) -> Domain:
    """range(start, stop, step) of any sign, counted by steps of one from 0 or from `start`."""
    start, stop, step = iteration.parts
    for part in (start, stop, step):
        if type(part) is Static and not isinstance(part.value, int):
            raise _no_integer(walker, part, node)
    scalar = _counter_type(walker, [start, stop, step], node)
    low, high = walker.as_index(start, node), walker.as_index(stop, node)
    if type(step) is Static and step.value == 1:
        return Domain(
            1, [low], [high], lambda walker, counters, node: [_counter(walker, counters[0], scalar)], spread=False
        )
    by = walker.as_index(step, node)
    trips = _trips(walker, low, high, by, step, node)

    def bind(walker: Walker, counters: list[Value], node: ast.AST) -> list[Binding]:
        value = walker.builder.emit("add", low, walker.builder.emit("mul", counters[0], by))
        return [_counter(walker, value, scalar)]

    return Domain(1, [walker.builder.index(0)], [trips], bind, spread=False)


def _counter(walker: Walker, counter: Value, scalar: ScalarType | None) -> Run:
    if scalar is None or scalar is i64:
        return Run(counter, scalar is None)
    return Run(walker.builder.emit("cast", counter, type=scalar, exact=True))


def _trips(walker: Walker, low: Value, high: Value, by: Value, step: Binding, node: ast.AST) -> Value:
    """How often a stepped range runs: ceil((stop - start) / step), at least 0; a zero step runs never."""
    builder = walker.builder
    if type(step) is Static and step.value == 0:
        raise walker.error(node, "the step of a range must not be zero")
    span = builder.emit("sub", high, low)
    trips = builder.emit("neg", builder.emit("floordiv", builder.emit("neg", span), by))
    return builder.emit("max", trips, builder.index(0))


def _ndrange_domain(walker: Walker, iteration: Iteration, node: ast.AST) -> Domain:
    lows: list[Value] = []
    highs: list[Value] = []
    kinds: list[ScalarType | None] = []
    for part in iteration.parts:
        bounds = part if isinstance(part, tuple) else (Static(0), part)
        lows.append(walker.as_index(bounds[0], node))
        highs.append(walker.as_index(bounds[1], node))
        kinds.append(_counter_type(walker, list(bounds), node))
    rank = len(lows)

    def bind(walker: Walker, counters: list[Value], node: ast.AST) -> list[Binding]:
        if iteration.grouped:
            return [Run(walker.builder.emit("construct", *counters, type=matrix_type(i64, (rank,))), True)]
        return [_counter(walker, counter, kind) for counter, kind in zip(counters, kinds)]

    return Domain(rank, lows, highs, bind, spread=not iteration.grouped)


def _grouped_domain(walker: Walker, iteration: Iteration, node: ast.AST) -> Domain:
    inner = iteration.parts[0]
    if type(inner) is Iteration and inner.kind == "ndrange":
        return _ndrange_domain(walker, Iteration("ndrange", inner.parts, True), node)
    if type(inner) is Static and protocol.is_array(inner.value):
        inner = walker.compilation.array_of(walker, inner.value, node)
    if type(inner) is Array:
        return _array_domain(walker, inner, node, grouped=True)
    raise walker.error(node, "qd.grouped takes a field, an array or qd.ndrange(…)", found=numbers.describe(inner))


def _item(walker: Walker, domain: Domain, counters: list[Value], node: ast.AST) -> Binding:
    """What an iteration of a domain gives, as one thing."""
    bindings = domain.bind(walker, counters, node)
    return Sequence(bindings) if domain.spread else bindings[0]


def _enumerate_domain(walker: Walker, iteration: Iteration, node: ast.AST) -> Domain:
    inner = _items_domain(walker, iteration.parts[0], node)
    start = walker.as_index(iteration.parts[1], node) if len(iteration.parts) > 1 else None
    if inner.rank != 1:
        raise walker.error(
            node,
            "enumerate in a kernel takes a range, a vector or a one-dimensional array",
            hint="loop over the indices",
        )

    def bind(walker: Walker, counters: list[Value], node: ast.AST) -> list[Binding]:
        position = walker.builder.emit("sub", counters[0], inner.lows[0])
        if start is not None:
            position = walker.builder.emit("add", position, start)
        return [Run(position, True), _item(walker, inner, counters, node)]

    return Domain(1, inner.lows, inner.highs, bind, spread=True, reads=inner.reads)


def _zip_domain(walker: Walker, iteration: Iteration, node: ast.AST) -> Domain:
    inner = [_items_domain(walker, part, node) for part in iteration.parts]
    builder = walker.builder
    if any(domain.rank != 1 for domain in inner):
        raise walker.error(
            node, "zip in a kernel takes ranges, vectors and one-dimensional arrays", hint="loop over the indices"
        )
    trips = builder.emit("sub", inner[0].highs[0], inner[0].lows[0])
    for domain in inner[1:]:
        trips = builder.emit("min", trips, builder.emit("sub", domain.highs[0], domain.lows[0]))

    def bind(walker: Walker, counters: list[Value], node: ast.AST) -> list[Binding]:
        return [
            _item(walker, domain, [walker.builder.emit("add", counters[0], domain.lows[0])], node) for domain in inner
        ]

    return Domain(1, [builder.index(0)], [trips], bind, spread=True, reads=any(domain.reads for domain in inner))


def _reversed_domain(walker: Walker, iteration: Iteration, node: ast.AST) -> Domain:
    inner = domain_of(walker, iteration.parts[0], node)
    if inner.rank != 1:
        raise walker.error(node, "reversed in a kernel takes a range, a vector or a one-dimensional array")
    builder = walker.builder
    trips = builder.emit("sub", inner.highs[0], inner.lows[0])

    def bind(walker: Walker, counters: list[Value], node: ast.AST) -> list[Binding]:
        back = walker.builder.emit(
            "sub", walker.builder.emit("sub", inner.highs[0], walker.builder.index(1)), counters[0]
        )
        return inner.bind(walker, [back], node)

    return Domain(1, [builder.index(0)], [trips], bind, spread=False, reads=inner.reads)


_ITERATIONS: dict[str, Callable[[Any, Iteration, ast.AST], Domain]] = {
    "range": _range_domain,
    "ndrange": _ndrange_domain,
    "grouped": _grouped_domain,
    "enumerate": _enumerate_domain,
    "zip": _zip_domain,
    "reversed": _reversed_domain,
}


def static_product(iteration: Iteration) -> list[Sequence] | None:
    """The items of an ndrange whose bounds are all static, None otherwise."""
    ranges = []
    for part in iteration.parts:
        bounds = part if isinstance(part, tuple) else (Static(0), part)
        if not all(type(bound) is Static for bound in bounds):
            return None
        ranges.append(range(bounds[0].value, bounds[1].value))
    items = itertools.product(*ranges)
    return [Sequence([Static(number) for number in item]) for item in items]
