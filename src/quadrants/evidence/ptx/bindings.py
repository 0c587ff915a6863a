"""The functions of `cuda.bindings.driver` that the CUDA target calls, played: so its calls are run, in their order, with the
arguments that NVIDIA's documentation asks for. Those that machine code calls have addresses, too."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from contextlib import nullcontext
from enum import IntEnum
from typing import Any

import numpy as np

from quadrants.evidence.ptx.graphs import CUgraphConditionalNodeType, CUgraphNodeType, GraphFunctions, NodeInMemory
from quadrants.evidence.ptx.machine import Loaded, Machine, Trap
from quadrants.evidence.ptx.memory import MemoryFault, Piece
from quadrants.evidence.ptx.queues import DEFAULT, LEGACY, OWN, Event, Queues
from quadrants.evidence.ptx.reach import ReachOf, bounded
from quadrants.evidence.ptx.results import Result
from quadrants.targets.llvm.graph_order import Reach

__all__ = ["ANYWHERE", "CONSTANTS", "Bindings", "Entry", "Result"]


_OK = Result.CUDA_SUCCESS
_contexts = itertools.count(0xC000, 0x100)
_UNTIMED = 2
_MILLISECONDS = 1e-3
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_uint32
_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuCtxSetCurrent": (_POINTER,),
    "cuLaunchKernel": (_POINTER, *[_NUMBER] * 7, _POINTER, _POINTER, _POINTER),
    "cuGraphLaunch": (_POINTER, _POINTER),
    "cuGraphExecKernelNodeSetParams_v2": (_POINTER, _POINTER, _POINTER),
    "cuEventRecord": (_POINTER, _POINTER),
    "cuStreamWaitEvent": (_POINTER, _POINTER, _NUMBER),
}
"""The parameters of the functions that machine code calls."""


def _nothing() -> None:
    """What a launch does that was refused."""


class CUdevice_attribute(IntEnum):
    """The attributes that are asked for."""

    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97


class CUfunction_attribute(IntEnum):
    """What may be set of a kernel."""

    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


_SHARED = {70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 89: 99, 90: 227, 100: 227, 101: 227, 103: 227}
"""KiB of shared memory that a block may ask for, by compute capability (NVIDIA's programming guide); 99 on the others."""
_UNASKED = 48 << 10
"""Bytes of shared memory that a block has without a word of the host's, at most, and that a kernel may declare."""


class CUjit_option(IntEnum):
    """What the driver's assembler is told."""

    CU_JIT_INFO_LOG_BUFFER = 3
    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4
    CU_JIT_ERROR_LOG_BUFFER = 5
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6


class CUlimit(IntEnum):
    """What a context has of something, at most."""

    CU_LIMIT_STACK_SIZE = 0


_KINDS = (
    Result,
    CUdevice_attribute,
    CUfunction_attribute,
    CUjit_option,
    CUlimit,
    CUgraphNodeType,
    CUgraphConditionalNodeType,
)
CONSTANTS: dict[str, int] = {
    **{member.name: int(member) for kind in _KINDS for member in kind},
    "(size_t)CU_STREAM_LEGACY": LEGACY,
    "(size_t)CU_STREAM_PER_THREAD": OWN,
    "CU_STREAM_DEFAULT": 0,
    "CU_STREAM_NON_BLOCKING": 1,
    "CU_EVENT_DEFAULT": 0,
    "CU_EVENT_DISABLE_TIMING": 2,
}
"""What NVIDIA's header says, by its names; a compiler compares (library.py)."""

ANYWHERE = frozenset(
    ["cuInit", "cuDeviceGet", "cuDeviceGetAttribute", "cuDeviceTotalMem", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"]
    + ["cuGetErrorString", "cuDriverGetVersion", "cuCtxPushCurrent"]
)
"""The functions that need no context."""


class Entry:
    """An entry of a module, whose code is looked at as a whole. `allowed`: the bytes of shared memory that a launch may ask for."""

    def __init__(self, loaded: Loaded, name: str) -> None:
        self.loaded, self.name, self.code = loaded, name, loaded.kernel(name)
        self.declared = loaded.declared(name)
        self.allowed = _UNASKED - self.declared


class Bindings(GraphFunctions):
    """One GPU of compute capability `sm`, whose driver is of a `version` of CUDA's. `calls`: the names of the functions that were called; `texts`: the modules that were
    loaded; `launched`: the blocks, and the threads of each, of all launches that have run, `asked`: the bytes of shared memory that these asked
    for, `shared`: those that a block may ask for; `kernels`: what was got of modules. Launches run when something waits for them (queues.py). A fault in a kernel shows at the next function that waits,
    and at all that follow, as on a GPU. `limits`: what was set, by CUlimit; `refusal`: what the assembler says against every module,
    with its code."""

    CUdevice_attribute = CUdevice_attribute
    CUfunction_attribute = CUfunction_attribute
    CUjit_option = CUjit_option
    CUlimit = CUlimit
    CUresult = Result

    def __init__(self, sm: int = 90, memory: int = 1 << 26, shared: int | None = None) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.texts: list[str] = []
        self.launched: list[tuple[int, int]] = []
        self.asked: list[int] = []
        self.shared = _SHARED.get(sm, 99) << 10 if shared is None else shared
        self.machine = Machine()
        self._sm = sm
        self.left = memory
        self.version = 13000
        self.reach_of: ReachOf | None = None
        """Where there is one, launches that reach more than it says are faults."""
        self._pieces: dict[int, Piece] = {}
        self._fault = _OK
        self._fault_text = ""
        self.kernels: list[Entry] = []
        self.queues = Queues()
        self._events: dict[int, Event] = {}
        self._modules: list[Loaded] = []
        self._is_initialised = False
        self.context = next(_contexts)
        self._thread = threading.local()
        self.limits: dict[int, int] = {}
        self.refusal: tuple[Result, bytes] | None = None
        self._kept: list[Any] = []
        self.addresses = {name: self._exported(name, types) for name, types in _PROTOTYPES.items()}

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if not name.startswith("cu"):
            return found
        self.calls.append(name)
        if name == "cuInit" or name == "cuGetErrorString":
            return found
        if not self._is_initialised:
            return lambda *_: (Result.CUDA_ERROR_NOT_INITIALIZED, None, None)
        if name not in ANYWHERE and self._contexts[-1] != self.context:
            return lambda *_: (Result.CUDA_ERROR_INVALID_CONTEXT, None, None)
        return found

    def _exported(self, name: str, types: tuple[Any, ...]) -> int:
        """A function as machine code calls it."""

        def played(*arguments: int | None) -> int:
            function: Callable[..., tuple[Result, ...]] = getattr(self, name.removesuffix("_v2"))
            told: list[Any] = [argument or 0 for argument in arguments]
            if name == "cuGraphExecKernelNodeSetParams_v2":
                told[2] = NodeInMemory.from_address(told[2])
            return int(function(*told)[0])

        made = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(played)
        self._kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value or 0

    def cuInit(self, flags: int) -> tuple[Result]:
        self._is_initialised = flags == 0
        return (_OK if flags == 0 else Result.CUDA_ERROR_INVALID_VALUE,)

    def cuDriverGetVersion(self) -> tuple[Result, int]:
        return _OK, self.version

    def cuDeviceGet(self, ordinal: int) -> tuple[Result, int]:
        return (_OK, ordinal) if ordinal == 0 else (Result.CUDA_ERROR_INVALID_DEVICE, 0)

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Result, int]:
        return _OK, self.context

    @property
    def _contexts(self) -> list[int]:
        """The calling thread's, the current one last."""
        if not hasattr(self._thread, "contexts"):
            self._thread.contexts = [0]
        return self._thread.contexts

    def cuCtxSetCurrent(self, context: int) -> tuple[Result]:
        if context != self.context:
            return (Result.CUDA_ERROR_INVALID_CONTEXT,)
        self._contexts[-1] = context
        return (_OK,)

    def cuCtxPushCurrent(self, context: int) -> tuple[Result]:
        if context != self.context:
            return (Result.CUDA_ERROR_INVALID_CONTEXT,)
        self._contexts.append(context)
        return (_OK,)

    def cuCtxPopCurrent(self) -> tuple[Result, int]:
        return _OK, self._contexts.pop()

    def cuCtxSetLimit(self, limit: int, value: int) -> tuple[Result]:
        self.limits[int(limit)] = value
        return (_OK,)

    def cuDeviceGetAttribute(self, attribute: CUdevice_attribute, device: int) -> tuple[Result, int]:
        return _OK, {16: 2, 39: 2048, 75: self._sm // 10, 76: self._sm % 10, 97: self.shared}[attribute]

    def cuDeviceTotalMem(self, device: int) -> tuple[Result, int]:
        return _OK, len(self.machine.memory.bytes)

    def cuGetErrorString(self, code: Result) -> tuple[Result, bytes]:
        text = self._fault_text if code == self._fault else ""
        return _OK, f"{code.name}{text}".encode()

    # Memory.

    def cuMemAlloc(self, size: int) -> tuple[Result, int]:
        if size <= 0:
            return Result.CUDA_ERROR_INVALID_VALUE, 0
        if size > self.left:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, 0
        piece = self.machine.memory.allocate(size)
        self.left -= size
        self._pieces[piece.address] = piece
        return _OK, piece.address

    def cuMemFree(self, address: int) -> tuple[Result]:
        """Waits for everything, as the driver does."""
        self.queues.wait_for_all()
        piece = self._pieces.pop(address, None)
        if piece is None:
            return (Result.CUDA_ERROR_INVALID_VALUE,)
        self.left += piece.size
        return (self._fault,)

    def cuMemcpyHtoD(self, address: int, place: int, size: int) -> tuple[Result]:
        self.queues.come_to()
        memory = self.machine.memory
        if self._is_foreign(address, size):
            return (Result.CUDA_ERROR_INVALID_VALUE,)
        memory.bytes[address : address + size] = np.frombuffer(ctypes.string_at(place, size), np.uint8)
        return (self._fault,)

    def cuMemcpyDtoH(self, place: int, address: int, size: int) -> tuple[Result]:
        self.queues.come_to()
        if self._is_foreign(address, size):
            return (Result.CUDA_ERROR_INVALID_VALUE,)
        ctypes.memmove(place, self.machine.memory.bytes[address : address + size].tobytes(), size)
        return (self._fault,)

    def _is_foreign(self, address: int, size: int) -> bool:
        try:
            self.machine.memory.check_range(address, size)
        except MemoryFault:
            return True
        return False

    # Modules and launches.

    def cuModuleLoadDataEx(self, image: bytes, count: int, options: list[Any], values: list[Any]) -> tuple[Result, int]:
        """`values`: where logs go something that can be written."""
        if not image.endswith(b"\0") or count != len(options) or count != len(values):
            return Result.CUDA_ERROR_INVALID_VALUE, 0
        if self.refusal is not None:
            code, log = self.refusal
            told = {int(option): value for option, value in zip(options, values)}
            if place := told.get(CUjit_option.CU_JIT_ERROR_LOG_BUFFER):
                room = told[CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
                log = log[: room - 1] + b"\0"
                memoryview(place).cast("B")[: len(log)] = log
            return code, 0
        self.texts.append(image[:-1].decode())
        loaded = Loaded(self.machine, self.texts[-1])
        if any(loaded.declared(name) > _UNASKED for name, one in loaded.module.functions.items() if one.is_entry):
            return Result.CUDA_ERROR_INVALID_PTX, 0
        self._modules.append(loaded)
        return _OK, 0x3000 + 16 * len(self._modules)

    def _module(self, handle: int) -> Loaded | None:
        number, rest = divmod(handle - 0x3010, 16)
        return self._modules[number] if rest == 0 and 0 <= number < len(self._modules) else None

    def cuModuleGetFunction(self, module: int, name: bytes) -> tuple[Result, int]:
        loaded = self._module(module)
        if loaded is None:
            return Result.CUDA_ERROR_INVALID_HANDLE, 0
        if name.decode() not in loaded.module.functions:
            return Result.CUDA_ERROR_NOT_FOUND, 0
        named = [(kernel.loaded, kernel.name) for kernel in self.kernels]
        if (loaded, name.decode()) not in named:
            named.append((loaded, name.decode()))
            self.kernels.append(Entry(*named[-1]))
        return _OK, 0x700010 + 16 * named.index((loaded, name.decode()))

    def _kernel(self, handle: int) -> Entry | None:
        number, rest = divmod(handle - 0x700010, 16)
        return self.kernels[number] if rest == 0 and 0 <= number < len(self.kernels) else None

    def cuFuncSetAttribute(self, kernel: int, attribute: int, value: int) -> tuple[Result]:
        """What the blocks of a kernel share, declared or asked for, is no more than the device has for one."""
        found = self._kernel(kernel)
        if found is None:
            return (Result.CUDA_ERROR_INVALID_HANDLE,)
        known = CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if attribute != known or not 0 <= value <= self.shared - found.declared:
            return (Result.CUDA_ERROR_INVALID_VALUE,)
        found.allowed = value
        return (_OK,)

    def cuModuleGetGlobal(self, module: int, name: bytes) -> tuple[Result, int, int]:
        loaded = self._module(module)
        if loaded is None:
            return Result.CUDA_ERROR_INVALID_HANDLE, 0, 0
        address = loaded.variable(name.decode())
        return (_OK, address, 8) if address is not None else (Result.CUDA_ERROR_NOT_FOUND, 0, 0)

    def cuLaunchKernel(
        self, kernel: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int, *more: Any
    ) -> tuple[Result]:
        parameters, extra = more
        if (gy, gz, by, bz, extra) != (1, 1, 1, 1, 0):
            return (Result.CUDA_ERROR_INVALID_VALUE,)
        code, work = self.work_of(kernel, gx, bx, parameters, shared)
        if code == _OK and not self.queues.has(stream):
            code = Result.CUDA_ERROR_INVALID_HANDLE
        if code == _OK:
            self.queues.add(stream, work)
        return (self._fault if code == _OK else code,)

    def work_of(
        self, kernel: int, blocks: int, threads: int, parameters: int, asked: int
    ) -> tuple[Result, Callable[[], None]]:
        """What a launch does when it runs, with the parameters as they are now."""
        found = self._kernel(kernel)
        if found is None:
            return Result.CUDA_ERROR_INVALID_HANDLE, _nothing
        if asked > found.allowed:
            return Result.CUDA_ERROR_INVALID_VALUE, _nothing
        if not 0 < threads <= 1024 or not 0 < blocks < 1 << 31:
            return Result.CUDA_ERROR_INVALID_VALUE, _nothing
        module, code = found.loaded, found.code
        if threads > module.module.functions[code.name].limits.get("maxntid", (1024,))[0]:
            return Result.CUDA_ERROR_INVALID_VALUE, _nothing
        size = module.module.functions[code.name].parameters[0].size
        (pointer,) = (ctypes.c_void_p * 1).from_address(parameters)
        frame = ctypes.string_at(pointer, size)
        reach = self.reach_of(kernel, frame) if self.reach_of is not None else None
        return _OK, lambda: self._run_kernel(module, code, (blocks, threads, asked), frame, reach)

    def is_faulty(self) -> bool:
        return self._fault != _OK

    def _run_kernel(
        self, module: Loaded, code: Any, shape: tuple[int, int, int], frame: bytes, reach: Reach | None
    ) -> None:
        """`shape`: blocks, threads of each, bytes of shared memory that each asks for."""
        blocks, threads, asked = shape
        if self._fault != _OK:
            return
        self.launched.append((blocks, threads))
        self.asked.append(asked)
        try:
            with nullcontext() if reach is None else bounded(self.machine, reach, tuple(self._pieces.values())):
                self.machine.launch(module, code, blocks, threads, frame, asked)
        except MemoryFault as fault:
            self._fault, self._fault_text = Result.CUDA_ERROR_ILLEGAL_ADDRESS, f": {fault}"
        except Trap as trap:
            self._fault, self._fault_text = Result.CUDA_ERROR_LAUNCH_FAILED, f": {trap}"

    # Streams and events.

    def cuStreamCreate(self, flags: int) -> tuple[Result, int]:
        return (_OK, self.queues.open(bool(flags))) if flags in (0, 1) else (Result.CUDA_ERROR_INVALID_VALUE, 0)

    def cuStreamDestroy(self, stream: int) -> tuple[Result]:
        if stream in (DEFAULT, LEGACY, OWN) or not self.queues.has(stream):
            return (Result.CUDA_ERROR_INVALID_HANDLE,)
        self.queues.close(stream)
        return (_OK,)

    def cuEventCreate(self, flags: int) -> tuple[Result, int]:
        event = self._events[handle := self._handle()] = Event()
        event.is_timed = not flags & _UNTIMED
        return _OK, handle

    def cuEventRecord(self, event: int, stream: int) -> tuple[Result]:
        if event not in self._events or not self.queues.has(stream):
            return (Result.CUDA_ERROR_INVALID_HANDLE,)
        recorded = self._events[event]
        if recorded.is_timed:
            recorded.passed_at = None
            self.queues.add(stream, lambda: self._pass(recorded))
        self.queues.record(recorded, stream)
        return (self._fault,)

    def _pass(self, event: Event) -> None:
        event.passed_at = self.machine.threads * _MILLISECONDS

    def cuEventElapsedTime(self, first: int, then: int) -> tuple[Result, float]:
        """The clock of the GPU that is played: every thread of a launch takes a microsecond."""
        events = [self._events.get(handle) for handle in (first, then)]
        if any(event is None or not event.is_timed or event.number < 0 for event in events):
            return Result.CUDA_ERROR_INVALID_HANDLE, 0.0
        begin, end = (None if event is None else event.passed_at for event in events)
        if begin is None or end is None:
            return Result.CUDA_ERROR_NOT_READY, 0.0
        return self._fault, end - begin

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple[Result]:
        if event not in self._events or not self.queues.has(stream):
            return (Result.CUDA_ERROR_INVALID_HANDLE,)
        self.queues.hold(stream, self._events[event])
        return (self._fault,)

    def cuEventSynchronize(self, event: int) -> tuple[Result]:
        if event not in self._events:
            return (Result.CUDA_ERROR_INVALID_HANDLE,)
        self.queues.wait_for_event(self._events[event])
        return (self._fault,)

    def cuEventDestroy(self, event: int) -> tuple[Result]:
        return (_OK if self._events.pop(event, None) is not None else Result.CUDA_ERROR_INVALID_HANDLE,)

    def cuCtxSynchronize(self) -> tuple[Result]:
        self.queues.wait_for_all()
        return (self._fault,)

    def cuStreamSynchronize(self, stream: int) -> tuple[Result]:
        if not self.queues.has(stream):
            return (Result.CUDA_ERROR_INVALID_HANDLE,)
        self.queues.wait_for(stream)
        return (self._fault,)
