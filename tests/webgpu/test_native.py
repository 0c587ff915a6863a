"""Launches by machine code: what they cost, and that they do what the interpreter's do."""

from __future__ import annotations

import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from tests.cuda.test_interrupts import interrupted
from tests.run import test_arrays, test_control_flow, test_functions, test_vectors
from tests.watching import watched

import quadrants as qd
from quadrants import knobs
from quadrants.evidence.programs import Program, TargetExecutor, disagreement
from quadrants.runtime import launch
from quadrants.targets import table
from quadrants.targets.webgpu import native as native_module
from quadrants.targets.webgpu.device import WebDevice

from .conftest import SMALL, Opened

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not launch.is_native() or knobs.host_arch() is not knobs.Arch.x64, reason="no launcher here"),
]

PROGRAMS: list[Program] = [
    *test_arrays.PROGRAMS,
    *test_control_flow.PROGRAMS,
    *test_functions.PROGRAMS,
    *test_vectors.PROGRAMS,
]
RECURSIVE = (
    "recursive_fibonacci",
    "recursive_ackermann",
    "recursion_in_a_parallel_loop",
    "functions_in_a_tuple",
    "call_as_a_statement",
)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code is made of the first run on."""
    monkeypatch.setattr(WebDevice, "patience", 0)


@pytest.fixture
def device(opened: Opened, eager: None) -> WebDevice:
    return opened({})


def test_reports_are_as_before(opened: Opened) -> None:
    opened({})
    x = qd.ndarray(qd.f32, 64)
    kernel = qd.kernel(_one)
    kernel(x, 1.0)
    before = kernel.report().split("\n")[:-1]
    for _ in range(WebDevice.patience + 1):
        kernel(x, 1.0)
    assert kernel._compiled_last().device is not None
    assert kernel.report().split("\n")[:-1] == before


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("item", [item for item in PROGRAMS if item.name not in RECURSIVE], ids=lambda item: item.name)
def test_programs(item: Program) -> None:
    if reason := table.missing(knobs.Arch.vulkan):
        pytest.skip(reason)
    assert not disagreement(item, TargetExecutor("vulkan", "vulkan", enable_fallback=False))


def _on_device(data: Any, dtype: Any) -> Any:
    array = qd.ndarray(dtype, shape=data.shape)
    array.from_numpy(data)
    return array


def _calls(launches: Callable[[], object], times: int) -> tuple[Counter[str], float]:
    """The functions of Python that are entered, by name, but those of `wgpu` and what it calls, for each time."""
    found: Counter[str] = Counter()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and "/wgpu/" not in file and "/cffi/" not in file:
            around = frame.f_back
            if around is None or "/wgpu/" not in around.f_code.co_filename:
                found[frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else frame.f_code.co_name] += 1

    def several() -> None:
        for _ in range(times):
            launches()

    watched(several, watch)
    return found, found.total() / times


@qd.kernel
def _one(x, by):
    for i in range(x.shape[0]):
        x[i] += by


@qd.kernel
def _ten(x, y):
    for _ in range(1):
        pass
    for i in range(x.shape[0]):
        x[i] += y[i]
    for i in range(x.shape[0]):
        y[i] = x[x.shape[0] - 1 - i]
    for i in range(x.shape[0]):
        x[i] += y[i]
    for i in range(x.shape[0]):
        y[i] = x[x.shape[0] - 1 - i]
    for i in range(x.shape[0]):
        x[i] += y[i]
    for i in range(x.shape[0]):
        y[i] = x[x.shape[0] - 1 - i]
    for i in range(x.shape[0]):
        x[i] += y[i]
    for i in range(x.shape[0]):
        y[i] = x[x.shape[0] - 1 - i]
    for i in range(x.shape[0]):
        x[i] += y[i]
    for i in range(x.shape[0]):
        y[i] = x[x.shape[0] - 1 - i]


def test_what_a_launch_costs(opened: Opened) -> None:
    """Interpreted at first, some 160 and 280 calls of Python; by machine code one call back, and a few for each task."""
    opened({})
    x, y = (_on_device(np.ones(1000, np.float32), qd.f32) for _ in range(2))
    for _ in range(WebDevice.patience + 2):  # the first by machine code notes where the arrays are
        _one(x, 0.0)
        _ten(x, y)
    qd.sync()
    calls, each = _calls(lambda: _one(x, 1.0), 20)
    assert each <= 13, calls
    calls, each = _calls(lambda: _ten(x, y), 4)
    assert each <= 6 + 10 * 8, calls
    everything = Counter[str]()
    watched(
        lambda: [_ten(x, y) for _ in range(20)],
        lambda frame, event, _: everything.update([frame.f_code.co_name] if event == "call" else []),
    )
    assert everything.total() / 200 < 12, "calls of Python a task, with those of wgpu"


def test_numbers_of_every_type(device: WebDevice) -> None:
    """What stands behind small numbers in a frame is 0."""

    @qd.kernel
    def stored(
        x: qd.types.ndarray(dtype=qd.f64, ndim=1),
        a: qd.i8,
        b: qd.u8,
        c: qd.i16,
        d: qd.f16,
        e: qd.u1,
        f: qd.i64,
        g: qd.f64,
    ):
        for i in range(1):
            x[0] = a
            x[1] = b
            x[2] = c
            x[3] = d
            x[4] = qd.cast(e, qd.i32)
            x[5] = f
            x[6] = g

    x = _on_device(np.zeros(7), qd.f64)
    for _ in range(3):
        for row in ([-1, 255, -300, 0.5, 1, -(2**40), 0.1], [7, 8, 9, -2.0, 0, 5, -1e300]):
            a, b, c, d, e, f, g = row
            stored(x, a, b, c, d, bool(e), f, g)
            assert x.to_numpy().tolist() == row


def test_arrays_in_several_segments_and_windows(opened: Opened, eager: None) -> None:
    device = opened(SMALL)

    @qd.kernel
    def scale(x, y):
        for i in range(x.shape[0]):
            y[i] = 2 * x[i] + y[i]

    first = np.arange(200_000, dtype=np.float32)
    arrays = [_on_device(first + k, qd.f32) for k in range(4)]
    large = [_on_device(np.arange(600_000, dtype=np.float32) + k, qd.f32) for k in range(2)]
    for _ in range(3):
        scale(arrays[1], arrays[3])
        scale(large[0], large[1])
    assert len(device.heap.segments) > 5
    assert (arrays[3].to_numpy() == first + 3 + 6 * (first + 1)).all()
    assert (large[1].to_numpy() == 7 * np.arange(600_000, dtype=np.float32) + 1).all()


@qd.kernel
def _until(x, limit):
    """The host looks at a number of the device's, round by round."""
    rounds = 0
    total = 0
    while total < limit:
        total = 0
        for i in range(x.shape[0]):
            x[i] += 1
        for i in range(x.shape[0]):
            total += x[i]
        rounds += 1
    return rounds


def test_the_host_looks_at_numbers_in_between(device: WebDevice) -> None:
    x = _on_device(np.zeros(100, np.int64), qd.i64)
    for k in range(1, 4):
        assert _until(x, 1000 * k) == 10
    assert (x.to_numpy() == 30).all()


def test_many_launches_of_one_run(device: WebDevice) -> None:
    """More than there is room for before Python is called."""

    def steps(x, y, count):
        for _ in range(count):
            for i in range(x.shape[0]):
                y[i] = (x[x.shape[0] - 1 - i] * 5 + 1) % 1009
            for i in range(x.shape[0]):
                x[i] = y[i] + i

    kernel, plain = qd.kernel(steps), (np.arange(16), np.zeros(16, np.int64))
    ours = [_on_device(array, qd.i64) for array in plain]
    for count in (3, 1000):
        kernel(*ours, count)
        steps(*plain, count)
        assert (ours[0].to_numpy() == plain[0]).all() and (ours[1].to_numpy() == plain[1]).all()


@pytest.mark.parametrize("count", [10, 100_000])
def test_temporary_arrays_grow(device: WebDevice, count: int) -> None:
    x = _on_device(np.arange(count) % 7, qd.i64)

    @qd.kernel
    def total(x, k: qd.i32) -> qd.i64:
        found = qd.i64(0)
        for i in range(k):
            found += x[i]
        return found

    for k in (1, count // 3, 2, count):
        assert total(x, k) == (np.arange(k) % 7).sum()


def test_threads_launch_the_same_kernel(device: WebDevice) -> None:
    """The launches of one run stay together."""
    arrays = [_on_device(np.full(500, k, np.int64), qd.i64) for k in range(4)]

    @qd.kernel
    def total(x) -> qd.i64:
        found = qd.i64(0)
        for i in range(x.shape[0]):
            found += x[i]
        return found

    wrong: list[Any] = []

    def run(k: int) -> None:
        for _ in range(20):
            if (found := total(arrays[k])) != 500 * k:
                wrong.append((k, found))

    total(arrays[0])
    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_raised_in_a_call_back_is_raised_by_the_kernel(
    device: WebDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = _on_device(np.zeros(10, np.float32), qd.f32)
    for _ in range(3):
        _one(x, 1.0)

    def full(self: WebDevice) -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(WebDevice, "check_process", full)
        with pytest.raises(MemoryError, match="no room"):
            _one(x, 1.0)
    _one(x, 1.0)
    assert (x.to_numpy() == 4).all()


def test_an_interrupt_in_front_of_the_call_back_is_told(device: WebDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # ctypes tells of it there
    x = _on_device(np.zeros(10, np.float32), qd.f32)
    for _ in range(3):
        _one(x, 1.0)
    found: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(lambda: _one(x, 1.0), 1, found)
    assert found == ["_end"]
    assert (x.to_numpy() == 4).all(), "it was noted, and is launched before the next look"
    _one(x, 1.0)
    assert (x.to_numpy() == 5).all()


def test_kernels_that_print_or_check_are_interpreted(device: WebDevice, capsys: pytest.CaptureFixture[str]) -> None:
    @qd.kernel
    def told(x):
        for i in range(1):
            print("seen", x[0])

    x = _on_device(np.full(3, 5, np.int32), qd.i32)
    for _ in range(3):
        told(x)
    assert capsys.readouterr().out.count("seen 5") == 3


def test_who_looks_before_python_is_called_sees_what_was_launched(
    device: WebDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may run between the machine code and what it calls; there, too, the host's state is that of a launched run."""
    x = _on_device(np.zeros(8, np.int32), qd.i32)
    for _ in range(3):
        _one(x, 1)
    assert device._native is not None
    seen: list[int] = []
    flush = type(device._native).flush

    def interrupted(self: Any) -> None:
        other = threading.Thread(target=lambda: seen.append(x[0]))
        other.start()
        other.join()
        flush(self)

    monkeypatch.setattr(type(device._native), "flush", interrupted)
    _one(x, 1)
    assert seen == [4]
    assert (x.to_numpy() == 4).all()
    _one(x, 1)
    assert (x.to_numpy() == 5).all()


def test_what_is_noted_while_others_take_what_was_noted_is_launched(
    device: WebDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = (_on_device(np.zeros(8, np.int32), qd.i32) for _ in range(2))
    for _ in range(3):
        _one(x, 1)
        _one(y, 1)
    native = device._native
    assert native is not None
    others = [threading.Thread(target=_one, args=(y, 1))]

    class Meanwhile:
        """Reads the words, and lets another thread note a launch before what they say is looked at."""

        size = native_module._WORDS.size

        def unpack_from(self, data: memoryview) -> tuple[int, ...]:
            found = struct.unpack_from("<2q", data)
            if others[0].ident is None:
                others[0].start()
                while struct.unpack_from("<2q", data) == found and others[0].is_alive():
                    time.sleep(0.001)
            return found

    with monkeypatch.context() as patch:
        patch.setattr(native_module, "_WORDS", Meanwhile())
        _one(x, 1)
    others[0].join()
    assert (x.to_numpy() == 4).all() and (y.to_numpy() == 4).all()


def test_threads_share_what_machine_code_notes(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that made their first machine code at once noted in two places, of which whoever looked asked one."""
    made: list[Any] = []
    both = threading.Barrier(2)

    class Slow(native_module.NativeHost):
        def __init__(self, owner: WebDevice) -> None:
            time.sleep(0.05)
            super().__init__(owner)
            made.append(self)

    monkeypatch.setattr(native_module, "NativeHost", Slow)
    monkeypatch.setattr(WebDevice, "patience", 1)
    opened({})
    x, y = (_on_device(np.zeros(8, np.int32), qd.i32) for _ in range(2))

    @qd.kernel
    def two(y):
        for i in range(y.shape[0]):
            y[i] += 2

    def run(kernel: Any, *arguments: Any) -> None:
        both.wait()
        kernel(*arguments)

    _one(x, 1)
    two(y)
    others = [threading.Thread(target=run, args=(_one, x, 1)), threading.Thread(target=run, args=(two, y))]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert len(made) == 1 and (x.to_numpy() == 2).all() and (y.to_numpy() == 4).all()


def test_threads_look_at_what_others_launch(device: WebDevice) -> None:
    """A launch that is noted and not yet told is behind whoever looks, or before: never lost."""
    x, y = (_on_device(np.zeros(8, np.int32), qd.i32) for _ in range(2))
    is_done = threading.Event()

    def look() -> None:
        while not is_done.is_set():
            x[0]

    def launch() -> None:
        for _ in range(300):
            _one(y, 2)

    _one(x, 1)
    _one(y, 2)
    others = [threading.Thread(target=look), threading.Thread(target=launch)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for other in others:
            other.start()
        for _ in range(300):
            _one(x, 1)
    finally:
        sys.setswitchinterval(interval)
        is_done.set()
        for other in others:
            other.join()
    assert (x.to_numpy() == 301).all() and (y.to_numpy() == 602).all()
