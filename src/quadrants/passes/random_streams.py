"""Random streams: every iteration of a parallel loop gets a stream of its own, and all else the launch's stream.

What is left of `random` is one operation at the start of the kernel. A stream is a state in private memory, advanced
by SplitMix64 (ir/streams.py). An iteration's state is a hash of its counters and of a number drawn in front of the
loop, so that the numbers do not depend on which thread runs it. A function that draws takes the state as an additional
parameter and gives the new one as an additional result.
"""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir import streams
from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.types import u64
from quadrants.passes.context import PassContext
from quadrants.passes.nest import counters

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """Replaces `random` in every function, in place; stage `tasks`."""
    drawing = _functions_that_draw(module)
    for name in drawing:
        _Rewriter(drawing).function(module.functions[name])
    if drawing:
        context.count("functions with random numbers", len(drawing))


def _functions_that_draw(module: Module) -> set[str]:
    """The functions that draw random numbers, in themselves or by what they call."""
    callers: dict[str, list[str]] = {}
    pending: list[str] = []
    for name, function in module.functions.items():
        draws, callees = _draws(function.body)
        if draws:
            pending.append(name)
        for callee in callees:
            callers.setdefault(callee, []).append(name)
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += callers.get(name, ())
    return found


def _draws(block: Block) -> tuple[bool, set[str]]:
    """Whether a block draws in itself, and what it calls."""
    draws, callees = False, set[str]()
    blocks = [block]
    while blocks:
        for op in blocks.pop().ops:
            if op.regions:
                blocks += op.regions
            elif op.kind == "random":
                draws = True
            elif op.kind == "call":
                callees.add(op.attributes["callee"])
    return draws, callees


class _Rewriter:
    """One walk over a function that draws; `state`: the slot of the stream at the current place."""

    def __init__(self, drawing: set[str]) -> None:
        self.drawing = drawing
        self.is_kernel = False
        self.state: Value | None = None

    def function(self, function: Function) -> None:
        self.is_kernel = function.is_kernel
        if self.is_kernel:
            self._with_state(function.body, lambda builder: builder.emit("random"))
            return
        start = function.body.add_argument(u64, "stream")
        names = function.attributes.get("parameter_names")
        if names is not None:
            function.attributes["parameter_names"] = [*names, "stream"]
        function.result_types = (*function.result_types, u64)
        self._with_state(function.body, lambda builder: start)

    def _with_state(self, block: Block, start: Callable[[Builder], Value]) -> None:
        """Rewrites a block that begins with a stream of its own."""
        outer = self.state
        first = Builder(Block(), block.ops[0].location)
        self.state = first.emit("slot", type=u64)
        first.op("store", start(first), self.state)
        self._block(block)
        block.ops[:0] = first.block.ops
        self.state = outer

    def _block(self, block: Block) -> None:
        out: list[Op] = []
        for op in block.ops:
            handler = _HANDLERS.get(op.kind)
            if op.regions:
                self._regions(op, out)
            elif handler is not None:
                handler(self, op, out)
                continue
            out.append(op)
        block.ops = out

    def _regions(self, op: Op, out: list[Op]) -> None:
        if op.attribute("parallel") and self._draws(op.regions[0]):
            base = self._next(_into(out, op))
            self._with_state(op.regions[0], lambda builder: _start_of_iteration(builder, base, counters(op)))
        else:
            for region in op.regions:
                self._block(region)

    def _draws(self, block: Block) -> bool:
        draws, callees = _draws(block)
        return draws or not self.drawing.isdisjoint(callees)

    def _next(self, builder: Builder) -> Value:
        """The next number of the current stream."""
        assert self.state is not None
        advanced = builder.add(builder.emit("load", self.state), builder.constant(streams.STEP, u64))
        builder.op("store", advanced, self.state)
        return _hash(builder, advanced)

    def random(self, op: Op, out: list[Op]) -> None:
        self._next(_into(out, op))
        last, result = out[-1], op.results[0]
        last.results = [result]
        result.owner = last

    def call(self, op: Op, out: list[Op]) -> None:
        if op.attributes["callee"] not in self.drawing:
            out.append(op)
            return
        assert self.state is not None
        builder = _into(out, op)
        op.operands = (*op.operands, builder.emit("load", self.state))
        op.attributes = {**(op.attributes or {}), "types": (*op.attribute("types", ()), u64)}
        op.results.append(Value(u64, op))
        out.append(op)
        builder.op("store", op.results[-1], self.state)

    def return_(self, op: Op, out: list[Op]) -> None:
        if not self.is_kernel:
            assert self.state is not None
            op.operands = (*op.operands, _into(out, op).emit("load", self.state))
        out.append(op)


_HANDLERS: dict[str, Callable[[_Rewriter, Op, list[Op]], None]] = {
    "random": _Rewriter.random,
    "call": _Rewriter.call,
    "return": _Rewriter.return_,
}


def _into(out: list[Op], op: Op) -> Builder:
    """A builder that appends to a list, at the place of an operation."""
    block = Block()
    block.ops = out
    return Builder(block, op.location)


def _start_of_iteration(builder: Builder, base: Value, counters: list[Value]) -> Value:
    """The state of an iteration's stream."""
    state = base
    for counter in counters:
        number = builder.cast(counter, u64)
        state = _hash(builder, builder.add(state, builder.mul(number, builder.constant(streams.STEP, u64))))
    return state


def _hash(builder: Builder, bits: Value) -> Value:
    """`streams.hash_bits` as operations."""
    for shift, factor in (
        (streams.FIRST_SHIFT, streams.FIRST_FACTOR),
        (streams.SECOND_SHIFT, streams.SECOND_FACTOR),
    ):
        mixed = builder.bit_xor(bits, builder.shr(bits, builder.constant(shift, u64)))
        bits = builder.mul(mixed, builder.constant(factor, u64))
    return builder.bit_xor(bits, builder.shr(bits, builder.constant(streams.LAST_SHIFT, u64)))
