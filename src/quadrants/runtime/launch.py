"""Launching compiled kernels: the callable type, and calls with a frame that Python filled in.

`NativeKernel` is subclassed by the user-facing kernel. A call runs machine code that walks the installed bindings'
tables; whatever they do not cover goes to `_slow_call(arguments, keywords)`. Where the interpreter or the machine is
not one that the tables know, every call goes there, and nothing else changes.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any

import numpy as np

from quadrants.runtime import native, threads
from quadrants.runtime.launch_binding import (
    ABSENT,
    MEMORY,
    ArgumentSpec,
    ArrayArgument,
    Binding,
    BooleanArgument,
    CellGuard,
    ConvertedArgument,
    FloatArgument,
    ForeignArgument,
    Guard,
    IdentityArgument,
    IntegerArgument,
    Member,
    Order,
    ResultSpec,
    ScalarArgument,
    StorageArgument,
    TupleArgument,
    Watch,
    WordsGuard,
)
from quadrants.runtime.launch_probe import Facts, facts
from quadrants.runtime.launch_records import KernelObject

__all__ = [
    "ABSENT",
    "MEMORY",
    "METHOD_NAMES",
    "ArgumentSpec",
    "ArrayArgument",
    "Binding",
    "BooleanArgument",
    "CellGuard",
    "ConvertedArgument",
    "FloatArgument",
    "ForeignArgument",
    "Guard",
    "IdentityArgument",
    "IntegerArgument",
    "Member",
    "NativeKernel",
    "Order",
    "ResultSpec",
    "ScalarArgument",
    "StorageArgument",
    "TupleArgument",
    "Watch",
    "WordsGuard",
    "call",
    "is_loaded",
    "is_native",
    "run",
    "torch_functions",
]

_FLAG_BASE_TYPE, _FLAG_VECTORCALL, _FLAG_METHOD, _FLAG_VERSIONED = 1 << 10, 1 << 11, 1 << 17, 1 << 18
_SLOT_MEMBERS, _SLOT_DOC, _MEMBER_SSIZE, _MEMBER_READ_ONLY = 72, 56, 19, 1
_SOURCES = (
    "native_text",
    "threads_state",
    "threads_parking",
    "threads_native",
    "threads_services",
    "launch_probe",
    "launch_records",
    "launch_native",
)
METHOD_NAMES = {
    "qd_name_slow": "_slow_call",
    "qd_name_failed": "_failed",
    "qd_name_unpack": "_unpack",
    "qd_name_run": "_run",
}
"""The methods of kernels that machine code calls, by its symbols for their names."""
_FOREIGN_NAMES = {
    "qd_name_interface": "__cuda_array_interface__",
    **{f"qd_name_{key}": key for key in ("typestr", "mask", "data", "shape", "strides", "stream")},
}

_facts = facts()
_lock = threading.RLock()
_symbols: dict[str, int] | None = None
_has_foreign = False
_kept_names: list[str] = []


def is_loaded() -> bool:
    """Whether the launcher's machine code is in the process: installing the first bindings loads it."""
    return _symbols is not None


def is_native() -> bool:
    """Whether installed bindings are launched by machine code here; otherwise every call takes the slow path."""
    return _facts is not None


def call(binding: Binding, frame: bytearray, most_threads: int = 0) -> int:
    """Run a binding's entry on a frame that Python filled in, on `most_threads` threads at most (0: all); gives the
    entry's status.

    Raises whatever a signal handler raised while the kernel ran.
    """
    content = (ctypes.c_char * len(frame)).from_buffer(frame) if frame else None
    address = ctypes.addressof(content) if content is not None else 0
    run = _runner()
    if not most_threads:
        return run(binding.entry, address, binding.release_gil)
    state = threads.state()
    state.thread_limit = most_threads
    try:
        return run(binding.entry, address, binding.release_gil)
    finally:
        state.thread_limit = 0


def run(binding: Binding, frame: int) -> int:
    """Run a binding's entry on the frame at an address; gives the entry's status. Raises as `call` does."""
    return _runner()(binding.entry, frame, binding.release_gil)


_run: Callable[[int, int, int], int] | None = None


def _runner() -> Callable[[int, int, int], int]:
    global _run
    if _run is None:
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        _run = prototype(threads.symbols()["qd_run"])
    return _run


def _launcher() -> dict[str, int]:
    """Addresses of the launcher's functions. Loads it on first use."""
    global _symbols
    with _lock:
        if _symbols is None:
            assert _facts is not None
            found = dict(threads.pool_symbols())
            found["qd_numpy_array"] = id(np.ndarray)
            found.update(_names(METHOD_NAMES))
            loaded = native.load_part("launch", lambda: _build(_facts), _SOURCES, repr(_facts), found, hot=True)
            _symbols = dict(loaded.symbols)
        return _symbols


def _names(wanted: Mapping[str, str]) -> dict[str, int]:
    """The names that machine code looks up, by their symbols."""
    kept = {symbol: sys.intern(name) for symbol, name in wanted.items()}
    _kept_names.extend(kept.values())
    return {symbol: id(name) for symbol, name in kept.items()}


def _with_foreign() -> dict[str, int]:
    """The launcher's functions and those for arrays of other packages, which are loaded on first use."""
    global _has_foreign
    symbols = _launcher()
    with _lock:
        if not _has_foreign:
            found = _names(_FOREIGN_NAMES)
            sources = (*_SOURCES, "launch_foreign")
            loaded = native.load_part("foreign", lambda: _build_foreign(_facts), sources, repr(_facts), found, hot=True)
            symbols.update(loaded.symbols)
            _has_foreign = True
    return symbols


def _build(known: Facts | None) -> str:
    from quadrants.runtime import launch_native, native_text

    assert known is not None
    module = native_text.Module()
    launch_native.build(module, known)
    return module.text()


def _build_foreign(known: Facts | None) -> str:
    from quadrants.runtime import launch_foreign, native_text

    assert known is not None
    module = native_text.Module()
    launch_foreign.build(module, known)
    return module.text()


def torch_functions(tensor_at: int, symbols: Mapping[str, int]) -> Mapping[str, int]:
    """Addresses of `qd_torch_read`, and of `qd_torch_ask` where `symbols` have what tells streams (launch_torch.py)."""
    asks = "aoti_torch_get_current_cuda_stream" in symbols

    def text() -> str:
        from quadrants.runtime import launch_torch, native_text

        module = native_text.Module()
        launch_torch.build(module, tensor_at, asks)
        return module.text()

    sources = ("native_text", "launch_records", "launch_torch")
    return native.load_part("torch", text, sources, f"{tensor_at} {asks}", symbols, hot=True).symbols


# ------------------------------------------------------------------------------------------------------ the kernel type


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("pointer", ctypes.c_void_p)]


class _Specification(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basic_size", ctypes.c_int),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


_kept_alive: list[Any] = []


def _create_base() -> type:
    """A heap type whose instances hold an entry for calls and a pointer to tables: the fields of `KernelObject`."""
    members = (_Member * 2)()
    members[0] = _Member(b"__vectorcalloffset__", _MEMBER_SSIZE, KernelObject.vectorcall.offset, _MEMBER_READ_ONLY)
    slots = (_Slot * 2)()
    slots[0] = _Slot(_SLOT_MEMBERS, ctypes.addressof(members))
    flags = _FLAG_BASE_TYPE | _FLAG_VERSIONED
    name = f"{__name__}.KernelBase".encode()
    specification = _Specification(name, ctypes.sizeof(KernelObject), 0, flags, slots)
    _kept_alive.extend((members, slots, name, specification))
    create = ctypes.pythonapi.PyType_FromSpec
    create.restype, create.argtypes = ctypes.py_object, [ctypes.c_void_p]
    return create(ctypes.addressof(specification))


class _PlainBase:
    __slots__ = ()


_Base: Any = _PlainBase if _facts is None else _create_base()


def _let_machine_code_call(cls: type) -> None:
    """Have the interpreter call instances of a class through their own entry, and not bind them into methods first."""
    if _facts is None:
        return
    word = ctypes.c_uint64.from_address(id(cls) + _facts.type_flags)
    word.value |= _FLAG_VECTORCALL | _FLAG_METHOD
    modified = ctypes.pythonapi.PyType_Modified
    modified.argtypes = [ctypes.py_object]
    modified(cls)


class NativeKernel(_Base):
    """A callable whose calls run compiled code directly once bindings are installed.

    Subclasses define `_slow_call(arguments, keywords)` (`keywords` is None without any), and, where their bindings need
    them, `_failed(status)` for an entry that returned a status other than 0 and `_unpack(frame, binding)` for results that Python
    makes; what these return is the call's value. `_run(binding, frame, held)` runs the entry of bindings that are run by Python, on
    the frame at that address. Subclasses need `__slots__`.
    """

    __slots__ = ("_installed",)
    _installed: tuple[Binding, ...]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        _let_machine_code_call(cls)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._slow_call(arguments, keywords or None)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def _slow_call(self, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say how to call it")

    def _failed(self, status: int) -> Any:
        raise RuntimeError(f"the kernel returned status {status}")

    def _unpack(self, frame: bytes, binding: Binding) -> Any:
        """The result in a frame. Whoever installs bindings with results has to say; launches of all others never come here."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to make its result")

    def _run(self, binding: Binding, frame: int, held: tuple[Any, ...]) -> None:
        """Runs a launch whose frame is filled and whose arrays are held. Whoever installs bindings that say so has to say how; launches
        of all others never come here."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to run such a binding")

    def _install(self, *bindings: Binding) -> None:
        """Launch calls that fit one of these bindings directly, trying them in order. A binding serves one kernel."""
        if _facts is None or not bindings:
            self._uninstall()
            return
        symbols = _with_foreign() if any(binding.has_foreign() for binding in bindings) else _launcher()
        addresses = [binding.pack(symbols, _facts.cell_content) for binding in bindings]
        self._uninstall()
        for binding, following in zip(bindings, [*addresses[1:], None]):
            assert binding.block is not None
            binding.block.next = following
        self._installed = bindings
        fields = KernelObject.from_address(id(self))
        fields.block, fields.vectorcall = addresses[0], symbols["qd_launch"]
        fields.installs += 1

    def _uninstall(self) -> None:
        """Send every call to the slow path from now on. A call that is running keeps its binding."""
        if _facts is not None:
            fields = KernelObject.from_address(id(self))
            fields.block = fields.vectorcall = None
            fields.installs += 1
        self._installed = ()


_let_machine_code_call(NativeKernel)
