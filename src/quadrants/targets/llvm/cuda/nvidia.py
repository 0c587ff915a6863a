"""NVIDIA's driver, through the package `cuda-bindings`.

Written against its documentation, and run with a driver that is played (tests/cuda/test_launches.py): no machine with a GPU has run
it yet. Everything goes to the context's default stream, so that launches and copies follow one another.
"""

from __future__ import annotations

import ctypes
import importlib.util
from functools import lru_cache
from typing import Any

from quadrants.errors import QuadrantsRuntimeError
from quadrants.targets.llvm.cuda.device import device_of
from quadrants.targets.llvm.device_driver import DriverMemory, DriverModule

__all__ = ["NvidiaDriver", "missing"]


@lru_cache(maxsize=1)
def missing() -> str:
    """What there is not that it takes to run on a GPU, and the way out; '' where nothing is missing."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no driver of NVIDIA's on this machine (libcuda.so.1): install it, or use another target"
    try:
        found = importlib.util.find_spec("cuda.bindings")
    except ImportError:
        found = None
    if found is None:
        return "the package cuda-bindings is missing: pip install quadrants[cuda]"
    return ""


def _bindings() -> Any:
    from cuda.bindings import driver  # pyright: ignore[reportMissingImports]

    return driver


class NvidiaDriver:
    """The first GPU of the machine, in its primary context, which torch and CuPy share.

    `bindings` is the module `cuda.bindings.driver`. Its functions give a result code and then what they are for.
    """

    def __init__(self, bindings: Any = None) -> None:
        self._cuda = cuda = bindings if bindings is not None else _bindings()
        self._call(cuda.cuInit, 0)
        device = self._call(cuda.cuDeviceGet, 0)
        self._context = self._call(cuda.cuDevicePrimaryCtxRetain, device)
        attributes = cuda.CUdevice_attribute

        def attribute(name: str) -> int:
            key = getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(self._call(cuda.cuDeviceGetAttribute, key, device))

        self.sm = 10 * attribute("COMPUTE_CAPABILITY_MAJOR") + attribute("COMPUTE_CAPABILITY_MINOR")
        self.multiprocessors = attribute("MULTIPROCESSOR_COUNT")
        self.device = device_of(self, self.sm)

    def _here(self) -> None:
        """The context is each thread's own affair."""
        self._call(self._cuda.cuCtxSetCurrent, self._context)

    def _call(self, function: Any, *arguments: Any) -> Any:
        """What a function of the driver gives behind its result code; MemoryError, QuadrantsRuntimeError."""
        code, *results = function(*arguments)
        if int(code) != 0:
            _, text = self._cuda.cuGetErrorString(code)
            name = getattr(function, "__name__", "a call")
            if int(code) == 2:
                raise MemoryError(f"the GPU has no memory left ({name})")
            raise QuadrantsRuntimeError(f"the GPU's driver says in {name}: {bytes(text or b'').decode()} ({int(code)})")
        return results[0] if len(results) == 1 else tuple(results)

    def allocate(self, size: int) -> DriverMemory:
        self._here()
        return DriverMemory(self, int(self._call(self._cuda.cuMemAlloc, size)), size)

    def load(self, ptx: str) -> DriverModule:
        self._here()
        return DriverModule(self, self._call(self._cuda.cuModuleLoadDataEx, ptx.encode() + b"\0", 0, [], []))

    def write(self, address: int, data: bytes) -> None:
        """Copies bytes to an address; behind all launches, for they are of one stream."""
        self._here()
        if data:
            self._call(self._cuda.cuMemcpyHtoD, address, data, len(data))

    def read(self, address: int, size: int) -> bytes:
        """Waits for all launches, and copies bytes from an address."""
        self._here()
        data = bytearray(size)
        if size:
            place = (ctypes.c_char * size).from_buffer(data)
            self._call(self._cuda.cuMemcpyDtoH, ctypes.addressof(place), address, size)
        return bytes(data)

    def release(self, address: int) -> None:
        self._here()
        self._call(self._cuda.cuMemFree, address)

    def launch(self, kernel: Any, blocks: int, threads: int, parameters: bytes) -> None:
        """The driver copies the parameters before it returns."""
        self._here()
        frame = ctypes.create_string_buffer(parameters, len(parameters))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(frame))
        place = ctypes.addressof(pointers)
        self._call(self._cuda.cuLaunchKernel, kernel, blocks, 1, 1, threads, 1, 1, 0, 0, place, 0)

    def synchronise(self) -> None:
        self._here()
        self._call(self._cuda.cuStreamSynchronize, 0)

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        self._here()
        return self._call(self._cuda.cuModuleGetFunction, module, name.encode())

    def variable(self, module: Any, name: str) -> int | None:
        """The address of a variable of a module, None where it has none of that name."""
        self._here()
        code, address, _ = self._cuda.cuModuleGetGlobal(module, name.encode())
        return int(address) if int(code) == 0 else None
