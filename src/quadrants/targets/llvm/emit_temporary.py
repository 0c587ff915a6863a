"""Temporary arrays: memory of the runtime, with a descriptor on the entry's stack that tasks reach through their captures."""

from __future__ import annotations

from quadrants.ir.nodes import Op
from quadrants.ir.types import ArrayType
from quadrants.targets.llvm.arrays import ArrayAccess, store_word
from quadrants.targets.llvm.writer import Writer

__all__ = ["HANDLERS"]


def _temporary(writer: Writer, op: Op) -> None:
    """Law: the descriptor is complete before a task reads it, and tasks are all that reads it."""
    condition, *sizes = op.operands
    array, there = op.results
    type_ = array.type
    assert isinstance(type_, ArrayType)
    shape = [writer.call("i64", "llvm.smax.i64", f"i64 {writer.name(size)}, i64 0", "i64, i64") for size in sizes]
    strides = [str(type_.scalar.bytes)]
    for size in reversed(shape):
        strides.insert(0, writer.assign(f"mul nsw i64 {size}, {strides[0]}"))
    asking, after = writer.new_label(), writer.new_label()
    start = writer.label
    writer.branch(writer.name(condition), asking, after)
    writer.begin(asking)
    made = writer.call("ptr", "qd_allocate", f"i64 {strides[0]}", "i64", "nounwind")
    writer.jump(after)
    writer.begin(after)
    memory = writer.phi("ptr", [("null", start), (made, asking)])
    block = writer.words(1 + 2 * type_.rank)
    store_word(writer, block, 0, memory, "ptr")
    for axis in range(type_.rank):
        store_word(writer, block, 1 + axis, shape[axis])
        store_word(writer, block, 1 + type_.rank + axis, strides[axis + 1])
    writer.arrays[array] = ArrayAccess(writer, type_, block, writer.alias_scope())
    writer.names[array] = memory
    writer.names[there] = writer.assign(f"icmp ne ptr {memory}, null")


def _release(writer: Writer, op: Op) -> None:
    """Memory that there was not is none to be given back."""
    writer.call("void", "qd_release", f"ptr {writer.names[op.operands[0]]}", "ptr", "nounwind")


HANDLERS = {"temporary": _temporary, "release": _release}
