"""`qd.simt`: what the threads of a block do together (`ir/threads.py`)."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quadrants.errors import QuadrantsTypeError
from quadrants.frontend import numbers, protocol
from quadrants.frontend.calls import Arguments
from quadrants.frontend.intrinsic_table import INTRINSICS, Handler, intrinsic, is_given, named_dtype, static_int
from quadrants.frontend.values import Array, Binding, Run, Sequence, Static
from quadrants.ir.nodes import Value
from quadrants.ir.threads import COMBINERS
from quadrants.ir.types import ScalarType, i32, i64, matrix_type, scalar_of, u1, u32, u64

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__: list[str] = []

_MOST_SHARED = 1 << 20


# The block.


@intrinsic("simt.block.sync")
def _sync(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    arguments.take(walker, node, ())
    walker.builder.op("barrier")
    return Static(None)


def _fence(scope: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        arguments.take(walker, node, ())
        walker.builder.op("fence", scope=scope)
        return Static(None)

    return handler


for _scope in ("block", "grid", "subgroup"):
    intrinsic(f"simt.{_scope}.mem_fence")(_fence(_scope))


@intrinsic("simt.subgroup.sync")
def _subgroup_sync(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    arguments.take(walker, node, ())
    walker.builder.op("team_barrier", width=walker.compilation.subgroup_size)
    return Static(None)


def _thread_index(of: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        arguments.take(walker, node, ())
        return Run(walker.builder.emit("thread_index", of=of), True)

    return handler


intrinsic("simt.block.thread_idx")(_thread_index("block"))
intrinsic("simt.block.global_thread_idx")(_thread_index("grid"))


def _sync_counting(combine: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        (predicate,) = arguments.take(walker, node, ("predicate",))
        vote = walker.builder.cast(_vote(walker, predicate, node), i32)
        walker.builder.op("barrier")  # no other meeting puts memory in order
        return Run(walker.builder.emit("team_reduce", vote, by=combine, width=0))

    return handler


for _name, _by in (("all", "min"), ("any", "max"), ("count", "add")):
    intrinsic(f"simt.block.sync_{_name}_nonzero")(_sync_counting(_by))


@intrinsic("simt.block.SharedArray")
def _shared_array(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    sizes, dtype = arguments.take(walker, node, ("shape", "dtype"))
    items = (
        sizes.items
        if type(sizes) is Sequence
        else [Static(size) for size in sizes.value]
        if type(sizes) is Static and isinstance(sizes.value, (tuple, list))
        else [sizes]
    )
    shape = tuple([static_int(walker, size, node) for size in items])
    wish = protocol.annotation(dtype.value) if type(dtype) is Static else None
    if wish is not None and wish.kind == "matrix":
        scalar, inner = wish.scalar or walker.default_float, wish.shape
    elif type(dtype) is Static and isinstance(dtype.value, type) and hasattr(dtype.value, "__dataclass_fields__"):
        text = "a shared array has numbers, vectors or matrices as elements"
        found, hint = f"objects of {dtype.value.__name__}", "make a shared array for each of its members"
        raise walker.error(node, text, found=found, hint=hint, kind=QuadrantsTypeError)
    else:
        scalar, inner = named_dtype(walker, dtype, node), ()
    if not shape or min(shape) < 1:
        raise walker.error(node, "a shared array has sizes of at least 1", found=str(shape), kind=QuadrantsTypeError)
    type_ = matrix_type(scalar, (*shape, *inner))
    if type_.count * scalar.bytes > _MOST_SHARED:
        found, expected = f"{type_.count * scalar.bytes} bytes", f"at most {_MOST_SHARED}"
        raise walker.error(node, "a shared array is too large", found=found, expected=expected)
    return Array(walker.builder.emit("shared", type=type_), "field", len(shape))


# Values that threads give one another.


def _vote(walker: Walker, predicate: Binding, node: ast.AST) -> Value:
    return numbers.to_run(walker, numbers.truth(walker, predicate, node), node).value


def _settled(walker: Walker, binding: Binding, node: ast.AST) -> Value:
    """A value of its own type."""
    run = numbers.to_run(walker, binding, node)
    return numbers.convert(walker, run, numbers.default_type(walker, run), node)


def _width(walker: Walker, binding: Binding | None, node: ast.AST) -> int:
    """How many threads a team has: a subgroup, or 2 to the power that is given."""
    size: int = walker.compilation.subgroup_size
    if binding is None:
        return size
    log2 = static_int(walker, binding, node)
    if log2 < 0 or 1 << log2 > size:
        found, expected = f"2 ** {log2} threads", f"at most the subgroup's {size}"
        raise walker.error(node, "no part of a subgroup", found=found, expected=expected, kind=QuadrantsTypeError)
    return 1 << log2


def _member(walker: Walker, width: int) -> Value:
    """The thread's number in its team."""
    builder = walker.builder
    return builder.emit("mod", builder.emit("thread_index", of="block"), builder.index(width))


def _shuffled(walker: Walker, value: Value, source: Value, width: int) -> Value:
    return walker.builder.emit("shuffle", value, source, width=width)


def _shuffle(place: Callable[[Walker, Value, int], Value], name: str) -> Handler:
    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        value, other = arguments.take(walker, node, ("value", name))
        width = _width(walker, None, node)
        at = place(walker, walker.as_index(other, node), width)
        return Run(_shuffled(walker, _settled(walker, value, node), at, width))

    return handler


def _moved(kind: str) -> Callable[[Walker, Value, int], Value]:
    return lambda walker, by, width: walker.builder.emit(kind, _member(walker, width), by)


intrinsic("simt.subgroup.shuffle", "simt.subgroup.broadcast")(_shuffle(lambda walker, at, width: at, "index"))
intrinsic("simt.subgroup.shuffle_up")(_shuffle(_moved("sub"), "offset"))
intrinsic("simt.subgroup.shuffle_down")(_shuffle(_moved("add"), "offset"))
intrinsic("simt.subgroup.shuffle_xor")(_shuffle(_moved("bit_xor"), "mask"))


@intrinsic("simt.subgroup.broadcast_first")
def _broadcast_first(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (value,) = arguments.take(walker, node, ("value",))
    settled = _settled(walker, value, node)
    return Run(_shuffled(walker, settled, _first_there(walker), _width(walker, None, node)))


def _first_there(walker: Walker) -> Value:
    """The number of the first member that is there: under a condition it need not be 0."""
    builder = walker.builder
    return builder.cast(builder.emit("ctz", _votes(walker, builder.constant(True, u1))), i64)


@intrinsic("simt.subgroup.invocation_id")
def _invocation_id(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    arguments.take(walker, node, ())
    return Run(_member(walker, _width(walker, None, node)), True)


@intrinsic("simt.subgroup.group_size")
def _group_size(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    arguments.take(walker, node, ())
    return Static(_width(walker, None, node))


@intrinsic("simt.subgroup.log2_group_size")
def _log2_group_size(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    arguments.take(walker, node, ())
    return Static(_width(walker, None, node).bit_length() - 1)


@intrinsic("simt.subgroup._part_size")
def _part_size(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (log2_size,) = arguments.take(walker, node, ("log2_size",))
    return Static(_width(walker, log2_size, node))


@intrinsic("simt.subgroup.elect")
def _elect(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    arguments.take(walker, node, ())
    member = _member(walker, _width(walker, None, node))
    return Run(walker.builder.emit("eq", member, _first_there(walker)))


# Votes.


def _mask(walker: Walker, votes: Value) -> Run:
    """Bits of the members, as wide as a subgroup needs."""
    return Run(votes if walker.compilation.subgroup_size > 32 else walker.builder.cast(votes, u32))


def _votes(walker: Walker, vote: Value) -> Value:
    return walker.builder.emit("ballot", vote, width=walker.compilation.subgroup_size)


@intrinsic("simt.subgroup.ballot")
def _ballot(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (predicate,) = arguments.take(walker, node, ("predicate",))
    return _mask(walker, _votes(walker, _vote(walker, predicate, node)))


@intrinsic("simt.subgroup.any_true")
def _any_true(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (predicate,) = arguments.take(walker, node, ("predicate",))
    return _none(walker, _vote(walker, predicate, node), "ne")


@intrinsic("simt.subgroup.all_true")
def _all_true(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (predicate,) = arguments.take(walker, node, ("predicate",))
    return _none(walker, walker.builder.emit("bit_not", _vote(walker, predicate, node)), "eq")


@intrinsic("simt.subgroup.all_equal")
def _all_equal(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
    (binding,) = arguments.take(walker, node, ("value",))
    value = _settled(walker, binding, node)
    if type(value.type) is not ScalarType:
        raise walker.error(node, "all_equal takes a number", found=str(value.type), kind=QuadrantsTypeError)
    first = _shuffled(walker, value, _first_there(walker), _width(walker, None, node))
    return _none(walker, walker.builder.emit("ne", value, first), "eq")


def _none(walker: Walker, vote: Value, compare: str) -> Run:
    """Whether no thread's vote holds ('eq'), or some thread's ('ne')."""
    builder = walker.builder
    return Run(builder.emit(compare, _votes(walker, vote), builder.constant(0, u64)))


def _lanemask(low: int, high: int) -> Handler:
    """Members from that of the thread (low 0), behind it (1) or the first (-1) to before it (0) or with it (1), or the last
    (-1)."""

    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        arguments.take(walker, node, ())
        builder, width = walker.builder, walker.compilation.subgroup_size
        member = builder.cast(_member(walker, width), u64)
        one, all_ = builder.constant(1, u64), builder.constant((1 << width) - 1, u64)

        def below(plus: int) -> Value:
            bit = builder.emit("shl", one, builder.emit("add", member, builder.constant(plus, u64)))
            return builder.emit("sub", bit, one)

        until = all_ if high < 0 else below(high)
        if low >= 0:
            until = builder.emit("bit_and", until, builder.emit("bit_not", below(low)))
        return _mask(walker, until)

    return handler


for _name, _low, _high in (("lt", -1, 0), ("le", -1, 1), ("eq", 0, 1), ("gt", 1, -1), ("ge", 0, -1)):
    intrinsic(f"simt.subgroup.lanemask_{_name}")(_lanemask(_low, _high))


# Sums and prefixes.


def _combined(kind: str, by: str, names: tuple[str, ...]) -> Handler:
    """Reductions and scans: of a subgroup, of a part of it (`log2_size`) or of the block (`block_dim`)."""

    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        found = dict(zip(names, arguments.take(walker, node, names, defaults=int("dtype" in names))))
        value = _settled(walker, found["value"], node)
        attributes: dict[str, Any] = {"by": by, "width": 0}
        if "block_dim" in names:
            attributes["block_dim"] = static_int(walker, found["block_dim"], node)
            if "dtype" in found and is_given(found["dtype"]):
                value = walker.builder.cast(value, named_dtype(walker, found["dtype"], node))
        else:
            attributes["width"] = _width(walker, found.get("log2_size"), node)
        _check_combined(walker, by, value, node)
        if kind == "exclusive":
            attributes["exclusive"] = True
        name = "team_reduce" if kind.startswith("reduce") else "team_scan"
        if type(value.type) is ScalarType:
            return Run(walker.builder.emit(name, value, **attributes))
        parts = [walker.builder.emit(name, part, **attributes) for part in numbers.elements(walker, value)]
        return Run(walker.builder.emit("construct", *parts, type=value.type))

    return handler


def _check_combined(walker: Walker, by: str, value: Value, node: ast.AST) -> None:
    scalar = scalar_of(value.type)
    if scalar is u1 or (by.startswith("bit_") and scalar.is_float):
        expected = "integers" if by.startswith("bit_") else "numbers, or vectors or matrices of them"
        hint = "cast it, `qd.cast(…, qd.i32)`, or count the bits of subgroup.ballot(…)" if scalar is u1 else ""
        text, found = "threads combine numbers", str(value.type)
        raise walker.error(node, text, found=found, expected=expected, hint=hint, kind=QuadrantsTypeError)


for _name, _by in COMBINERS.items():
    for _kind in ("reduce", "reduce_all", "inclusive", "exclusive"):
        intrinsic(f"simt.subgroup.{_kind}_{_name}")(_combined(_kind, _by, ("value",)))
        intrinsic(f"simt.subgroup.{_kind}_{_name}_tiled")(_combined(_kind, _by, ("value", "log2_size")))
        intrinsic(f"simt.block.{_kind}_{_name}")(_combined(_kind, _by, ("value", "block_dim", "dtype")))


# Older names.


def _older(name: str, instead: str) -> Handler:
    """The handler of a name that is going away: says so at the user's line."""

    def handler(walker: Walker, arguments: Arguments, node: ast.AST) -> Binding:
        warnings.warn_explicit(
            f"qd.simt.{name} is an older name of qd.simt.{instead}",
            DeprecationWarning,
            walker.file,
            getattr(node, "lineno", 1),
            walker.python_function.__module__,
        )
        return INTRINSICS[f"simt.{instead}"](walker, arguments, node)

    return handler


for _name, _instead in (
    ("grid.memfence", "grid.mem_fence"),
    ("subgroup.barrier", "subgroup.sync"),
    ("subgroup.memory_barrier", "subgroup.mem_fence"),
    ("subgroup.ballot_full_subgroup", "subgroup.ballot"),
):
    intrinsic(f"simt.{_name}")(_older(_name, _instead))
