"""The verifier's part for threads of blocks: the laws of `ir/threads.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

from quadrants.ir.nodes import Function, Module, Op, walk
from quadrants.ir.ops import OPS
from quadrants.ir.threads import MOST_THREADS, TEAM_OPS, is_threads_loop, threads_loop_of
from quadrants.ir.types import ArrayType

__all__ = ["check_loop", "check_team_op"]

_NOT_AGAIN = frozenset({"random", "call", "external", "print"})
"""What is not done again by each thread, beside what writes."""


class Around(Protocol):
    """A loop around the code at hand."""

    @property
    def op(self) -> Op: ...


class Verifier(Protocol):
    """The walk of `ir/verify.py`."""

    module: Module
    within: Function

    @property
    def loops(self) -> Sequence[Around]: ...

    def fail(self, message: str, op: Op | None = None) -> NoReturn: ...


def check_loop(verifier: Verifier, op: Op) -> None:
    """A `for`, before its region: fails where it is a grid loop or a threads loop, and no lawful one."""
    if is_threads_loop(op):
        _threads_loop(verifier, op)
    elif threads_loop_of(op) is not None:
        _grid_loop(verifier, op)


def _threads_loop(verifier: Verifier, op: Op) -> None:
    size = op.attribute("threads")
    if type(size) is not int or not 1 <= size <= MOST_THREADS:
        verifier.fail(f"a block of {size!r} threads", op)
    if op.attribute("rank") != 1 or op.results or op.attribute("parallel"):
        verifier.fail("a threads loop has one counter, gives nothing and is not `parallel`", op)
    low = op.operands[0].owner
    if type(low) is not Op or low.kind != "constant" or low.attributes["value"] != 0:
        verifier.fail("a threads loop counts from 0", op)
    if not verifier.loops or op not in verifier.loops[-1].op.regions[0].ops or len(_grid(verifier)) != 1:
        verifier.fail("a threads loop stands in a grid loop's body, not here", op)


def _grid_loop(verifier: Verifier, op: Op) -> None:
    stage = verifier.module.stage
    if not verifier.within.is_kernel or (verifier.loops and stage == "kernel"):
        verifier.fail("a grid loop stands at a kernel's top level, or in loops in order there, not here", op)
    if op.attribute("rank") != 1 or op.results:
        verifier.fail("a grid loop has one counter and gives nothing", op)
    if stage != "kernel" and not op.attribute("parallel"):
        verifier.fail(f"a grid loop is parallel in stage {stage}", op)
    ops = op.regions[0].ops
    if sum(map(is_threads_loop, ops)) > 1:
        verifier.fail("two threads loops in one grid loop", op)
    for alike in ops:
        if not is_threads_loop(alike):
            _same_in_all_threads(verifier, alike)
    for inner in walk(op.regions[0]):
        if inner.kind == "random":
            verifier.fail("the threads of blocks draw no random numbers", inner)


def _same_in_all_threads(verifier: Verifier, op: Op) -> None:
    """Fails for what not every thread of a block may do again."""
    effects = OPS[op.kind].effects if op.kind in OPS else ""
    private = op.kind == "store" and type(op.operands[1].type) is ArrayType and op.operands[1].type.is_slot
    writes = effects in ("writes", "atomic") and not private and op.kind != "slot"
    if writes or op.kind in _NOT_AGAIN or (op.kind in TEAM_OPS and op.kind != "shared"):
        verifier.fail(f"{op.kind} beside the threads loop: each of the threads would do it", op)
    for region in op.regions:
        for inner in region.ops:
            _same_in_all_threads(verifier, inner)


def _grid(verifier: Verifier) -> Sequence[Around]:
    """The grid loop around the code at hand, and the loops within it."""
    for position, around in enumerate(verifier.loops):
        if threads_loop_of(around.op) is not None:
            return verifier.loops[position:]
    return ()


def is_for_all_blocks(op: Op) -> bool:
    """Whether an operation keeps its meaning where blocks are taken apart: a fence that other blocks see."""
    return op.kind == "fence" and op.attributes["scope"] == "grid"


def check_team_op(verifier: Verifier, op: Op) -> None:
    """Fails for an operation on threads that stands elsewhere than the laws say."""
    loops, stage = _grid(verifier), verifier.module.stage
    if not loops:
        if stage != "kernel" and not is_for_all_blocks(op):
            verifier.fail(f"{op.kind} in stage {stage} outside of grid loops: block loops are taken apart by then", op)
    elif op.kind == "thread_index":
        verifier.fail("thread_index in a grid loop: there the counter is the thread's number", op)
    elif op.kind == "shared":
        if len(loops) > 1 or op not in loops[0].op.regions[0].ops:
            verifier.fail("shared memory is made in a grid loop's body", op)
    elif len(loops) < 2 or not is_threads_loop(loops[1].op):
        verifier.fail(f"{op.kind} outside of the threads loop", op)
