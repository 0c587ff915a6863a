"""`mma.sync` in the interpreter of PTX: what lanes hold of matrices, against NumPy's products."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from quadrants.evidence.ptx.machine import Loaded, Machine
from quadrants.evidence.ptx.memory import Memory
from quadrants.evidence.ptx.warps import WarpError
from quadrants.ir.fragments import LEFT, RIGHT, SUMS

pytestmark = pytest.mark.slow

SHAPES = {"f16": ("m16n8k16", 16), "bf16": ("m16n8k16", 16), "tf32": ("m16n8k8", 8)}


def text_of(kind: str, early: str = "") -> str:
    """Each lane loads its ten registers, multiplies, and stores four of f32."""
    loads = "".join([f"ld.global.b32 %r{k}, [%in+{4 * k}];\n" for k in range(10)])
    stores = "".join([f"st.global.b32 [%out+{4 * k}], %r{10 + k};\n" for k in range(4)])
    shape = SHAPES[kind][0]
    return f""".version 8.3
.target sm_80
.address_size 64
.visible .entry k(
	.param .align 8 .b8 k_param_0[16]
)
{{
	.reg .pred %p<2>;
	.reg .b32 %r<16>;
	.reg .b64 %in;
	.reg .b64 %out;
	.reg .b64 %by<2>;
	mov.u32 %r15, %tid.x;
	ld.param.b64 %in, [k_param_0];
	ld.param.b64 %out, [k_param_0+8];
	mul.wide.u32 %by0, %r15, 40;
	mul.wide.u32 %by1, %r15, 16;
	add.s64 %in, %in, %by0;
	add.s64 %out, %out, %by1;
	{early}
	{loads}
	mma.sync.aligned.{shape}.row.col.f32.{kind}.{kind}.f32
		{{%r10, %r11, %r12, %r13}},
		{{%r0, %r1, %r2, %r3}},
		{{%r4, %r5}},
		{{%r6, %r7, %r8, %r9}};
	{stores}
$end:
	ret;
}}
"""


def packed(kind: str, values: list[float]) -> bytes:
    """Registers of factors."""
    numbers = np.array(values, np.float32)
    if kind == "f16":
        return numbers.astype(np.float16).tobytes()
    return numbers.tobytes() if kind == "tf32" else (numbers.view(np.uint32) >> 16).astype(np.uint16).tobytes()


def run(kind: str, early: str = "", warps: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """What the lanes of two warps get, and what they should, for matrices of whole numbers."""
    depth = SHAPES[kind][1]
    generator = np.random.default_rng(3)
    registers, expected = b"", []
    for _ in range(warps):
        a, b, c = (generator.integers(-9, 9, s).astype(np.float32) for s in ((16, depth), (depth, 8), (16, 8)))
        d = a @ b + c
        for lane in range(32):
            g, q = divmod(lane, 4)
            left = [a[x * g + y, z * q + w] for x, y, z, w in LEFT[depth]]
            right = [b[x * q + y, g] for x, y in RIGHT[depth]]
            sums = [c[g + x, 2 * q + y] for x, y in SUMS]
            registers += packed(kind, left) + packed(kind, right) + np.array(sums, np.float32).tobytes()
            expected.append([d[g + x, 2 * q + y] for x, y in SUMS])
    machine = Machine(Memory(1 << 20))
    loaded = Loaded(machine, text_of(kind, early))
    given, taken = machine.memory.allocate(len(registers)), machine.memory.allocate(16 * 32 * warps)
    given.write(0, registers)
    frame = struct.pack("<2Q", given.address, taken.address)
    machine.launch(loaded, loaded.kernel("k"), 1, 32 * warps, frame)
    assert machine.loads["global"] == 10 * 32 * warps
    found: Any = np.frombuffer(taken.read(0, 16 * 32 * warps), np.float32).reshape(-1, 4)
    return found, np.array(expected, np.float32)


@pytest.mark.parametrize("kind", SHAPES)
def test_lanes_multiply_the_matrices_that_they_hold(kind: str) -> None:
    found, expected = run(kind)
    assert (found == expected).all()


def test_a_lane_that_is_elsewhere_is_told() -> None:
    with pytest.raises(WarpError, match="lanes of a warp"):
        run("f16", "setp.gt.u32 %p0, %r15, 40;\n@%p0 bra $end;")
