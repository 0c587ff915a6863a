"""Domains of loops, static evaluation, configuration of loops, and atomics."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers
from quadrants.frontend.assign import unpacked
from quadrants.frontend.atomics import atomic, compare_exchange, volatile_load
from quadrants.frontend.calls import Arguments
from quadrants.frontend.domains import static_items, static_product
from quadrants.frontend.intrinsic_table import KNOWN_HINT, Handler, intrinsic
from quadrants.frontend.values import Array, Binding, Iteration, Run, Sequence, Static, all_static, static_tuple
from quadrants.ir.nodes import Op
from quadrants.knobs import MOST_LANES, are_lanes

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["as_static"]


@intrinsic(python=(builtins.range,))
def _range(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    parts = arguments.positional
    if not 1 <= len(parts) <= 3 or arguments.keywords:
        raise walker.error(node, "range takes one to three integers", kind=QuadrantsTypeError)
    start, stop, step = (
        (Static(0), parts[0], Static(1))
        if len(parts) == 1
        else (parts[0], parts[1], parts[2] if len(parts) == 3 else Static(1))
    )
    static = all_static((start, stop, step)) if walker.static_depth else None
    if static is not None:
        return Static(range(*[part.value for part in static]))
    return Iteration("range", [start, stop, step])


@intrinsic("ndrange", "lang.ndrange")
def _ndrange(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    parts: list[Any] = []
    for binding in arguments.positional:
        pair = (
            binding.items
            if type(binding) is Sequence
            else [Static(item) for item in binding.value]
            if type(binding) is Static and isinstance(binding.value, (tuple, list))
            else None
        )
        if pair is not None and len(pair) != 2:
            raise walker.error(node, "a bound of ndrange is an integer or a pair of integers", kind=QuadrantsTypeError)
        parts.append(binding if pair is None else (pair[0], pair[1]))
    if not parts:
        raise walker.error(node, "ndrange takes one or more sizes", kind=QuadrantsTypeError)
    return Iteration("ndrange", parts)


@intrinsic(python=(np.ndindex,))
def _ndindex(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    """np.ndindex(*shape) and np.ndindex(shape)."""
    parts = arguments.positional
    if len(parts) == 1 and type(parts[0]) is not Run:
        parts = unpacked(walker, parts[0], node) if not _is_integer(parts[0]) else parts
    return _ndrange(walker, Arguments(parts, arguments.keywords, [None] * len(parts)), node)


def _is_integer(binding: Binding) -> bool:
    return type(binding) is Static and isinstance(binding.value, int)


@intrinsic("grouped")
def _grouped(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (domain,) = arguments.take(walker, node, ("x",))
    return Iteration("grouped", [domain])


@intrinsic(python=(builtins.enumerate,))
def _enumerate(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return Iteration("enumerate", arguments.take(walker, node, ("iterable", "start"), defaults=1))


@intrinsic(python=(builtins.zip,))
def _zip(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return Iteration("zip", list(arguments.positional))


@intrinsic(python=(builtins.reversed,))
def _reversed(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return Iteration("reversed", arguments.take(walker, node, ("sequence",)))


@intrinsic("static")
def _static(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    if len(arguments.positional) > 1:
        return Sequence([as_static(walker, binding, node) for binding in arguments.positional])
    (binding,) = arguments.take(walker, node, ("x",))
    return as_static(walker, binding, node)


def as_static(walker: Walker, binding: Binding, node: ast.AST) -> Binding:
    """What `binding` is at compile time: an iteration becomes a sequence; an error for values of the run."""
    if type(binding) in (Static, Sequence, Array):
        return binding
    if type(binding) is Iteration:
        inner = binding.parts[0] if binding.kind == "grouped" else binding
        if type(inner) is Iteration and inner.kind == "ndrange":
            items = static_product(inner)
            if items is not None:
                if binding.kind == "grouped":
                    return Sequence([numbers.sequence_to_matrix(walker, item, node) for item in items])
                return Sequence([item if len(inner.parts) > 1 else item.items[0] for item in items])
        found = static_items(walker, _static_parts(binding), node)
        if found is not None:
            return Sequence(found)
    owner = binding.value.owner if type(binding) is Run else None
    if type(owner) is Op and owner.kind == "constant":
        return Static(owner.attributes["value"])
    raise walker.error(
        node,
        "qd.static takes what is known at compile time",
        found=numbers.describe(binding),
        hint="constants, template arguments, shapes and types are; values of arrays and loop variables are not",
    )


def _static_parts(binding: Iteration) -> Iteration:
    parts = [
        Static(range(*[b.value for b in part.parts]))
        if type(part) is Iteration and part.kind == "range" and all(type(b) is Static for b in part.parts)
        else part
        for part in binding.parts
    ]
    return Iteration(binding.kind, parts)


@intrinsic("static_assert")
def _static_assert(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    condition, *message = arguments.take(walker, node, ("cond", "msg"), defaults=1)
    if type(condition) is not Static:
        raise walker.error(node, "static_assert takes a condition known at compile time", kind=QuadrantsTypeError)
    if not condition.value:
        text = str(message[0].value) if message and isinstance(message[0], Static) else "static assertion failed"
        raise AssertionError(str(walker.error(node, text)))
    return Static(None)


@intrinsic("static_print")
def _static_print(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    print(
        *[binding.value if type(binding) is Static else numbers.describe(binding) for binding in arguments.positional]
    )
    walker.compilation.printed()
    return Static(None)


@intrinsic("loop_config")
def _loop_config(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    if arguments.positional:
        raise walker.error(node, "loop_config takes keywords", kind=QuadrantsTypeError)
    for name, binding in arguments.keywords.items():
        if name not in _LOOP_CONFIG:
            expected = ", ".join(sorted(_LOOP_CONFIG))
            raise walker.error(
                node, "loop_config has no such keyword", found=name, expected=expected, kind=QuadrantsTypeError
            )
        binding = static_tuple(binding)
        if type(binding) is not Static:
            raise walker.error(
                node,
                "loop_config takes values known at compile time",
                found=f"{name}: {numbers.describe(binding)}",
                hint=KNOWN_HINT,
            )
        expected, check = _LOOP_CONFIG[name]
        value = binding.value.item() if isinstance(binding.value, np.generic) else binding.value
        if not check(value):
            raise walker.error(
                node, f"{name} takes no such value", found=repr(value), expected=expected, kind=QuadrantsTypeError
            )
        walker.loop_config[name] = value
    return Static(None)


def _is_truth(value: Any) -> bool:
    return value is None or (isinstance(value, int) and value in (0, 1))


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and value >= 0)


def _is_lanes(value: Any) -> bool:
    return value is None or type(value) is bool or (type(value) is int and are_lanes(value))


_TRUTH = "True or False", _is_truth
_COUNT = "a number, 0 for the default", _is_count
_LOOP_CONFIG: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "block_dim": (
        "a number of threads, 0 for the default; of 8 x 8 it is 64, in front of qd.ndrange(…, 8, 8)",
        _is_count,
    ),
    "serialize": _TRUTH,
    "parallelize": _COUNT,
    "block_dim_adaptive": _TRUTH,
    "bit_vectorize": _TRUTH,
    "vectorize": (f"True, False, or a power of two up to {MOST_LANES}", _is_lanes),
    "fuse": _TRUTH,
    "tensor_cores": ("True, False, or 'tf32'", lambda value: value == "tf32" or _is_truth(value)),
    "name": ("a text", lambda value: value is None or isinstance(value, str)),
}


@intrinsic("block_local", "cache_read_only", "no_activate")
def _hint(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return Static(None)


@intrinsic("assume_in_range")
def _assume(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    return arguments.take(walker, node, ("val", "base", "low", "high"))[0]


@intrinsic("volatile_load")
def _volatile(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (element,) = arguments.take(walker, node, ("x",))
    return volatile_load(walker, arguments.first_node("x"), element, node)


# Atomics.


def _atomic(by: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        target, value = arguments.take(walker, node, ("x", "y"))
        return atomic(walker, by, arguments.first_node("x"), target, value, node)

    return handler


for _name, _by in (
    ("add", "add"),
    ("sub", "sub"),
    ("mul", "mul"),
    ("min", "min"),
    ("max", "max"),
    ("and", "bit_and"),
    ("or", "bit_or"),
    ("xor", "bit_xor"),
    ("exchange", "exchange"),
):
    intrinsic(f"atomic_{_name}")(_atomic(_by))


@intrinsic("atomic_cas")
def _compare_exchange(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    target, expected, desired = arguments.take(walker, node, ("x", "expected", "desired"))
    return compare_exchange(walker, arguments.first_node("x"), target, expected, desired, node)
