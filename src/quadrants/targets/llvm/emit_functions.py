"""The three kinds of LLVM functions: a kernel's entry, a parallel loop's task, a function."""

from __future__ import annotations

from quadrants.ir.nodes import Block, Function, Value
from quadrants.ir.types import ArrayType, Type
from quadrants.targets.frame import Frame, descriptor_bytes
from quadrants.targets.llvm.arrays import from_memory, to_memory
from quadrants.targets.llvm.emit_control import result_struct, write_region
from quadrants.targets.llvm.scalars import memory_type, register_type
from quadrants.targets.llvm.writer import Unit, Writer, scalar

__all__ = ["EntryWriter", "FunctionWriter", "TaskWriter", "write_entry", "write_function"]


class FrameWriter(Writer):
    """A function that reaches the kernel's parameters through the frame, `%frame`."""

    def __init__(self, unit: Unit, kernel: Function, frame: Frame) -> None:
        super().__init__(unit, kernel.name in unit.program.may_alias)
        self.kernel = kernel
        self.frame = frame
        self._offsets = dict(zip(kernel.parameters, [offset for _, offset in frame.lowered_parameters()]))

    def at(self, offset: int) -> str:
        """The pointer to a byte of the frame, computed in the prologue."""
        return "%frame" if offset == 0 else self.early(f"getelementptr inbounds i8, ptr %frame, i64 {offset}")

    def offset(self, value: Value) -> int | None:
        """A kernel parameter's offset in the frame; None for other values."""
        return self._offsets.get(value)

    def parameter(self, value: Value) -> str:
        offset = self._offsets.get(value)
        if offset is None:
            return super().parameter(value)
        type_ = scalar(value)
        loaded = self.early(
            f"load {memory_type(type_)}, ptr {self.at(offset)}, align {type_.bytes}, !invariant.load !0, !noundef !0"
        )
        return self._early_from_memory(value, loaded)

    def _early_from_memory(self, value: Value, loaded: str) -> str:
        body, self.lines = self.lines, []
        name = from_memory(self, scalar(value), loaded)
        self.prologue.extend(self.lines)
        self.lines = body
        return name

    def descriptor(self, value: Value) -> str:
        offset = self._offsets.get(value)
        return super().descriptor(value) if offset is None else self.at(offset)


class EntryWriter(FrameWriter):
    """`i32 entry(ptr frame)`: 0, or 1 after a failed check."""

    def __init__(self, unit: Unit, kernel: Function, frame: Frame) -> None:
        super().__init__(unit, kernel, frame)
        self.atomic_needed = False  # what is not in a task runs on one thread
        self.tasks = 0

    def leave(self, values: list[str], types: list[Type]) -> None:
        for value, (type_, offset) in zip(values, self.frame.lowered_results()):
            scalar = type_.scalar
            stored = to_memory(self, scalar, value)
            address = self.at(offset)
            self.line(f"store {memory_type(scalar)} {stored}, ptr {address}, align {scalar.bytes}")
        self.line("ret i32 0")

    def fail(self) -> None:
        self.line("ret i32 1")


class TaskWriter(FrameWriter):
    """`void task(ptr frame, ptr captures, i64 begin, i64 end)`: a stretch of a parallel loop's iterations.

    `captured` has the 64-bit word in the captures of every free value; the word `failed` is set after a failed check.
    """

    def __init__(self, unit: Unit, kernel: Function, frame: Frame, captured: dict[Value, int], failed: int) -> None:
        super().__init__(unit, kernel, frame)
        self._captured = captured
        self._failed = failed

    def capture(self, word: int, llvm_type: str) -> str:
        """Reads a word of the captures in the prologue."""
        address = self.early(f"getelementptr inbounds i64, ptr %captures, i64 {word}")
        return self.early(f"load {llvm_type}, ptr {address}, align 8, !invariant.load !0, !noundef !0")

    def parameter(self, value: Value) -> str:
        word = self._captured.get(value)
        return super().parameter(value) if word is None else self.capture(word, register_type(scalar(value)))

    def descriptor(self, value: Value) -> str:
        word = self._captured.get(value)
        return super().descriptor(value) if word is None else self.capture(word, "ptr")

    def leave(self, values: list[str], types: list[Type]) -> None:
        self.line("ret void")

    def fail(self) -> None:
        address = self.assign(f"getelementptr inbounds i64, ptr %captures, i64 {self._failed}")
        self.line(f"store atomic i64 1, ptr {address} monotonic, align 8")
        self.line("ret void")


class FunctionWriter(Writer):
    """A function: arrays as pointers, scalars by value, results in a struct that LLVM returns in registers if it can."""

    def __init__(self, unit: Unit, function: Function) -> None:
        super().__init__(unit, function.name in unit.program.may_alias)
        self.function = function
        self._may_fail = function.name in unit.program.may_fail
        self._types = [self.type_along(type_) for type_ in function.result_types]
        self.struct = result_struct(self._types, self._may_fail)

    def header(self, symbol: str, linkage: str = "") -> str:
        """The `define` line; names the parameters."""
        parameters = []
        for k, value in enumerate(self.function.parameters):
            if type(value.type) is not ArrayType:
                self.arrive(value, f"%p{k}")
                parameters.append(f"{self.type_along(value.type)} noundef %p{k}")
            elif not value.type.has_descriptor:
                parameters.append(f"ptr nonnull noundef %p{k}")
            else:
                size = descriptor_bytes(value.type)
                parameters.append(f"ptr readonly nonnull noundef align 8 dereferenceable({size}) %p{k}")
        attributes = self.program.attributes[self.function.name]
        convention = self.program.convention(self.function.name)
        return f"define {linkage}{convention}{self.struct} @{symbol}({', '.join(parameters)}) {attributes}"

    def descriptor(self, value: Value) -> str:
        parameters = self.function.parameters
        return f"%p{parameters.index(value)}" if value in parameters else super().descriptor(value)

    def leave(self, values: list[str], types: list[Type]) -> None:
        if self.struct == "void":
            self.line("ret void")
            return
        fields = list(zip(self._types, values))
        if self._may_fail:
            fields.append(("i1", "false"))
        whole = "poison"
        for k, (type_, value) in enumerate(fields):
            whole = self.assign(f"insertvalue {self.struct} {whole}, {type_} {value}, {k}")
        self.line(f"ret {self.struct} {whole}")

    def fail(self) -> None:
        zeros = ", ".join([f"{type_} zeroinitializer" for type_ in self._types])
        separator = ", " if zeros else ""
        self.line(f"ret {self.struct} {{ {zeros}{separator}i1 true }}")


def _write_body(writer: Writer, body: Block) -> None:
    values = write_region(writer, body)
    if values is not None:  # a body that ends in `yield` of nothing instead of `return`
        writer.leave(values, [])


def write_entry(unit: Unit, kernel: Function, frame: Frame, symbol: str) -> None:
    """Adds a kernel's entry and its tasks to a unit."""
    writer = EntryWriter(unit, kernel, frame)
    _write_body(writer, kernel.body)
    size = max(frame.size, 8)
    writer.finish(
        f"define i32 @{symbol}(ptr nonnull noundef align 8 dereferenceable({size}) %frame) "
        f"{unit.program.define_attributes}"
    )


def write_function(unit: Unit, function: Function, symbol: str, linkage: str = "") -> None:
    """Adds a function to a unit."""
    writer = FunctionWriter(unit, function)
    header = writer.header(symbol, linkage)
    _write_body(writer, function.body)
    writer.finish(header)
