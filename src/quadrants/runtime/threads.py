"""The thread pool and the other services that compiled kernels call: Python's side.

Compiled code calls these symbols, whose addresses `symbols()` gives. A task is `void(ptr frame, ptr captures, i64
begin, i64 end)`; a frame is the kernel's block of arguments, captures are what the loop takes from around it.

`void qd_parallel_for(ptr task, ptr frame, ptr captures, i64 count, i64 chunk, i64 cost)`
    Runs a task over `0 .. count`. With `chunk` > 0 the calls are exactly `[k * chunk, min((k + 1) * chunk, count))`;
    with 0 the pool chooses. `cost` estimates the nanoseconds of one iteration. Small loops, loops inside loops, and
    loops of a second thread run on the thread that asks.
`i64 qd_parallel_scatter(ptr plain, ptr atomic, ptr frame, i64 frame_size, ptr captures, i64 count, i64 cost, ptr table,
    i64 table_length, i64 updates)`
    A loop that conflicts only in updates of some arrays; see `quadrants.runtime.threads_scatter`.
`ptr qd_allocate(i64 bytes)`, `void qd_release(ptr memory)`
    Scratch memory on a cache line; null if there is none.
`void qd_print(ptr record, i64 bytes)`
    Appends to what `drain_prints` gives.
`void qd_fail(i64 message, ptr values, i64 count)`, `i32 qd_status()`
    Keeps the first failure for `take_failure`; asks whether there is one.
`i64 qd_random()`
    The next number of the process's random stream (`quadrants.ir.streams`), which `seed_random` begins anew.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from quadrants.ir import streams
from quadrants.knobs import hardware_threads
from quadrants.runtime import native
from quadrants.runtime.threads_state import LARGEST_COUNT, POOL, PoolState

if TYPE_CHECKING:
    from quadrants.runtime.loader import LoadedObject

__all__ = [
    "LARGEST_COUNT",
    "SymbolTable",
    "count",
    "counters",
    "default_count",
    "drain_prints",
    "pool_symbols",
    "seed_random",
    "set_count",
    "state",
    "symbols",
    "take_failure",
]

_COUNTERS = (
    "launches",
    "parallel_loops",
    "small_loops",
    "lone_loops",
    "seats_taken",
    "wakes",
    "scatter_serial",
    "scatter_private",
    "scatter_atomic",
)
_SOURCES = ("native_text", "threads_state", "threads_parking", "threads_native", "threads_services")
_SCATTER = "qd_parallel_scatter"

_lock = threading.RLock()
_loaded: LoadedObject | None = None
_scatter: LoadedObject | None = None
_state: PoolState | None = None
_wanted_count = 0
_random_start = streams.start_of(0)


class SymbolTable(Mapping[str, int]):
    """Addresses by name; what few programs need is loaded when it is first asked for."""

    def __getitem__(self, name: str) -> int:
        return _load_scatter().symbols[name] if name == _SCATTER else _load().symbols[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*_load().symbols, _SCATTER])

    def __len__(self) -> int:
        return len(_load().symbols) + 1

    def __contains__(self, name: object) -> bool:
        return name == _SCATTER or name in _load().symbols


def symbols() -> SymbolTable:
    """Addresses of everything that compiled code may call, by name. Loads the pool on first use."""
    return SymbolTable()


def pool_symbols() -> Mapping[str, int]:
    """Addresses of what the pool itself provides, by name. Loads the pool on first use."""
    return _load().symbols


@contextlib.contextmanager
def loading_beside() -> Iterator[None]:
    """Loads the pool, if that is to be done yet, on a thread beside while the body runs.

    Where LLVM has to make it it lets go of the GIL, so that the body can go on with Python. The thread does not outlive
    the body, so it meets neither LLVM's options nor forks.
    """
    if _loaded is not None or default_count() == 1:
        yield
        return
    thread = threading.Thread(target=_load_if_possible)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _load_if_possible() -> None:
    with contextlib.suppress(Exception):  # who needs the pool tries again, and tells
        _load()


def state() -> PoolState:
    """The pool's live state, in place. Loads the pool on first use."""
    _load()
    assert _state is not None
    return _state


def are_launches_beside() -> bool:
    """Whether kernels run beside Python now, in other threads: they have bare addresses of fields and ndarrays."""
    return _state is not None and _state.released != 0


def default_count() -> int:
    """Threads used unless told otherwise: the processors that this process may run on."""
    return max(1, min(hardware_threads(), LARGEST_COUNT))


def count() -> int:
    """How many threads a parallel loop may use, its caller included."""
    return _wanted_count or default_count()


def set_count(number: int | None) -> None:
    """Use `number` threads from the next loop on; None for the default. Raises ValueError outside 1..512."""
    global _wanted_count
    if number is not None and not 1 <= number <= LARGEST_COUNT:
        raise ValueError(f"the number of threads must lie in 1..{LARGEST_COUNT}, got {number}")
    with _lock:
        _wanted_count = number or 0
        if _state is not None:
            _state.thread_count = count()


def seed_random(number: int) -> None:
    """Begin the process's random stream anew, as that integer says, for kernels and for the interpreter."""
    global _random_start
    with _lock:
        streams.seed(number)
        _random_start = streams.start_of(number)
        if _state is not None:
            _state.random_state = _random_start


def counters() -> dict[str, int]:
    """Launches, loops by the way they ran, seats that workers took, calls that woke parked workers, scatters by the way taken; since the start."""
    current = state()
    return {name: getattr(current, name) for name in _COUNTERS}


def drain_prints() -> bytes:
    """What kernels have printed since the last call, in order of printing."""
    if _loaded is None:
        return b""
    size = ctypes.c_int64()
    take = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(_loaded.address("qd_take_prints"))
    memory = take(ctypes.addressof(size))
    if not memory:
        return b""
    content = ctypes.string_at(memory, size.value)
    ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_loaded.address("qd_release"))(memory)
    return content


def take_failure() -> tuple[int, tuple[int, ...]] | None:
    """The first failure that kernels reported since the last call: its number and values; None if there is none."""
    if _state is None or _state.failure_state != 2:
        return None
    message, kept, *values = _state.failure
    _state.failure_state = 0
    return message, tuple(values[:kept])


def _load() -> LoadedObject:
    global _loaded, _state
    if _loaded is not None:
        return _loaded
    with _lock:
        if _loaded is None:
            loaded = native.load_part("threads", _build_pool, (*_SOURCES, "../ir/streams"))
            _state = PoolState.from_address(loaded.address(POOL))
            _state.thread_count = count()
            _state.random_state = _random_start
            _state.main_thread = threading.main_thread().ident or 0
            ctypes.PYFUNCTYPE(None)(loaded.address("qd_prepare"))()
            _register_fork(loaded.address("qd_fork_child"))
            _loaded = loaded
    return _loaded


def _load_scatter() -> LoadedObject:
    global _scatter
    if _scatter is None:
        with _lock:
            sources = (*_SOURCES, "threads_scatter")
            _scatter = native.load_part("scatter", _build_scatter, sources, symbols=_load().symbols)
    return _scatter


def _build_pool() -> str:
    from quadrants.runtime import native_text, threads_native, threads_services

    module = native_text.Module()
    threads_native.build(module)
    threads_services.build(module)
    return module.text()


def _build_scatter() -> str:
    from quadrants.runtime import native_text, threads_scatter

    module = native_text.Module()
    threads_scatter.build(module)
    return module.text()


def _register_fork(child: int) -> None:
    """Have every fork, of Python or of C, reset the pool in the child: the workers exist in the parent only."""
    from quadrants.runtime.loader import process_symbol

    for name, arguments in (("__register_atfork", (None, None, child, None)), ("pthread_atfork", (None, None, child))):
        address = process_symbol(name)
        if address is not None:
            ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * len(arguments))(address)(*arguments)
            return
    os.register_at_fork(after_in_child=ctypes.PYFUNCTYPE(None)(child))


def _forked() -> None:
    """The lock may have been held by a thread that the child does not have."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
