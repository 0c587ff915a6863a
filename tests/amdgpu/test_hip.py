"""AMD's driver, as the calls that HIP's library gets: its functions are played here, with memory of this process."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import blocks
from quadrants.errors import QuadrantsRuntimeError, QuadrantsUnsupportedError
from quadrants.targets.llvm.amdgpu import drivers, hip, lld, target
from quadrants.targets.llvm.amdgpu.metadata import usage
from quadrants.targets.llvm.device_timing import DriverSpan


class Library:
    """HIP as its documentation has it: a result code from each function; what they give is written where pointers say.

    A launch is noted, and adds 1 to each float of the first array in the frame; it takes 1.5 milliseconds of the events' time.
    """

    def __init__(self, processor: bytes = b"gfx942:sramecc+:xnack-") -> None:
        self.properties = b"AMD Instinct\0" + bytes(300) + struct.pack("<Q", 5) + processor + b"\0" + bytes(40)
        self.memory: dict[int, Any] = {}
        self.launches: list[tuple[str, int, int]] = []
        self.modules: list[bytes] = []
        self.code = 0
        self.events: dict[int, float | None] = {}
        self.timed: set[int] = set()
        self.copies: list[tuple[int, int]] = []

    def hipSetDevice(self, number: int) -> int:
        return self.code

    hipGetErrorString = staticmethod(lambda code: b"it went wrong")

    def hipGetDeviceProperties(self, place: Any, number: int) -> int:
        ctypes.memmove(place, self.properties, len(self.properties))
        return 0

    def hipDeviceGetAttribute(self, place: Any, attribute: int, number: int) -> int:
        assert attribute == 63
        place._obj.value = 4
        return 0

    def hipMalloc(self, place: Any, size: Any) -> int:
        block = ctypes.create_string_buffer(max(size.value, 1))
        place._obj.value = ctypes.addressof(block)
        self.memory[ctypes.addressof(block)] = block
        return 0

    def hipFree(self, address: Any) -> int:
        del self.memory[address.value]
        return 0

    def hipMemcpy(self, to: Any, source: Any, size: Any, kind: int) -> int:
        is_sent = any(start <= to.value < start + len(block) for start, block in self.memory.items())
        assert kind == (1 if is_sent else 2)
        self.copies.append((kind, size.value))
        ctypes.memmove(to, source, size.value)
        return 0

    def hipModuleLoadData(self, place: Any, image: Any) -> int:
        self.modules.append(image.raw)
        place._obj.value = len(self.modules)
        return 0

    def hipModuleGetFunction(self, place: Any, module: Any, name: bytes) -> int:
        names = [kernel.symbol for kernel in usage(self.modules[module.value - 1])]
        if name.decode() not in names:
            return 500
        place._obj.value = 1 + names.index(name.decode())
        return 0

    def hipModuleGetGlobal(self, address: Any, size: Any, module: Any, name: bytes) -> int:
        return 500

    def hipModuleLaunchKernel(self, kernel: Any, *arguments: Any) -> int:
        blocks, _, _, threads, _, _, shared = [number.value for number in arguments[:7]]
        assert shared == 0 and arguments[7] is None and arguments[9] is None
        symbol = usage(self.modules[-1])[kernel.value - 1].symbol
        self.launches.append((symbol, blocks, threads))
        low, high, pointer = (ctypes.c_int64 * 3).from_address(arguments[8][0])
        array = np.ctypeslib.as_array((ctypes.c_float * (high - low)).from_address(pointer))
        array += 1
        return self.code

    def hipStreamSynchronize(self, stream: None) -> int:
        return 0

    def hipEventCreateWithFlags(self, place: Any, flags: int) -> int:
        assert flags in (0, 2)
        place._obj.value = 0x100 + 8 * len(self.events)
        self.events[place._obj.value] = None
        if flags == 0:
            self.timed.add(place._obj.value)
        return 0

    def hipEventRecord(self, event: Any, stream: Any) -> int:
        assert stream.value is None and event.value in self.events
        self.events[event.value] = 1.5 * len(self.launches)
        return 0

    def hipEventSynchronize(self, event: Any) -> int:
        return 0 if self.events[event.value] is not None else 400

    def hipEventElapsedTime(self, place: Any, first: Any, then: Any) -> int:
        begin, end = self.events[first.value], self.events[then.value]
        if begin is None or end is None or not {first.value, then.value} <= self.timed:
            return 400
        place._obj.value = end - begin
        return 0

    def hipEventDestroy(self, event: Any) -> int:
        self.timed.discard(event.value)
        return 0


def test_properties_name_the_processor_wherever_it_lies():
    assert hip.processor_in(bytes(500) + b"gfx1100\0" + bytes(100)) == "gfx1100"
    assert hip.processor_in(b"no gfx942 here\0gfx90a:sramecc+:xnack-\0") == "gfx90a:sramecc+:xnack-"
    assert hip.processor_in(bytes(100)) == ""


def test_result_codes_become_errors():
    library = Library()
    driver = hip.HipDriver(library)
    library.code = 2
    with pytest.raises(MemoryError, match="no memory left"):
        driver.allocate(8)
    library.code = 719
    with pytest.raises(QuadrantsRuntimeError, match=r"hipSetDevice: it went wrong \(719\)"):
        driver.synchronise()
    library.code = 0  # whoever synchronises next waits for this driver's device, too, as long as that is there


def test_memory_is_written_read_and_given_back():
    library = Library()
    memory = hip.HipDriver(library).allocate(16)
    memory.write(4, b"abcd")
    assert memory.read(4, 4) == b"abcd" and len(library.memory) == 1
    del memory
    assert not library.memory


@pytest.mark.skipif(bool(lld.missing()), reason=lld.missing())
def test_a_kernel_is_linked_loaded_and_launched():
    library = Library()
    with drivers.using(hip.HipDriver(library)):
        qd.init(arch=qd.amdgpu)

        @qd.kernel
        def bump(a: qd.types.ndarray()):
            for i in range(a.shape[0]):
                a[i] += 1.0

        values = np.arange(1000, dtype=np.float32)
        bump(values)
    qd.reset()
    assert (values == np.arange(1000) + 1).all()
    ((symbol, blocks, threads),) = library.launches
    assert symbol.startswith("task0_line") and (blocks, threads) == (4, 256)


class Counting(Library):
    """Two tasks: one says whether the number at `place` is other than 0, the other counts it down."""

    place = 0
    allocated = 0

    def hipMalloc(self, place: Any, size: Any) -> int:
        self.allocated += 1
        return super().hipMalloc(place, size)

    def hipModuleLaunchKernel(self, kernel: Any, *arguments: Any) -> int:
        _, _, first, second = (ctypes.c_int64 * 4).from_address(arguments[8][0])
        counted = ctypes.c_int32.from_address(self.place)
        if first == self.place:
            ctypes.c_uint8.from_address(second).value = counted.value != 0
        else:
            counted.value -= 1
        self.launches.append(("", 0, 0))
        return 0


@pytest.mark.skipif(bool(lld.missing()), reason=lld.missing())
def test_a_round_of_a_loop_asks_for_its_flag_alone():
    library = Counting()
    with drivers.using(hip.HipDriver(library)):
        qd.init(arch=qd.amdgpu)

        @qd.kernel(graph=True)
        def settle(x: qd.types.ndarray(), flag: qd.types.ndarray()):
            while qd.graph.do_while(flag):
                for i in range(x.shape[0]):
                    x[i] += 1.0

        @qd.kernel
        def touch(flag: qd.types.ndarray()):
            for i in range(0):
                flag[None] = i

        x, flag = qd.ndarray(qd.f32, 1000), qd.ndarray(qd.i32, ())
        touch(flag)  # which brings it to the GPU
        assert flag._view is not None
        block = blocks.holding(flag._view.ctypes.data, flag._view.ctypes.data)
        assert block is not None
        library.place = block.copy.address
        took: list[int] = []
        for rounds in (2, 5, 9):
            flag.fill(rounds)
            library.copies.clear()
            library.launches.clear()
            before = library.allocated
            settle(x, flag)
            took.append(library.allocated - before)
            assert len(library.launches) == 2 * rounds + 1
            looks = [(2, 1)] * (rounds + 1)
            assert [copy for copy in library.copies if copy[1] < 4000] == [(1, 4), *looks], (
                "the flag, and the looks at it"
            )
        assert took[1:] == [0, 0], "rounds take no memory"
    qd.reset()


def test_a_processor_that_no_code_is_made_for_is_named(capsys: pytest.CaptureFixture[str]):
    with drivers.using(hip.HipDriver(Library(b"gfx803"))):
        qd.init(arch=qd.amdgpu)
        told = capsys.readouterr().err
        assert "falling back to Arch.x64 (amdgpu: no code is made for the GPU gfx803: only for gfx90a" in told
        with pytest.raises(QuadrantsUnsupportedError, match="gfx803"):
            target.record()
    qd.reset()


def test_events_time_launches():
    driver = hip.HipDriver(Library())
    span = DriverSpan(driver.device)
    driver._hip.launches += [("a", 1, 1), ("b", 1, 1)]
    span.stop()
    assert span.milliseconds() == 3.0
    assert not driver._hip.timed, "both are given back"
    untimed = driver.make_event()
    driver.record_event(untimed, driver.stream)
    with pytest.raises(QuadrantsRuntimeError, match=r"hipEventElapsedTime: it went wrong \(400\)"):
        driver.elapsed(untimed, untimed)
