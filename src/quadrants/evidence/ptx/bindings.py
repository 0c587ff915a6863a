"""The functions of `cuda.bindings.driver` that the CUDA target calls, played: so its calls are run, in their order, with the
arguments that NVIDIA's documentation asks for."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any

import numpy as np

from quadrants.evidence.ptx.machine import Loaded, Machine
from quadrants.evidence.ptx.memory import MemoryFault, Piece

__all__ = ["Bindings", "Result"]


class Result(IntEnum):
    """The codes that are told apart here."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


_OK = Result.CUDA_SUCCESS


class CUdevice_attribute(IntEnum):
    """The attributes that are asked for."""

    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76


class Bindings:
    """One GPU of compute capability `sm`. `calls`: the names of the functions that were called. A fault in a kernel shows at the
    next function that waits, as on a GPU."""

    CUdevice_attribute = CUdevice_attribute

    def __init__(self, sm: int = 90, memory: int = 1 << 26) -> None:
        self.calls: list[str] = []
        self._sm = sm
        self._left = memory
        self._machine = Machine()
        self._pieces: dict[int, Piece] = {}
        self._fault = _OK

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("cu"):
            object.__getattribute__(self, "calls").append(name)
        return object.__getattribute__(self, name)

    def cuInit(self, flags: int) -> tuple[Result]:
        return (_OK if flags == 0 else Result.CUDA_ERROR_INVALID_VALUE,)

    def cuDeviceGet(self, ordinal: int) -> tuple[Result, int]:
        return _OK, ordinal

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Result, str]:
        return _OK, "context"

    def cuCtxSetCurrent(self, context: str) -> tuple[Result]:
        return (_OK if context == "context" else Result.CUDA_ERROR_INVALID_VALUE,)

    def cuDeviceGetAttribute(self, attribute: CUdevice_attribute, device: int) -> tuple[Result, int]:
        return _OK, {16: 2, 75: self._sm // 10, 76: self._sm % 10}[attribute]

    def cuGetErrorString(self, code: Result) -> tuple[Result, bytes]:
        return _OK, code.name.encode()

    def cuMemAlloc(self, size: int) -> tuple[Result, int]:
        if size <= 0:
            return Result.CUDA_ERROR_INVALID_VALUE, 0
        if size > self._left:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, 0
        piece = self._machine.memory.allocate(size)
        self._left -= size
        self._pieces[piece.address] = piece
        return _OK, piece.address

    def cuMemFree(self, address: int) -> tuple[Result]:
        self._left += self._pieces.pop(address).size
        return (_OK,)

    def cuMemcpyHtoD(self, address: int, data: bytes, size: int) -> tuple[Result]:
        memory = self._machine.memory
        memory.check_range(address, size)
        memory.bytes[address : address + size] = np.frombuffer(data, np.uint8, size)
        return (self._fault,)

    def cuMemcpyDtoH(self, place: int, address: int, size: int) -> tuple[Result]:
        memory = self._machine.memory
        memory.check_range(address, size)
        ctypes.memmove(place, memory.bytes[address : address + size].tobytes(), size)
        return (self._fault,)

    def cuModuleLoadDataEx(
        self, image: bytes, count: int, options: list[Any], values: list[Any]
    ) -> tuple[Result, Loaded | None]:
        if not image.endswith(b"\0") or count != len(options) or count != len(values):
            return Result.CUDA_ERROR_INVALID_PTX, None
        return _OK, Loaded(self._machine, image[:-1].decode())

    def cuModuleGetFunction(self, module: Loaded, name: bytes) -> tuple[Result, Any]:
        if name.decode() not in module.module.functions:
            return Result.CUDA_ERROR_NOT_FOUND, None
        return _OK, (module, module.kernel(name.decode()))

    def cuModuleGetGlobal(self, module: Loaded, name: bytes) -> tuple[Result, int, int]:
        address = module.variable(name.decode())
        return (_OK, address, 8) if address is not None else (Result.CUDA_ERROR_NOT_FOUND, 0, 0)

    def cuLaunchKernel(
        self, kernel: Any, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int, *more: Any
    ) -> tuple[Result]:
        module, code = kernel
        parameters, extra = more
        if (gy, gz, by, bz, shared, stream, extra) != (1, 1, 1, 1, 0, 0, 0) or not 0 < bx <= 1024 or gx <= 0:
            return (Result.CUDA_ERROR_INVALID_VALUE,)
        size = module.module.functions[code.name].parameters[0].size
        (pointer,) = (ctypes.c_void_p * 1).from_address(parameters)
        try:
            self._machine.launch(module, code, gx, bx, ctypes.string_at(pointer, size))
        except MemoryFault:
            self._fault = Result.CUDA_ERROR_ILLEGAL_ADDRESS
        return (_OK,)

    def cuStreamSynchronize(self, stream: int) -> tuple[Result]:
        return (self._fault,)
