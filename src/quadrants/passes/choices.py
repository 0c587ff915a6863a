"""What was chosen for a lowered kernel's loops and why, in words: a fact a line. `kernel.report()` shows it."""

from __future__ import annotations

from collections.abc import Iterator

from quadrants.ir.nodes import Location, Module, Op, walk
from quadrants.ir.threads import threads_loop_of
from quadrants.passes.native_blocks import bytes_of

__all__ = ["tasks"]

# Nanoseconds of work from which on the pool wakes other threads (runtime/threads_native.py).
_WORTH_WAKING = 20_000
_SHOWN = 3


def tasks(module: Module, launched: bool) -> list[tuple[Location | None, str]]:
    """Where the parallel loops of a lowered kernel stand, and what was chosen for each: lines of text. `launched`: a device runs
    them."""
    loops = [op for op in walk(module.kernel.body) if op.kind == "for" and op.attribute("parallel")]
    return [(loop.location, "\n".join(_facts(loop, launched))) for loop in loops]


def _facts(loop: Op, launched: bool) -> Iterator[str]:
    cost: int = loop.attribute("cost", 1)
    where = "; only where the sizes of arrays differ" if loop.attribute("spare") else ""
    yield f"{loop.attribute('rank')}-dimensional; about {cost} ns an iteration{where}"
    if loop.attribute("reductions"):
        kinds = ", ".join(loop.attribute("reductions"))
        yield f"reductions by {kinds} in chunks of {loop.attribute('chunk')}, combined in order"
    if loop.attribute("scatter") and not launched:
        yield "scattered updates: private copies where they are small, else atomic"
    else:
        yield from _atomics(loop)
    if loop.attribute("gathered"):
        yield f"{', '.join(loop.attribute('gathered'))} put in the order of the index in front of it"
    if loop.attribute("in_order"):
        yield "iterations in the order of the index, if that is a permutation of them"
    if loop.attribute("in_place"):
        yield "runs where elements are looked at too seldom to be put in order"
    threads = threads_loop_of(loop)
    if threads is not None:
        yield from _block(loop, threads)
        return
    yield from _lanes(loop)
    if cost < _WORTH_WAKING and not launched:
        yield f"threads: up to {_WORTH_WAKING // cost} iterations run on the calling thread alone"


def _block(loop: Op, threads: Op) -> Iterator[str]:
    if loop.attribute("lanes_reason"):
        yield loop.attribute("lanes_reason")
    shared = [bytes_of(op.attributes["type"]) for op in loop.regions[0].ops if op.kind == "shared"]
    memory = f", which share {sum(shared)} bytes" if shared else ""
    yield f"an iteration is a block of {threads.attributes['threads']} threads that run at once{memory}"


def _lanes(loop: Op) -> Iterator[str]:
    lanes, reason = loop.attribute("lanes", 1), loop.attribute("lanes_reason")
    if loop.attribute("lanes_inside"):
        yield f"{loop.attribute('lanes_inside')} lanes within an iteration: {reason}"
    elif reason:
        yield f"{f'{lanes} lanes' if lanes > 1 else 'no lanes'}: {reason}"
    if loop.attribute("lanes_hint"):
        yield f"hint: {loop.attribute('lanes_hint')}"


def _atomics(loop: Op) -> Iterator[str]:
    """The updates in which iterations can meet, at most a few lines of source."""
    lines: dict[int, None] = {}
    for op in walk(loop.regions[0]):
        if op.kind in ("update", "lane_update") and op.attribute("atomic", True) and op.location is not None:
            lines[op.location.line] = None
    if lines:
        shown = ", ".join(map(str, list(lines)[:_SHOWN])) + (", …" if len(lines) > _SHOWN else "")
        yield f"atomic updates, in which iterations can meet: line{'s' * (len(lines) > 1)} {shown}"
