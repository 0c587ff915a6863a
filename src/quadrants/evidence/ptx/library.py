"""The played GPU behind NVIDIA's binary interface: a library `libcuda.so.1`, compiled against NVIDIA's own header (libcuda.c), which
the package cuda-bindings loads and which machine code calls; Python plays what it is asked (bindings.py).

`connect(wheels)`: from then on the played driver of this process is reached so. `wheels` is a folder with the packages
cuda-bindings, cuda-pathfinder, and nvidia-cuda-runtime (for the header) of one version of CUDA. One process has one.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
import weakref
from pathlib import Path
from typing import Any

from quadrants.evidence.ptx.bindings import ANYWHERE, CONSTANTS, Bindings
from quadrants.evidence.ptx.graphs import AnyParameters, NodeParameters
from quadrants.evidence.ptx.results import Result

__all__ = ["bindings_of", "build", "connect", "header", "lacking"]

_SOURCE = Path(__file__).parent / "libcuda.c"
_WORD = ctypes.c_uint64
_UNKNOWN = 999
_PLAYER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(_WORD), ctypes.POINTER(_WORD))
_WORDS = {
    "cuInit": 1,
    "cuDriverGetVersion": 0,
    "cuDeviceGet": 1,
    "cuDeviceGetAttribute": 2,
    "cuDeviceTotalMem": 1,
    "cuDevicePrimaryCtxRetain": 1,
    "cuCtxSetCurrent": 1,
    "cuCtxPushCurrent": 1,
    "cuCtxPopCurrent": 0,
    "cuCtxSetLimit": 2,
    "cuCtxSynchronize": 0,
    "cuMemAlloc": 1,
    "cuMemFree": 1,
    "cuFuncSetAttribute": 3,
    "cuLaunchKernel": 11,
    "cuStreamCreate": 1,
    "cuStreamDestroy": 1,
    "cuStreamSynchronize": 1,
    "cuStreamWaitEvent": 3,
    "cuEventCreate": 1,
    "cuEventRecord": 2,
    "cuEventSynchronize": 1,
    "cuEventElapsedTime": 2,
    "cuEventDestroy": 1,
    "cuGraphCreate": 1,
    "cuGraphConditionalHandleCreate": 4,
    "cuGraphInstantiate": 2,
    "cuGraphLaunch": 2,
    "cuGraphDestroy": 1,
    "cuGraphExecDestroy": 1,
}
"""How many words are handed on as they are; the other functions have methods of `_Door`."""


def header(wheels: Path) -> Path | None:
    """The folder of NVIDIA's header, None where it is not among the packages."""
    return next((path.parent for path in sorted(wheels.glob("nvidia/*/include/cuda.h"))), None)


def lacking(wheels: Path) -> str:
    """What there is not that it takes; '' where nothing is missing."""
    if header(wheels) is None or not list(wheels.glob("cuda/bindings/driver*")):
        return f"cuda-bindings and NVIDIA's header are not in {wheels.name}: `make test` puts them there"
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return "NVIDIA's driver is a library of 64-bit Linux here"
    return "" if shutil.which("cc") else "there is no C compiler here"


def build(include: Path, folder: Path) -> Path:
    """Compiles the library. What Python knows by number the compiler compares with the header. CalledProcessError."""
    told = folder / "constants.c"
    checks = [f'_Static_assert({name} == {number}, "{name}");\n' for name, number in CONSTANTS.items()]
    told.write_text(f'#include "{_SOURCE}"\n' + "".join(checks))
    made = folder / "libcuda.so.1"
    options = ["-shared", "-fPIC", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["cc", *options, f"-I{include}", str(told), "-o", str(made)], check=True, capture_output=True)
    return made


class _Door:
    """Who is asked by the library. `players`: by their contexts; what needs none goes to the newest."""

    def __init__(self, wheels: Path) -> None:
        found = header(wheels)
        assert found is not None
        self._folder = tempfile.TemporaryDirectory(prefix="quadrants-libcuda-")
        self._library = ctypes.CDLL(str(build(found, Path(self._folder.name))))
        self._function = _PLAYER(self._asked)
        self._library.qd_played_by(self._function)
        self._players: dict[int, weakref.ref[Bindings]] = {}
        self._newest: Bindings | None = None
        self._thread = threading.local()
        self._texts: dict[bytes, Any] = {}
        sys.path.insert(0, str(wheels))
        from cuda.bindings import driver  # pyright: ignore[reportMissingImports] - of the folder

        self._driver = driver

    def bindings_of(self, player: Bindings) -> Any:
        self._players[player.context], self._newest = weakref.ref(player), player
        return self._driver

    def _asked(self, name: bytes, given: Any, results: Any) -> int:
        try:
            function = name.decode()
            player = self._player(function, given[0])
            if player is None:
                return Result.CUDA_ERROR_INVALID_CONTEXT
            count = _WORDS.get(function)
            if count is None:
                code, *told = getattr(self, function)(player, given)
            else:
                code, *told = getattr(player, function)(*given[:count])
            if int(code) == 0:
                for k, value in enumerate(told):
                    results[k] = _word(value)
            return int(code)
        except BaseException:  # C cannot pass it on: the caller hears of an unknown error, and it is shown here
            traceback.print_exc()
            return _UNKNOWN

    def _player(self, function: str, context: int) -> Bindings | None:
        """Who is meant: that of the thread's context; None where nobody is."""
        if not hasattr(self._thread, "contexts"):
            self._thread.contexts = [0]
        contexts: list[int] = self._thread.contexts
        if function in ("cuCtxPushCurrent", "cuCtxSetCurrent"):
            known = self._players.get(context)
            meant = known() if known is not None else None
            if meant is not None:
                contexts[len(contexts) - (function == "cuCtxSetCurrent") :] = [context]
            return meant
        if function in ANYWHERE:
            return self._newest
        found = self._players[contexts[-1]]() if contexts[-1] else self._newest
        if function == "cuCtxPopCurrent" and len(contexts) > 1:
            contexts.pop()
        return found

    # What is more than words.

    def cuGetErrorString(self, player: Bindings, given: Any) -> tuple[Any, ...]:
        try:
            code, text = player.cuGetErrorString(Result(given[0]))
        except ValueError:
            return (Result.CUDA_ERROR_INVALID_VALUE,)
        return code, ctypes.addressof(self._texts.setdefault(text, ctypes.create_string_buffer(text)))

    def cuMemcpyHtoD(self, player: Bindings, given: Any) -> tuple[Any, ...]:
        return player.cuMemcpyHtoD(*given[:3])

    def cuMemcpyDtoH(self, player: Bindings, given: Any) -> tuple[Any, ...]:
        return player.cuMemcpyDtoH(*given[:3])

    def cuModuleLoadDataEx(self, player: Bindings, given: Any) -> tuple[Any, ...]:
        """The image is text that ends with a zero, unless it is a file of another kind."""
        image, count, options, values = given[:4]
        kinds = list((ctypes.c_uint32 * count).from_address(options)) if count else []
        told: list[Any] = list((_WORD * count).from_address(values)) if count else []
        for k, kind in enumerate(kinds):
            if kind in (CONSTANTS["CU_JIT_ERROR_LOG_BUFFER"], CONSTANTS["CU_JIT_INFO_LOG_BUFFER"]):
                told[k] = (ctypes.c_char * told[kinds.index(kind + 1)]).from_address(told[k])
        return player.cuModuleLoadDataEx(ctypes.string_at(image) + b"\0", count, kinds, told)

    def cuModuleGetFunction(self, player: Bindings, given: Any) -> tuple[Any, ...]:
        return player.cuModuleGetFunction(given[0], ctypes.string_at(given[1]))

    def cuModuleGetGlobal(self, player: Bindings, given: Any) -> tuple[Any, ...]:
        return player.cuModuleGetGlobal(given[0], ctypes.string_at(given[1]))

    def cuGraphAddKernelNode(self, player: Bindings, given: Any) -> tuple[Any, ...]:
        graph, before, count = given[:3]
        nodes = list((_WORD * count).from_address(before)) if count else []
        return player.cuGraphAddKernelNode(graph, nodes, count, _node(given[3:15]))

    def cuGraphExecKernelNodeSetParams(self, player: Bindings, given: Any) -> tuple[Any, ...]:
        return player.cuGraphExecKernelNodeSetParams(given[0], given[1], _node(given[2:14]))

    def cuGraphAddNode(self, player: Bindings, given: Any) -> tuple[Any, ...]:
        graph, before, edges, count = given[:4]
        nodes = list((_WORD * count).from_address(before)) if count else []
        told = AnyParameters()
        told.type, loop = given[4], told.conditional
        loop.handle, loop.type, loop.size, loop.ctx = given[5:9]
        code, handle = player.cuGraphAddNode(graph, nodes, edges or None, count, told)
        return code, handle, *loop.phGraph_out


_MEMBERS = (
    *("func", "gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"),
    *("sharedMemBytes", "kernelParams", "extra", "kern", "ctx"),
)


def _node(words: list[int]) -> NodeParameters:
    made = NodeParameters()
    for name, word in zip(_MEMBERS, words, strict=True):
        setattr(made, name, word)
    return made


def _word(value: Any) -> int:
    return int.from_bytes(bytes(ctypes.c_double(value)), sys.byteorder) if isinstance(value, float) else int(value)


_doors: list[_Door] = []


def connect(wheels: Path) -> None:
    """Builds the library, and loads it and the package cuda-bindings of a folder. AssertionError for what is `lacking`."""
    assert not _doors and not lacking(wheels), lacking(wheels)
    _doors.append(_Door(wheels))


def bindings_of(player: Bindings) -> Any:
    """The module `cuda.bindings.driver` by which a player is reached; where none is connected, the player itself."""
    return _doors[0].bindings_of(player) if _doors else player
