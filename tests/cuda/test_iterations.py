"""Plain loops on CUDA: several iterations of a thread load at once, and what nobody writes is read as constant."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.ptx.driver import played
from quadrants.evidence.ptx.machine import Loaded, Machine
from quadrants.evidence.ptx.memory import Memory, MemoryFault

pytestmark = pytest.mark.slow


def saxpy(y, a, x):
    for i in range(y.shape[0]):
        y[i] += a * x[i]


def shifted(y, x, z):
    for i, j in qd.ndrange((1, y.shape[0]), (2, y.shape[1])):
        y[i, j] = x[i - 1, j] - x[i, j - 2]
        z[i, j] = 2 * z[i, j] + y[i, j]


def counted(y, x):
    for i in range(x.shape[0]):
        y[x[i]] += 1


def halves(y, x):
    for i in range(x.shape[0]):
        if x[i] > 0:
            y[i] = x[i] / 2


def indirect(y, z, x, here, there):
    qd.loop_config(serialize=False)
    for i in range(x.shape[0]):
        y[here[i]] = x[i]
        z[i] = 2 * y[there[i]]


def eleven(y, x):
    for i in range(y.shape[0]):
        s = 0 * x[0, i]
        for k in qd.static(range(11)):
            s += x[k, i]
        y[i] = s


def run(function: Callable[..., Any], *arguments: Any) -> tuple[str, dict[str, float]]:
    """The code, and what threads executed, by kind, on a GPU of so few multiprocessors that a thread has several iterations."""
    with played(80) as driver:
        driver.multiprocessors = 1
        qd.init(arch=qd.cuda, default_ip=qd.i64, default_fp=qd.f64, offline_cache=False)
        driver.machine.counts_instructions = True
        qd.kernel(function)(*arguments)
        driver.synchronise()
        machine = driver.machine
    qd.reset()
    return driver.texts[0], {kind: count / machine.threads for kind, count in machine.executed.items()}


@pytest.mark.parametrize("size", [1, 2047, 2048, 8192, 8193, 20_000])
def test_iterations_are_done_once(size: int) -> None:
    x, y = np.arange(size, dtype=np.float32), np.ones(size, np.float32)
    run(saxpy, y, np.float32(2), x)
    assert (y == 1 + 2 * x).all()


@pytest.mark.parametrize("shape", [(3, 5), (65, 301), (200, 7), (2, 9000)])
def test_counters_of_several_iterations_are_carried_on(shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(1)
    x, y, z = (generator.integers(-9, 9, shape).astype(np.float32) for _ in range(3))
    expected_y, expected_z = y.copy(), z.copy()
    expected_y[1:, 2:] = x[:-1, 2:] - x[1:, :-2]
    expected_z[1:, 2:] = 2 * z[1:, 2:] + expected_y[1:, 2:]
    run(shifted, y, x, z)
    assert (y == expected_y).all() and (z == expected_z).all()


def test_four_iterations_load_before_one_stores() -> None:
    size = 4 * 8 * 256
    x, y = np.arange(size, dtype=np.float32), np.ones(size, np.float32)
    text, each = run(saxpy, y, np.float32(2), x)
    accesses = re.findall(r"(ld\.global\.nc|ld\.global|st\.global)", text)
    assert accesses[:12].count("st.global") == 4 and accesses[8:12] == ["st.global"] * 4
    assert each["ld.global"] == 8 and each["st.global"] == 4
    assert sum(each.values()) <= 66


def test_what_an_iteration_stores_is_stored_before_it_loads_that() -> None:
    size = 20_000
    x, place = np.arange(size, dtype=np.float32), np.random.default_rng(2).permutation(size)
    y, z = np.full(size, -1, np.float32), np.zeros(size, np.float32)
    run(indirect, y, z, x, place, place.copy())
    assert (y[place] == x).all() and (z == 2 * x).all()


def test_iterations_that_load_much_are_done_one_by_one() -> None:
    x, y = np.arange(11 * 9000, dtype=np.float32).reshape(11, 9000), np.zeros(9000, np.float32)
    text, _ = run(eleven, y, x)
    assert (y == x.astype(float).sum(0)).all()
    assert len(re.findall(r"ld\.global", text)) == 11


def test_updates_that_meet_are_all_done() -> None:
    x = np.random.default_rng(3).integers(0, 5000, 30_000)
    y = np.zeros(5000, np.int32)
    text, _ = run(counted, y, x)
    assert (y == np.bincount(x, minlength=5000)).all()
    assert "ld.global.nc" in text


def test_iterations_with_branches_are_done_one_by_one() -> None:
    x, y = np.arange(-3000, 3000).astype(np.float32), np.zeros(6000, np.float32)
    run(halves, y, x)
    assert (y == np.maximum(x, 0) / 2).all()


def test_what_is_written_is_not_read_as_constant() -> None:
    x, y = np.arange(3000, dtype=np.float32), np.ones(3000, np.float32)
    text, _ = run(saxpy, y, np.float32(2), x)
    assert text.count("ld.global.nc") == 4 + 1 and len(re.findall(r"ld\.global\.b32", text)) == 4 + 1
    text, _ = run(saxpy, x, np.float32(2), x)
    assert "ld.global.nc" not in text and (x == 3 * np.arange(3000)).all()


def test_the_interpreter_tells_what_is_constant_and_written() -> None:
    text = """.version 8.3
.target sm_80
.address_size 64
.visible .entry k(
	.param .align 8 .b8 k_param_0[8]
)
{
	.reg .b32 %r<2>;
	.reg .b64 %at;
	ld.param.b64 %at, [k_param_0];
	ld.global.nc.b32 %r0, [%at];
	st.global.b32 [%at+OFFSET], %r0;
	ret;
}
"""
    for offset, is_wrong in ((4, False), (0, True)):
        machine = Machine(Memory(1 << 20))
        loaded = Loaded(machine, text.replace("OFFSET", str(offset)))
        piece = machine.memory.allocate(8)
        frame = struct.pack("<Q", piece.address)
        if is_wrong:
            with pytest.raises(MemoryFault, match="read as constant is written"):
                machine.launch(loaded, loaded.kernel("k"), 1, 1, frame)
        else:
            machine.launch(loaded, loaded.kernel("k"), 1, 1, frame)
