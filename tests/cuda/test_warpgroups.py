"""`wgmma` in the interpreter of PTX: descriptors, what threads hold, and the laws of what goes on meanwhile."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from quadrants.evidence.ptx.machine import Loaded, Machine, Trap
from quadrants.evidence.ptx.memory import Memory
from quadrants.evidence.ptx.parse import PtxError
from quadrants.evidence.ptx.warpgroups import WarpgroupError

pytestmark = pytest.mark.slow

COLUMNS = 16
KINDS = {"f16": (2, 16), "bf16": (2, 16), "tf32": (4, 8)}
COPY = "".join(
    [
        f"ld.global.b32 %w, [%in+{512 * k}];\nst.shared.b32 [%to+{512 * k}], %w;\n"
        for k in range((64 + COLUMNS) * 32 // 512)
    ]
)
COPY_OF_ONE = "setp.ge.u32 %p1, %t, 128;\n@%p1 bra $copied;\n" + COPY + "$copied:\n"
SUMS = "{" + ", ".join([f"%s{k}" for k in range(COLUMNS // 2)]) + "}"
FENCES = "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
WAIT = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"


def product(kind: str, turned: tuple[int, int] = (0, 0)) -> str:
    shape = f"m64n{COLUMNS}k{KINDS[kind][1]}"
    flags = "" if kind == "tf32" else f", {turned[0]}, {turned[1]}"
    return f"wgmma.mma_async.sync.aligned.{shape}.f32.{kind}.{kind} {SUMS}, %a, %b, %p0, 1, 1{flags};\n"


def text_of(body: str, copy: str = COPY) -> str:
    """A kernel that copies a picture of shared memory there, has descriptors %a and %b, does something, and stores its sums."""
    stores = "".join([f"st.global.b32 [%out+{4 * k}], %s{k};\n" for k in range(COLUMNS // 2)])
    return f""".version 8.3
.target sm_90a
.address_size 64
.visible .entry k(
	.param .align 8 .b8 k_param_0[32]
)
{{
	.reg .pred %p<2>;
	.reg .b32 %s<{COLUMNS // 2}>;
	.reg .b32 %w;
	.reg .b32 %t;
	.reg .b64 %in;
	.reg .b64 %out;
	.reg .b64 %to;
	.reg .b64 %a;
	.reg .b64 %b;
	.reg .b64 %by;
	.shared .align 16 .b8 memory[{(64 + COLUMNS) * 32}];
	mov.u32 %t, %tid.x;
	ld.param.b64 %in, [k_param_0];
	ld.param.b64 %out, [k_param_0+8];
	mul.wide.u32 %by, %t, 4;
	add.s64 %in, %in, %by;
	mov.b64 %to, memory;
	bfe.u64 %a, %to, 4, 14;
	mov.b64 %b, %a;
	ld.param.b64 %by, [k_param_0+16];
	add.s64 %a, %a, %by;
	ld.param.b64 %by, [k_param_0+24];
	add.s64 %b, %b, %by;
	mul.wide.u32 %by, %t, 4;
	add.s64 %to, %to, %by;
	mul.wide.u32 %by, %t, {2 * COLUMNS};
	add.s64 %out, %out, %by;
	mov.pred %p0, 1;
	{"".join([f"mov.b32 %s{k}, 0;" + chr(10) for k in range(COLUMNS // 2)])}
	{copy}
	{body}
	{stores}
$end:
	ret;
}}
"""


def bits_of(kind: str, matrix: np.ndarray) -> np.ndarray:
    if kind == "f16":
        return matrix.astype(np.float16).view(np.uint16)
    words: Any = matrix.astype(np.float32).view(np.uint32)
    return words if kind == "tf32" else (words >> 16).astype(np.uint16)


def picture(kind: str, matrix: np.ndarray, turned: int) -> tuple[bytes, int, int]:
    """The bytes of a matrix of rows and depths in core matrices, those of the rows one behind the other; offsets of 16 bytes from one
    to the next along the depth and along the rows."""
    size, depth = KINDS[kind]
    line = 16 // size
    bits = bits_of(kind, matrix)
    rows = len(bits)
    if turned:
        cores = bits.reshape(rows // line, line, depth // 8, 8).transpose(2, 0, 3, 1)
    else:
        cores = bits.reshape(rows // 8, 8, depth // line, line).transpose(2, 0, 1, 3)
    assert cores.shape[2:] == (8, line)
    return np.ascontiguousarray(cores).tobytes(), cores.shape[1] * 8, 8


def run(
    kind: str, text: str, turned: tuple[int, int] = (0, 0), threads: int = 128, change: int = 0, times: int = 1
) -> None:
    """Runs a kernel on whole numbers, and looks at what all threads got: `times` the product."""
    generator = np.random.default_rng(7)
    depth = KINDS[kind][1]
    a, b = (generator.integers(-9, 9, (rows, depth)).astype(np.float32) for rows in (64, COLUMNS))
    (left, *of_left), (right, *of_right) = picture(kind, a, turned[0]), picture(kind, b, turned[1])
    descriptors = [
        start | leading << 16 | stride << 32 for start, leading, stride in ((0, *of_left), (len(left) // 16, *of_right))
    ]
    machine = Machine(Memory(1 << 20))
    loaded = Loaded(machine, text)
    given, taken = machine.memory.allocate(len(left + right)), machine.memory.allocate(2 * COLUMNS * threads)
    given.write(0, left + right)
    frame = struct.pack("<4Q", given.address, taken.address, descriptors[0] ^ change, descriptors[1])
    machine.launch(loaded, loaded.kernel("k"), 1, threads, frame)
    found: Any = np.frombuffer(taken.read(0, 2 * COLUMNS * 128), np.float32).reshape(4, 8, 4, COLUMNS // 8, 2, 2)
    # warp, lane's row, lane's columns, columns of eight, row of eight, neighbour
    matrix = found.transpose(0, 4, 1, 3, 2, 5).reshape(64, COLUMNS)
    assert (matrix == times * (a @ b.T)).all()


@pytest.mark.parametrize(
    ("kind", "turned"),
    [(kind, (a, b)) for kind in ("f16", "bf16") for a in (0, 1) for b in (0, 1)] + [("tf32", (0, 0))],
)
def test_warpgroups_multiply_what_descriptors_describe(kind: str, turned: tuple[int, int]) -> None:
    run(kind, text_of(f"{FENCES}wgmma.fence.sync.aligned;\n{product(kind, turned)}{WAIT}"), turned)


def test_sums_are_added_to_what_there_is_if_asked() -> None:
    once = product("f16")
    zeroed = "setp.eq.u32 %p0, %t, 1000;\n"
    start = f"{FENCES}wgmma.fence.sync.aligned;\n{once}"
    run("f16", text_of(f"{start}{once}{WAIT}"), times=2)
    run("f16", text_of(f"{start}{zeroed}{once}{WAIT}"), times=1)


GOOD = f"{FENCES}wgmma.fence.sync.aligned;\n{product('f16')}{WAIT}"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("fence.proxy.async.shared::cta;", "", "without fence.proxy.async"),
        ("bar.sync 0;", "", "fenced without a barrier"),
        (FENCES, "bar.sync 0;\nfence.proxy.async.shared::cta;\n", "fenced without a barrier"),
        ("wgmma.commit", "st.shared.b32 [%to], %w;\nwgmma.commit", "that products in flight read"),
        (WAIT, "wgmma.commit_group.sync.aligned;\nst.shared.b32 [%to], %w;\n" + WAIT, "that products in flight read"),
        (", %b, %p0", ", %to, %p0", "different descriptors"),
    ],
)
def test_memory_that_is_not_ready_is_told(old: str, new: str, reason: str) -> None:
    assert old in GOOD
    with pytest.raises(WarpgroupError, match=reason):
        run("f16", text_of(GOOD.replace(old, new)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [(1 << 62, "swizzled"), (1 << 46, "reserved"), (0x2000, "no shared memory"), (1 << 39, "outside of shared memory")],
)
def test_descriptors_that_are_wrong_are_told(change: int, reason: str) -> None:
    with pytest.raises(WarpgroupError, match=reason):
        run("f16", text_of(GOOD), change=change)


def test_memory_that_nobody_wrote_is_told() -> None:
    with pytest.raises(WarpgroupError, match="is not written"):
        run("f16", text_of(GOOD, COPY[: COPY.rindex("ld.global")]))


def test_another_warpgroup_writes_behind_a_barrier_only() -> None:
    late = "setp.lt.u32 %p1, %t, 128;\n@%p1 bra $late;\nst.shared.b32 [%to+-512], %w;\n$late:\n"
    with pytest.raises(WarpgroupError, match="another warpgroup read"):
        run("f16", text_of(GOOD + late, COPY_OF_ONE), threads=256)
    run("f16", text_of(GOOD + "bar.sync 0;\n" + late, COPY_OF_ONE), threads=256)


def test_threads_that_are_elsewhere_are_told() -> None:
    with pytest.raises(WarpgroupError, match="are not at the instruction"):
        run("f16", text_of(GOOD, COPY_OF_ONE), threads=160)
    early = "setp.gt.u32 %p1, %t, 100;\n@%p1 bra $end;\n"
    with pytest.raises(Trap, match="not all its threads"):
        run("f16", text_of(FENCES + early + GOOD.removeprefix(FENCES)))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("wgmma.fence.sync.aligned;\n", "", "no wgmma.fence stands"),
        ("wgmma.fence.sync.aligned;\n", "wgmma.fence.sync.aligned;\nmov.b32 %s3, 0;\n", "%s3 was touched"),
        ("wgmma.commit", "add.u32 %s1, %s1, 1;\nwgmma.commit", "add.u32 touches %s1"),
        ("wait_group.sync.aligned 0", "wait_group.sync.aligned 1", "touches %s0"),
        ("wgmma.commit_group.sync.aligned;\n", "", "touches %s0"),
        (WAIT, product("f16").replace("%s0, %s1", "%s1, %s0") + WAIT, "of another shape"),
        ("wgmma.commit", "@%p0 bra $end;\nwgmma.commit", "in flight at the end"),
    ],
)
def test_registers_that_are_touched_too_early_are_told(old: str, new: str, reason: str) -> None:
    assert old in GOOD
    with pytest.raises(PtxError, match=reason):
        run("f16", text_of(GOOD.replace(old, new)))
