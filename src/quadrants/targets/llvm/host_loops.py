"""Loops of a kernel's host part that the device can repeat by itself, where the kernel is a graph (device_graphs.py).

Such a loop asks the device for one truth value in front of each round, and all else that the host does is the same in each round:
it carries nothing along, and looks at nothing. So its launches are known when one round is.
"""

from __future__ import annotations

from collections.abc import Iterator

from quadrants.ir.nodes import Block, Module, Op, Value
from quadrants.ir.ops import is_pure
from quadrants.ir.types import ArrayType
from quadrants.passes.fold import number_of
from quadrants.records import Record

__all__ = ["DeviceLoop", "device_loop", "is_graph"]

_SAME = frozenset({"constant", "dim", "temporary", "release", "yield"})
"""Operations beside the pure ones that do the same in each round."""


class DeviceLoop(Record):
    """`flag`: an array without axes whose only number says whether there is another round; `asks`: the operations that compute it."""

    flag: Value
    asks: tuple[Op, ...]
    body: Block


def is_graph(module: Module, has_loops: bool) -> bool:
    """Whether a kernel's launches are made as a graph: it is meant to, and the host looks at nothing in between. `has_loops`: the
    device repeats loops by itself."""
    kernel = module.kernel
    return bool(kernel.attributes.get("graph")) and not any(_looks(kernel.body, has_loops))


def _looks(block: Block, has_loops: bool) -> Iterator[bool]:
    """Whether operations of the host look at numbers of the device."""
    for op in block.ops:
        yield op.kind == "load"
        loop = device_loop(op) if has_loops else None
        if loop is not None:
            continue  # nothing in it looks, but loops in it that are as this one
        for region in op.regions if not op.attribute("parallel") else ():
            yield from _looks(region, has_loops)


def device_loop(op: Op) -> DeviceLoop | None:
    """A loop of the host's that the device can repeat; None for every other operation."""
    if op.kind != "while" or op.operands or op.results:
        return None
    condition, body = op.regions
    *asks, load, end = condition.ops
    if (
        load.kind != "load"
        or len(load.operands) != 1
        or end.operands != tuple(load.results)
        or not _repeats(asks)
        or not _repeats(body.ops)
    ):
        return None
    flag = load.operands[0]
    direct = _asked_of(asks, flag)
    return DeviceLoop(flag, tuple(asks), body) if direct is None else DeviceLoop(direct, (), body)


def _repeats(ops: list[Op]) -> bool:
    """Whether operations launch the same in each round, and neither look at numbers nor leave the loop."""
    for op in ops:
        if op.attribute("parallel") or device_loop(op) is not None:
            continue
        if op.kind in ("if", "for"):
            if not all(_repeats(region.ops) for region in op.regions):
                return False
        elif op.regions or not (op.kind in _SAME or is_pure(op.kind)):
            return False
    return True


def _asked_of(asks: list[Op], flag: Value) -> Value | None:
    """The array of 32-bit integers whose number is compared with 0, where that is all that is done to know the flag."""
    launched = [op for op in asks if op.regions]
    if len(launched) != 1 or flag.owner not in asks:
        return None
    done = [op for op in launched[0].regions[0].ops if op.kind not in ("constant", "yield")]
    if [op.kind for op in done] != ["load", "ne", "store"]:
        return None
    load, compare, store = done
    zeros = [value for value in compare.operands if number_of(value) == 0]
    if load.results[0] not in compare.operands or len(zeros) != 1 or store.operands != (compare.results[0], flag):
        return None
    array = load.operands[0]
    type_ = array.type
    assert type(type_) is ArrayType
    return array if not type_.rank and type_.scalar.is_integer and type_.scalar.bits == 32 else None
