"""NVIDIA's driver, through the package `cuda-bindings`.

Run with a driver that is played, behind NVIDIA's header and package, too (tests/cuda/test_binary_interface.py): no machine with a GPU
has run it yet. Everything goes to the context's default stream, so that launches and copies follow one another, or to streams of ours
(streams.py), for which the default one waits.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import warnings
from collections.abc import Container
from functools import lru_cache
from typing import Any

from quadrants import knobs
from quadrants.errors import QuadrantsRuntimeError
from quadrants.targets.llvm.cuda import probe
from quadrants.targets.llvm.cuda.assembling import assemble, refused
from quadrants.targets.llvm.cuda.compile import SM, WARPGROUPS, AskedProducts
from quadrants.targets.llvm.cuda.device import Driver, device_of
from quadrants.targets.llvm.cuda.graphs import GraphCalls
from quadrants.targets.llvm.cuda.loops import Loops
from quadrants.targets.llvm.cuda.streams import StreamCalls
from quadrants.targets.llvm.device_driver import DriverMemory, DriverModule, place_of
from quadrants.targets.llvm.device_graphs import graph_text
from quadrants.targets.llvm.device_host import NativeLaunch, StreamOrder
from quadrants.targets.llvm.emit_host import STREAM

__all__ = ["NvidiaDriver", "missing", "open_driver", "unfit"]


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


_OWN_DEFAULTS = "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM"


def _bindings() -> Any:
    if os.environ.get(_OWN_DEFAULTS, "0") != "0":
        told = f"the environment variable {_OWN_DEFAULTS} is set: copies would not wait for launches, which go to the default stream of all threads"
        raise QuadrantsRuntimeError(f"{told}; unset it")
    try:
        from cuda.bindings import driver  # pyright: ignore[reportMissingImports] - an extra
    except (ImportError, RuntimeError) as error:
        raise _unsuited(error) from None
    return driver


def _unsuited(error: Exception) -> QuadrantsRuntimeError:
    """The package looks for the driver's functions, in the version that it knows, when it is imported or first called."""
    told = f"the package cuda-bindings does not go with NVIDIA's driver of this machine ({error})"
    return QuadrantsRuntimeError(
        f"{told}: install a newer driver, or an older package, pip install 'cuda-bindings==12.9.*'"
    )


_IN_CONTEXT = """  %context = load ptr, ptr @qd_driver_context, align 8
  %stream = load ptr, ptr @qd_device_stream, align 8
  %here = call i32 @cuCtxSetCurrent(ptr %context)
  %there = icmp eq i32 %here, 0
  br i1 %there, label %launch, label %check
launch:
  %told = call i32 CALL
  br label %check
check:
  %code = phi i32 [ %here, %entry ], [ %told, %launch ]
  %good = icmp eq i32 %code, 0
  br i1 %good, label %done, label %bad
bad:
  call void @qd_device_failed(i32 %code)
  br label %done
done:
  %r = phi i32 [ 0, %check ], [ -2, %bad ]
  ret i32 %r
"""
"""A call of the driver in the context and the stream in force, `CALL`, and what becomes of its code."""
_LAUNCH = (
    """
@qd_driver_context = external global ptr
declare i32 @cuCtxSetCurrent(ptr)
declare i32 @cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
declare void @qd_device_failed(i32)
define internal i32 @qd_launch(ptr %kernel, i32 %blocks, i32 %threads, i32 %asked, ptr %frame, i64 %bytes) nounwind {
entry:
  %pointers = alloca ptr, align 8
  store ptr %frame, ptr %pointers, align 8
"""
    + _IN_CONTEXT.replace(
        "CALL",
        "@cuLaunchKernel(ptr %kernel, i32 %blocks, i32 1, i32 1, i32 %threads, i32 1, i32 1, i32 %asked, ptr %stream, ptr %pointers, ptr null)",
    )
    + "}\n"
)
_LAUNCH_GRAPH = (
    """
%node_parameters = type { ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr, ptr }
@qd_driver_context = external global ptr
declare i32 @cuCtxSetCurrent(ptr)
declare i32 @cuGraphLaunch(ptr, ptr)
declare void @qd_device_failed(i32)
define internal i32 @qd_graph_launch(ptr %graph) nounwind {
entry:
"""
    + _IN_CONTEXT.replace("CALL", "@cuGraphLaunch(ptr %graph, ptr %stream)")
    + """}
declare i32 @cuGraphExecKernelNodeSetParams_v2(ptr, ptr, ptr)
define internal i32 @qd_graph_set(ptr %graph, ptr %node, ptr %kernel, i32 %blocks, i32 %threads, i32 %asked, ptr %frame) nounwind {
entry:
  %pointers = alloca ptr, align 8
  store ptr %frame, ptr %pointers, align 8
  %parameters = alloca %node_parameters, align 8
  store %node_parameters { ptr null, i32 0, i32 1, i32 1, i32 0, i32 1, i32 1, i32 0, ptr null, ptr null, ptr null, ptr null }, ptr %parameters, align 8
  store ptr %kernel, ptr %parameters, align 8
  %at.blocks = getelementptr inbounds %node_parameters, ptr %parameters, i32 0, i32 1
  store i32 %blocks, ptr %at.blocks, align 4
  %at.threads = getelementptr inbounds %node_parameters, ptr %parameters, i32 0, i32 4
  store i32 %threads, ptr %at.threads, align 4
  %at.asked = getelementptr inbounds %node_parameters, ptr %parameters, i32 0, i32 7
  store i32 %asked, ptr %at.asked, align 4
  %at.pointers = getelementptr inbounds %node_parameters, ptr %parameters, i32 0, i32 8
  store ptr %pointers, ptr %at.pointers, align 8
"""
    + _IN_CONTEXT.replace("CALL", "@cuGraphExecKernelNodeSetParams_v2(ptr %graph, ptr %node, ptr %parameters)")
    + "}\n"
)
_CALLED = (
    "cuCtxSetCurrent",
    "cuLaunchKernel",
    "cuGraphLaunch",
    "cuGraphExecKernelNodeSetParams_v2",
    "cuEventRecord",
    "cuStreamWaitEvent",
)


def _addresses(bindings: Any) -> dict[str, int]:
    """Where the functions of the driver are that machine code calls; a module that is played has them at hand."""
    found: dict[str, int] | None = getattr(bindings, "addresses", None)
    if found is not None:
        return found
    library = ctypes.CDLL("libcuda.so.1")
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _CALLED}


_STICKY = (226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911)
"""Codes after which a context gives nothing but errors, as NVIDIA's header has it: illegal addresses and instructions, time-outs, failed
launches, and what they become with several processes or other machines."""


_USUAL_STACK, _MOST_STACK = 1 << 10, 1 << 16
"""Bytes of a thread's stack: the driver's own choice, and what functions that call themselves get at most."""


class NvidiaDriver(StreamCalls, GraphCalls):
    """The first GPU of the machine, in its primary context, which torch and CuPy share.

    `bindings` is the module `cuda.bindings.driver`. Its functions give a result code and then what they are for.
    """

    def __init__(self, bindings: Any = None) -> None:
        self._cuda = cuda = bindings if bindings is not None else _bindings()
        self._call(cuda.cuInit, 0)
        self._device = self._call(cuda.cuDeviceGet, 0)
        self._context = self._call(cuda.cuDevicePrimaryCtxRetain, self._device)
        major, minor = (self._attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
        self.sm = 10 * major + minor
        self.multiprocessors = self._attribute("MULTIPROCESSOR_COUNT")
        self.shared_memory = self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self._has_stack = False
        self._words = (ctypes.c_uint64 * 2)(int(self._context), 0)
        self._native: NativeLaunch | None = None
        self._loops = Loops(self)
        self._order: StreamOrder | None = None
        self._warpgroups: bool | None = None
        self.shared_products: Container[str] = AskedProducts(lambda: self.warpgroups)
        self.is_lost = False
        self.device = device_of(self, self.sm)

    def _attribute(self, name: str) -> int:
        key = getattr(self._cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call(self._cuda.cuDeviceGetAttribute, key, self._device))

    @property
    def may_warpgroups(self) -> bool:
        """Whether `warpgroups` may be true; nothing is asked."""
        return self.sm == WARPGROUPS and knobs.current.warpgroups

    @property
    def knows_warpgroups(self) -> bool:
        """Whether `warpgroups` is known to be true; nothing is asked."""
        return self.may_warpgroups and self._warpgroups is True

    @property
    def warpgroups(self) -> bool:
        """Whether the GPU's warpgroups multiply what lies in shared memory. The GPU is asked for the first kernel of a process that would
        have them do so."""
        if not self.may_warpgroups:
            return False
        if self._warpgroups is None:
            reason = probe.objection(self)
            self._warpgroups = not reason
            if reason:
                text = f"products of matrices do without wgmma, which is slower, as the GPU says otherwise than it should: {reason}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        return self._warpgroups

    def native_launch(self) -> NativeLaunch:
        """How machine code launches kernels; it finds the context and the stream in words of ours."""
        if self._native is None:
            at = ctypes.addressof(self._words)
            words = {"qd_driver_context": at, STREAM: at + 8}
            symbols = {**words, **_addresses(self._cuda)}
            self._native = NativeLaunch(_LAUNCH, graph_text(_LAUNCH_GRAPH), symbols, self, self._stream_order)
        return self._native

    def _stream_order(self) -> StreamOrder:
        """One event serves all: whoever waits for it waits for what it was recorded behind last."""
        if self._order is None:
            at, addresses = ctypes.addressof(self._words), _addresses(self._cuda)
            calls = (addresses[name] for name in ("cuCtxSetCurrent", "cuEventRecord", "cuStreamWaitEvent"))
            self._order = StreamOrder(at + 8, int(self._context), self.make_event(), *calls)
        return self._order

    def _here(self) -> None:
        self._call(self._cuda.cuCtxSetCurrent, self._context)

    def _aside(self, *calls: tuple[Any, Any]) -> None:
        """Calls functions for finalisers, which run between any two calls of whoever works in this thread, on another GPU perhaps:
        it has its own context again behind them. What went wrong before is told to whoever waits next."""
        if int(self._cuda.cuCtxPushCurrent(self._context)[0]) == 0:
            for function, handle in calls:
                function(handle)
            self._cuda.cuCtxPopCurrent()

    def _call(self, function: Any, *arguments: Any) -> Any:
        try:
            code, *results = function(*arguments)
        except ValueError as error:
            raise QuadrantsRuntimeError(
                f"the GPU's driver gives a code that the package cuda-bindings does not know: {error}"
            ) from None
        except RuntimeError as error:
            raise error if isinstance(error, (QuadrantsRuntimeError, RecursionError)) else _unsuited(error) from None
        if int(code) != 0:
            raise self._error(code, getattr(function, "__name__", "a call"))
        return results[0] if len(results) == 1 else tuple(results)

    def _error(self, code: Any, name: str) -> Exception:
        if int(code) == 2:
            return MemoryError(f"the GPU has no memory left ({name})")
        _, text = self._cuda.cuGetErrorString(code)
        told = f"the GPU's driver says in {name}: {bytes(text or b'').decode()} ({int(code)})"
        if int(code) in _STICKY:
            self.is_lost = True
            told += "\n  the GPU takes nothing more from this process, which has to be started anew"
            told += "; qd.init(debug=True) finds indices out of range before they do harm"
        return QuadrantsRuntimeError(told)

    def error_of(self, code: int) -> Exception:
        """What a launch by machine code gave."""
        try:
            known = self._cuda.CUresult(code)
        except ValueError:
            return QuadrantsRuntimeError(
                f"the GPU's driver gives the code {code}, which the package cuda-bindings does not know"
            )
        return self._error(known, "a launch")

    def allocate(self, size: int) -> DriverMemory:
        self._here()
        return DriverMemory(self, int(self._call(self._cuda.cuMemAlloc, size)), size)

    def load(self, ptx: str) -> DriverModule:
        self._here()
        code, module, log = assemble(self._cuda, ptx)
        if int(code) != 0:
            error = self._error(code, "cuModuleLoadDataEx")
            raise error if isinstance(error, MemoryError) else refused(int(code), str(error), log, ptx)
        return DriverModule(self, module)

    def allow_recursion(self) -> None:
        """Gives threads a stack for functions that call themselves, of which the driver cannot know how deep they go: by itself it is
        1 KiB. All threads that can be there at once have one, which takes a sixteenth of the memory at most."""
        if self._has_stack:
            return
        self._here()
        threads = self.multiprocessors * self._attribute("MAX_THREADS_PER_MULTIPROCESSOR")
        memory = int(self._call(self._cuda.cuDeviceTotalMem, self._device))
        size = min(_MOST_STACK, memory // 16 // threads) // 1024 * 1024
        limit = self._cuda.CUlimit.CU_LIMIT_STACK_SIZE
        while size > _USUAL_STACK:
            try:
                self._call(self._cuda.cuCtxSetLimit, limit, size)
                break
            except MemoryError:
                size //= 2
        self._has_stack = True

    def allow_shared(self, kernel: Any, asked: int) -> None:
        """Without this word the driver refuses launches that ask for more than 48 KiB."""
        self._here()
        attribute = self._cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call(self._cuda.cuFuncSetAttribute, kernel, attribute, asked)

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Copies bytes to an address; behind all launches, for they are of one stream."""
        self._here()
        if data:
            self._call(self._cuda.cuMemcpyHtoD, address, place_of(data), len(data))

    def read_into(self, address: int, place: memoryview) -> None:
        """Waits for all launches, and copies bytes from an address."""
        self._here()
        if place:
            self._call(self._cuda.cuMemcpyDtoH, place_of(place), address, len(place))

    def release(self, address: int) -> None:
        """Finalisers call this."""
        self._aside((self._cuda.cuMemFree, address))

    def launch(self, kernel: Any, blocks: int, threads: int, parameters: bytes, asked: int = 0) -> None:
        """The driver copies the parameters before it returns."""
        self._here()
        frame = ctypes.create_string_buffer(parameters, len(parameters))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(frame))
        place = ctypes.addressof(pointers)
        self._call(self._cuda.cuLaunchKernel, kernel, blocks, 1, 1, threads, 1, 1, asked, self.stream, place, 0)

    def synchronise(self, stream: int | None = None) -> None:
        self._here()
        if stream is None:
            self._call(self._cuda.cuCtxSynchronize)
        else:
            self._call(self._cuda.cuStreamSynchronize, stream)

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        self._here()
        return self._call(self._cuda.cuModuleGetFunction, module, name.encode())

    def variable(self, module: Any, name: str) -> int | None:
        """The address of a variable of a module, None where it has none of that name."""
        self._here()
        code, address, _ = self._cuda.cuModuleGetGlobal(module, name.encode())
        return int(address) if int(code) == 0 else None


def open_driver() -> NvidiaDriver:
    """The machine's driver."""
    return NvidiaDriver()


def unfit(driver: Driver) -> str:
    """Why no code is made for a driver's GPU; '' where it is."""
    return "" if driver.sm >= SM[0] else f"the GPU is of sm_{driver.sm}: code is made for sm_{SM[0]} and newer"
