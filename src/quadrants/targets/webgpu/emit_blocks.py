"""Grid loops: a workgroup is a block, its invocations are the block's threads, which meet at barriers.

WGSL wants all invocations of a workgroup at a barrier, those too that have no thread in the last block and those whose thread has
ended, by itself or because a check has failed. So whatever has a barrier in it is run by all of them, and what stands between two
barriers by those that are `alive`. Control flow around barriers goes the same way for all threads that are alive; the others are
told which, through memory of the workgroup, unless what decides is the same for all to see. Where a check of a thread has failed,
loops that are decided so end for all: what the thread would have done might be what others wait for.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Op, Value, walk
from quadrants.ir.ops import TERMINATORS, is_pure
from quadrants.ir.threads import threads_loop_of
from quadrants.passes.fold import number_of
from quadrants.passes.structure import loop_jumps, with_inner
from quadrants.targets.webgpu.emit_control import write_region
from quadrants.targets.webgpu.scalars import register
from quadrants.targets.webgpu.writer import FAILED, ONCE, Loop, Stretches, Writer, scalar

__all__ = ["grid_loop"]

_ALIVE = "alive"


def grid_loop(writer: Writer, grid: Op) -> None:
    """Workgroups take blocks in turn."""
    threads = threads_loop_of(grid)
    assert threads is not None
    low, high = (writer.name(operand) for operand in grid.operands[:2])
    number = writer.fresh("block")
    writer.line(
        f"for (var {number}: i64 = {low} + i64(group.x); {number} < {high}; {number} = {number} + i64(groups.x)) {{"
    )
    writer.depth += 1
    writer.names[grid.regions[0].arguments[0]] = writer.let("i64", number)
    writer.loops.append(Loop((), ""))
    meet = any(op.kind in ("barrier", "shared") for op in walk(grid.regions[0]))
    for op in grid.regions[0].ops[:-1]:
        if op is not threads:
            write_region(writer, _only(op))
            continue
        writer.settle()
        if meet:
            _threads(writer, threads)
        else:
            _apart(writer, threads)
    writer.settle()
    if meet:
        writer.line("workgroupBarrier();")  # the next block has the same memory
    writer.loops.pop()
    writer.depth -= 1
    writer.line("}")


def _only(op: Op) -> Block:
    block = Block()
    block.ops = [op]
    return block


def _apart(writer: Writer, loop: Op) -> None:
    """Threads that do not meet: one that ends goes on to its thread of the next block."""
    width = writer.name(loop.operands[1])
    writer.line(f"if (thread < {width}) {{")
    writer.depth += 1
    writer.names[loop.regions[0].arguments[0]] = "thread"
    writer.targets.append(())
    write_region(writer, loop.regions[0])
    writer.targets.pop()
    writer.depth -= 1
    writer.line("}")


def _threads(writer: Writer, loop: Op) -> None:
    """Threads that meet."""
    region = loop.regions[0]
    fails = writer.may_fail(walk(region))
    is_full = number_of(loop.operands[1]) == loop.attributes["threads"] and not loop_jumps(region) and not fails
    has_thread = f"thread < {writer.name(loop.operands[1])}"
    writer.line(f"var {_ALIVE}: bool = {f'!{FAILED} && {has_thread}' if fails else has_thread};")
    writer.names[region.arguments[0]] = "thread"
    writer.loops.append(Loop((), "", ends=True))
    writer.targets.append(())
    writer.stretches = _Threads(writer, loop, is_full, fails)
    write_region(writer, region)
    writer.stretches = None
    writer.targets.pop()
    writer.loops.pop()


class _Threads(Stretches):
    """How the code of one threads loop is written. `known`: values that all invocations have, which are the same for the block;
    `reached`: those that all have, the same or not. `controls`: operations that all invocations go through. `is_full`: all
    invocations have a thread, which ends with the block's code; `fails`: checks may fail."""

    def __init__(self, writer: Writer, loop: Op, is_full: bool, fails: bool) -> None:
        self._writer = writer
        self._is_full = is_full
        self._fails = fails
        self._users: dict[Value, list[Op]] = {}
        region = loop.regions[0]
        inside = {value for op in walk(region) for value in op.results}
        for op in walk(region):
            inside.update(value for inner in op.regions for value in inner.arguments)
            for operand in op.operands:
                self._users.setdefault(operand, []).append(op)
        self._inside = inside | set(region.arguments)
        self._known: set[Value] = set()
        self._reached: set[Value] = set(region.arguments)
        self._controls: set[Op] = set()  # their results and arguments are variables, which all have
        self._levels: set[int] = {id(region)}
        self._find_controls(region)
        self.in_stretch = False

    def _find_controls(self, block: Block, in_loop: bool = False) -> None:
        for op in block.ops:
            leaves = in_loop and op.kind == "if" and any(loop_jumps(region) for region in op.regions)
            if op.regions and (leaves or any(inner.kind == "barrier" for inner in with_inner(op))):
                self._controls.add(op)
                self._reached.update(op.results)
                for region in op.regions:
                    self._reached.update(region.arguments)
                    self._levels.add(id(region))
                    self._find_controls(region, in_loop or op.kind in ("for", "while"))

    def covers(self, block: Block) -> bool:
        return not self.in_stretch and id(block) in self._levels

    def write(self, block: Block) -> None:
        pending: list[Op] = []
        for op in block.ops:
            if op.kind != "barrier" and op not in self._controls and op.kind not in TERMINATORS:
                pending.append(op)
                continue
            self._stretch(pending)
            pending = []
            if op.kind == "barrier":
                self._writer.line("storageBarrier();")
                self._writer.line("workgroupBarrier();")
                continue
            if op.kind == "for":
                self._known.update(op.regions[0].arguments[: op.attributes["rank"]])
            self._all(op)

    def _all(self, op: Op) -> None:
        """Written as it is, for all invocations."""
        write_region(self._writer, _only(op))

    def agreed(self, op: Op, value: Value, name: str) -> str:
        """What decides where all invocations go: `name` is what those that are alive have."""
        if self._is_full or op not in self._controls or self._is_known(value):
            return name
        writer, type_ = self._writer, scalar(value)
        held = register(type_)
        kept = writer.shader.agreed("u32" if held == "bool" else held)
        bits = f"select(0u, 1u, {name})" if held == "bool" else name
        nothing = "0u" if held == "bool" else f"{held}()"
        writer.line("workgroupBarrier();")
        writer.line(f"if (thread == 0li) {{ {kept} = {nothing}; }}")
        writer.line("workgroupBarrier();")
        writer.line(f"if ({_ALIVE}) {{ {kept} = {bits}; }}")
        writer.line("workgroupBarrier();")
        if (
            self._fails and op.kind != "if"
        ):  # 0 ends a loop: nobody waits in it for what a failed thread would have done
            writer.line(f"if ({FAILED}) {{ {kept} = {nothing}; }}")
            writer.line("workgroupBarrier();")
        return writer.let(held, f"({kept} != 0u)" if held == "bool" else kept)

    def _is_known(self, value: Value) -> bool:
        return value not in self._inside or value in self._known or _is_free(value)

    def _is_reached(self, value: Value) -> bool:
        return self._is_known(value) or value in self._reached

    def _stretch(self, ops: list[Op]) -> None:
        """What stands between two meetings: numbers that all invocations can compute, and what only threads do."""
        guarded: list[Op] = []
        for op in ops:
            if op.kind in ("constant", "dim"):
                continue
            is_free = is_pure(op.kind) and not op.regions
            if op.kind == "slot" or (is_free and all(map(self._is_reached, op.operands))):
                if is_free and all(map(self._is_known, op.operands)):
                    self._known.update(op.results)
                self._reached.update(op.results)
                self._all(op)
            else:
                guarded.append(op)
        if guarded and self._is_full:
            for op in guarded:
                self._inner(op)
        elif guarded:
            self._guard(guarded)

    def _inner(self, op: Op) -> None:
        self.in_stretch = True
        write_region(self._writer, _only(op))
        self.in_stretch = False

    def _guard(self, ops: list[Op]) -> None:
        """Run by those that are alive; what others use of it is 0 for those that are not."""
        writer = self._writer
        own = {inner for op in ops for inner in with_inner(op)}
        escaping = {
            value: writer.variable(register(scalar(value)))
            for op in ops
            for value in op.results
            if any(user not in own for user in self._users.get(value, ()))
        }
        ends = any(loop_jumps(region) for op in ops if op.kind == "if" for region in op.regions)
        ends = ends or writer.may_fail(own)
        writer.line("loop {" if ends else f"if ({_ALIVE}) {{")
        writer.depth += 1
        if ends:
            writer.line(f"if (!{_ALIVE}) {{ break; }}")
        for op in ops:
            self._inner(op)
            for value in op.results:
                if value in escaping:
                    writer.line(f"{escaping[value]} = {writer.name(value)};")
        writer.settle()
        if ends:
            writer.line(f"if ({ONCE}) {{ break; }}")
        writer.depth -= 1
        writer.line("}")
        writer.names.update(escaping)

    def end(self) -> None:
        """A thread ends; its invocation stays."""
        self._writer.line(f"{_ALIVE} = false;")
        if self.in_stretch:
            self._writer.line("break;")

    def fail(self) -> None:
        """Law: checks stand within stretches, whose code is a loop of its own where one may fail."""
        self._writer.line(f"{_ALIVE} = false;")
        self._writer.line("break;")


def _is_free(value: Value) -> bool:
    return isinstance(value.owner, Op) and value.owner.kind in ("constant", "dim")
