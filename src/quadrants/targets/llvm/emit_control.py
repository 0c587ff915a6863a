"""Structured control flow as blocks and phis: regions, branches, loops, calls, the ends of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.ops import TERMINATORS
from quadrants.ir.types import ArrayType
from quadrants.targets.expansion import expanded
from quadrants.targets.llvm.masks import is_mask
from quadrants.targets.llvm.writer import Loop, Writer

__all__ = ["DISPATCH", "HANDLERS", "counted_loop", "lanes_wanted", "loop_nest", "write_region"]

Handler = Callable[[Writer, Op], None]
Body = Callable[[str, list[str]], "list[str] | None"]

# Filled by `emit`: every kind of operation that is no terminator.
DISPATCH: dict[str, Handler] = {}


def write_region(writer: Writer, block: Block) -> list[str] | None:
    """Writes a region's operations. Gives the names that it yields, or None where it ends by leaving."""
    dispatch = writer.handlers or DISPATCH
    for op in block.ops:
        handler = dispatch.get(op.kind)
        if handler is not None:
            handler(writer, op)
            if writer.masks is not None and op.results and is_mask(op.results[0].type):
                for result in op.results:
                    if is_mask(result.type):
                        writer.masks.made(result)
        elif op.kind in TERMINATORS:
            return _terminate(writer, op)
        elif op.kind not in ("constant", "dim"):  # made where they are used
            _expand(writer, op)
    raise QuadrantsInternalError("a region without a terminator")


def _expand(writer: Writer, op: Op) -> None:
    """An operation that no handler is for, by its row's expansion into others."""
    block, value = expanded(op, "the LLVM targets have")
    block.ops.append(Op("yield", (value,)))
    writer.arrive(op.results[0], (write_region(writer, block) or [""])[0])


def _terminate(writer: Writer, op: Op) -> list[str] | None:
    values = [writer.along(operand) for operand in op.operands]
    if op.kind == "yield":
        return values
    if op.kind == "return":
        writer.leave(values, [operand.type for operand in op.operands])
        return None
    loop = writer.loops[-1]
    if op.kind == "break":
        loop.break_edges.append((writer.label, values))
        writer.jump(loop.break_label)
    else:
        loop.continue_edges.append((writer.label, values))
        writer.jump(loop.continue_label)
    return None


def _merge(writer: Writer, types: Sequence[str], edges: list[tuple[str, list[str]]]) -> list[str]:
    """Phis at the start of a block that the edges lead to; without an edge the block cannot be reached."""
    if not edges:
        return ["poison"] * len(types)
    return [writer.phi(type_, [(values[k], label) for label, values in edges]) for k, type_ in enumerate(types)]


def _if(writer: Writer, op: Op) -> None:
    condition = writer.name(op.operands[0])
    types = writer.types_along(op.results)
    yes, join = writer.new_label(), writer.new_label()
    empty = len(op.regions) < 2 or (len(op.regions[1].ops) == 1 and op.regions[1].ops[0].kind == "yield")
    no = join if empty else writer.new_label()
    start = writer.label
    writer.branch(condition, yes, no)
    edges: list[tuple[str, list[str]]] = []
    if empty:
        operands = op.regions[1].ops[0].operands if len(op.regions) > 1 else ()
        edges.append((start, [writer.along(operand) for operand in operands]))
    for label, region in zip((yes, no), op.regions[:1] if empty else op.regions):
        writer.begin(label)
        values = write_region(writer, region)
        if values is not None:
            edges.append((writer.label, values))
            writer.jump(join)
    writer.begin(join)
    for result, name in zip(op.results, _merge(writer, types, edges)):
        writer.arrive(result, name)


def counted_loop(
    writer: Writer,
    low: str,
    high: str,
    inits: list[str],
    types: Sequence[str],
    body: Body,
    loop: Loop | None = None,
    lanes: int = 0,
) -> list[str]:
    """A loop of an i64 counter from `low` up to `high`; `body(counter, carried)` gives the next carried names. `lanes`: see
    `Writer.vectors`.

    Gives the carried names at the exit through the bound. With `loop` the body's `continue` edges are merged; its
    labels must be new ones, and the break label is the caller's to begin.
    """
    head, inside, done = writer.new_label(), writer.new_label(), writer.new_label()
    latch = loop.continue_label if loop is not None else writer.new_label()
    start = writer.label
    writer.jump(head)
    writer.begin(head)
    counter = writer.fresh()
    carried = [writer.fresh() for _ in types]
    places = [writer.reserve() for _ in range(1 + len(types))]
    test = writer.assign(f"icmp slt i64 {counter}, {high}")
    writer.branch(test, inside, done)
    writer.begin(inside)
    values = body(counter, carried)
    edges = list(loop.continue_edges) if loop is not None else []
    if values is not None:
        edges.append((writer.label, values))
        writer.jump(latch)
    writer.begin(latch)
    following = _merge(writer, types, edges)
    step = writer.assign(f"add nsw i64 {counter}, 1")
    writer.jump(head, writer.vectors(lanes))
    writer.fill_phi(places[0], counter, "i64", [(low, start), (step, latch)])
    for place, name, type_, init, after in zip(places[1:], carried, types, inits, following):
        writer.fill_phi(place, name, type_, [(init, start), (after, latch)])
    writer.begin(done)
    return carried


def lanes_wanted(loop: Op) -> int:
    """In how many lanes the code generator shall run a loop: 0 is its own choice."""
    return 1 if loop.attribute("short") else loop.attribute("vectors", 0)


def loop_nest(
    writer: Writer,
    bounds: Sequence[tuple[str, str]],
    arguments: Sequence[Value],
    inits: list[str],
    region: Block,
    lanes: int = 0,
) -> list[str]:
    """Nested counted loops over (low, high) bounds around a region whose last arguments are the nest's counters and the
    carried values (`arguments`: all of them). Gives the carried names after the nest. `lanes`: of the innermost."""
    rank = len(bounds)
    counters, carried_arguments = arguments[:rank], arguments[rank:]
    types = writer.types_along(carried_arguments)
    loop = Loop(writer.new_label(), writer.new_label())

    def level(k: int, names: list[str]) -> list[str]:
        low, high = bounds[k]

        def body(counter: str, carried: list[str]) -> list[str] | None:
            writer.names[counters[k]] = counter
            if k + 1 < rank:
                return level(k + 1, carried)
            for argument, name in zip(carried_arguments, carried):
                writer.arrive(argument, name)
            writer.loops.append(loop)
            values = write_region(writer, region)
            writer.loops.pop()
            return values

        innermost = k + 1 == rank
        return counted_loop(
            writer, low, high, names, types, body, loop if innermost else None, lanes if innermost else 0
        )

    results = level(0, inits)
    if not loop.break_edges:
        return results
    edges = [(writer.label, results), *loop.break_edges]
    writer.jump(loop.break_label)
    writer.begin(loop.break_label)
    return _merge(writer, types, edges)


def _for(writer: Writer, op: Op) -> None:
    """A loop in order. A parallel one within a task or a function is one too: any order will do there."""
    rank = op.attributes["rank"]
    names = [writer.along(operand) for operand in op.operands]
    bounds = list(zip(names[:rank], names[rank : 2 * rank]))
    region = op.regions[0]
    results = loop_nest(writer, bounds, region.arguments, names[2 * rank :], region, lanes_wanted(op))
    for result, name in zip(op.results, results):
        writer.arrive(result, name)


def _while(writer: Writer, op: Op) -> None:
    condition_region, body_region = op.regions
    types = writer.types_along(op.results)
    inits = [writer.along(operand) for operand in op.operands]
    head, inside, done = writer.new_label(), writer.new_label(), writer.new_label()
    loop = Loop(writer.new_label(), writer.new_label())
    start = writer.label
    writer.jump(head)
    writer.begin(head)
    carried = [writer.fresh() for _ in types]
    places = [writer.reserve() for _ in types]
    for region in op.regions:
        for argument, name in zip(region.arguments, carried):
            writer.arrive(argument, name)
    writer.loops.append(loop)
    condition = write_region(writer, condition_region)
    if condition is None:
        raise QuadrantsInternalError("the condition of a `while` leaves the loop")
    writer.branch(condition[0], inside, done)
    exits: list[tuple[str, list[str]]] = [(writer.label, carried)]
    writer.begin(inside)
    values = write_region(writer, body_region)
    writer.loops.pop()
    edges = list(loop.continue_edges)
    if values is not None:
        edges.append((writer.label, values))
        writer.jump(loop.continue_label)
    writer.begin(loop.continue_label)
    following = _merge(writer, types, edges)
    writer.jump(head)
    for place, name, type_, init, after in zip(places, carried, types, inits, following):
        writer.fill_phi(place, name, type_, [(init, start), (after, loop.continue_label)])
    writer.begin(done)
    results = carried
    if loop.break_edges:
        exits = [(done, carried), *loop.break_edges]
        writer.jump(loop.break_label)
        writer.begin(loop.break_label)
        results = _merge(writer, types, exits)
    for result, name in zip(op.results, results):
        writer.arrive(result, name)


def result_struct(types: Sequence[str], may_fail: bool) -> str:
    """The LLVM type that a function returns: its results, then whether a check failed."""
    fields = [*types, "i1"] if may_fail else list(types)
    return f"{{ {', '.join(fields)} }}" if fields else "void"


def _call(writer: Writer, op: Op) -> None:
    """Arrays go as the pointer to their descriptor (slots: to their memory), scalars by value."""
    callee = op.attributes["callee"]
    program = writer.program
    parameters, arguments = [], []
    for operand in op.operands:
        if type(operand.type) is ArrayType:
            parameters.append("ptr")
            arguments.append(f"ptr {writer.array(operand).pointer}")
        else:
            parameters.append(writer.type_along(operand.type))
            arguments.append(f"{parameters[-1]} {writer.along(operand)}")
    may_fail = callee in program.may_fail
    types = writer.types_along(op.results)
    struct = result_struct(types, may_fail)
    symbol = program.symbols[callee]
    attributes = program.attributes[callee]
    convention = program.convention(callee)
    returned = writer.call(struct, symbol, ", ".join(arguments), ", ".join(parameters), attributes, convention)
    for k, result in enumerate(op.results):
        writer.arrive(result, writer.assign(f"extractvalue {struct} {returned}, {k}"))
    if may_fail:
        failed = writer.assign(f"extractvalue {struct} {returned}, {len(types)}")
        good, bad = writer.new_label(), writer.new_label()
        writer.branch(writer.assign(f"xor i1 {failed}, true"), good, bad, likely=True)
        writer.begin(bad)
        writer.fail()
        writer.begin(good)


HANDLERS: dict[str, Handler] = {"if": _if, "while": _while, "call": _call, "for": _for}
