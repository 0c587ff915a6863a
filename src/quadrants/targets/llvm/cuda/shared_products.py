"""Products of matrices in shared memory that 128 threads make together (`ir/shared_fragments.py`), as instructions of NVIDIA's Hopper.

The contract, of NVIDIA's description of PTX ("Asynchronous Warpgroup Level Matrix Instructions"), and found again in what CUTLASS says
of canonical layouts ("make_gmma_desc"):

- `wgmma.mma_async.sync.aligned.m64nNkK.f32.T.T`, for sm_90a alone, of all 128 threads of a warpgroup: K is 16 for f16 and bf16, 8 for tf32,
  N a multiple of 8 up to 256. Thread t has N / 2 sums, in the places of `mma.sync`: `ir/shared_fragments.py` has them.
- A factor in shared memory is a descriptor, alike in all threads: bits 0-13 the address, 16-29 the leading and 32-45 the stride dimension's offset,
  each `(bytes & 0x3FFFF) >> 4`; 49-51 the base offset, which counts where bytes are swizzled; 62-63 how they are: 0 not at all.
- Not swizzled, a matrix is made of core matrices: 8 lines of 16 bytes, 128 bytes in a row, the start aligned to 16. Lines along the depth
  (K-major): the leading offset leads to the next core matrix in the depth, the stride offset to the next 8 rows or columns. Lines along rows
  or columns (MN-major, the flags `imm-trans` set, 16 bits only): a core matrix is 8 depths of 16 bytes; the leading offset leads to the next 8
  depths, the stride offset to the next rows or columns. In both the leading offset is that of the depth here, the stride offset that of the width.
- `wgmma.fence` stands in front of the first product and wherever registers of sums were touched by anything else; `commit_group` closes a
  group, `wait_group n` waits for all but the last n. Until then nobody touches the sums or writes the factors. One assembly statement holds
  the products of an operation, so that LLVM sees a plain function of the sums. Of those that are pending the sums go from statement to
  statement alone, so that nothing is to be done to their registers: the tests look at every way through the code (evidence/ptx/in_flight.py), and where
  there were something NVIDIA's assembler would wait, and say so.
- What threads wrote to shared memory is seen by products behind `fence.proxy.async` of the thread that wrote it, and a barrier.

What only hardware tells is asked of it (probe.py): that the offsets are meant so, and that products and sums are what
`mma.sync` gives.
"""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.ir.nodes import Op, Value
from quadrants.ir.shared_fragments import CORE, LINE_BYTES, Factor, products_of
from quadrants.ir.types import scalar_of
from quadrants.targets.llvm.emit_threads import write_fence
from quadrants.targets.llvm.writer import Writer

__all__ = ["descriptor_offsets", "descriptor_step", "fence", "multiplied", "multiply_shared", "product_lines"]

_UNIT = 16
"""Bytes that addresses and offsets in descriptors count."""
_CORE_BYTES = CORE * LINE_BYTES
_PROXY_FENCE = "fence.proxy.async.shared::cta;"


def descriptor_offsets(factor: Factor) -> int:
    """The bits of a descriptor besides the address."""
    leading, stride = factor.across * _CORE_BYTES // _UNIT, _CORE_BYTES // _UNIT
    return leading << 16 | stride << 32


def descriptor_step(factor: Factor) -> int:
    """What leads a descriptor on to what the next instruction takes: two core matrices in the depth, of 16 bytes each if lines are
    along it, of eight depths each if they are not."""
    return 2 * factor.across * _CORE_BYTES // _UNIT


def product_lines(
    kind: str, columns: int, sums: list[str], pairs: list[tuple[str, str]], adds: str, across: str, pending: int = 0
) -> list[str]:
    """Lines of PTX: products of the pairs of descriptors are added to the sums, and waited for, but those of the last `pending` such
    lines. `across`: the flags of factors whose lines are along the width, '' for tf32."""
    shape = f"m64n{columns}k{8 if kind == 'tf32' else 16}"
    to = "{" + ", ".join(sums) + "}"
    products = [
        f"wgmma.mma_async.sync.aligned.{shape}.f32.{kind}.{kind} {to}, {left}, {right}, {adds}, 1, 1{across};"
        for left, right in pairs
    ]
    ending = ["wgmma.commit_group.sync.aligned;", _waiting(pending)]
    return ["wgmma.fence.sync.aligned;", *products, *ending]


def _waiting(pending: int) -> str:
    return f"wgmma.wait_group.sync.aligned {pending};"


def multiply_shared(writer: Writer, op: Op) -> None:
    """`team_multiply_shared`."""
    sums = op.operands[4:]
    factors = products_of([operand.type for operand in op.operands], op.attributes)
    scalar, count = scalar_of(op.operands[0].type), len(sums)
    steps = factors[0].depth // factors[0].step
    left, first, right, second = op.operands[:4]
    starts = [
        _descriptors(writer, memory, start, factor, steps)
        for memory, start, factor in zip((left, right), (first, second), factors)
    ]
    pairs = [(f"${2 * count + 2 * k}", f"${2 * count + 2 * k + 1}") for k in range(steps)]
    kind = "tf32" if scalar.bits == 32 else scalar.name
    across = "" if kind == "tf32" else "".join([f", {int(factor.along_width)}" for factor in factors])
    registers = [f"${k}" for k in range(count)]
    pending = op.attribute("pending", 0)
    lines = product_lines(kind, factors[1].width, registers, pairs, f"${2 * count + 2 * steps}", across, pending)
    arguments = [f"i64 {starts[side][k]}" for k in range(steps) for side in (0, 1)]
    _of_sums(writer, op, sums, lines, ["l"] * (2 * steps) + ["b"], [*arguments, "i1 true"])


def multiplied(writer: Writer, op: Op) -> None:
    """`team_multiplied`."""
    _of_sums(writer, op, op.operands, [_waiting(0)], [], [])


def _of_sums(
    writer: Writer, op: Op, sums: Sequence[Value], lines: list[str], constraints: list[str], arguments: list[str]
) -> None:
    """Writes assembly that changes sums where they are, the first operands of it, and takes other arguments behind them."""
    count = len(sums)
    constraints = ["=f"] * count + [str(k) for k in range(count)] + [*constraints, "~{memory}"]
    arguments = [f"float {writer.name(value)}" for value in sums] + arguments
    struct = f"{{ {', '.join(['float'] * count)} }}"
    text = "\\0A".join(lines)
    found = writer.assign(
        f'call {struct} asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(arguments)}) convergent nounwind'
    )
    for k, result in enumerate(op.results):
        writer.names[result] = writer.assign(f"extractvalue {struct} {found}, {k}")


def _descriptors(writer: Writer, memory: Value, start: Value, factor: Factor, steps: int) -> list[str]:
    """The descriptors of a factor from a place in memory on, step by step."""
    pointer = writer.array(memory).address([writer.name(start)])
    within = writer.assign(f"addrspacecast ptr {pointer} to ptr addrspace(3)")
    address = writer.assign(f"zext i32 {writer.assign(f'ptrtoint ptr addrspace(3) {within} to i32')} to i64")
    units = writer.assign(f"and i64 {writer.assign(f'lshr i64 {address}, 4')}, 16383")
    first = writer.assign(f"or disjoint i64 {units}, {descriptor_offsets(factor)}")
    return [first, *[writer.assign(f"add i64 {first}, {k * descriptor_step(factor)}") for k in range(1, steps)]]


def fence(writer: Writer, op: Op) -> None:
    """`fence`: that of products is the asynchronous proxy's."""
    if op.attributes["scope"] == "products":
        writer.line(f'call void asm sideeffect "{_PROXY_FENCE}", "~{{memory}}"() convergent nounwind')
    else:
        write_fence(writer, op)
