"""A task as a WGSL shader of its own."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.ir.nodes import Function, Module, Value, walk
from quadrants.ir.threads import threads_loop_of
from quadrants.ir.types import ArrayType, scalar_of
from quadrants.passes.structure import calls
from quadrants.passes.task_size import TaskSizes
from quadrants.records import Record
from quadrants.targets.artifact import Message, PrintFormat
from quadrants.targets.device.callees import callees_first
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import SLOT, Frame, frame_layout
from quadrants.targets.webgpu.emit_blocks import grid_loop
from quadrants.targets.webgpu.emit_control import flat_loop, write_region
from quadrants.targets.webgpu.helpers import texts_of
from quadrants.targets.webgpu.probe import Driver
from quadrants.targets.webgpu.scalars import from_memory, register
from quadrants.targets.webgpu.status import FAILURE, FORM
from quadrants.targets.webgpu.views import Views
from quadrants.targets.webgpu.windows import ONE, Range
from quadrants.targets.webgpu.writer import FAILED, ONCE, ArrayNames, Place, Shader, Writer, expanded_parameters, scalar

__all__ = ["WORKGROUP", "EmittedTask", "emit_task", "workgroup_of"]

_UPDATES = ("update", "compare_exchange")
WORKGROUP = 64
_UNROLLED_OPERATIONS = 600
"""Larger shaders hide the bounds of their loops from the driver: a hundred small loops, unrolled, take Mesa's 15 seconds, not 2."""


class EmittedTask(Record):
    """A shader: its text, the (kind, window) of the views that it binds, the frame in which it finds its parameters, the bytes
    that a workgroup shares, its tables of words."""

    text: str
    views: tuple[tuple[str, int], ...]
    frame: Frame
    shared_bytes: int
    messages: dict[int, Message]
    prints: dict[int, PrintFormat]


class _EntryWriter(Writer):
    """The shader's entry: parameters come from the frame, behind one word of zeros."""

    def leave(self, values: list[str]) -> None:
        self.line("return;")


class _FunctionWriter(Writer):
    """A function: arrays as their numbers, slots as pointers; results in a structure."""

    def __init__(self, shader: Shader, function: Function, symbol: str) -> None:
        super().__init__(shader, function)
        self.symbol = symbol

    @property
    def struct(self) -> str:
        return f"Results_{self.symbol}"

    def leave(self, values: list[str]) -> None:
        self.line(f"return {self.struct}({', '.join(values)});" if values else "return;")

    def struct_text(self) -> str:
        fields = [f"r{k}: {register(scalar_of(type_))}" for k, type_ in enumerate(self.function.result_types)]
        return f"struct {self.struct} {{ {', '.join(fields)} }}"


def emit_task(
    task: Task, module: Module, driver: Driver, views: Views, windows: Sequence[Range] | None = None
) -> EmittedTask:
    """The shader of a task, for a driver that takes floats in this way; `windows`: those of its arrays, where it is not one."""
    functions = callees_first(module, [task], "on a GPU by WebGPU")
    shader = Shader(driver, views)
    shader.keeps_loops = TaskSizes(module, unrolled=True).of(task.loop) > _UNROLLED_OPERATIONS
    shader.updated = _updated_shared([task.function, *functions])
    shader.may_fail = _failing(functions, module)
    frame = frame_layout(task.function)
    entry = _entry(shader, task, frame, windows)
    texts: dict[str, list[str]] = {}
    while left := [asked for asked, symbol in shader.symbols.items() if symbol not in texts]:
        for name, ranges in left:
            symbol = shader.symbol(name, ranges)
            texts[symbol] = _function(shader, module.functions[name], symbol, ranges)
    main = _main if not shader.notes else _noting_main
    main_lines = main(shader, workgroup_of(task), entry)
    head = ["@group(0) @binding(0) var<storage, read_write> params: array<u32>;", *views.declarations()]
    head += [f"var<workgroup> {name}: {held};" for name, held in shader.workgroup.items()]
    head += ["var<private> nothing_u32: u32;", "var<private> nothing_u64: u64;"]
    head += [f"var<private> table_{k}{text}" for k, text in enumerate(shader.tables)]
    if shader.notes:
        head += [f"var<private> {FAILED}: bool;", *[f"var<private> note_{k}: u32;" for k in range(shader.notes)]]
    lines = [*head, *texts_of(shader.helpers), *[line for text in texts.values() for line in text], *main_lines, ""]
    return EmittedTask(
        "\n".join(lines), tuple(views.used()), frame, shader.shared_bytes, shader.messages, shader.prints
    )


def _entry(shader: Shader, task: Task, frame: Frame, windows: Sequence[Range] | None) -> list[str]:
    """The lines of the entry's body."""
    ranges = iter(windows or ())
    writer = _EntryWriter(shader, task.function)
    for value, offset in zip(task.function.parameters, frame.parameters):
        if type(value.type) is ArrayType:
            place = ONE if windows is None else next(ranges)
            writer.arrays[value] = _array(writer, value.type.rank, offset // SLOT, place)
        else:
            type_ = scalar(value)
            bits = _word(offset // SLOT) if type_.bits == 64 else _half(offset // SLOT)
            writer.names[value] = writer.let(register(type_), from_memory(type_, bits))
    threads = workgroup_of(task)
    if threads_loop_of(task.loop) is None:
        flat_loop(writer, task.loop)
        numbers = [
            f"  let thread: i64 = i64(group.x) * {threads}li + i64(place);",
            f"  let threads: i64 = i64(groups.x) * {threads}li;",
        ]
    else:
        grid_loop(writer, task.loop)
        numbers = ["  let thread: i64 = i64(place);"]
    return ["  nothing_u32 = params[0];", "  nothing_u64 = u64(params[0]);", *numbers, *writer.front, *writer.lines]


def _main(shader: Shader, threads: int, lines: list[str]) -> list[str]:
    return [
        f"@compute @workgroup_size({threads}) fn main(@builtin(local_invocation_index) place: u32,"
        " @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {",
        *lines,
        "}",
    ]


def _noting_main(shader: Shader, threads: int, lines: list[str]) -> list[str]:
    """The entry of a task with checks. What failed is kept by each invocation and told at its end, once for all checks: an atomic
    operation takes drivers as long to compile as a hundred others."""
    status = shader.views.status()
    told = [f"      atomicStore(&{status}[{FORM + k}], {shader.note(k)});" for k in range(shader.notes)]
    return [
        "fn task(place: u32, group: vec3<u32>, groups: vec3<u32>) {",
        *lines,
        "}",
        *_main(
            shader,
            threads,
            [
                "  task(place, group, groups);",
                f"  if ({FAILED}) {{",
                f"    if (atomicExchange(&{status}[{FAILURE}], 1u) == 0u) {{",
                *told,
                "    }",
                "  }",
            ],
        ),
    ]


def workgroup_of(task: Task) -> int:
    """The invocations of a workgroup: the threads of a block, where the task is a loop over blocks."""
    threads = threads_loop_of(task.loop)
    return WORKGROUP if threads is None else threads.attributes["threads"]


def _array(writer: Writer, axes: int, slot: int, windows: Range) -> ArrayNames:
    """An array's numbers, of the frame's slots from one on."""
    address = writer.shader.views.held(windows)
    held = [address, *["i64"] * axes, *[address] * axes]
    names = [
        writer.let(type_, _half(slot + k) if type_ == "u32" else f"i64({_word(slot + k)})")
        for k, type_ in enumerate(held)
    ]
    return ArrayNames(names[0], tuple(names[1 : 1 + axes]), tuple(names[1 + axes :]), windows=windows)


def _half(number: int) -> str:
    """The lower half of a slot."""
    return f"params[{1 + 2 * number}u]"


def _word(number: int) -> str:
    return f"param64({1 + 2 * number}u)"


def _function(shader: Shader, function: Function, symbol: str, where: tuple[Place, ...]) -> list[str]:
    writer = _FunctionWriter(shader, function, symbol)
    places = iter(where)
    parameters: list[str] = []
    for k, value in enumerate(function.parameters):
        type_ = value.type
        if type(type_) is not ArrayType:
            parameters.append(f"p{k}: {register(scalar_of(type_))}")
            writer.names[value] = f"p{k}"
        elif type_.layout == "B":
            shared = next(places)
            assert type(shared) is ArrayNames
            writer.arrays[value] = shared
        elif type_.is_slot:
            held = register(type_.scalar)
            count = 1
            for size in type_.trailing:
                count *= size
            parameters.append(f"p{k}: ptr<function, {f'array<{held}, {count}>' if type_.trailing else held}>")
            writer.arrays[value] = ArrayNames(slot=f"*p{k}")
        else:
            place = next(places)
            assert type(place) is tuple
            held = shader.views.held(place)
            names = expanded_parameters(k, type_)
            shape = names[1 : 1 + type_.rank]
            parameters += [f"{name}: {'i64' if name in shape else held}" for name in names]
            writer.arrays[value] = ArrayNames(names[0], tuple(shape), tuple(names[1 + type_.rank :]), windows=place)
    write_region(writer, function.body)
    if function.name in shader.may_fail:  # see ONCE
        end = writer.lines.pop()
        writer.lines = ["  loop {", *writer.lines, f"  if ({ONCE}) {{", end, "  }", "  }"]
        writer.leave_failed()
    result = f" -> {writer.struct}" if function.result_types else ""
    head = f"fn {symbol}({', '.join(parameters)}){result} {{"
    structs = [writer.struct_text()] if function.result_types else []
    return [*structs, head, *writer.front, *writer.lines, "}"]


def _updated_shared(functions: Sequence[Function]) -> set[Value]:
    """Shared memory that threads update at once: what is updated, and what goes to a function that updates some."""
    found: set[Value] = set()
    given: set[Value] = set()
    is_parameter = False
    for function in functions:
        for op in walk(function.body):
            shared = [value for value in op.operands if _is_shared(value)]
            if op.kind in _UPDATES:
                found.update(shared)
                is_parameter = is_parameter or any(value in function.parameters for value in shared)
            elif op.kind == "call":
                given.update(shared)
    return found | given if is_parameter else found


def _is_shared(value: Value) -> bool:
    return type(value.type) is ArrayType and value.type.layout == "B"


def _failing(functions: list[Function], module: Module) -> set[str]:
    found: set[str] = set()
    for function in functions:  # callees stand in front
        if any(op.kind == "check" for op in walk(function.body)) or any(
            op.attributes["callee"] in found for op in calls(function.body)
        ):
            found.add(function.name)
    return found
