"""Products of small matrices that 32 threads hold together (`ir/fragments.py`), as instructions of NVIDIA's tensor cores."""

from __future__ import annotations

from quadrants.ir.fragments import COUNTS, SUMS, depth_of
from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ScalarType, bf16, f16, scalar_of
from quadrants.targets.llvm.arrays import from_memory, to_memory
from quadrants.targets.llvm.cuda.copies import shared_address
from quadrants.targets.llvm.writer import Writer, scalar

__all__ = ["load_matrices", "multiply"]

_NAMES = {"f16": "m16n8k16.row.col.f32.f32", "bf16": "m16n8k16.row.col.bf16", "f32": "m16n8k8.row.col.tf32"}


def multiply(writer: Writer, op: Op) -> None:
    """`team_multiply`, for threads that are all there. Of factors of f32 the instruction reads the bits that tf32 has."""
    factor = scalar(op.operands[0])
    left, right = COUNTS[depth_of(factor.bits)]
    words = _words(writer, factor, op.operands[:left]) + _words(writer, factor, op.operands[left : left + right])
    held = "<2 x half>" if factor is f16 else "i32"
    sums = [writer.name(value) for value in op.operands[left + right :]]
    types = [held] * len(words) + ["float"] * len(SUMS)
    arguments = ", ".join([f"{type_} {name}" for type_, name in zip(types, [*words, *sums])])
    struct = f"{{ {', '.join(['float'] * len(SUMS))} }}"
    symbol = f"llvm.nvvm.mma.{_NAMES[factor.name]}"
    found = writer.call(struct, symbol, arguments, ", ".join(types), "convergent nounwind")
    for k, result in enumerate(op.results):
        writer.names[result] = writer.assign(f"extractvalue {struct} {found}, {k}")


def load_matrices(writer: Writer, op: Op) -> None:
    """`team_load`, for threads that are all there: of 16-bit numbers two come in a register, the lower bits first."""
    held, count = scalar_of(op.operands[0].type), op.attributes["count"]
    symbol = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if op.attribute('transposed') else ''}.b16.p3"
    struct = f"{{ {', '.join(['i32'] * count)} }}" if count > 1 else "i32"
    address = f"ptr addrspace(3) {shared_address(writer, op)}"
    found = writer.call(struct, symbol, address, "ptr addrspace(3)", "convergent nounwind")
    words = [writer.assign(f"extractvalue {struct} {found}, {k}") if count > 1 else found for k in range(count)]
    numbers = [number for word in words for number in _numbers(writer, held, word)]
    writer.names.update(zip(op.results, numbers))


def _numbers(writer: Writer, held: ScalarType, word: str) -> list[str]:
    """The numbers in a register."""
    if held not in (f16, bf16):
        return [writer.assign(f"bitcast i32 {word} to float")]
    if held is f16:
        pair = writer.assign(f"bitcast i32 {word} to <2 x half>")
        parts = [writer.assign(f"extractelement <2 x half> {pair}, i32 {k}") for k in range(2)]
    else:
        upper = writer.assign(f"lshr i32 {word}, 16")
        parts = [writer.assign(f"trunc i32 {part} to i16") for part in (word, upper)]
    return [from_memory(writer, held, part) for part in parts]


def _words(writer: Writer, factor: ScalarType, values: tuple[Value, ...]) -> list[str]:
    """The registers that hold a thread's part of a factor: two numbers of 16 bits, or one of 32."""
    names = [writer.name(value) for value in values]
    if factor not in (f16, bf16):
        return [writer.assign(f"bitcast float {name} to i32") for name in names]
    parts = [to_memory(writer, factor, name) for name in names]
    return [_pair(writer, factor, *parts[k : k + 2]) for k in range(0, len(parts), 2)]


def _pair(writer: Writer, factor: ScalarType, low: str, high: str) -> str:
    if factor is f16:
        first = writer.assign(f"insertelement <2 x half> poison, half {low}, i32 0")
        return writer.assign(f"insertelement <2 x half> {first}, half {high}, i32 1")
    upper = writer.assign(f"shl nuw i32 {writer.assign(f'zext i16 {high} to i32')}, 16")
    return writer.assign(f"or disjoint i32 {upper}, {writer.assign(f'zext i16 {low} to i32')}")
