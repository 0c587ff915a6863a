"""The host's part of a kernel as machine code: `i32 entry(ptr frame)`, which fills in tasks' frames and launches them.

Arrays in the kernel's frame are descriptors of the device's memory. What the code calls:

`i32 qd_launch(ptr kernel, i32 blocks, i32 threads, i32 asked, ptr frame, i64 bytes)`
    Launches a kernel of the driver's on a task's frame, which is its to change afterwards: the driver's `launch_text`. `asked`: the bytes of
    shared memory that each block has beside what the kernel declares, the same at all launches of a kernel.
`void qd_device_read(ptr code, ptr to, i64 address, i64 bytes)`
    Waits for what was launched, and copies bytes from the device.
`void qd_device_allocate(ptr code, ptr plan, i64 number, i64 bytes)`
    Memory for a temporary array of the kernel, which the plan has from then on.
`qd_device_plan`
    { i64 the epoch in which it was last launched; ptr the stream that the memory is for; { ptr memory; i64 bytes } of each
    temporary array; ptr kernels… }
`qd_device_epoch`
    How often the host has begun to wait for all that was launched.
`qd_device_stream`
    The stream that is launched to.

Launches of one stream follow one another, so the next run of a kernel may use the memory of the one before.

The entry gives 0, or the first code other than 0 that it was given.
"""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.digest import blake2b
from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.types import ArrayType, Type
from quadrants.records import Record
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.device.failures import NOTED
from quadrants.targets.device.tasks import Task
from quadrants.targets.frame import Frame, descriptor_bytes, frame_layout
from quadrants.targets.llvm.arrays import ArrayAccess, from_memory, store_word, to_memory
from quadrants.targets.llvm.device_graphs import LOOP_MARKS
from quadrants.targets.llvm.emit_control import DISPATCH, Handler, write_region
from quadrants.targets.llvm.emit_control import HANDLERS as CONTROL
from quadrants.targets.llvm.emit_functions import EntryWriter
from quadrants.targets.llvm.emit_threads import MULTIPLE, threads_for
from quadrants.targets.llvm.host_loops import DeviceLoop, HostLoops
from quadrants.targets.llvm.scalars import memory_type
from quadrants.targets.llvm.writer import Program, Unit, Writer, scalar

__all__ = ["EPOCH", "PLAN", "STREAM", "HostText", "LaunchShape", "Shapes", "emit_host", "temporaries"]

PLAN, STREAM, EPOCH = "qd_device_plan", "qd_device_stream", "qd_device_epoch"
_MEMORY = 16
"""Where a plan has the memory of temporary arrays."""


def temporaries(module: Module) -> list[Op]:
    """The operations of the host's part that make temporary arrays, in the order of a plan."""
    return [op for op in walk(module.kernel.body) if op.kind == "temporary"]


class HostText(Record):
    """The LLVM text of a host's part, and the symbol of its entry."""

    text: str
    entry: str


class LaunchShape(Record):
    """The threads of a launch of so many iterations: blocks of `threads` at most (`threads_for`), and `blocks` of them at most; `whole`: a block of `threads` for each iteration; `asked`: the bytes of shared
    memory that each asks for."""

    threads: int
    blocks: int
    whole: bool = False
    asked: int = 0

    def of(self, count: int) -> tuple[int, int]:
        """Blocks, and threads of each."""
        if self.whole:
            return min(count, self.blocks), self.threads
        threads = threads_for(count, self.threads)
        return min(-(-count // threads), self.blocks), threads


Shapes = Sequence[LaunchShape]
"""The shape of each task's launches, in their order."""


class _HostWriter(EntryWriter):
    """Writes the entry."""

    def __init__(
        self, unit: Unit, module: Module, launched: Sequence[tuple[Task, Frame]], shapes: Shapes, has_loops: bool | None
    ) -> None:
        super().__init__(unit, module.kernel, frame_layout(module.kernel))
        loops = [op for op in walk(module.kernel.body) if op.attribute("parallel")]
        self.launched = {loop: (k, *pair) for k, (loop, pair) in enumerate(zip(loops, launched))}
        self.shapes = shapes
        self.is_graph = has_loops is not None
        self.decided = HostLoops(module) if has_loops else None
        self.handlers = {**DISPATCH, **_HANDLERS}
        self.temporaries = {op: k for k, op in enumerate(temporaries(module))}
        self._kernels = self.plan(_MEMORY + 16 * len(self.temporaries))

    def plan(self, offset: int) -> str:
        """The address of a byte of the plan."""
        return self.early(f"getelementptr inbounds i8, ptr @{PLAN}, i64 {offset}")

    def leave(self, values: list[str], types: list[Type]) -> None:
        if self.is_graph:
            self.give_back_unless_zero(self.assign("call i32 @qd_graph_end()"))
            self.line("call void @qd_graph_leave()")
        super().leave(values, types)

    def begin_graph(self) -> None:
        """Nothing is to be left before the run has begun."""
        self.is_graph = False
        self.give_back_unless_zero(self.assign("call i32 @qd_graph_begin()"))
        self.is_graph = True

    def give_back_unless_zero(self, code: str) -> None:
        """Leaves the entry with a code other than 0."""
        good, bad = self.new_label(), self.new_label()
        self.branch(self.assign(f"icmp eq i32 {code}, 0"), good, bad, likely=True)
        self.begin(bad)
        if self.is_graph:
            self.line("call void @qd_graph_leave()")
        self.line(f"ret i32 {code}")
        self.begin(good)

    def ask(self, service: str, arguments: str, types: str) -> None:
        """Calls a service, and leaves the entry unless that says that it is done."""
        code = self.words(1)
        self.line(f"store i32 {NOTED}, ptr {code}, align 8")
        self.call("void", service, f"ptr {code}, {arguments}", f"ptr, {types}")
        self.give_back_unless_zero(self.assign(f"load i32, ptr {code}, align 8"))

    def kernel_of(self, number: int) -> str:
        """The driver's kernel of a task."""
        place = self.assign(f"getelementptr inbounds ptr, ptr {self._kernels}, i64 {number}")
        return self.assign(f"load ptr, ptr {place}, align 8")


def emit_host(
    module: Module,
    launched: Sequence[tuple[Task, Frame]],
    record: CapabilityRecord,
    header: str,
    launch_text: str,
    shapes: Shapes,
    has_loops: bool | None,
) -> HostText:
    """Emits what `offload` left to the host. `launched`: the tasks with their frames, in the order of their loops; `record`,
    `header`: the host's; `has_loops`: None for a kernel that is no graph, else whether the device repeats the graph's loops; for devices
    that are told of a run's launches at its end (targets/webgpu/native.py) all kernels are graphs."""
    program = Program(record, define_attributes="nounwind")
    program.may_alias.add(module.kernel.name)  # the host reaches no element
    unit = Unit(program)
    unit.defined.update(["qd_launch", PLAN, STREAM, EPOCH, *LOOP_MARKS])
    writer = _HostWriter(unit, module, launched, shapes, has_loops)
    if writer.is_graph:
        writer.begin_graph()
    values = write_region(writer, module.kernel.body)
    if values is not None:
        writer.leave(values, [])
    size = max(writer.frame.size, 8)
    start = f"define i32 @qd$entry(ptr nonnull noundef align 8 dereferenceable({size}) %frame) nounwind"
    writer.finish(start)
    words = f"@{PLAN} = external global i8, align 8\n@{STREAM} = external global ptr, align 8\n"
    words += f"@{EPOCH} = external global i64, align 8\n"
    words += "".join([f"@{mark} = external global i8\n" for mark in LOOP_MARKS])
    text = f"{header}{words}{launch_text}{unit.text()}"
    entry = f"host_{blake2b(text.encode(), digest_size=12).hexdigest()}"
    return HostText(text.replace("qd$entry", entry), entry)


def _for(writer: Writer, op: Op) -> None:
    assert isinstance(writer, _HostWriter)
    if not op.attribute("parallel"):
        CONTROL["for"](writer, op)
        return
    number, task, frame = writer.launched[op]
    shape = writer.shapes[number]
    if task.iterations is not None:
        if task.iterations:
            blocks, threads = shape.of(task.iterations)
            _launch(writer, number, (str(blocks), str(threads)), _filled(writer, task, frame), frame)
        return
    count = _count(writer, op)
    wanted, after = writer.new_label(), writer.new_label()
    writer.branch(writer.assign(f"icmp sgt i64 {count}, 0"), wanted, after)
    writer.begin(wanted)
    filled = _filled(writer, task, frame)
    _launch(writer, number, _shape(writer, count, shape), filled, frame)
    writer.jump(after)
    writer.begin(after)


def _count(writer: _HostWriter, op: Op) -> str:
    """How many iterations a loop has."""
    rank, count = op.attributes["rank"], ""
    for low, high in zip(op.operands[:rank], op.operands[rank : 2 * rank]):
        low_name, high_name = writer.name(low), writer.name(high)
        extent = high_name if low_name == "0" else writer.assign(f"sub nsw i64 {high_name}, {low_name}")
        size = writer.call("i64", "llvm.smax.i64", f"i64 {extent}, i64 0", "i64, i64")
        count = writer.assign(f"mul nsw i64 {count}, {size}") if count else size
    return count


_LAUNCH_TYPES = "ptr, i32, i32, i32, ptr, i64"


def _launch(writer: _HostWriter, number: int, sizes: tuple[str, str], filled: str, frame: Frame) -> None:
    """`sizes`: blocks, and threads of each."""
    shape = f"i32 {sizes[0]}, i32 {sizes[1]}, i32 {writer.shapes[number].asked}"
    arguments = f"ptr {writer.kernel_of(number)}, {shape}, ptr {filled}, i64 {max(frame.size, 8)}"
    writer.line(f"store i64 {writer.assign(f'load i64, ptr @{EPOCH}, align 8')}, ptr @{PLAN}, align 8")
    code = writer.call("i32", "qd_launch", arguments, _LAUNCH_TYPES)
    writer.give_back_unless_zero(code)


def _shape(writer: _HostWriter, count: str, shape: LaunchShape) -> tuple[str, str]:
    """`LaunchShape.of`, written out."""
    if shape.whole:
        blocks = writer.call("i64", "llvm.smin.i64", f"i64 {count}, i64 {shape.blocks}", "i64, i64")
        return writer.assign(f"trunc i64 {blocks} to i32"), str(shape.threads)
    wide = writer.assign(f"add nuw nsw i64 {count}, {MULTIPLE - 1}")
    whole = writer.assign(f"and i64 {wide}, {-MULTIPLE}")
    most = writer.call("i64", "llvm.smin.i64", f"i64 {whole}, i64 {shape.threads}", "i64, i64")
    single = writer.assign(f"icmp eq i64 {count}, 1")
    threads = writer.assign(f"select i1 {single}, i64 1, i64 {most}")
    last = writer.assign(f"add nsw i64 {threads}, -1")
    blocks = writer.assign(f"udiv i64 {writer.assign(f'add nuw nsw i64 {count}, {last}')}, {threads}")
    blocks = writer.call("i64", "llvm.smin.i64", f"i64 {blocks}, i64 {shape.blocks}", "i64, i64")
    return writer.assign(f"trunc i64 {blocks} to i32"), writer.assign(f"trunc i64 {threads} to i32")


def _filled(writer: _HostWriter, task: Task, frame: Frame) -> str:
    """A task's frame on the entry's stack."""
    place = writer.stack(f"[{max(frame.size, 8)} x i8]", 8)
    if writer.is_graph:  # frames are compared as bytes
        arguments = f"ptr align 8 {place}, i8 0, i64 {max(frame.size, 8)}, i1 false"
        writer.call("void", "llvm.memset.p0.i64", arguments, "ptr, i8, i64, i1")
    for value, type_, offset in zip(task.operands, frame.parameter_types, frame.parameters):
        at = place if offset == 0 else writer.assign(f"getelementptr inbounds i8, ptr {place}, i64 {offset}")
        if type(type_) is ArrayType:
            arguments = f"ptr align 8 {at}, ptr align 8 {writer.array(value).pointer}, i64 {descriptor_bytes(type_)}"
            writer.call("void", "llvm.memcpy.p0.p0.i64", f"{arguments}, i1 false", "ptr, ptr, i64, i1")
        else:
            stored = to_memory(writer, scalar(value), writer.name(value))
            writer.line(f"store {memory_type(scalar(value))} {stored}, ptr {at}, align {scalar(value).bytes}")
    return place


def _while(writer: Writer, op: Op) -> None:
    assert isinstance(writer, _HostWriter)
    loop = writer.decided.loop(op) if writer.decided is not None else None
    if loop is None:
        CONTROL["while"](writer, op)
        return
    write_region(writer, _asking(loop))
    size = _mark_flag(writer, LOOP_MARKS[0], loop.flag, False)
    write_region(writer, loop.body)
    write_region(writer, _asking(loop))
    _mark(writer, LOOP_MARKS[2], size, 8)


def _asking(loop: DeviceLoop) -> Block:
    block = Block()
    block.ops = [*loop.asks, Op("yield")]
    return block


def _if(writer: Writer, op: Op) -> None:
    assert isinstance(writer, _HostWriter)
    branch = writer.decided.branch(op) if writer.decided is not None else None
    if branch is None:
        CONTROL["if"](writer, op)
        return
    for region, is_otherwise in ((branch.then, False), (branch.otherwise, True)):
        if any(inner.attribute("parallel") for inner in walk(region)):
            size = _mark_flag(writer, LOOP_MARKS[1], branch.flag, is_otherwise)
            write_region(writer, region)
            _mark(writer, LOOP_MARKS[2], size, 8)


def _mark_flag(writer: _HostWriter, mark: str, flag: Value, is_inverted: bool) -> str:
    """Marks where a loop or a branch begins, with the flag that decides on it; gives the address of the flag's size."""
    place = writer.words(3)
    type_ = flag.type
    assert isinstance(type_, ArrayType)
    store_word(writer, place, 0, writer.assign(f"load i64, ptr {writer.array(flag).pointer}, align 8"))
    store_word(writer, place, 1, str(type_.scalar.bytes))
    store_word(writer, place, 2, str(int(is_inverted)))
    _mark(writer, mark, place, 24)
    return writer.assign(f"getelementptr inbounds i8, ptr {place}, i64 8")


def _mark(writer: _HostWriter, mark: str, place: str, size: int) -> None:
    """Where a loop or a branch begins or ends stands among the launches."""
    arguments = f"ptr @{mark}, i32 0, i32 0, i32 0, ptr {place}, i64 {size}"
    writer.give_back_unless_zero(writer.call("i32", "qd_launch", arguments, _LAUNCH_TYPES))


def _load(writer: Writer, op: Op) -> None:
    """A number that only the device has: the only one of its array."""
    assert isinstance(writer, _HostWriter)
    if writer.decided is not None and writer.decided.is_asked(op):
        return  # the device's affair
    type_, memory = scalar(op.results[0]), memory_type(scalar(op.results[0]))
    slot = writer.words(1)
    descriptor = writer.array(op.operands[0]).pointer
    address = writer.assign(f"load i64, ptr {descriptor}, align 8")
    arguments = f"ptr {slot}, i64 {address}, i64 {type_.bytes}"
    writer.ask("qd_device_read", arguments, "ptr, i64, i64")
    loaded = writer.assign(f"load {memory}, ptr {slot}, align {type_.bytes}")
    writer.names[op.results[0]] = from_memory(writer, type_, loaded)


def _temporary(writer: Writer, op: Op) -> None:
    """Law: what follows an array's making is all that reads its descriptor."""
    assert isinstance(writer, _HostWriter)
    condition, *sizes = op.operands
    array, there = op.results
    type_ = array.type
    assert isinstance(type_, ArrayType)
    wanted = writer.name(condition)
    shape = [_size(writer, size, wanted) for size in sizes]
    strides = [str(type_.scalar.bytes)]
    for size in reversed(shape):
        strides.insert(0, writer.assign(f"mul nsw i64 {size}, {strides[0]}"))
    least = writer.call("i64", "llvm.smax.i64", f"i64 {strides[0]}, i64 {type_.scalar.bytes}", "i64, i64")
    total = writer.assign(f"add nsw i64 {least}, {int(op.attribute('padding', 0))}")
    memory = _memory(writer, writer.temporaries[op], total)
    block = writer.words(1 + 2 * type_.rank)
    for word, name in enumerate([memory, *shape, *strides[1:]]):
        store_word(writer, block, word, name)
    access = ArrayAccess(writer, type_, block, writer.alias_scope())
    access.know_sizes(shape)
    writer.arrays[array] = access
    writer.names[there] = wanted


def _memory(writer: _HostWriter, number: int, size: str) -> str:
    """The memory that the plan has for a temporary array, or more if that is too little, or another stream's."""
    at_memory, at_size = writer.plan(_MEMORY + 16 * number), writer.plan(_MEMORY + 16 * number + 8)
    held = writer.assign(f"load i64, ptr {at_memory}, align 8")
    enough = writer.assign(f"icmp sle i64 {size}, {writer.assign(f'load i64, ptr {at_size}, align 8')}")
    stream = writer.assign(f"load ptr, ptr @{STREAM}, align 8")
    same = writer.assign(f"icmp eq ptr {stream}, {writer.assign(f'load ptr, ptr {writer.plan(8)}, align 8')}")
    start, asking, after = writer.label, writer.new_label(), writer.new_label()
    writer.branch(writer.assign(f"and i1 {enough}, {same}"), after, asking, likely=True)
    writer.begin(asking)
    writer.ask("qd_device_allocate", f"ptr @{PLAN}, i64 {number}, i64 {size}", "ptr, i64, i64")
    made = writer.assign(f"load i64, ptr {at_memory}, align 8")
    asked = writer.label
    writer.jump(after)
    writer.begin(after)
    return writer.phi("i64", [(held, start), (made, asked)])


def _size(writer: Writer, size: Value, wanted: str) -> str:
    least = writer.call("i64", "llvm.smax.i64", f"i64 {writer.name(size)}, i64 0", "i64, i64")
    return least if wanted == "true" else writer.assign(f"select i1 {wanted}, i64 {least}, i64 0")


def _release(writer: Writer, op: Op) -> None:
    """The next run uses the memory."""


_HANDLERS: dict[str, Handler] = {
    "for": _for,
    "while": _while,
    "if": _if,
    "load": _load,
    "temporary": _temporary,
    "release": _release,
}
