"""Parallel loops: each becomes a task that the runtime's pool runs over stretches of the flattened outer dimensions.

The task reaches arrays and scalars of the kernel's signature through the frame, other free values through captures: a
block of 64-bit words on the entry's stack. No division runs per element, and one per stretch at most.
"""

from __future__ import annotations

import math

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Block, Op, Value, walk
from quadrants.ir.types import ArrayType, ScalarType, f64, lanes_of
from quadrants.passes.structure import free_values
from quadrants.records import Record
from quadrants.targets.artifact import Message
from quadrants.targets.llvm.arrays import store_word, word_address
from quadrants.targets.llvm.emit_arithmetic import combine
from quadrants.targets.llvm.emit_cast import convert
from quadrants.targets.llvm.emit_control import HANDLERS as CONTROL
from quadrants.targets.llvm.emit_control import counted_loop, lanes_wanted, loop_nest
from quadrants.targets.llvm.emit_effects import fail_unless
from quadrants.targets.llvm.emit_functions import EntryWriter, TaskWriter
from quadrants.targets.llvm.scalars import literal, register_type
from quadrants.targets.llvm.writer import Program, Writer, register_types, scalar

__all__ = ["HANDLERS", "op_may_fail"]

_SCATTER_KINDS = {"f32": 0, "f64": 1, "i32": 2, "u32": 2, "i64": 3, "u64": 3}
_UNKNOWN_TRIPS = 8


class _Captures(Record):
    """Which 64-bit words the tasks of a loop find in their captures; `partials` and `failed` are -1 where not needed."""

    values: dict[Value, int]
    partials: int
    failed: int
    words: int


def op_may_fail(program: Program, op: Op) -> bool:
    """Whether a check within an operation's regions, or in a function called there, can fail."""
    return any(
        inner.kind == "check" or (inner.kind == "call" and inner.attribute("callee") in program.may_fail)
        for region in op.regions
        for inner in walk(region)
    )


def _for(writer: Writer, op: Op) -> None:
    if op.attribute("parallel") and isinstance(writer, EntryWriter):
        _parallel_for(writer, op)
    else:
        CONTROL["for"](writer, op)


def _outer_rank(op: Op) -> int:
    return max(op.attributes["rank"] - 1, 1)


def _plan_captures(writer: EntryWriter, op: Op, reductions: tuple[str, ...]) -> _Captures:
    rank = op.attributes["rank"]
    wanted = [*op.operands[: 2 * rank], *free_values(op)]
    values: dict[Value, int] = {}
    for value in wanted:
        made_there = isinstance(value.owner, Op) and value.owner.kind in ("constant", "dim")
        if value not in values and not made_there and writer.offset(value) is None:
            values[value] = len(values)
    words = len(values)
    partials = failed = -1
    if reductions:
        partials, words = words, words + 1
    if op_may_fail(writer.program, op):
        failed, words = words, words + 1
    return _Captures(values, partials, failed, words)


def _store_captures(writer: EntryWriter, captures: _Captures, partials: str) -> str:
    if not captures.words:
        return "null"
    block = writer.words(captures.words)
    for value, word in captures.values.items():
        if type(value.type) is ArrayType:
            store_word(writer, block, word, writer.array(value).pointer, "ptr")
        else:
            store_word(writer, block, word, writer.name(value), register_type(scalar(value)))
    if captures.partials >= 0:
        store_word(writer, block, captures.partials, partials, "ptr")
    if captures.failed >= 0:
        store_word(writer, block, captures.failed, "0")
    return block


def _extent(writer: Writer, low: str, high: str) -> str:
    return high if low == "0" else writer.assign(f"sub nsw i64 {high}, {low}")


def _count(writer: Writer, op: Op) -> str:
    """The number of iterations of the flattened outer dimensions."""
    rank = op.attributes["rank"]
    total = ""
    for k in range(_outer_rank(op)):
        extent = _extent(writer, writer.name(op.operands[k]), writer.name(op.operands[rank + k]))
        size = writer.call("i64", "llvm.smax.i64", f"i64 {extent}, i64 0", "i64, i64")
        total = writer.assign(f"mul nsw i64 {total}, {size}") if total else size
    return total


def _parallel_for(writer: EntryWriter, op: Op) -> None:
    reductions = tuple(op.attribute("reductions") or ())
    chunk, cost = int(op.attribute("chunk", 0)), max(int(op.attribute("cost", 1)), 1)
    if len(reductions) != len(op.results):
        raise QuadrantsInternalError("a parallel loop carries values that are no reductions")
    if reductions and chunk <= 0:
        raise QuadrantsInternalError("a parallel loop with reductions needs a fixed chunk")
    captures = _plan_captures(writer, op, reductions)
    count = _count(writer, op)
    partials = chunks = ""
    if reductions:
        rounded = writer.assign(f"add nsw i64 {count}, {chunk - 1}")
        chunks = writer.assign(f"udiv i64 {rounded}, {chunk}")
        size = writer.assign(f"mul nsw i64 {chunks}, {8 * len(reductions)}")
        partials = _allocate(writer, size)
    block = _store_captures(writer, captures, partials)
    scattered = [] if reductions else _scattered(writer, op)
    if scattered:
        _call_scatter(writer, op, captures, scattered, f"ptr {block}, i64 {count}, i64 {cost}")
    else:
        task = _write_task(writer, op, captures, reductions, chunk, frozenset())
        arguments = f"ptr @{task}, ptr %frame, ptr {block}, i64 {count}, i64 {chunk}, i64 {cost}"
        writer.call("void", "qd_parallel_for", arguments, "ptr, ptr, ptr, i64, i64, i64", "nounwind")
    if reductions:
        _combine_partials(writer, op, reductions, partials, chunks)
        writer.call("void", "qd_release", f"ptr {partials}", "ptr", "nounwind")
    if captures.failed >= 0:
        _leave_if_failed(writer, block, captures.failed)


def _allocate(writer: EntryWriter, size: str) -> str:
    """Scratch memory for so many bytes; without any the kernel fails like a check."""
    memory = writer.call("ptr", "qd_allocate", f"i64 {size}", "i64", "nounwind")
    there = writer.assign(f"icmp ne ptr {memory}, null")
    message = Message("out of memory for {} bytes of partial results", "memory", None, ("i64",))
    fail_unless(writer, there, message, lambda: [size])
    return memory


def _leave_if_failed(writer: EntryWriter, block: str, word: int) -> None:
    flag = writer.assign(f"load i64, ptr {word_address(writer, block, word)}, align 8")
    good, bad = writer.new_label(), writer.new_label()
    writer.branch(writer.assign(f"icmp eq i64 {flag}, 0"), good, bad, likely=True)
    writer.begin(bad)
    writer.fail()
    writer.begin(good)


# The task.


def _write_task(
    writer: EntryWriter,
    op: Op,
    captures: _Captures,
    reductions: tuple[str, ...],
    chunk: int,
    plain_updates: frozenset[Value],
) -> str:
    """Writes the task of a loop; gives its symbol."""
    unit = writer.unit
    symbol = f"task{writer.tasks}"
    if op.location is not None:
        symbol += f".line{op.location.line}"
    writer.tasks += 1
    task = TaskWriter(unit, writer.kernel, writer.frame, captures.values, captures.failed)
    task.plain_updates = plain_updates
    region = op.regions[0]
    carried = region.arguments[op.attributes["rank"] :]
    identities = [_identity(kind, scalar(argument)) for kind, argument in zip(reductions, carried)]
    results = _task_loops(task, op, region, identities)
    if reductions:
        _store_partials(task, results, [scalar(argument) for argument in carried], captures.partials, chunk)
    task.line("ret void")
    size = max(writer.frame.size, 8)
    task.finish(
        f"define internal void @{symbol}(ptr readonly nonnull noundef align 8 dereferenceable({size}) %frame, "
        "ptr noundef %captures, i64 noundef range(i64 0, 4611686018427387904) %begin, "
        f"i64 noundef range(i64 0, 4611686018427387904) %end) {writer.program.define_attributes}"
    )
    return symbol


def _shifted(writer: Writer, low: str, position: str) -> str:
    return position if low == "0" else writer.assign(f"add nsw i64 {low}, {position}")


def _task_loops(task: TaskWriter, op: Op, region: Block, inits: list[str]) -> list[str]:
    rank = op.attributes["rank"]
    names = [task.name(operand) for operand in op.operands[: 2 * rank]]
    bounds = list(zip(names[:rank], names[rank:]))
    if rank <= 2:
        low = bounds[0][0]
        bounds[0] = (_shifted(task, low, "%begin"), _shifted(task, low, "%end"))
        return loop_nest(task, bounds, region.arguments, inits, region, lanes_wanted(op))
    return _row_loop(task, bounds, region, inits, lanes_wanted(op))


def _row_loop(
    task: TaskWriter, bounds: list[tuple[str, str]], region: Block, inits: list[str], lanes: int
) -> list[str]:
    """Rank 3 and more: one loop over rows, whose counters are decoded once and then counted up with carry."""
    outer = len(bounds) - 1
    first = [""] * outer
    position = "%begin"
    for k in range(outer - 1, 0, -1):
        extent = _extent(task, *bounds[k])
        rest = task.assign(f"urem i64 {position}, {extent}")
        position = task.assign(f"udiv i64 {position}, {extent}")
        first[k] = _shifted(task, bounds[k][0], rest)
    first[0] = _shifted(task, bounds[0][0], position)

    def row(_: str, carried: list[str]) -> list[str]:
        counters = carried[:outer]
        for argument, name in zip(region.arguments, counters):
            task.names[argument] = name
        results = loop_nest(task, bounds[-1:], region.arguments[outer:], carried[outer:], region, lanes)
        return [*_next_counters(task, counters, bounds), *results]

    types = ["i64"] * outer + register_types([argument.type for argument in region.arguments[outer + 1 :]])
    return counted_loop(task, "%begin", "%end", [*first, *inits], types, row)[outer:]


def _next_counters(task: TaskWriter, counters: list[str], bounds: list[tuple[str, str]]) -> list[str]:
    following = list(counters)
    step = "1"
    for k in range(len(counters) - 1, 0, -1):
        low, high = bounds[k]
        moved = task.assign(f"add nsw i64 {counters[k]}, {step}")
        wraps = task.assign(f"icmp eq i64 {moved}, {high}")
        following[k] = task.assign(f"select i1 {wraps}, i64 {low}, i64 {moved}")
        step = task.assign(f"zext i1 {wraps} to i64")
    following[0] = task.assign(f"add nsw i64 {counters[0]}, {step}")
    return following


# Reductions: a chunk's partial starts at the identity; the entry combines them in the order of chunks.


def _identity(kind: str, type_: ScalarType) -> str:
    if kind in ("min", "max"):
        if type_.is_float:
            return literal(type_, math.nan)  # the minimum and the maximum of NaN and a number are the number
        return literal(type_, type_.maximum if kind == "min" else type_.minimum)
    value = {"add": 0, "mul": 1, "bit_and": -1, "bit_or": 0, "bit_xor": 0}[kind]
    return literal(type_, -0.0 if kind == "add" and type_.is_float else value)


def _partial_type(type_: ScalarType) -> ScalarType:
    """Floats are combined as f64, so that many chunks cost no precision."""
    return f64 if type_.is_float else type_


def _store_partials(task: TaskWriter, values: list[str], types: list[ScalarType], word: int, chunk: int) -> None:
    base = task.capture(word, "ptr")
    index = task.assign(f"udiv i64 %begin, {chunk}")
    start = task.assign(f"mul nsw i64 {index}, {len(values)}")
    block = task.assign(f"getelementptr inbounds i64, ptr {base}, i64 {start}")
    for k, (value, type_) in enumerate(zip(values, types)):
        held = _partial_type(type_)
        store_word(task, block, k, convert(task, type_, held, value), register_type(held))


def _combine_partials(writer: EntryWriter, op: Op, kinds: tuple[str, ...], partials: str, chunks: str) -> None:
    types = [scalar(result) for result in op.results]
    held = [_partial_type(type_) for type_ in types]
    operands = op.operands[len(op.operands) - len(types) :]
    inits = [convert(writer, type_, wide, writer.name(v)) for type_, wide, v in zip(types, held, operands)]

    def body(counter: str, carried: list[str]) -> list[str]:
        start = writer.assign(f"mul nsw i64 {counter}, {len(types)}")
        block = writer.assign(f"getelementptr inbounds i64, ptr {partials}, i64 {start}")
        following = []
        for k, (kind, wide, total) in enumerate(zip(kinds, held, carried)):
            address = word_address(writer, block, k)
            partial = writer.assign(f"load {register_type(wide)}, ptr {address}, align 8")
            following.append(combine(writer, kind, wide, total, partial))
        return following

    totals = counted_loop(writer, "0", chunks, inits, [register_type(wide) for wide in held], body)
    for result, type_, wide, total in zip(op.results, types, held, totals):
        writer.names[result] = convert(writer, wide, type_, total)


# Scatter: updates that may meet, on arrays that a loop does not touch otherwise.


def _scattered(writer: EntryWriter, op: Op) -> list[Value]:
    """The arrays whose updates may run plainly on private copies: additions whose old values nobody uses, on kernel
    parameters with no other access in the loop. Empty unless the loop is marked `scatter`."""
    if not op.attribute("scatter"):
        return []
    accepted: dict[Value, None] = {}
    refused: set[Value] = set()
    used: set[Value] = {operand for inner in walk(op.regions[0]) for operand in inner.operands}
    for inner in walk(op.regions[0]):
        arrays = [operand for operand in inner.operands if type(operand.type) is ArrayType]
        adds = inner.kind in ("update", "lane_update") and inner.attribute("by") == "add"
        simple = adds and inner.results[0] not in used
        for array in arrays:
            if inner.kind == "dim":
                continue
            if simple and scalar_name(array) in _SCATTER_KINDS and writer.offset(array) is not None:
                accepted[array] = None
            else:
                refused.add(array)
    return [array for array in accepted if array not in refused]


def scalar_name(array: Value) -> str:
    return array.type.scalar.name


def _updates_per_iteration(block: Block, arrays: list[Value]) -> int:
    total = 0
    for op in block.ops:
        inner = sum(_updates_per_iteration(region, arrays) for region in op.regions)
        if op.kind == "for" and inner:
            inner *= _trips(op)
        elif op.kind == "while":
            inner *= _UNKNOWN_TRIPS
        if op.kind == "lane_update" and op.operands[1] in arrays:
            total += lanes_of(op.operands[0].type)
        total += inner + (op.kind == "update" and op.operands[1] in arrays)
    return total


def _trips(op: Op) -> int:
    rank = op.attributes["rank"]
    trips = 1
    for low, high in zip(op.operands[:rank], op.operands[rank : 2 * rank]):
        ends = [
            value.owner.attributes["value"]
            for value in (low, high)
            if isinstance(value.owner, Op) and value.owner.kind == "constant"
        ]
        trips *= max(ends[1] - ends[0], 0) if len(ends) == 2 else _UNKNOWN_TRIPS
    return trips


def _call_scatter(writer: EntryWriter, op: Op, captures: _Captures, arrays: list[Value], run: str) -> None:
    plain = _write_task(writer, op, captures, (), 0, frozenset(arrays))
    atomic = _write_task(writer, op, captures, (), 0, frozenset())
    rows = []
    for array in arrays:
        type_ = array.type
        assert isinstance(type_, ArrayType)
        planes = len(type_.trailing) if type_.layout == "S" else 0
        words = (writer.offset(array), type_.rank, type_.scalar.bytes, _SCATTER_KINDS[type_.scalar.name], planes)
        rows.extend([f"i64 {word}" for word in words])
    table = f"{plain}.table"
    writer.unit.constants.append(
        f"@{table} = private unnamed_addr constant [{len(rows)} x i64] [{', '.join(rows)}], align 8"
    )
    inner = _UNKNOWN_TRIPS if op.attributes["rank"] > 1 else 1
    updates = max(_updates_per_iteration(op.regions[0], arrays) * inner, 1)
    arguments = (
        f"ptr @{plain}, ptr @{atomic}, ptr %frame, i64 {writer.frame.size}, {run}, "
        f"ptr @{table}, i64 {len(arrays)}, i64 {updates}"
    )
    parameters = "ptr, ptr, ptr, i64, ptr, i64, i64, ptr, i64, i64"
    writer.call("i64", "qd_parallel_scatter", arguments, parameters, "nounwind")


HANDLERS = {"for": _for}
