"""Copies into shared memory that go on while threads compute (`copy_begin` in `ir/threads.py`), as `cp.async` of sm_80 and newer."""

from __future__ import annotations

from quadrants.ir.nodes import Op
from quadrants.ir.types import scalar_of
from quadrants.targets.llvm.writer import Writer

__all__ = ["begin", "commit", "shared_address", "wait"]


def begin(writer: Writer, op: Op) -> None:
    """`copy_begin`. What is read 16 bytes at a time is read once a block, so it need not stay in the first cache."""
    _, _, array, *indices, length = op.operands
    size = op.attributes["elements"] * scalar_of(array.type).bytes
    target = shared_address(writer, op)
    access, count = writer.array(array).reach([writer.name(index) for index in indices])
    generic = access.address([writer.name(index) for index in indices][:count])
    source = writer.assign(f"addrspacecast ptr {generic} to ptr addrspace(1)")
    elements = writer.assign(f"trunc i64 {writer.name(length)} to i32")
    there = writer.assign(f"mul nuw nsw i32 {elements}, {scalar_of(array.type).bytes}")
    symbol = f"llvm.nvvm.cp.async.{'cg' if size == 16 else 'ca'}.shared.global.{size}.s"
    arguments = f"ptr addrspace(3) {target}, ptr addrspace(1) {source}, i32 {there}"
    writer.call("void", symbol, arguments, "ptr addrspace(3), ptr addrspace(1), i32")


def shared_address(writer: Writer, op: Op) -> str:
    """The pointer to an element of a block's memory, which are an operation's first operands."""
    memory, place = op.operands[:2]
    generic = writer.array(memory).address([writer.name(place)])
    return writer.assign(f"addrspacecast ptr {generic} to ptr addrspace(3)")


def commit(writer: Writer, op: Op) -> None:
    """`copy_commit`."""
    writer.call("void", "llvm.nvvm.cp.async.commit.group", "", "")


def wait(writer: Writer, op: Op) -> None:
    """`copy_wait`."""
    writer.call("void", "llvm.nvvm.cp.async.wait.group", f"i32 {op.attributes['groups']}", "i32")
