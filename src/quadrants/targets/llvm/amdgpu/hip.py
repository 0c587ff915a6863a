"""AMD's driver, HIP, through its library.

Compared with its header (hip_calls.py), and run with a library that is played (tests/amdgpu/test_hip.py): no machine with a GPU has run
it yet. Everything goes to the null stream, so that launches and copies follow one another.
"""

from __future__ import annotations

import ctypes
import re
from functools import lru_cache
from typing import Any

from quadrants.errors import QuadrantsRuntimeError
from quadrants.targets.llvm.amdgpu import lld
from quadrants.targets.llvm.amdgpu.compile import supported
from quadrants.targets.llvm.amdgpu.device import Driver, device_of
from quadrants.targets.llvm.amdgpu.hip_calls import CONSTANTS, PROPERTIES, declare
from quadrants.targets.llvm.device_driver import DriverMemory, DriverModule, place_of

__all__ = ["HipDriver", "missing", "open_driver", "processor_in", "unfit"]

_NAME = "libamdhip64.so"
_LIBRARIES = (_NAME, *[f"{_NAME}.{version}" for version in (7, 6, 5)], f"/opt/rocm/lib/{_NAME}")
_OUT_OF_MEMORY = CONSTANTS["hipErrorOutOfMemory"]
_MULTIPROCESSOR_COUNT = CONSTANTS["hipDeviceAttributeMultiprocessorCount"]
_TO_DEVICE, _TO_HOST = CONSTANTS["hipMemcpyHostToDevice"], CONSTANTS["hipMemcpyDeviceToHost"]
_TIMED, _UNTIMED = CONSTANTS["hipEventDefault"], CONSTANTS["hipEventDisableTiming"]
_PROPERTIES_BYTES = 8192  # more than any version's hipDeviceProp_t


@lru_cache(maxsize=1)
def _library() -> Any:
    """HIP's library, None where there is none."""
    for name in _LIBRARIES:
        try:
            return declare(ctypes.CDLL(name))
        except OSError:
            continue
    return None


@lru_cache(maxsize=1)
def missing() -> str:
    """What there is not that it takes to run on a GPU, the linker too, and the way out; '' where nothing is missing."""
    library = _library()
    if library is None:
        return "HIP is not on this machine (libamdhip64.so): install ROCm, or use another target"
    count = ctypes.c_int()
    if library.hipGetDeviceCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "HIP finds no GPU on this machine: use another target"
    return lld.missing()


def processor_in(properties: bytes) -> str:
    """The processor's name in what hipGetDeviceProperties writes, whose layout differs by version. '' where it has none.

    The name is a text of its own, `gfx942` with or without `:sramecc+:xnack-`."""
    found = re.search(rb"(?:\A|\0)(gfx[0-9a-f]+(?::[a-z]+[+-])*)\0", properties)
    return found.group(1).decode() if found else ""


class HipDriver:
    """The first GPU of the machine. `library`: HIP's functions, each of which gives a result code."""

    stream = 0

    def __init__(self, library: Any = None) -> None:
        self.is_lost = False
        self._hip = library if library is not None else _library()
        self._here()
        properties = ctypes.create_string_buffer(_PROPERTIES_BYTES)
        self._call(next(name for name in PROPERTIES if hasattr(self._hip, name)), properties, 0)
        self.processor = processor_in(properties.raw)
        if not self.processor:
            raise QuadrantsRuntimeError("HIP does not name the GPU's processor")
        count = ctypes.c_int()
        self._call("hipDeviceGetAttribute", ctypes.byref(count), _MULTIPROCESSOR_COUNT, 0)
        self.multiprocessors = max(count.value, 1)
        self.device = device_of(self, self.processor)

    def _here(self) -> None:
        """The GPU in use is each thread's own affair."""
        self._call("hipSetDevice", 0)

    def _call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the driver; MemoryError, QuadrantsRuntimeError for its result code."""
        code = int(getattr(self._hip, name)(*arguments))
        if code == 0:
            return
        if code == _OUT_OF_MEMORY:
            raise MemoryError(f"the GPU has no memory left ({name})")
        wording = bytes(self._hip.hipGetErrorString(code) or b"").decode()
        raise QuadrantsRuntimeError(f"the GPU's driver says in {name}: {wording} ({code})")

    def allocate(self, size: int) -> DriverMemory:
        self._here()
        address = ctypes.c_void_p()
        self._call("hipMalloc", ctypes.byref(address), ctypes.c_size_t(size))
        return DriverMemory(self, address.value or 0, size)

    def load(self, code: bytes, /) -> DriverModule:
        """Loads a code object."""
        self._here()
        module, image = ctypes.c_void_p(), ctypes.create_string_buffer(code, len(code))
        self._call("hipModuleLoadData", ctypes.byref(module), image)
        return DriverModule(self, module)

    def allow_recursion(self) -> None:
        raise AssertionError("kernels for AMD's GPUs have no functions that call themselves")

    def allow_shared(self, kernel: Any, asked: int) -> None:
        raise AssertionError("kernels for AMD's GPUs declare what their blocks share")

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Copies bytes to an address; behind all launches, for they are of one stream."""
        self._here()
        if data:
            to, start, size = ctypes.c_void_p(address), ctypes.c_void_p(place_of(data)), ctypes.c_size_t(len(data))
            self._call("hipMemcpy", to, start, size, _TO_DEVICE)

    def read_into(self, address: int, place: memoryview) -> None:
        """Waits for all launches, and copies bytes from an address."""
        self._here()
        if place:
            to, size = ctypes.c_void_p(place_of(place)), ctypes.c_size_t(len(place))
            self._call("hipMemcpy", to, ctypes.c_void_p(address), size, _TO_HOST)

    def release(self, address: int) -> None:
        self._here()
        self._call("hipFree", ctypes.c_void_p(address))

    def launch(self, kernel: Any, blocks: int, threads: int, parameters: bytes, asked: int = 0) -> None:
        """The driver copies the parameters before it returns, and fills in the hidden ones."""
        self._here()
        frame = ctypes.create_string_buffer(parameters, len(parameters))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(frame))
        sizes = [ctypes.c_uint(number) for number in (blocks, 1, 1, threads, 1, 1, asked)]
        self._call("hipModuleLaunchKernel", kernel, *sizes, None, pointers, None)

    def order(self, first: int, then: int) -> None:
        """There is one stream."""
        assert first == then == 0

    def make_event(self, is_timed: bool = False) -> int:
        self._here()
        event = ctypes.c_void_p()
        self._call("hipEventCreateWithFlags", ctypes.byref(event), _TIMED if is_timed else _UNTIMED)
        return event.value or 0

    def record_event(self, event: int, stream: int) -> None:
        self._here()
        self._call("hipEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(stream))

    def synchronise_event(self, event: int) -> None:
        self._here()
        self._call("hipEventSynchronize", ctypes.c_void_p(event))

    def elapsed(self, first: int, then: int) -> float:
        """The milliseconds between two timed events that are passed."""
        self._here()
        milliseconds = ctypes.c_float()
        self._call("hipEventElapsedTime", ctypes.byref(milliseconds), ctypes.c_void_p(first), ctypes.c_void_p(then))
        return milliseconds.value

    def drop_event(self, event: int) -> None:
        self._here()
        self._call("hipEventDestroy", ctypes.c_void_p(event))

    def native_launch(self) -> None:
        """Kernels are launched from Python."""

    def error_of(self, code: int) -> Exception:
        """What is said to a result code."""
        return QuadrantsRuntimeError(f"the GPU's driver gives {code}")

    def synchronise(self, stream: int | None = None) -> None:
        self._here()
        self._call("hipStreamSynchronize", None)

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        self._here()
        found = ctypes.c_void_p()
        self._call("hipModuleGetFunction", ctypes.byref(found), module, name.encode())
        return found

    def variable(self, module: Any, name: str) -> int | None:
        """The address of a variable of a module, None where it has none of that name."""
        self._here()
        address, size = ctypes.c_void_p(), ctypes.c_size_t()
        code = self._hip.hipModuleGetGlobal(ctypes.byref(address), ctypes.byref(size), module, name.encode())
        return address.value if int(code) == 0 else None


def open_driver() -> HipDriver:
    """The machine's driver."""
    return HipDriver()


def unfit(driver: Driver) -> str:
    """Why no code is made for a driver's GPU; '' where it is."""
    try:
        supported(driver.processor)
    except ValueError as error:
        return str(error)
    return ""
