"""The interpreter of PTX by itself: instructions against what NumPy says, threads that part and meet, faults."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from quadrants.evidence.ptx.in_flight import check_registers
from quadrants.evidence.ptx.machine import Loaded, Machine, Trap
from quadrants.evidence.ptx.memory import Constancy, Memory, MemoryFault
from quadrants.evidence.ptx.parse import PtxError, parse
from quadrants.evidence.ptx.warpgroups import AsyncShared
from quadrants.evidence.ptx.warps import WarpError
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.cuda.compile import machine_of
from quadrants.targets.llvm.emit_device import QUOTIENT

HEAD = ".version 8.3\n.target sm_80\n.address_size 64\n"


def run(text: str, n: int, *arrays: np.ndarray, blocks: int = 1, name: str = "k") -> list[np.ndarray]:
    """Launches an entry whose parameter is a block of pointers; gives the arrays afterwards."""
    machine = Machine(Memory(1 << 20))
    loaded = Loaded(machine, text)
    pieces = []
    for array in arrays:
        pieces.append(machine.memory.allocate(array.nbytes))
        pieces[-1].write(0, array.tobytes())
    frame = struct.pack(f"<{len(pieces)}Q", *[piece.address for piece in pieces])
    machine.launch(loaded, loaded.kernel(name), blocks, n, frame)
    return [np.frombuffer(piece.read(0, piece.size), a.dtype)[: a.size] for piece, a in zip(pieces, arrays)]


def kernel(body: str, registers: str = "", arrays: int = 2) -> str:
    """An entry that has the address of its thread's element of each array in %a0, %a1, … (eight bytes each)."""
    loads = "".join(
        [f"ld.param.b64 %q{k}, [k_param_0+{8 * k}];\nadd.s64 %a{k}, %q{k}, %offset;\n" for k in range(arrays)]
    )
    return f"""{HEAD}
.visible .entry k(
	.param .align 8 .b8 k_param_0[{8 * arrays}]
)
{{
	.reg .pred %p<8>;
	.reg .b16 %rs<8>;
	.reg .b32 %r<16>;
	.reg .b64 %rd<16>;
	.reg .b64 %q<4>;
	.reg .b64 %a<4>;
	.reg .b64 %offset;
	{registers}
	mov.u32 	%r15, %tid.x;
	mul.wide.u32 %offset, %r15, 8;
	{loads}
	{body}
	ret;
}}
"""


UNSIGNED = np.array([0, 1, 2, 5, 31, 32, 63, 64, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF], np.uint64)
FLOATS = np.array([0.0, -0.0, 1.5, -2.5, 1e300, 5e-324, np.inf, -np.inf, np.nan, 3.0, 2.0**53 + 2, -7.0, 0.1])


@pytest.mark.parametrize(
    "code, meaning",
    [
        ("add.s64", lambda a, b: a + b),
        ("sub.s64", lambda a, b: a - b),
        ("mul.lo.s64", lambda a, b: a * b),
        ("mul.hi.u64", lambda a, b: np.array([int(x) * int(y) >> 64 for x, y in zip(a, b)], np.uint64)),
        (
            "mul.hi.s64",
            lambda a, b: np.array(
                [(int(x) * int(y) >> 64) for x, y in zip(a.view(np.int64), b.view(np.int64))], np.int64
            ).view(np.uint64),
        ),
        ("and.b64", lambda a, b: a & b),
        ("xor.b64", lambda a, b: a ^ b),
        ("max.s64", lambda a, b: np.maximum(a.view(np.int64), b.view(np.int64)).view(np.uint64)),
        ("min.u64", np.minimum),
    ],
)
def test_integers(code: str, meaning: Any) -> None:
    a, b = (x.reshape(-1).copy() for x in np.meshgrid(UNSIGNED, UNSIGNED))
    text = kernel(f"ld.b64 %rd1, [%a0];\nld.b64 %rd2, [%a1];\n{code} %rd3, %rd1, %rd2;\nst.b64 [%a2], %rd3;", arrays=3)
    *_, out = run(text, len(a), a, b, np.zeros_like(a))
    assert (out == meaning(a, b)).all()


@pytest.mark.parametrize(
    "code, meaning",
    [
        ("add.rn.f64", lambda a, b: a + b),
        ("div.rn.f64", lambda a, b: a / b),
        ("min.f64", np.fmin),
        ("max.f64", np.fmax),
        ("copysign.f64", lambda a, b: np.copysign(b, a)),
    ],
)
def test_floats(code: str, meaning: Any) -> None:
    a, b = (x.reshape(-1).copy() for x in np.meshgrid(FLOATS, FLOATS))
    text = kernel(f"ld.b64 %rd1, [%a0];\nld.b64 %rd2, [%a1];\n{code} %rd3, %rd1, %rd2;\nst.b64 [%a2], %rd3;", arrays=3)
    *_, out = run(text, len(a), a, b, np.zeros_like(a))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, meaning(a, b))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_sums_of_narrow_and_wide_floats(kind: str) -> None:
    """sm_100 and later add numbers of 16 bits, and their products, to f32."""
    narrow = np.array([1.5, -2.25, 0.5, 3.0], np.float32)
    held = narrow.astype(np.float16).view(np.uint16) if kind == "f16" else (narrow.view(np.uint32) >> 16)
    a = held.astype(np.uint64)
    code = f"""ld.b16 %rs1, [%a0];
	mov.b32 %r1, 0f3FC00000;
	fma.rn.f32.{kind} %r2, %rs1, %rs1, %r1;
	st.b32 [%a1], %r2;
	sub.f32.{kind} %r3, %rs1, %r1;
	st.b32 [%a1+4], %r3;"""
    _, out = run(kernel(code), len(a), a, np.zeros(len(a)))
    found = out.view(np.float32).reshape(-1, 2)
    assert (found[:, 0] == narrow * narrow + 1.5).all() and (found[:, 1] == narrow - 1.5).all()


def test_a_product_and_a_sum_are_rounded_once() -> None:
    a, b = np.array([1.0 + 2**-30, 3.0]), np.array([1.0 - 2**-30, 1e300])
    text = kernel(
        "ld.b64 %rd1, [%a0];\nld.b64 %rd2, [%a1];\nfma.rn.f64 %rd3, %rd1, %rd2, 0dBFF0000000000000;\nst.b64 [%a0], %rd3;"
    )
    out, _ = run(text, 2, a, b)
    assert out[0] == -(2.0**-60) and out[1] == 3e300


@pytest.mark.parametrize("kind, target", [("s32", np.int32), ("u32", np.uint32), ("u64", np.uint64), ("s64", np.int64)])
def test_floats_to_integers_saturate(kind: str, target: Any) -> None:
    width = np.dtype(target).itemsize
    register = "%r1" if width == 4 else "%rd2"
    text = kernel(f"ld.b64 %rd1, [%a0];\ncvt.rzi.{kind}.f64 {register}, %rd1;\nst.b{8 * width} [%a1], {register};")
    _, out = run(text, len(FLOATS), FLOATS, np.zeros(len(FLOATS), np.uint64))
    info = np.iinfo(target)
    for value, found in zip(FLOATS, out):
        got = int(np.uint64(found).astype(f"u{width}").view(target))
        if np.isnan(value):
            assert got == int(np.array(1 << (8 * width - 1), f"u{width}").view(target))
        elif np.isinf(value):
            assert got == (info.max if value > 0 else info.min)
        else:
            assert got == min(max(int(value), info.min), info.max)


def test_shifts_beyond_the_width() -> None:
    a, b = (x.reshape(-1).copy() for x in np.meshgrid(UNSIGNED, UNSIGNED))
    body = (
        "ld.b64 %rd1, [%a0];\nld.b32 %r1, [%a1];\nshl.b64 %rd2, %rd1, %r1;\nst.b64 [%a2], %rd2;\n"
        "shr.s64 %rd3, %rd1, %r1;\nst.b64 [%a3], %rd3;"
    )
    *_, left, right = run(kernel(body, arrays=4), len(a), a, b, np.zeros_like(a), np.zeros_like(a))
    counts = [int(x) & 0xFFFFFFFF for x in b]
    assert left.tolist() == [(int(x) << c) & (2**64 - 1) if c < 64 else 0 for x, c in zip(a, counts)]
    assert right.view(np.int64).tolist() == [int(x) >> min(c, 64) for x, c in zip(a.view(np.int64), counts)]


COLLATZ = kernel(
    """ld.b64 %rd1, [%a0];
	mov.b64 %rd2, 0;
$L_head:
	setp.le.u64 %p1, %rd1, 1;
	@%p1 bra $L_done;
	add.s64 %rd2, %rd2, 1;
	and.b64 %rd3, %rd1, 1;
	setp.eq.s64 %p2, %rd3, 0;
	@%p2 bra $L_even;
	mad.lo.s64 %rd1, %rd1, 3, 1;
	bra.uni $L_head;
$L_even:
	shr.u64 %rd1, %rd1, 1;
	bra.uni $L_head;
$L_done:
	st.b64 [%a1], %rd2;"""
)


def test_threads_part_and_meet() -> None:
    def steps(n: int) -> int:
        count = 0
        while n > 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    numbers = np.arange(200, dtype=np.uint64)
    _, out = run(COLLATZ, 200, numbers, np.zeros(200, np.uint64))
    assert out.tolist() == [steps(n) for n in range(200)]


@pytest.mark.parametrize("address, told", [("%a0+0", "aligned"), ("%rd9", "allocated"), ("%q0+80", "allocated")])
def test_faults(address: str, told: str) -> None:
    body = f"mov.b64 %rd9, 64;\nadd.s64 %a0, %a0, 4;\nld.b64 %rd1, [{address}];\nst.b64 [%a1], %rd1;"
    with pytest.raises(MemoryFault, match=told):
        run(kernel(body), 3, np.zeros(8), np.zeros(8))


def test_a_stray_store_is_a_fault_where_constants_are_read_too() -> None:
    body = "ld.global.nc.b64 %rd0, [%a0];\nshl.b64 %rd1, %a1, 40;\nst.global.b64 [%rd1], %rd0;"
    with pytest.raises(MemoryFault, match="nothing is allocated"):
        run(kernel(body), 1, np.zeros(1, np.int64), np.zeros(1, np.int64))


@pytest.mark.parametrize("written_first", [False, True])
def test_no_byte_is_constant_and_written(written_first: bool) -> None:
    constancy, addresses = Constancy(1 << 10), np.array([96], np.uint64)
    constancy.begin()
    constancy.write(addresses + np.uint64(16), 4)
    reads, writes = (constancy.read, addresses, 16), (constancy.write, addresses + np.uint64(8), 4)
    (first, *told), (then, *others) = (writes, reads) if written_first else (reads, writes)
    first(*told)
    with pytest.raises(MemoryFault, match="read as constant is written"):
        then(*others)


def test_groups_of_products_that_a_loop_never_waits_for() -> None:
    body = "$again:\nwgmma.commit_group.sync.aligned;\nsetp.eq.b64 %p0, %rd0, 0;\n@%p0 bra $again;"
    check_registers(parse(kernel(body)).functions["k"])


def test_stores_of_code_that_shares_no_memory_reach_no_products() -> None:
    AsyncShared([]).wrote(np.array([96], np.uint64), 4, np.array([0]))


def test_code_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadrants.evidence.ptx.machine._MOST_STEPS", 1000)
    with pytest.raises(Trap, match="does not end"):
        run(kernel("$L_here:\n\tbra.uni $L_here;"), 1, np.zeros(1), np.zeros(1))


def test_what_is_not_known_is_refused_with_its_line() -> None:
    with pytest.raises(PtxError, match=r"line \d+: no instruction tcgen05"):
        run(kernel("tcgen05.wait::ld.sync.aligned;"), 1, np.zeros(1), np.zeros(1))
    with pytest.raises(PtxError):
        parse(HEAD + ".visible .entry k() { .reg .b32 %r<2>; add.s32 %r1, %r1")


# Warps and blocks, through LLVM.

WARPS = """
target triple = "nvptx64-nvidia-cuda"
@cells = internal addrspace(3) global [256 x i32] undef, align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.up.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)
declare i1 @llvm.nvvm.vote.all.sync(i32, i1)
declare i32 @llvm.nvvm.match.any.sync.i32(i32, i32)
declare i32 @llvm.nvvm.redux.sync.add(i32, i32)
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
define ptx_kernel void @k(ptr byval([48 x i8]) align 8 %frame) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %w = zext i32 %t to i64
  %in = load ptr, ptr %frame
  %at = getelementptr i32, ptr %in, i64 %w
  %x = load i32, ptr %at
  %butterfly = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %x, i32 5, i32 31)
  %down = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %x, i32 3, i32 31)
  %up = call i32 @llvm.nvvm.shfl.sync.up.i32(i32 -1, i32 %x, i32 2, i32 0)
  %from = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %x, i32 7, i32 31)
  %odd = trunc i32 %x to i1
  %ballot = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %odd)
  %last = and i32 %x, 3
  %same = call i32 @llvm.nvvm.match.any.sync.i32(i32 -1, i32 %last)
  %sum = call i32 @llvm.nvvm.redux.sync.add(i32 %x, i32 -1)
  %cell = getelementptr [256 x i32], ptr addrspace(3) @cells, i64 0, i64 %w
  store i32 %x, ptr addrspace(3) %cell
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %back = sub i64 255, %w
  %mirror = getelementptr [256 x i32], ptr addrspace(3) @cells, i64 0, i64 %back
  %turned = load i32, ptr addrspace(3) %mirror
OUTPUTS
  ret void
}
"""
OUTPUTS = ("butterfly", "down", "up", "from", "ballot", "same", "sum", "turned")


def test_warps_and_blocks() -> None:
    lines = []
    for k, name in enumerate(OUTPUTS):
        lines += [
            f"  %row{k} = getelementptr i8, ptr %frame, i64 8",
            f"  %base{k} = load ptr, ptr %row{k}",
            f"  %index{k} = add i64 %w, {256 * k}",
            f"  %place{k} = getelementptr i32, ptr %base{k}, i64 %index{k}",
            f"  store i32 %{name}, ptr %place{k}",
        ]
    text = optimise.assembly(WARPS.replace("OUTPUTS", "\n".join(lines)), machine_of(80), 2)
    x = np.random.default_rng(1).integers(0, 1000, 256).astype(np.int32)
    frame = [x, np.zeros(256 * len(OUTPUTS), np.int32), *[np.zeros(1)] * 4]
    found = dict(zip(OUTPUTS, run(text, 256, *frame)[1].reshape(-1, 256)))
    lane = np.arange(256) % 32
    warp = np.arange(256) - lane
    assert (found["butterfly"] == x[warp + (lane ^ 5)]).all()
    assert (found["down"] == x[np.where(lane + 3 <= 31, warp + lane + 3, warp + lane)]).all()
    assert (found["up"] == x[np.where(lane >= 2, warp + lane - 2, warp + lane)]).all()
    assert (found["from"] == x[warp + 7]).all()
    rows = x.reshape(-1, 32)
    bits = (rows % 2).astype(np.int64) @ (1 << np.arange(32, dtype=np.int64))
    assert (found["ballot"].view(np.uint32).reshape(-1, 32) == bits[:, None]).all()
    alike = ((rows[:, :, None] % 4) == (rows[:, None, :] % 4)).astype(np.int64) @ (1 << np.arange(32, dtype=np.int64))
    assert (found["same"].view(np.uint32).reshape(-1, 32) == alike).all()
    assert (found["sum"].reshape(-1, 32) == rows.sum(axis=1)[:, None]).all()
    assert (found["turned"] == x[::-1]).all()


def test_lanes_that_are_elsewhere() -> None:
    body = (
        "setp.lt.u32 %p1, %r15, 16;\n@%p1 bra $L_out;\n"
        "shfl.sync.idx.b32 %r1, %r15, 0, 31, 0x0000ffff;\nst.b32 [%a0], %r1;\n$L_out:"
    )
    with pytest.raises(Trap, match="none of the lanes for which it waits"):
        run(kernel(body), 32, np.zeros(32), np.zeros(32))
    body = "sub.u32 %r2, 31, %r15;\nshfl.sync.idx.b32 %r1, %r15, %r2, 31, 0x000fffff;\nst.b32 [%a0], %r1;"
    with pytest.raises(WarpError, match="none of those for which it waits"):
        run(kernel(body), 20, np.zeros(32), np.zeros(32))
    (found, _) = run(kernel(body.replace("0x000fffff", "0xffffffff")), 20, np.zeros(32, np.int64), np.zeros(32))
    assert (found[:12] == 0xA5A5A5A5).all() and (found[12:20] == np.arange(19, 11, -1)).all()


def test_lanes_wait_for_one_another() -> None:
    """The upper half goes back in the code, and is there first again: it waits for the lower half."""
    body = """
    mov.b32 %r4, 0;
    bra.uni $L_head;
$L_back:
    add.s32 %r4, %r4, 1;
$L_head:
    setp.lt.u32 %p1, %r4, 3;
    vote.sync.ballot.b32 %r3, %p1, 0xffffffff;
    add.s32 %r5, %r5, %r3;
    @!%p1 bra $L_out;
    setp.ge.u32 %p2, %r15, 16;
    @%p2 bra $L_back;
    add.s32 %r6, %r6, 1;
    bra.uni $L_back;
$L_out:
    st.b32 [%a0], %r5;
"""
    (found, _) = run(kernel(body), 32, np.zeros(32, np.int64), np.zeros(32))
    assert (found.astype(np.int32) == 3 * -1).all()


def test_lanes_that_never_come() -> None:
    body = """
    setp.lt.u32 %p1, %r15, 16;
    @%p1 bra $L_lower;
    vote.sync.ballot.b32 %r3, %p1, 0xffffffff;
    ret;
$L_lower:
    bar.sync 0;
"""
    with pytest.raises(Trap, match="lanes of their warp that do not come"):
        run(kernel(body), 32, np.zeros(32), np.zeros(32))


def test_barriers_that_threads_part_at() -> None:
    body = """
    setp.lt.u32 %p1, %r15, 16;
    @%p1 bra $L_lower;
    bar.sync 0;
    st.b32 [%a0], %r15;
    ret;
$L_lower:
    bar.sync 0;
"""
    with pytest.raises(Trap, match="different barriers"):
        run(kernel(body), 32, np.zeros(32), np.zeros(32))


def test_threads_that_have_ended_are_not_waited_for() -> None:
    body = """
    setp.ge.u32 %p1, %r15, 20;
    @%p1 bra $L_out;
    bar.sync 0;
    setp.lt.u32 %p2, %r15, 3;
    vote.sync.ballot.b32 %r3, %p2, 0xffffffff;
    st.b32 [%a0], %r3;
$L_out:
"""
    (found, _) = run(kernel(body), 32, np.zeros(32, np.int64), np.zeros(32))
    assert (found[:20] == 7).all() and (found[20:] == 0).all()


QUOTIENTS = """
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @k(ptr byval([24 x i8]) align 8 %frame) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %w = zext i32 %t to i64
  %a.in = load ptr, ptr %frame
  %b.at = getelementptr i8, ptr %frame, i64 8
  %b.in = load ptr, ptr %b.at
  %q.at = getelementptr i8, ptr %frame, i64 16
  %q.in = load ptr, ptr %q.at
  %a.k = getelementptr i64, ptr %a.in, i64 %w
  %b.k = getelementptr i64, ptr %b.in, i64 %w
  %q.k = getelementptr i64, ptr %q.in, i64 %w
  %a = load i64, ptr %a.k
  %b = load i64, ptr %b.k
  %q = call i64 @qd_quotient(i64 %a, i64 %b)
  store i64 %q, ptr %q.k
  ret void
}
"""


def test_quotients_of_small_and_large_numbers() -> None:
    """Nests decode places by it (targets/llvm/emit_device.py); threads take either way side by side."""
    generator = np.random.default_rng(4)
    a = generator.integers(0, 1 << 62, 64) >> generator.integers(0, 62, 64)
    b = np.maximum(generator.integers(0, 1 << 62, 64) >> generator.integers(20, 62, 64), 1)
    a[:4], b[:4] = [(1 << 32) - 1, 1 << 32, (1 << 62) + 5, 7], [1, 3, (1 << 33) + 1, 1 << 40]
    text = optimise.assembly(QUOTIENTS + QUOTIENT, machine_of(80), 2)
    assert "div.u32" in text and "div.u64" in text
    found = run(text, 64, a, b, np.zeros(64, np.int64))[2]
    assert (found == a // b).all() and (a >> 32).any() and not (a >> 32).all()
