"""Shared memory beyond the 48 KiB that kernels may declare: launches ask for it, of GPUs that have it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsRuntimeError, QuadrantsUnsupportedError
from quadrants.evidence.ptx.assemble import assemble, assembler
from quadrants.evidence.ptx.bindings import Bindings, Result
from quadrants.evidence.ptx.driver import PlayedDriver
from quadrants.evidence.ptx.memory import Memory, Piece, Window
from quadrants.targets.llvm.cuda import drivers, target
from quadrants.targets.llvm.cuda.compile import SHARED_MEMORY

block = qd.simt.block
KIB = 1 << 10


@contextmanager
def started(driver: PlayedDriver, **options: Any) -> Iterator[PlayedDriver]:
    with drivers.using(driver):
        qd.init(arch=qd.cuda, default_ip=qd.i32, log_level=qd.ERROR, **options)
        yield driver
        qd.reset()


def turning(rows: int) -> Callable[..., None]:
    """A kernel that turns each block of 64 numbers around, by way of the last of `rows` lines of 256 bytes in two arrays."""
    half = rows // 2

    def turned(x: qd.types.ndarray(), y: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            t = block.thread_idx()
            first = block.SharedArray((half, 64), qd.f32)
            last = block.SharedArray((rows - half, 64), qd.f32)  # the larger one
            first[half - 1, t] = x[i]
            last[rows - half - 1, t] = 2 * x[i]
            block.sync()
            y[i] = first[half - 1, 63 - t] + last[rows - half - 1, 63 - t]

    return turned


def numbers(size: int = 256) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(size, dtype=np.float32), np.zeros(size, np.float32)


def is_turned(x: np.ndarray, y: np.ndarray) -> bool:
    return bool((y.reshape(-1, 64) == 3 * x.reshape(-1, 64)[:, ::-1]).all())


@pytest.mark.parametrize(
    "sm", [75, 80, pytest.param(90, marks=pytest.mark.slow), pytest.param(120, marks=pytest.mark.slow)]
)
def test_blocks_share_as_much_as_the_gpu_has(sm: int) -> None:
    size = SHARED_MEMORY[sm] * KIB
    with started(PlayedDriver(sm)) as driver:
        kernel, (x, y) = qd.kernel(turning(size // 256)), numbers()
        for _ in range(2):
            y[:] = 0
            kernel(x, y)
            assert is_turned(x, y)
        calls = driver.bindings.calls
        assert driver.bindings.asked == [size] * 2 and calls.count("cuFuncSetAttribute") == 1
        assert calls.index("cuFuncSetAttribute") < calls.index("cuLaunchKernel")
        (text,) = driver.texts
        assert f"which share {size} bytes" in kernel.report()
    assert text.count(".shared .align") == 1 and ".extern .shared .align 16 .b8 qd_asked[];" in text
    if assembler():
        (usage,) = assemble(text, sm)
        assert usage.shared == 0 and usage.stack == 0 and usage.registers <= 32


def test_what_a_gpu_has_not_is_refused_with_the_line_and_the_way_out() -> None:
    function, (x, y) = turning(257), numbers()
    with started(PlayedDriver(75)):
        with pytest.raises(QuadrantsUnsupportedError) as caught:
            qd.kernel(function)(x, y)
        assert caught.value.location is not None
        assert caught.value.location.line == function.__code__.co_firstlineno + 5
        told = str(caught.value)
        assert "a block shares 65792 bytes, and the target cuda has 65536 on this machine" in told
        assert "last = block.SharedArray" in told and "serialize=True" in told


def test_the_way_out_is_one() -> None:
    def in_turn(x: qd.types.ndarray(), y: qd.types.ndarray()):
        qd.loop_config(block_dim=64, serialize=True)
        for i in range(len(x)):
            t = block.thread_idx()
            held = block.SharedArray((257, 64), qd.f32)
            held[256, t] = 3 * x[i]
            block.sync()
            y[i] = held[256, 63 - t]

    x, y = numbers(64)
    with started(PlayedDriver(75)) as driver:
        qd.kernel(in_turn)(x, y)
        assert is_turned(x, y) and not any(driver.bindings.asked)


@pytest.mark.parametrize("rows", [192, 193])
def test_kernels_declare_what_they_may(rows: int) -> None:
    with started(PlayedDriver(86)) as driver:
        x, y = numbers()
        qd.kernel(turning(rows))(x, y)
        assert is_turned(x, y)
        declares = rows == 192
        assert driver.bindings.asked == [0 if declares else 193 * 256]
        assert ("cuFuncSetAttribute" not in driver.bindings.calls) == declares
        assert (".extern .shared" not in driver.texts[0]) == declares
    if assembler():
        (usage,) = assemble(driver.texts[0], 86)
        assert usage.shared == (48 * KIB if declares else 0)


def test_kernels_of_one_module_ask_each_for_its_own() -> None:
    """The arrays of all that ask begin at one address."""

    @qd.kernel
    def three(x: qd.types.ndarray(), y: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            small = block.SharedArray(64, qd.f32)
            small[i % 64] = x[i]
            block.sync()
            y[i] = small[63 - i % 64]
        qd.loop_config(block_dim=32)
        for i in range(len(x)):
            large = block.SharedArray((250, 64), qd.f32)
            large[249, 32 + i % 32] = y[i]
            block.sync()
            x[i] = large[249, 63 - i % 32]
        qd.loop_config(block_dim=32)
        for i in range(len(x)):
            larger = block.SharedArray((500, 32), qd.i64)
            larger[499, i % 32] = qd.i64(x[i])
            block.sync()
            y[i] = larger[499, 31 - i % 32]

    x, y = numbers(64)
    with started(PlayedDriver(80)) as driver:
        three(x, y)
        assert driver.bindings.asked == [0, 250 * 256, 500 * 256]
    turned = np.arange(64)[::-1].reshape(2, 32)
    assert (x.reshape(2, 32) == turned[:, ::-1]).all() and (y.reshape(2, 32) == turned).all()


def test_nodes_of_graphs_ask_too() -> None:
    """Made, told by machine code that arguments differ, and made anew."""
    with started(PlayedDriver(80)) as driver:
        kernel = qd.kernel(turning(400), graph=True)
        for size in (64, 64, 128):
            x, y = qd.ndarray(qd.f32, size), qd.ndarray(qd.f32, size)
            x.from_numpy(np.arange(size, dtype=np.float32))
            for _ in range(2):
                kernel(x, y)
            assert is_turned(x.to_numpy(), y.to_numpy())
        assert driver.bindings.asked == [400 * 256] * 6
        calls = driver.bindings.calls
        assert "cuLaunchKernel" not in calls and calls.count("cuGraphLaunch") == 6
        assert calls.count("cuGraphExecKernelNodeSetParams") >= 1 and calls.count("cuFuncSetAttribute") == 1


def test_launches_from_python_ask_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from quadrants.targets.llvm.device_launches import LaunchDevice

    monkeypatch.setattr(LaunchDevice, "host_code", lambda *_: None)
    with started(PlayedDriver(80)) as driver:
        x, y = numbers()
        qd.kernel(turning(400))(x, y)
        assert is_turned(x, y) and driver.bindings.asked == [400 * 256]


def test_the_gpu_is_asked_what_it_has() -> None:
    driver = PlayedDriver(80, shared=80 * KIB)
    with started(driver):
        record = target.record()
        assert record.shared_memory_bytes == 80 * KIB and f"/{80 * KIB}/" in target.surroundings()
        x, y = numbers()
        with pytest.raises(QuadrantsUnsupportedError, match=f"has {80 * KIB}"):
            qd.kernel(turning(321))(x, y)


# What the driver that is played says of launches.

_TEXT = """.version 8.1
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 asked[];
.visible .entry last(
	.param .align 8 .b8 last_param_0[16]
)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<5>;
	DECLARED
	ld.param.u64 %rd1, [last_param_0];
	ld.param.u64 %rd2, [last_param_0+8];
	mov.u64 %rd3, asked;
	add.s64 %rd3, %rd3, %rd2;
	mov.u32 %r1, 7;
	st.shared.u32 [%rd3], %r1;
	ld.shared.u32 %r1, [%rd3];
	st.global.u32 [%rd1], %r1;
	ret;
}
"""
OK, INVALID = Result.CUDA_SUCCESS, Result.CUDA_ERROR_INVALID_VALUE
_ATTRIBUTE = 8


class Player:
    """A GPU that is played, with a kernel that writes a word of what is asked for, at an offset."""

    def __init__(self, declared: int = 0) -> None:
        self.calls = calls = Bindings(86)
        calls.cuInit(0)
        _, self.context = calls.cuDevicePrimaryCtxRetain(0)
        calls.cuCtxSetCurrent(self.context)
        _, self.word = calls.cuMemAlloc(4)
        text = _TEXT.replace("DECLARED", f".shared .align 4 .b8 own[{declared}];" if declared else "")
        self.code, module = calls.cuModuleLoadDataEx(text.encode() + b"\0", 0, [], [])
        self.kernel: int = calls.cuModuleGetFunction(module, b"last")[1] if self.code == OK else 0
        self.again = lambda: calls.cuModuleGetFunction(module, b"last")[1]

    def frame(self, offset: int) -> tuple[int, Any]:
        content = ctypes.create_string_buffer(struct.pack("<2Q", self.word, offset), 16)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(content))
        return ctypes.addressof(pointers), (content, pointers)

    def launch(self, asked: int, offset: int = 0) -> tuple[Result, Result]:
        """What the launch gives, and what waiting for it does."""
        place, keep = self.frame(offset)
        (told,) = self.calls.cuLaunchKernel(self.kernel, 1, 1, 1, 1, 1, 1, asked, 0, place, 0)
        (waited,) = self.calls.cuCtxSynchronize()
        del keep
        return told, waited

    def allow(self, asked: int, attribute: int = _ATTRIBUTE) -> Result:
        return self.calls.cuFuncSetAttribute(self.kernel, attribute, asked)[0]

    def node(self, asked: int) -> tuple[Any, Any]:
        place, keep = self.frame(0)
        told = self.calls.CUDA_KERNEL_NODE_PARAMS()
        told.func, told.kernelParams, told.sharedMemBytes = self.kernel, place, asked
        told.gridDimX = told.gridDimY = told.gridDimZ = told.blockDimX = told.blockDimY = told.blockDimZ = 1
        return told, keep


def test_without_a_word_a_launch_has_48_kib() -> None:
    player = Player()
    assert player.launch(48 * KIB, 48 * KIB - 4) == (OK, OK)
    assert player.launch(48 * KIB + 1) == (INVALID, OK)
    assert player.allow(64 * KIB) == OK and player.again() == player.kernel
    assert player.launch(64 * KIB, 64 * KIB - 4) == (OK, OK)
    assert player.launch(64 * KIB + 1) == (INVALID, OK)


def test_what_a_kernel_declares_counts() -> None:
    player = Player(16 * KIB)
    assert player.launch(32 * KIB) == (OK, OK) and player.launch(32 * KIB + 4) == (INVALID, OK)
    assert player.allow(99 * KIB - 16 * KIB + 1) == INVALID and player.allow(99 * KIB - 16 * KIB) == OK
    assert player.launch(83 * KIB, 83 * KIB - 4) == (OK, OK)
    assert Player(48 * KIB).code == OK and Player(48 * KIB + 4).code == Result.CUDA_ERROR_INVALID_PTX


def test_more_than_the_device_has_cannot_be_asked_for() -> None:
    player = Player()
    assert player.calls.cuDeviceGetAttribute(Bindings.CUdevice_attribute(97), 0) == (OK, 99 * KIB)
    assert player.allow(99 * KIB) == OK and player.allow(99 * KIB + 1) == INVALID
    assert player.allow(-1) == INVALID and player.allow(0, attribute=9) == INVALID
    assert player.calls.cuFuncSetAttribute(player.kernel + 16, _ATTRIBUTE, 0) == (Result.CUDA_ERROR_INVALID_HANDLE,)


def test_what_was_not_asked_for_is_not_there() -> None:
    player = Player()
    assert player.launch(1 * KIB, 1 * KIB) == (OK, Result.CUDA_ERROR_ILLEGAL_ADDRESS)


def test_of_an_earlier_launch_nothing_is_left() -> None:
    player = Player()
    assert player.launch(2 * KIB, 2 * KIB - 4) == (OK, OK)
    assert player.launch(1 * KIB, 2 * KIB - 4) == (OK, Result.CUDA_ERROR_ILLEGAL_ADDRESS)


def test_shared_memory_has_addresses_that_descriptors_hold() -> None:
    """Products of matrices count within what they are given: on a GPU all of it lies below 256 KiB."""
    memory = Memory(1 << 26)
    kept: list[Piece] = []
    for size in (300, 227 * KIB, 5000, 48 * KIB, 40 * KIB, 48 * KIB, 227 * KIB):
        kept.append(memory.allocate(size + 64 * KIB))
        piece = memory.allocate(size, shared=True)
        kept.append(piece)
        assert piece.address >> 18 == piece.address + size - 1 >> 18
    windows = [Window(memory, 227 * KIB) for _ in range(5)]
    assert all(window.address >> 18 == window.address + 227 * KIB - 1 >> 18 for window in windows)
    assert len({piece.address for piece in [*kept, *windows]}) == len(kept) + 5


def test_nodes_are_looked_at_like_launches() -> None:
    player, calls = Player(), Bindings
    calls = player.calls
    _, graph = calls.cuGraphCreate(0)
    (told, keep), (large, kept) = player.node(48 * KIB), player.node(48 * KIB + 16)
    code, node = calls.cuGraphAddKernelNode(graph, [], 0, told)
    assert code == OK and calls.cuGraphAddKernelNode(graph, [], 0, large) == (INVALID, 0)
    _, ready = calls.cuGraphInstantiate(graph, 0)
    assert calls.cuGraphExecKernelNodeSetParams(ready, node, large) == (INVALID,)
    assert player.allow(64 * KIB) == OK
    assert calls.cuGraphExecKernelNodeSetParams(ready, node, large) == (OK,)
    assert calls.cuGraphLaunch(ready, 0) == (OK,) and calls.cuCtxSynchronize() == (OK,)
    assert calls.asked == [48 * KIB + 16]
    del keep, kept


def test_a_driver_that_gives_less_than_it_says_is_told() -> None:
    driver = PlayedDriver(80)
    with started(driver):
        driver.bindings.shared = 64 * KIB
        x, y = numbers()
        with pytest.raises(QuadrantsRuntimeError, match="cuFuncSetAttribute"):
            qd.kernel(turning(400))(x, y)
