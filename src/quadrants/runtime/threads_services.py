"""Machine code of what kernels ask of the runtime besides loops, and of how they are run."""

from __future__ import annotations

from quadrants.ir import streams
from quadrants.runtime.native_text import Function, Module, Record, Value
from quadrants.runtime.threads_native import pool
from quadrants.runtime.threads_parking import cycles
from quadrants.runtime.threads_state import FAILURE_VALUES

__all__ = ["build", "run_entry"]

_FIRST_PRINT_BYTES = 4096


def build(module: Module) -> None:
    """Write `qd_allocate`, `qd_release`, `qd_print`, `qd_take_prints`, `qd_fail`, `qd_status`, `qd_random` and `qd_run`."""
    _build_memory(module)
    _build_print(module)
    _build_take_prints(module)
    _build_fail(module)
    _build_status(module)
    _build_random(module)
    _build_run(module)


def _build_memory(module: Module) -> None:
    f = module.function("qd_allocate", "ptr", "i64 size")
    (size,) = f.parameters
    f.give(f.call("aligned_alloc", "ptr", 64, f.larger((size + 63) & -64, 64), types="i64,i64"))
    f = module.function("qd_release", "void", "ptr memory")
    f.call("free", "void", f.parameters[0])
    f.give()


def _build_print(module: Module) -> None:
    """qd_print(record, bytes): append a record. Records of one call stay together; without memory they are dropped."""
    f = module.function("qd_print", "void", "ptr record", "i64 size")
    record, size = f.parameters
    state = pool(f)
    f.call("pthread_mutex_lock", "i32", state.address("print_lock"))
    needed = state.get("print_size") + size
    with f.when(needed > state.get("print_capacity")):
        capacity = f.larger(needed * 2, _FIRST_PRINT_BYTES)
        memory = f.call("realloc", "ptr", state.get("print_buffer"), capacity)
        with f.when(memory.is_not(None)):
            state.set("print_buffer", memory)
            state.set("print_capacity", capacity)
    with f.when(needed <= state.get("print_capacity")):
        f.call("memcpy", "ptr", f.offset(state.get("print_buffer"), state.get("print_size")), record, size)
        state.set("print_size", needed)
    f.call("pthread_mutex_unlock", "i32", state.address("print_lock"))
    f.give()


def _build_take_prints(module: Module) -> None:
    """qd_take_prints(size): hand the buffer to the caller, who frees it; its size is stored at `size`."""
    f = module.function("qd_take_prints", "ptr", "ptr size")
    (size,) = f.parameters
    state = pool(f)
    f.call("pthread_mutex_lock", "i32", state.address("print_lock"))
    memory = state.get("print_buffer")
    f.store("i64", state.get("print_size"), size)
    state.set("print_buffer", None)
    state.set("print_size", 0)
    state.set("print_capacity", 0)
    f.call("pthread_mutex_unlock", "i32", state.address("print_lock"))
    f.give(memory)


def _build_fail(module: Module) -> None:
    """qd_fail(message, values, count): keep the first failure: its number and as many values as there is room for."""
    f = module.function("qd_fail", "void", "i64 message", "ptr values", "i64 count")
    message, values, count = f.parameters
    state = pool(f)
    first = f.exchange_if("i32", state.address("failure_state"), 0, 1, "acq_rel")
    f.give_if(first.is_equal(0))
    record = state.address("failure")
    kept = f.smaller(f.larger(count, 0), FAILURE_VALUES)
    f.store("i64", message, record)
    f.store("i64", kept, record, 8)
    f.call("memcpy", "ptr", f.offset(record, 16), values, kept * 8)
    f.store_atomic("i32", 2, state.address("failure_state"), "release")
    f.give()


def _build_status(module: Module) -> None:
    """qd_status(): 0, or 1 if a failure was reported and not yet taken."""
    f = module.function("qd_status", "i32")
    failed = f.load_atomic("i32", pool(f).address("failure_state"), "acquire").is_not(0)
    f.give(failed.converted("zext", "i32"))


def _build_random(module: Module) -> None:
    """qd_random(): the next number of the process's stream, whichever thread asks."""
    f = module.function("qd_random", "i64")
    step = f.constant("i64", _signed(streams.STEP))
    bits = f.update("add", "i64", pool(f).address("random_state"), step, "monotonic") + step
    for shift, factor in (
        (streams.FIRST_SHIFT, streams.FIRST_FACTOR),
        (streams.SECOND_SHIFT, streams.SECOND_FACTOR),
    ):
        bits = (bits ^ bits.shifted_right(shift)) * _signed(factor)
    f.give(bits ^ bits.shifted_right(streams.LAST_SHIFT))


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def run_entry(f: Function, entry: Value, frame: Value, release: Value, decided: Record | None = None) -> Value:
    """Call a kernel; the status is its own, or -1 if a signal handler raised meanwhile. With `decided`, a record with the fields
    `release` and `long_run`, the next launch releases the interpreter's lock if this one took more than so many cycles, the wait for
    the lock apart."""
    state = pool(f)
    state.increase("launches")
    status, thread = f.variable("i32", 0), f.variable("ptr", None)
    released, limit, start = release.is_not(0), f.constant("i64", 0), f.variable("i64", 0)
    with f.when(released):
        state.increase("released")
        thread.value = f.call("PyEval_SaveThread", "ptr")
    if decided is not None:
        limit = decided.get("long_run")
        with f.when(limit.is_not(0)):
            start.value = cycles(f)
    status.value = f.call(entry, "i32", frame)
    took = f.variable("i64", 0)
    if decided is not None:
        with f.when(limit.is_not(0)):
            took.value = cycles(f) - start.value
    with f.when(released):
        f.call("PyEval_RestoreThread", "void", thread.value)
        state.increase("released", -1)
    if decided is not None:
        with f.when(limit.is_not(0)):
            decided.set("release", limit.is_below(took.value).converted("zext", "i64"))
    with f.when(state.get("interrupted").is_not(0)):
        ours = f.call("pthread_self", "i64").is_equal(state.get("main_thread"))
        with f.when(ours):
            state.set("interrupted", 0)
            status.value = -1
    return status.value


def _build_run(module: Module) -> None:
    """qd_run(entry, frame, release): for calls whose frame Python filled in."""
    f = module.function("qd_run", "i32", "ptr entry", "ptr frame", "i64 release")
    entry, frame, release = f.parameters
    f.give(run_entry(f, entry, frame, release))
