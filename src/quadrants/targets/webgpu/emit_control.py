"""Structured control flow: WGSL has the same structure as the IR; carried values are variables."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.ops import OPS, TERMINATORS
from quadrants.ir.types import ArrayType
from quadrants.passes.memory import ARRAY_POSITION
from quadrants.passes.places import shown
from quadrants.passes.structure import with_inner
from quadrants.passes.task_size import constant_of
from quadrants.targets.artifact import Message, PrintFormat, content_id
from quadrants.targets.expansion import expanded
from quadrants.targets.webgpu import emit_arithmetic, emit_memory, emit_teams
from quadrants.targets.webgpu.scalars import register, to_memory
from quadrants.targets.webgpu.status import PRINT_CURSOR, PRINT_WORDS, PRINTS
from quadrants.targets.webgpu.writer import FAILED, Loop, Place, Writer, scalar

__all__ = ["flat_loop", "write_region"]

Handler = Callable[[Writer, Op], None]


def write_region(writer: Writer, block: Block, is_branch: bool = False) -> None:
    """Writes a region; its values go to the variables that its end is for. `is_branch`: it is a condition's."""
    if writer.stretches is not None and writer.stretches.covers(block):
        writer.stretches.write(block)
        return
    for op in block.ops:
        if writer.unsettled and _is_settled(op, is_branch):
            writer.settle()
        handler = _HANDLERS.get(op.kind)
        if op.kind in TERMINATORS:
            _terminate(writer, op)
        elif "callee" in op.attributes and op.kind != "call":
            emit_arithmetic.CALLED(writer, op)
        elif handler is not None:
            handler(writer, op)
        elif op.kind not in ("constant", "dim"):
            _expand(writer, op)


def _is_settled(op: Op, is_branch: bool) -> bool:
    """Whether an invocation with a failed check must not come there: others would see what it does, or it might not end. What
    is loaded from a wrong place is some number, and harms nobody."""
    if op.kind in TERMINATORS:
        return op.kind != "return" and not (is_branch and op.kind == "yield")
    if op.regions or op.kind in ("call", "print"):
        return True
    effects = OPS[op.kind].effects in ("writes", "atomic") and op.kind in ARRAY_POSITION
    return effects and not op.operands[ARRAY_POSITION[op.kind]].type.is_slot


def _fence(writer: Writer, op: Op) -> None:
    raise QuadrantsUnsupportedError.at(
        shown(op.location),
        "WGSL has no fence that threads of other blocks see",
        hint="put the parts into loops of their own: what one loop wrote is seen in the next",
    )


def _expand(writer: Writer, op: Op) -> None:
    """An operation that no handler is for, by its row's expansion into others."""
    block, value = expanded(op, "WGSL has")
    write_region(writer, block)
    writer.names[op.results[0]] = writer.name(value)


def _assign(writer: Writer, variables: tuple[str, ...], names: list[str]) -> None:
    """All at once: a value may be one of the variables."""
    held = list(names)
    if len(variables) > 1:
        for k, name in enumerate(names):
            if name in variables and variables.index(name) != k:
                held[k] = writer.fresh("t")
                writer.line(f"let {held[k]} = {name};")
    for variable, name in zip(variables, held):
        if variable != name:
            writer.line(f"{variable} = {name};")


def _terminate(writer: Writer, op: Op) -> None:
    names = [writer.name(operand) for operand in op.operands]
    if op.kind == "return":
        writer.leave(names)
    elif op.kind == "yield":
        _assign(writer, writer.targets[-1], names)
    else:
        loop = writer.loops[-1]
        if loop.ends:
            assert writer.stretches is not None
            writer.stretches.end()
            return
        _assign(writer, loop.carried, names)
        if op.kind == "break" and loop.flag:
            writer.line(f"{loop.flag} = true;")
        writer.line(f"{op.kind};")


def _region(writer: Writer, block: Block, targets: tuple[str, ...]) -> None:
    writer.depth += 1
    writer.targets.append(targets)
    write_region(writer, block, is_branch=True)
    writer.targets.pop()
    writer.depth -= 1


def _if(writer: Writer, op: Op) -> None:
    condition = writer.agreed(op, op.operands[0])
    results = tuple([writer.variable(register(scalar(result))) for result in op.results])
    writer.line(f"if ({condition}) {{")
    _region(writer, op.regions[0], results)
    if len(op.regions) > 1:
        writer.line("} else {")
        unsettled, writer.unsettled = writer.unsettled, False
        _region(writer, op.regions[1], results)
        writer.unsettled = writer.unsettled or unsettled
    writer.line("}")
    writer.names.update(zip(op.results, results))


def _copies(writer: Writer, op: Op, rank: int) -> tuple[str, ...]:
    return tuple([writer.variable(register(scalar(value)), writer.name(value)) for value in op.operands[2 * rank :]])


def _for(writer: Writer, op: Op) -> None:
    """A loop in order; a parallel one within a function is one, too."""
    rank = op.attributes["rank"]
    bounds = [(writer.agreed(op, op.operands[k]), _bound(writer, op, op.operands[rank + k])) for k in range(rank)]
    carried = _copies(writer, op, rank)
    region = op.regions[0]
    flag = writer.variable("bool") if rank > 1 and _breaks(region) else ""
    counters: list[str] = []
    for low, high in bounds:
        counter = writer.fresh("i")
        counters.append(counter)
        writer.line(f"for (var {counter}: i64 = {low}; {counter} < {high}; {counter} = {counter} + 1li) {{")
        writer.depth += 1
    _body(writer, region, counters, carried, flag)
    for k in range(rank):
        writer.depth -= 1
        writer.line("}")
        if k + 1 < rank:
            if flag:
                writer.line(f"if ({flag}) {{ break; }}")
            if _leaves_failed(writer, op):
                writer.line(f"if ({FAILED}) {{ break; }}")
    writer.unsettled = _leaves_failed(writer, op)
    writer.names.update(zip(op.results, carried))


def _leaves_failed(writer: Writer, loop: Op) -> bool:
    """Whether an invocation leaves a loop, and no more, where a check in it has failed."""
    return writer.stretches is not None and writer.stretches.in_stretch and writer.may_fail(with_inner(loop))


def _bound(writer: Writer, op: Op, high: Value) -> str:
    """The end of a loop, hidden from drivers that would unroll it where that is not wanted."""
    name = writer.agreed(op, high)
    return f"{name} + i64(nothing_u64)" if writer.shader.keeps_loops and constant_of(high) is not None else name


def _body(writer: Writer, region: Block, counters: list[str], carried: tuple[str, ...], flag: str) -> None:
    """The values of an iteration are those at its start, whatever becomes of the variables."""
    for argument, counter in zip(region.arguments, counters):
        writer.names[argument] = writer.let("i64", counter)
    for argument, variable in zip(region.arguments[len(counters) :], carried):
        writer.define(argument, variable)
    writer.loops.append(Loop(carried, flag))
    writer.targets.append(carried)
    write_region(writer, region)
    writer.targets.pop()
    writer.loops.pop()


def _breaks(block: Block) -> bool:
    """Whether a loop's region has a `break` of that loop."""
    return any(
        op.kind == "break" or (op.kind == "if" and any(_breaks(region) for region in op.regions)) for op in block.ops
    )


def flat_loop(writer: Writer, op: Op) -> None:
    """A parallel loop: threads take iterations in turn, neighbours in the innermost dimension next to each other."""
    rank = op.attributes["rank"]
    lows = [writer.name(op.operands[k]) for k in range(rank)]
    highs = [writer.name(op.operands[rank + k]) for k in range(rank)]
    extents = [writer.let("i64", f"max({high} - {low}, 0li)") for low, high in zip(lows, highs)]
    total = writer.let("i64", " * ".join(extents))
    place = writer.fresh("i")
    writer.line(f"for (var {place}: i64 = thread; {place} < {total}; {place} = {place} + threads) {{")
    writer.depth += 1
    rest = writer.let("i64", place)
    counters = [""] * rank
    for k in reversed(range(rank)):
        if k == 0:
            counters[k] = writer.let("i64", f"{lows[k]} + {rest}")
            continue
        above = writer.let("i64", f"{writer.shader.helper('divide_index')}({rest}, {extents[k]})")
        counters[k] = writer.let("i64", f"{lows[k]} + ({rest} - {above} * {extents[k]})")
        rest = above
    _body(writer, op.regions[0], counters, (), "")
    writer.depth -= 1
    writer.line("}")


def _while(writer: Writer, op: Op) -> None:
    condition, body = op.regions
    carried = tuple([writer.variable(register(scalar(value)), writer.name(value)) for value in op.operands])
    writer.line("loop {")
    writer.depth += 1
    for k, variable in enumerate(carried):
        value = writer.let(register(scalar(op.operands[k])), variable)
        writer.names[condition.arguments[k]] = writer.names[body.arguments[k]] = value
    going = writer.variable("bool")
    writer.targets.append((going,))
    write_region(writer, condition)
    writer.targets.pop()
    writer.line(f"if (!{writer.agreed(op, condition.ops[-1].operands[0], going)}) {{ break; }}")
    writer.loops.append(Loop(carried, ""))
    writer.targets.append(carried)
    write_region(writer, body)
    writer.targets.pop()
    writer.loops.pop()
    writer.depth -= 1
    writer.line("}")
    writer.unsettled = _leaves_failed(writer, op)
    writer.names.update(zip(op.results, carried))


def _call(writer: Writer, op: Op) -> None:
    callee = op.attributes["callee"]
    arguments: list[str] = []
    places: list[Place] = []
    for operand in op.operands:
        if type(operand.type) is not ArrayType:
            arguments.append(writer.name(operand))
            continue
        names = writer.array(operand)
        if operand.type.layout == "B":
            places.append(names)
        elif names.slot:
            arguments.append(names.slot[1:] if names.slot[0] == "*" else f"&{names.slot}")
        else:
            arguments += [names.base, *names.shape, *names.strides]
            places.append(names.windows)
    text = f"{writer.shader.symbol(callee, tuple(places))}({', '.join(arguments)})"
    may_fail = callee in writer.shader.may_fail
    if not op.results and not may_fail:
        writer.line(f"{text};")
        return
    returned = writer.fresh("r")
    writer.line(f"let {returned} = {text};" if op.results else f"{text};")
    writer.unsettled = may_fail
    for k, result in enumerate(op.results):
        writer.names[result] = f"{returned}.r{k}"


_NOTHING = "0u"


def _words(writer: Writer, op: Op, first: int) -> list[str]:
    """The values of a check or print from an operand on, as two words each."""
    words: list[str] = []
    for value in op.operands[first:]:
        type_ = scalar(value)
        name = writer.name(value)
        bits = f"bitcast<u32>({name})" if type_.is_float and type_.bits < 64 else to_memory(type_, name)
        if type_.bits == 64:
            words += [f"u32({bits} & 0xfffffffflu)", f"u32({bits} >> 32u)"]
        else:
            words += [bits, _NOTHING]
    return words


def _halves(number: int) -> list[str]:
    return [f"{number & 0xFFFFFFFF}u", f"{number >> 32}u"]


def _check(writer: Writer, op: Op) -> None:
    """Notes what has failed, if nothing has before. The invocation goes on up to what it must not do (`settle`): drivers have nests as
    deep as there are places that a function is left at, and few checks stand alone.
    """
    types = tuple(value.type.name for value in op.operands[1:])
    message = Message(op.attribute("message", ""), op.attribute("error", "assert"), op.location, types)
    number = content_id("check", message.text, message.error, message.location, message.types)
    writer.shader.messages[number] = message
    condition = writer.name(op.operands[0])
    writer.line(f"if (!({condition} || {FAILED})) {{" if writer.unsettled else f"if (!{condition}) {{")
    writer.depth += 1
    writer.line(f"{FAILED} = true;")
    for k, word in enumerate([*_halves(number), *_words(writer, op, 1)]):
        note = writer.shader.note(k)
        if word != _NOTHING:
            writer.line(f"{note} = {word};")
    writer.unsettled = True
    writer.depth -= 1
    writer.line("}")


def _print(writer: Writer, op: Op) -> None:
    types = tuple(operand.type.name for operand in op.operands)
    form = PrintFormat(tuple(op.attributes["format"]), tuple(op.attribute("specs") or ("",) * len(types)), types)
    number = content_id("print", form.pieces, form.specs, form.types)
    writer.shader.prints[number] = form
    words = [*_halves(number), *_words(writer, op, 0)]
    status = writer.shader.views.status()
    at = writer.let("u32", f"atomicAdd(&{status}[{PRINT_CURSOR}], {len(words)}u)")
    writer.line(f"if ({at} + {len(words)}u <= {PRINT_WORDS}u) {{")
    for k, word in enumerate(words):
        writer.line(f"  atomicStore(&{status}[{PRINTS}u + {at} + {k}u], {word});")
    writer.line("}")


_HANDLERS: dict[str, Handler] = {
    "fence": _fence,
    **emit_arithmetic.HANDLERS,
    **emit_teams.HANDLERS,
    **emit_memory.HANDLERS,
    "if": _if,
    "for": _for,
    "while": _while,
    "call": _call,
    "check": _check,
    "print": _print,
}
