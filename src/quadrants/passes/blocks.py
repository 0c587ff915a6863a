"""Block loops become grid loops where the target runs the threads of a block at once, and plain loops elsewhere: a parallel
one over the blocks, and in it loops over the threads of a block, one for each stretch between two meetings (`ir/threads.py`,
`thread_stretches.py`).

Functions whose threads meet stand in the kernel before that. Plain IR every target runs without knowing of threads. Refused,
with the line: meetings that not all threads of a block come to, and operations on threads outside of the loops at a kernel's
top level.
"""

from __future__ import annotations

from typing import Any

from quadrants.errors import QuadrantsSyntaxError
from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.threads import MOST_THREADS, block_size, team_ops, threads_loop_of, uses_threads
from quadrants.ir.types import ArrayType, array_type
from quadrants.passes import join_returns, thread_jumps
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.fold import number_of
from quadrants.passes.native_blocks import why_apart
from quadrants.passes.nest import counters, highs, lows
from quadrants.passes.places import is_own, shown, tell_at
from quadrants.passes.structure import callee_of, returns, with_inner
from quadrants.passes.thread_checks import Together, differences
from quadrants.passes.thread_stretches import Stretches

__all__ = ["run"]

_DIVISIONS = {
    "floordiv": "floordiv",
    "truncdiv": "floordiv",
    "shr": "floordiv",
    "mod": "mod",
    "truncmod": "mod",
    "bit_and": "mod",
}


_MEANT = {
    "barrier": "a barrier",
    "team_barrier": "a barrier",
    "fence": "a fence",
    "shared": "a shared array",
    "thread_index": "a thread's number",
    "shuffle": "a shuffle",
    "ballot": "a vote",
    "team_reduce": "a reduction by threads",
    "team_scan": "a scan by threads",
}


def run(module: Module, context: PassContext) -> None:
    """Takes the kernel's block loops apart; stage `kernel`."""
    kernel = module.kernel
    threaded = {name for name, function in module.functions.items() if uses_threads(function.body, module)}
    if not threaded:
        return
    _Splicer(module, threaded).block(kernel.body, {}, ())
    for name in threaded - {kernel.name}:
        del module.functions[name]
    ops: list[Op] = []
    others = Block()
    for op in kernel.body.ops:
        if op.kind == "for" and threads_loop_of(op) is None and uses_threads(op.regions[0], module):
            ops += _by_blocks(op, module, context)
        else:
            ops.append(op)
            others.ops.append(op)
    kernel.body.ops = ops
    if all(op.kind != "for" or threads_loop_of(op) is None for op in ops):
        _keep_apart(module)
    for op in team_ops(others, module):
        raise QuadrantsSyntaxError.at(
            shown(op.location),
            f"{_MEANT.get(op.kind, 'what threads do together')} is for loops at a kernel's top level, whose iterations are the threads of blocks",
            hint="what is around its loop comes into the loop, or around the launch of the kernel"
            if any(around.kind == "for" and op in with_inner(around) for around in walk(others))
            else "put it into a loop: `for i in range(n): …`",
        )


def _keep_apart(module: Module) -> None:
    """Functions that took memory of blocks take private memory: one thread runs a block."""
    for function in module.functions.values():
        for parameter in function.parameters:
            type_ = parameter.type
            if type(type_) is ArrayType and type_.layout == "B":
                parameter.type = array_type(type_.scalar, type_.rank, type_.trailing, "L")


class _Splicer:
    """Puts functions whose threads meet in the place of their calls."""

    def __init__(self, module: Module, threaded: set[str]) -> None:
        self.functions = module.functions
        self.threaded = threaded

    def block(self, block: Block, replaced: dict[Value, Value], path: tuple[str, ...]) -> None:
        block.ops = self._spliced(block.ops, replaced, path)

    def _spliced(self, ops: list[Op], replaced: dict[Value, Value], path: tuple[str, ...]) -> list[Op]:
        out: list[Op] = []
        for op in ops:
            op.operands = tuple([replaced.get(operand, operand) for operand in op.operands])
            if op.kind == "call" and callee_of(op) in self.threaded:
                out += self._body(op, replaced, path)
                continue
            for region in op.regions:
                self.block(region, replaced, path)
            out.append(op)
        return out

    def _body(self, call: Op, replaced: dict[Value, Value], path: tuple[str, ...]) -> list[Op]:
        name = callee_of(call)
        if name in path:
            raise QuadrantsSyntaxError.at(shown(call.location), "a function whose threads meet cannot call itself")
        callee = self.functions[name]
        join_returns.join(callee)
        copied = clone_ops(callee.body.ops, dict(zip(callee.parameters, call.operands)))
        if is_own(callee.location):
            tell_at(copied, call.location)
        inner = self._spliced(copied, replaced, (*path, name))
        replaced.update(zip(call.results, inner[-1].operands))
        return inner[:-1]


def _by_blocks(loop: Op, module: Module, context: PassContext) -> list[Op]:
    """The code of a block loop: sizes, and the loop over the blocks."""
    size = block_size(loop)
    _check_loop(loop, size)
    for op in walk(loop.regions[0]):
        if op.attribute("block_dim", size) != size:
            raise QuadrantsSyntaxError.at(
                shown(op.location),
                f"the block has {size} threads, not {op.attributes['block_dim']}",
                hint="qd.loop_config(block_dim=…) in front of the loop says how many",
            )
    outside = Block()
    builder = Builder(outside, loop.location)
    zero = builder.index(0)
    starts = list(lows(loop))
    counts = [builder.max(builder.sub(high, low), zero) for low, high in zip(starts, highs(loop))]
    total = counts[0]
    for count in counts[1:]:
        total = builder.mul(total, count)
    blocks = builder.floordiv(builder.add(total, builder.index(size - 1)), builder.index(size))
    body = Block()
    number = body.add_argument(blocks.type, "block")
    inside = Builder(body, loop.location)
    first = inside.mul(number, inside.index(size))
    width = inside.min(inside.index(size), inside.sub(total, first))
    region = Block()
    thread = region.add_argument(blocks.type, "thread")
    places = _Places(Builder(region, loop.location), number, thread, first, size)
    known = dict(zip(counters(loop), places.counters(starts, counts)))
    places.name(clone_ops(loop.regions[0].ops, known), region)
    uniform = differences(region, thread, loop.location)
    if thread_jumps.run(region, uniform):
        uniform = differences(region, thread, loop.location)
    together = Together(region, uniform)
    reason = why_apart(loop, region, size, together, module, context)
    if reason:
        context.count("block loops")
        context.notice("blocks", f"the threads of a block run in turn: {reason}", loop.location)
        Stretches(body, region, thread, width, size, together, loop.location).run()
        for inner in walk(body):
            if inner.kind == "for":  # of a single block they come to stand at the top level, where no user put them
                inner.attributes = {**inner.attributes, "quiet": True}
    else:
        context.count("block loops, native")
        _native(inside, region, width, size)
    config: dict[str, Any] = dict(loop.attribute("config") or {})
    if config.get("serialize") is None:
        config["serialize"] = False
    outer = Op("for", (zero, blocks), (), {"rank": 1, "config": config}, (body,), loop.location)
    return [*outside.ops, outer]


def _native(builder: Builder, region: Block, width: Value, size: int) -> None:
    """Appends the threads loop whose region is `region`; the block's memory is made in front of it."""
    low = builder.index(0)
    _take_shared(region, builder.block.ops)
    builder.op("for", low, width, regions=(region,), rank=1, threads=size)
    builder.op("yield")


def _take_shared(block: Block, into: list[Op]) -> None:
    into += [op for op in block.ops if op.kind == "shared"]
    block.ops = [op for op in block.ops if op.kind != "shared"]
    for op in block.ops:
        for region in op.regions:
            _take_shared(region, into)


def _check_loop(loop: Op, size: int) -> None:
    place = shown(loop.location)
    if size > MOST_THREADS:
        raise QuadrantsSyntaxError.at(
            place, f"a block has at most {MOST_THREADS} threads", found=f"block_dim={size} in qd.loop_config"
        )
    if loop.results:
        names = ", ".join([f"`{value.name}`" for value in loop.regions[0].arguments[loop.attribute("rank") :]])
        raise QuadrantsSyntaxError.at(
            place,
            f"the threads of blocks carry no values on: {names}",
            hint="add up within the block (qd.simt.block.reduce_add), then with qd.atomic_add",
        )
    if returns(loop.regions[0]):
        jump = next(op for op in walk(loop.regions[0]) if op.kind == "return")
        raise QuadrantsSyntaxError.at(
            shown(jump.location) or place,
            "the threads of blocks cannot return from the kernel",
            hint="`continue` ends one thread; where the others go on to a barrier, it comes to it, too: put what it does under conditions",
        )
    for op in walk(loop.regions[0]):
        if "block_dim" in (op.attribute("config") or {}):
            raise QuadrantsSyntaxError.at(
                shown(op.location),
                "block_dim is for loops at a kernel's top level: every thread runs all of this loop",
                notes=[(place, "this loop's iterations are the threads")] if place is not None else (),
                hint="make one loop of both, threads last: `for b, t in qd.ndrange(blocks, 64)`, with block_dim=64 in front of it",
            )


class _Places:
    """What the threads' numbers are: in the block, of all, and as counters of the user's loop. The number of all, divided by
    a multiple of the block's size, or without the number in the block, is the same for all threads of a block: that the analysis of
    control flow sees. It may be divided in steps, as the counters of a nest are: `numbers` are the values that are the number of all
    divided by what divides the size."""

    def __init__(self, builder: Builder, number: Value, thread: Value, first: Value, size: int) -> None:
        self.builder = builder
        self.number = number
        self.thread = thread
        self.size = size
        self.first = first
        self.flat = builder.add(first, thread)
        self.numbers = {self.flat: 1}

    def counters(self, starts: list[Value], counts: list[Value]) -> list[Value]:
        builder, rest = self.builder, self.flat
        found: list[Value] = []
        for axis in range(len(starts) - 1, 0, -1):
            count, by = counts[axis], _constant(counts[axis]) or 0
            found.insert(0, self._divided("mod", rest, by) or builder.mod(rest, count))
            quotient = self._divided("floordiv", rest, by)
            if quotient is None:
                quotient = builder.floordiv(rest, count)
                self._note(quotient, rest, by)
            rest = quotient
        found.insert(0, rest)
        counters = [builder.add(start, at) for start, at in zip(starts, found)]
        if _constant(starts[0]) == 0 and rest in self.numbers:
            self.numbers[counters[0]] = self.numbers[rest]
        return counters

    def name(self, ops: list[Op], into: Block) -> None:
        """Appends operations to a block, with the threads' numbers for what stands for them."""
        replaced: dict[Value, Value] = {}
        self._block(ops, into, replaced)

    def _block(self, ops: list[Op], into: Block, replaced: dict[Value, Value]) -> None:
        for op in ops:
            op.operands = tuple([replaced.get(operand, operand) for operand in op.operands])
            found = self._named(op, into)
            if found is not None:
                replaced[op.results[0]] = found
                continue
            for region in op.regions:
                inner, region.ops = region.ops, []
                self._block(inner, region, replaced)
            into.ops.append(op)

    def _named(self, op: Op, block: Block) -> Value | None:
        if op.kind == "thread_index":
            return self.thread if op.attributes["of"] == "block" else self.flat
        self.builder.block = block
        if (
            op.kind == "sub"
            and _uncast(op.operands[1]) is self.thread
            and self.numbers.get(_uncast(op.operands[0])) == 1
        ):
            return self.builder.cast(self.first, op.results[0].type)
        if op.kind not in _DIVISIONS or op.operands[0].type.scalar.is_float:
            return None
        kind, number, by = _DIVISIONS[op.kind], op.operands[0], _divisor(op)
        if by is None:
            return None
        found = self._divided(kind, number, by)
        if found is None and kind == "floordiv":
            self._note(op.results[0], number, by)
        return found

    def _note(self, quotient: Value, number: Value, by: int) -> None:
        """Notes what a thread's number is divided by, where more of it may be divided."""
        known = self.numbers.get(_uncast(number))
        if known is not None and by > 0 and self.size % (known * by) == 0:
            self.numbers[quotient] = known * by

    def _divided(self, kind: str, number: Value, by: int) -> Value | None:
        """The quotient or the rest of a thread's number where its block's number tells it."""
        known = self.numbers.get(_uncast(number))
        if known is None or by <= 0 or known * by % self.size:
            return None
        builder, blocks = self.builder, known * by // self.size
        if kind == "floordiv":
            found = self.number if blocks == 1 else builder.floordiv(self.number, builder.index(blocks))
        else:
            found = self.thread if known == 1 else builder.floordiv(self.thread, builder.index(known))
            if blocks > 1:
                before = builder.mod(self.number, builder.index(blocks))
                found = builder.add(builder.mul(before, builder.index(self.size // known)), found)
        return builder.cast(found, number.type)


def _divisor(op: Op) -> int | None:
    """What a whole number is divided by: shifts and masks divide by powers of two."""
    by = _constant(op.operands[1])
    if by is None:
        return None
    if op.kind == "shr":
        return 1 << by if 0 <= by < 62 else None
    return by + 1 if op.kind == "bit_and" and by & (by + 1) == 0 else by if op.kind != "bit_and" else None


def _uncast(value: Value) -> Value:
    """A thread's number before it was cast. Law: 32 bits hold it, as they hold counters; in fewer it may have wrapped."""
    owner = value.owner
    while type(owner) is Op and owner.kind == "cast" and value.type.scalar.is_integer and value.type.scalar.bits >= 32:
        value = owner.operands[0]
        owner = value.owner
    return value


def _constant(value: Value) -> int | None:
    """The integer that sizes of loops come to, where it is known."""
    found = number_of(value)
    if found is not None:
        return found if isinstance(found, int) else None
    owner = value.owner
    if type(owner) is not Op or owner.kind not in ("sub", "max", "cast"):
        return None
    parts = [_constant(operand) for operand in owner.operands]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return known[0] - known[1] if owner.kind == "sub" else max(known)
