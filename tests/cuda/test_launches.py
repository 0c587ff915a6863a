"""Launches on a GPU that is played: checks, prints, and the calls of NVIDIA's driver."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsRuntimeError
from quadrants.evidence.ptx.bindings import Bindings, Result
from quadrants.evidence.ptx.driver import PlayedDriver, played
from quadrants.targets.llvm import device_tasks
from quadrants.targets.llvm.cuda import drivers
from quadrants.targets.llvm.cuda.nvidia import NvidiaDriver

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _without_options() -> Iterator[None]:
    yield
    drivers.use(None)
    qd.reset()


@pytest.fixture
def driver() -> Iterator[PlayedDriver]:
    with played() as found:
        yield found


@qd.kernel
def guarded(x, out):
    for i in range(x.shape[0]):
        assert x[i] >= 0, f"element {i} is {x[i]}"
        out[i] = qd.sqrt(x[i])
    for i in range(x.shape[0]):
        out[i] += 1


def test_a_failed_check_stops_the_tasks_behind_it(driver: PlayedDriver) -> None:
    qd.init(arch=qd.cuda, debug=True)
    x, out = np.array([4.0, -1.0, 9.0], np.float32), np.zeros(3, np.float32)
    with pytest.raises(AssertionError, match=r"element 1 is -1(\.0)?\n  in kernel guarded"):
        guarded(x, out)
    assert out.tolist() == [2, 0, 3]
    guarded(np.abs(x), out)
    assert out.tolist() == [3, 2, 4]


def test_an_index_out_of_range_names_the_array(driver: PlayedDriver) -> None:
    @qd.kernel
    def beyond(x, n: int):
        for i in range(n):
            x[i] = i

    qd.init(arch=qd.cuda, debug=True)
    with pytest.raises(IndexError, match="x"):
        beyond(np.zeros(4), 5)


def test_a_host_loop_hears_of_a_failed_check(driver: PlayedDriver) -> None:
    """The host asks for a number that a task which failed was to change: without word of the failure it would ask for ever."""

    @qd.kernel
    def walk(x):
        while x[0] < 10:
            for i in range(x.shape[0]):
                assert x[i] < 3, "too far"
                x[i] += 1

    qd.init(arch=qd.cuda, debug=True)
    with pytest.raises(AssertionError, match="too far"):
        walk(np.zeros(4, np.int32))
    kept = qd.ndarray(qd.i32, 4)
    kept.fill(0)  # memory that another kernel has asked for
    with pytest.raises(AssertionError, match="too far"):
        walk(kept)


def test_prints_are_those_of_the_records_that_fit(
    driver: PlayedDriver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @qd.kernel
    def tell(n: int):
        for i in range(n):
            print("number", i, 0.5 * i)

    qd.init(arch=qd.cuda, log_level="error")
    tell(3)
    assert capsys.readouterr().out == "number 0 0.0\nnumber 1 0.5\nnumber 2 1.0\n"
    monkeypatch.setattr(device_tasks, "_PRINT_BYTES", 100)
    qd.init(arch=qd.cuda, log_level="error")
    tell(6)
    assert capsys.readouterr().out.splitlines() == [
        *(f"number {i} {0.5 * i}" for i in range(4)),
        "[Quadrants] 48 bytes of what a kernel printed are lost: there is room for 100",
    ]


def test_threads_take_turns_where_there_are_more_iterations(driver: PlayedDriver) -> None:
    @qd.kernel
    def fill(x, y):
        for i, j, k in qd.ndrange(x.shape[0], x.shape[1], x.shape[2]):
            x[i, j, k] = 10000 * i + 100 * j + k
            qd.atomic_add(y[k], 1)

    qd.init(arch=qd.cuda)
    x, y = np.zeros((13, 17, 29), np.int32), np.zeros(29, np.int32)
    fill(x, y)
    i, j, k = np.indices(x.shape)
    assert (x == 10000 * i + 100 * j + k).all() and (y == 13 * 17).all()
    assert driver.machine.threads < x.size


def test_the_calls_of_the_driver() -> None:
    bindings = Bindings(sm=91)
    drivers.use(NvidiaDriver(bindings))
    qd.init(arch=qd.cuda, debug=True)
    x, out = np.array([4.0, 16.0], np.float32), np.zeros(2, np.float32)
    guarded(x, out)
    assert out.tolist() == [3, 5]
    with pytest.raises(AssertionError, match="element 0"):
        guarded(-x, out)
    assert bindings.calls[0] == "cuInit" and "cuLaunchKernel" in bindings.calls
    assert "cuStreamSynchronize" in bindings.calls[bindings.calls.index("cuLaunchKernel") :]
    with pytest.raises(MemoryError, match="no memory left"):
        guarded(np.zeros(1 << 25, np.float32), np.zeros(1 << 25, np.float32))


def test_faults_are_told() -> None:
    drivers.use(NvidiaDriver(Bindings()))
    qd.init(arch=qd.cuda)

    @qd.kernel
    def beyond(x, n: int):
        for i in range(n):
            x[i * 100000] = i

    with pytest.raises(RuntimeError, match=r"ILLEGAL_ADDRESS(.|\n)*has to be started anew"):
        beyond(np.zeros(4), 5)
    qd.init(arch=qd.cpu)  # the processor is still there
    x = np.zeros(4)
    beyond(x, 1)


@qd.kernel
def stray(x, place: int):
    for i in range(x.shape[0]):
        x[i * place] = 1.0


@qd.kernel
def harmless(x):
    for i in range(x.shape[0]):
        x[i] += 1.0


def test_a_fault_is_told_with_the_kernels_that_may_have_caused_it(driver: PlayedDriver) -> None:
    qd.init(arch=qd.cuda, offline_cache=False, log_level="error")
    x, y = qd.ndarray(qd.f32, 8), qd.ndarray(qd.f32, 8)
    for _ in range(3):
        harmless(x)
        stray(y, 1)
    assert x[0] == 3.0
    stray(y, 1000000)
    with pytest.raises(RuntimeError) as found:
        qd.sync()
    line = stray.function.__code__.co_firstlineno + 1
    assert "ILLEGAL_ADDRESS" in str(found.value)
    assert f"launched since the host last waited: stray ({__file__}:{line})" in str(found.value)
    assert "harmless" not in str(found.value)


def test_what_another_thread_launches_during_a_wait_was_not_waited_for(
    driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    qd.init(arch=qd.cuda, offline_cache=False, log_level="error")
    x, y = qd.ndarray(qd.f32, 8), qd.ndarray(qd.f32, 8)
    for _ in range(3):
        harmless(x)
        stray(y, 1)
    qd.sync()
    read_into = driver.read_into

    def meanwhile(*given: Any) -> None:
        read_into(*given)
        stray(y, 1)

    harmless(x)
    with monkeypatch.context() as patch:
        patch.setattr(driver, "read_into", meanwhile)
        assert x[0] == 4.0
    told = str(driver.device.named(QuadrantsRuntimeError("a fault")))
    assert "stray" in told and "harmless" not in told
    qd.sync()
    assert "launched since" not in str(driver.device.named(QuadrantsRuntimeError("a fault")))


def test_what_the_assembler_says_is_told_with_the_kernel_and_the_line(driver: PlayedDriver) -> None:
    qd.init(arch=qd.cuda, offline_cache=False, log_level="error")
    harmless(np.zeros(4, np.float32))
    lines = driver.texts[-1].splitlines()
    number = next(k for k, line in enumerate(lines, 1) if ".entry" in line)
    log = f"ptxas application ptx input, line {number}; error   : Unknown symbol\nptxas fatal   : aborted"
    driver.bindings.refusal = (Result.CUDA_ERROR_INVALID_PTX, log.encode())
    with pytest.raises(RuntimeError) as found:
        stray(np.zeros(4, np.float32), 1)
    told = str(found.value)
    assert "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218)" in told
    assert f"its assembler says: ptxas application ptx input, line {number}; error   : Unknown symbol" in told
    assert f"line {number} of the PTX: .visible .entry task0" in told
    line = stray.function.__code__.co_firstlineno + 1
    assert f"in kernel stray ({__file__}:{line})" in told
    driver.bindings.refusal = (Result.CUDA_ERROR_UNSUPPORTED_PTX_VERSION, b"x" * 100_000)
    with pytest.raises(RuntimeError, match=r"the driver is older than PTX 8\.1: install a newer one"):
        stray(np.zeros(4, np.float32), 1)
    driver.bindings.refusal = None
    stray(np.zeros(4, np.float32), 1)


@qd.func
def depth(n):
    if n > 0:
        return depth(n - 1) + 1
    return 0


@qd.kernel
def deep(x, n: int):
    for i in range(x.shape[0]):
        x[i] = depth(n)


@pytest.mark.filterwarnings("ignore:.*wins over QD_OFFLINE_CACHE")
def test_functions_that_call_themselves_get_a_stack(driver: PlayedDriver, tmp_path: Path) -> None:
    """By itself the driver has 1 KiB a thread for code whose depth it cannot know."""
    for _ in range(2):  # the second time from the disk
        qd.init(arch=qd.cuda, offline_cache=True, offline_cache_file_path=str(tmp_path), log_level="error")
        driver.bindings.limits.clear()
        driver._has_stack = False
        harmless(np.zeros(4, np.float32))
        assert not driver.bindings.limits
        x = np.zeros(40, np.int32)
        deep(x, 20)
        assert x.tolist() == [20] * 40
        threads = 2048 * driver.multiprocessors
        (size,) = driver.bindings.limits.values()
        assert 1024 < size <= 65536 and size * threads <= len(driver.machine.memory.bytes) // 16


def test_a_stack_for_which_there_is_no_memory_is_made_smaller(
    driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def limit(_: int, size: int) -> tuple[Result]:
        asked.append(size)
        return (Result.CUDA_SUCCESS if size <= 4096 else Result.CUDA_ERROR_OUT_OF_MEMORY,)

    monkeypatch.setattr(driver.bindings, "cuDeviceTotalMem", lambda _: (Result.CUDA_SUCCESS, 1 << 40))
    monkeypatch.setattr(driver.bindings, "cuCtxSetLimit", limit)
    driver.allow_recursion()
    assert asked == [1 << 16, 1 << 15, 1 << 14, 1 << 13, 1 << 12]
    driver.allow_recursion()
    assert len(asked) == 5, "once a process"


def test_finalisers_leave_the_context_that_they_find(driver: PlayedDriver) -> None:
    """Another package may be at work on another GPU when the collector comes to memory and graphs of ours."""
    memory = driver.allocate(64)
    driver.bindings._contexts.append(0xBAD)
    try:
        del memory
        gc.collect()
        assert driver.bindings._contexts[-1] == 0xBAD and "cuMemFree" in driver.bindings.calls
    finally:
        driver.bindings._contexts.pop()


def test_memory_that_is_not_there_is_told_with_the_kernel(driver: PlayedDriver) -> None:
    qd.init(arch=qd.cuda, offline_cache=False, log_level="error")
    driver.bindings.left = 1000
    with pytest.raises(MemoryError, match=r"no memory left(.|\n)*in kernel harmless"):
        harmless(np.zeros(1000))
    harmless(np.zeros(10))


def test_codes_that_the_package_does_not_know_are_told(driver: PlayedDriver) -> None:
    """A driver that is newer than the package has more of them."""
    assert "the code 4711, which the package" in str(driver.error_of(4711))

    class Newer(Bindings):
        def cuInit(self, flags: int) -> tuple[Result]:
            return (Result(4711),)

    with pytest.raises(QuadrantsRuntimeError, match="a code that the package cuda-bindings does not know: 4711"):
        NvidiaDriver(Newer())


def test_a_package_that_does_not_go_with_the_driver_is_told() -> None:
    """It looks for the driver's functions when one of them is first called."""

    class Old(Bindings):
        def cuInit(self, flags: int) -> tuple[Result]:
            raise RuntimeError("Failed to get cuGetProcAddress_v2")

    with pytest.raises(
        QuadrantsRuntimeError, match=r"does not go with NVIDIA's driver .*cuGetProcAddress_v2.*cuda-bindings==12"
    ):
        NvidiaDriver(Old())
