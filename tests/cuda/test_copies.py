"""`cp.async`, `ldmatrix` and the banks of shared memory in the interpreter of PTX: what is right, and what it refuses."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from quadrants.evidence.ptx.banks import BankCounter
from quadrants.evidence.ptx.machine import Loaded, Machine
from quadrants.evidence.ptx.memory import Memory, MemoryFault
from quadrants.evidence.ptx.reach import bounded

THREADS = 64
WAIT, SEEN = "cp.async.commit_group;\ncp.async.wait_group 0;\n", "bar.sync 0;\n"


def text_of(body: str) -> str:
    """Thread t has in %own the address of its 16 bytes of shared memory, in %next that of the thread behind it, in %from its 16
    bytes of global memory; what %r0 to %r3 hold in the end is stored."""
    stores = "".join([f"st.global.b32 [%to+{4 * k}], %r{k};\n" for k in range(4)])
    return f""".version 8.3
.target sm_80
.address_size 64
.visible .entry k(
	.param .align 8 .b8 k_param_0[16]
)
{{
	.reg .pred %p<2>;
	.reg .b32 %r<16>;
	.reg .b32 %other;
	.reg .b64 %from;
	.reg .b64 %to;
	.reg .b64 %by;
	.reg .b64 %own;
	.reg .b64 %next;
	.reg .b64 %base;
	.shared .align 16 .b8 memory[{16 * THREADS}];
	mov.u32 %r15, %tid.x;
	ld.param.b64 %from, [k_param_0];
	ld.param.b64 %to, [k_param_0+8];
	mul.wide.u32 %by, %r15, 16;
	add.s64 %from, %from, %by;
	add.s64 %to, %to, %by;
	mov.b64 %base, memory;
	add.s64 %own, %base, %by;
	add.u32 %other, %r15, 1;
	and.b32 %other, %other, {THREADS - 1};
	mul.wide.u32 %by, %other, 16;
	add.s64 %next, %base, %by;
	{body}
	{stores}
	ret;
}}
"""


def run(body: str) -> tuple[np.ndarray, np.ndarray, Machine]:
    """What was given and what is stored, four words a thread."""
    given = np.arange(4 * THREADS, dtype=np.uint32) * 0x10001 + 7
    machine = Machine(Memory(1 << 20))
    machine.banks = BankCounter()
    loaded = Loaded(machine, text_of(body))
    source, target = machine.memory.allocate(given.nbytes), machine.memory.allocate(given.nbytes)
    source.write(0, given.tobytes())
    machine.launch(loaded, loaded.kernel("k"), 1, THREADS, struct.pack("<2Q", source.address, target.address))
    found = np.frombuffer(target.read(0, given.nbytes), np.uint32)
    return given.reshape(-1, 4), found.reshape(-1, 4), machine


COPY = "cp.async.cg.shared.global [%own], [%from], 16;\n"
OWN, NEXT = (f"ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%{name}];\n" for name in ("own", "next"))


def test_a_copy_is_there_for_its_thread_when_waited_for_and_for_others_behind_a_barrier() -> None:
    given, found, _ = run(COPY + WAIT + OWN)
    assert (found == given).all()
    given, found, machine = run(COPY + WAIT + SEEN + NEXT)
    assert (found == np.roll(given, -1, axis=0)).all()
    assert machine.loads["copied"] == THREADS


def test_bytes_that_are_not_copied_are_zero() -> None:
    given, found, _ = run("cp.async.ca.shared.global [%own], [%from], 16, 8;\n" + WAIT + OWN)
    assert (found[:, :2] == given[:, :2]).all() and (found[:, 2:] == 0).all()


def test_groups_are_waited_for_in_order() -> None:
    two = COPY + "cp.async.commit_group;\ncp.async.ca.shared.global [%next], [%from], 4;\ncp.async.commit_group;\n"
    later = "cp.async.wait_group 1;\n"
    other = "add.s64 %from, %from, 0;\n"
    with pytest.raises(MemoryFault, match="another copy"):
        run(two + later + other + OWN)
    half = "cp.async.ca.shared.global [%own], [%from], 8;\ncp.async.commit_group;\n"
    half += "cp.async.ca.shared.global [%own+8], [%from+8], 8;\ncp.async.commit_group;\ncp.async.wait_group 1;\n"
    first = "mov.b32 %r2, 0;\nmov.b32 %r3, 0;\nld.shared.v2.b32 {%r0, %r1}, [%own];\n"
    given, found, _ = run(half + first)
    assert (found[:, :2] == given[:, :2]).all()
    with pytest.raises(MemoryFault, match="nobody has waited"):
        run(half + OWN)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (COPY + OWN, "nobody has waited"),
        (COPY + "cp.async.commit_group;\n" + SEEN + NEXT, "nobody has waited"),
        (COPY + WAIT + NEXT, "without a barrier"),
        (COPY + "st.shared.b32 [%own], %r15;\n" + WAIT + OWN, "nobody has waited"),
        (COPY + WAIT + SEEN + NEXT + COPY + WAIT, "another thread has reached"),
        (COPY + "st.global.b32 [%from], %r15;\n" + WAIT + OWN, "memory changes"),
        ("cp.async.cg.shared.global [%own], [%from+8], 16;\n" + WAIT + OWN, "not aligned"),
        ("cp.async.ca.shared.global [%own], [%from+4096], 16;\n" + WAIT + OWN, "not all allocated"),
    ],
)
def test_what_is_against_the_law_is_told(body: str, message: str) -> None:
    with pytest.raises(MemoryFault, match=message):
        run(body)


def test_copies_are_watched_up_to_their_ends() -> None:
    machine = Machine(Memory(1 << 16))
    piece = machine.memory.allocate(64)
    sources, reach = np.array([piece.address], np.uint64), ((piece.address, piece.address + 8, False),)
    with bounded(machine, reach, [piece]), pytest.raises(MemoryFault, match="reads 16 bytes at .*nothing is said"):
        machine.begin_copies(np.zeros(1, np.uint64), sources, 16, np.array([16]), np.zeros(1, np.int64))


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_loaded_as_lanes_hold_them(transposed: bool) -> None:
    word = ".trans" if transposed else ""
    load = f"ldmatrix.sync.aligned.m8n8.x4{word}.shared.b16 {{%r0, %r1, %r2, %r3}}, [%own];\n"
    given, found, machine = run(COPY + WAIT + SEEN + load)
    rows = given.view(np.uint16).reshape(2, 4, 8, 8)  # warp, matrix, row, column
    lanes = np.arange(32)
    for warp in range(2):
        for matrix in range(4):
            one = rows[warp, matrix].T if transposed else rows[warp, matrix]
            for k in range(2):
                expected = one[lanes // 4, 2 * (lanes % 4) + k]
                assert (found.view(np.uint16).reshape(2, 32, 4, 2)[warp, :, matrix, k] == expected).all()
    assert machine.banks is not None and machine.banks.passes["matrix"] == machine.banks.least["matrix"] == 8


def test_matrices_of_what_only_their_threads_see_are_refused() -> None:
    with pytest.raises(MemoryFault, match="without a barrier"):
        run(COPY + WAIT + "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%own];\n")


@pytest.mark.parametrize(
    ("stride", "size", "passes", "least"),
    [
        (4, 4, 1, 1),
        (8, 4, 2, 1),
        (128, 4, 32, 1),
        (0, 4, 1, 1),
        (8, 8, 2, 2),
        (16, 16, 4, 4),
        (32, 16, 8, 4),
        (2, 2, 1, 1),
    ],
)
def test_passes_follow_from_banks(stride: int, size: int, passes: int, least: int) -> None:
    counter = BankCounter()
    threads = np.arange(32, dtype=np.uint32)
    counter.note("load", threads.astype(np.uint64) * np.uint64(stride), size, threads)
    assert (counter.passes["load"], counter.least["load"]) == (passes, least)
    assert counter.conflicts == passes - least
