"""Code objects for every processor: what they take of a GPU, and which instructions they are made of. None of it is executed."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsInternalError, QuadrantsUnsupportedError
from quadrants.evidence.amdgpu.driver import AssemblingDriver, assembled, unexplained_spills
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.amdgpu import compile, lld
from quadrants.targets.llvm.amdgpu.metadata import unpack, usage

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(lld.missing()), reason=lld.missing())]
ENTRIES = (1.0, 3.0, 5.0, 7.0)


@pytest.fixture(params=compile.PROCESSORS)
def driver(request: pytest.FixtureRequest) -> Iterator[AssemblingDriver]:
    """The target on one processor."""
    with assembled(request.param) as found:
        qd.init(arch=qd.amdgpu)
        yield found
        qd.reset()


def instructions(driver: AssemblingDriver) -> list[str]:
    """The mnemonics of what was compiled last."""
    assembly = optimise.assembly(driver.made[-1].text, compile.machine_of(driver.processor), 2)
    return re.findall(r"^\s+([a-z]\w+)\s", assembly, re.MULTILINE)


def named(found: list[str], *stems: str) -> list[str]:
    return [name for name in found if name.startswith(stems)]


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    return qd.kernel(function)(*arguments)


def saxpy(a: qd.types.ndarray(), b: qd.types.ndarray(), x: float):
    for i in range(a.shape[0]):
        a[i] = a[i] * x + b[i]


def total(a: qd.types.ndarray(), out: qd.types.ndarray()):
    for i in range(a.shape[0]):
        out[int(a[i]) & 3] += a[i]


def body(a: qd.types.ndarray()):
    for i in range(a.shape[0]):
        m = qd.Matrix([[a[i], 1.0, 0.0], [1.0, a[i] + 2.0, 1.0], [0.0, 1.0, a[i] + 4.0]])
        inverse = m.inverse()
        a[i] = qd.sin(inverse[0, 0]) + qd.exp(inverse[1, 1]) % 0.5


def test_memory_is_reached_as_the_gpus_own(driver: AssemblingDriver):
    a, b = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    run(saxpy, a, b, 2.0)
    assert (a == np.arange(8) * 2 + 1).all()
    found = instructions(driver)
    turns = 1 + 4  # one iteration of a thread, and four at once
    assert len(named(found, "global_load")) == 2 * turns and len(named(found, "global_store")) == turns
    assert not named(found, "flat_", "scratch_", "buffer_load", "buffer_store")
    assert named(found, "v_fma", "v_pk_fma", "v_fmac", "v_dual_fmac") and not named(found, "v_mul_f32")
    (kernel,) = driver.made[-1].usage
    assert kernel.wave == compile.PROCESSORS[driver.processor] and kernel.block == 256
    assert kernel.vgprs <= 32 and kernel.stack_bytes == 0 and not kernel.dynamic_stack
    assert (kernel.vgpr_spills, kernel.sgpr_spills) == (0, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_sums_that_meet_are_single_instructions_where_they_keep_denormals(driver: AssemblingDriver, dtype: type):
    run(total, np.arange(8).astype(dtype), np.zeros(4, dtype))
    native = (
        np.dtype(dtype).kind == "i" or f"f{8 * np.dtype(dtype).itemsize}" in compile.FLOAT_ATOMICS[driver.processor]
    )
    swaps = named(instructions(driver), "global_atomic_cmpswap", "flat_atomic_cmpswap")
    assert (not swaps) == native


def test_larger_bodies_spill_nothing(driver: AssemblingDriver):
    run(body, np.arange(8, dtype=np.float32))
    assert not unexplained_spills(driver.made)
    assert all(not kernel.vgpr_spills for made in driver.made for kernel in made.usage)


def test_checks_prints_and_arrays_of_a_thread(driver: AssemblingDriver, capsys: pytest.CaptureFixture[str]):
    def checked(a: qd.types.ndarray()):
        for i in range(a.shape[0]):
            row = qd.Vector([1.0, 2.0, 3.0, 4.0])
            row[int(a[i]) & 3] += 1.0
            assert a[i] < 100.0
            if a[i] > 6.5:
                print("large", a[i])
            a[i] = row[(i + 1) & 3] + qd.lookup(qd.static(ENTRIES), i & 3, qd.f32)

    qd.init(arch=qd.amdgpu, debug=True)
    run(checked, np.arange(8, dtype=np.float32))
    made = driver.made[-1]
    assert made.messages and made.prints and b"qd_state" in made.code


def test_code_objects_are_of_version_five(driver: AssemblingDriver):
    run(saxpy, np.zeros(4, np.float32), np.zeros(4, np.float32), 1.0)
    code = driver.made[-1].code
    assert code[7] == 64 and code[8] == 3  # the ABI is HSA's, its version that of code objects 5
    assert usage(code) == driver.made[-1].usage


def test_recursion_is_refused_at_its_line(driver: AssemblingDriver):
    @qd.func
    def steps(n: int) -> int:
        result = 0
        if n > 1:
            result = 1 + steps(n // 2)
        return result

    def counting(a: qd.types.ndarray()):
        for i in range(a.shape[0]):
            a[i] = steps(a[i])

    with pytest.raises(QuadrantsUnsupportedError, match=r"test_assembled.py:\d+:\d+: functions that call themselves"):
        run(counting, np.arange(4))


def test_intrinsics_that_llvm_may_die_of_do_not_reach_it(driver: AssemblingDriver, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compile, "_INTRINSICS", re.compile("llvm.amdgcn"))
    with pytest.raises(QuadrantsInternalError, match=r"the intrinsic llvm\.\S+ is not known"):
        run(saxpy, np.zeros(4, np.float32), np.zeros(4, np.float32), 1.0)


def test_the_linker_refuses_what_nothing_defines():
    machine = compile.machine_of("gfx942")
    text = f"""target datalayout = "{optimise.data_layout(machine)}"
target triple = "{machine.triple}"
declare void @elsewhere()
define amdgpu_kernel void @k() {{
  call void @elsewhere()
  ret void
}}
"""
    with pytest.raises(QuadrantsInternalError, match="elsewhere"):
        lld.link(optimise.compile_text(text, machine, 2))


def test_message_pack():
    text = b"\x84\xa1a\x01\xa1b\xff\xa1c\x93\xc0\xc2\xc3\xd9\x02de\xce\x00\x01\x00\x00"
    assert unpack(text) == {"a": 1, "b": -1, "c": [None, False, True], "de": 65536}
    assert unpack(b"\xdc\x00\x02\xcd\x01\x00\xcb" + struct.pack(">d", 1.5)) == [256, 1.5]
    assert unpack(b"\xc4\x02xy") == b"xy" and unpack(b"\xde\x00\x01\x01\xd0\xfe") == {1: -2}
    with pytest.raises(ValueError, match="0xc1"):
        unpack(b"\xc1")
    with pytest.raises(ValueError, match="ELF"):
        usage(b"nothing of the kind")


def test_loads_of_many_neighbours_are_not_all_on_their_way_at_once(driver: AssemblingDriver):
    n = 6
    x, v = qd.Vector.field(3, qd.f32, 2), qd.Vector.field(3, qd.f32, 2)
    c = qd.Matrix.field(3, 3, qd.f32, 2)
    g = qd.Vector.field(3, qd.f32, (n, n, n))

    @qd.kernel
    def gather():
        for p in x:
            base = (x[p] * n - 0.5).cast(int)
            fx = x[p] * n - base.cast(float)
            w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2]
            total = qd.Vector.zero(float, 3)
            spread = qd.Matrix.zero(float, 3, 3)
            for i, j, k in qd.static(qd.ndrange(3, 3, 3)):
                offset = qd.Vector([i, j, k])
                weight = w[i][0] * w[j][1] * w[k][2]
                total += weight * g[base + offset]
                spread += 4 * weight * g[base + offset].outer_product(offset.cast(float) - fx)
            v[p], c[p] = total, spread
            x[p] += 0.01 * v[p]

    x.fill(0.5)
    gather()
    assert all(not kernel.vgpr_spills and kernel.vgprs <= 192 for made in driver.made for kernel in made.usage)


def test_loops_of_constant_size_have_blocks_of_that_size(driver: AssemblingDriver):
    y = np.zeros((16, 6), np.int32)

    @qd.kernel
    def fill(y: qd.types.ndarray()):
        qd.loop_config(serialize=False)
        for i, j in qd.ndrange(16, 6):
            y[i, j] = i + 16 * j

    fill(y)
    assert (y == np.arange(16)[:, None] + 16 * np.arange(6)).all()
    (kernel,) = driver.made[-1].usage
    assert kernel.block == 96
    assert not named(instructions(driver), "s_cbranch", "v_cmp", "s_cmp", "v_rcp")
