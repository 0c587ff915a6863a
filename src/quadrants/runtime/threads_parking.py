"""How threads wait, as machine code: parked until a word changes, spinning for a moment, and for how long by the clock.

Linux parks threads on the word itself (a futex) and tells how many it woke. Elsewhere they park on a condition, and each
says by itself that it waits no longer.
"""

from __future__ import annotations

from quadrants.runtime.native_text import Function, Operand, Record, Value
from quadrants.runtime.threads_state import POOL, ParkingPlace, PoolState

__all__ = ["build_clock", "build_locks", "cycles", "pause", "wait", "wake"]

_WAIT_PRIVATE, _WAKE_PRIVATE = 128, 129
_CYCLES_A_SECOND = 2_400_000_000  # what numbers of cycles mean where a counter of a fixed pace stands in for them


def pause(f: Function) -> None:
    """A moment in which a spinning thread leaves the processor's units to others."""
    name, numbers = f.module.host.pause
    f.call(name, "void", *numbers, types=",".join("i32" for _ in numbers))


def cycles(f: Function) -> Value:
    """A counter of about the processor's pace. Its differences count, modulo 2**64."""
    if f.module.host.counts_cycles:
        return f.call("llvm.readcyclecounter", "i64")
    scale = Record(f, f.external(POOL), PoolState).get("cycles_a_tick")
    return _system_register(f, "cntvct_el0") * scale


def build_clock(f: Function, state: Record) -> None:
    """Finds out how many cycles a tick of the steady counter stands for."""
    if not f.module.host.counts_cycles:
        scale = f.constant("i64", _CYCLES_A_SECOND) // f.larger(_system_register(f, "cntfrq_el0"), 1)
        state.set("cycles_a_tick", f.larger(scale, 1))


def _system_register(f: Function, name: str) -> Value:
    """LLVM's own word for the steady counter is not used: there are code generators of it that make a constant of that."""
    f.module.declare("llvm.read_volatile_register.i64", "i64", "metadata")
    return f.instruction("i64", f'call i64 @llvm.read_volatile_register.i64(metadata !{{!"{name}"}})')


def build_locks(f: Function, state: Record) -> None:
    """Makes the mutexes and conditions of the state, all free."""
    f.call("pthread_mutex_init", "i32", state.address("print_lock"), None, types="ptr,ptr")
    if f.module.host.futex < 0:
        for word in ("epoch", "finished"):
            mutex, condition = _place(f, state, word)
            f.call("pthread_mutex_init", "i32", mutex, None, types="ptr,ptr")
            f.call("pthread_cond_init", "i32", condition, None, types="ptr,ptr")


def _place(f: Function, state: Record, word: str) -> tuple[Value, Value]:
    place = Record(f, state.address(f"{word}_place"), ParkingPlace)
    return place.address("mutex"), place.address("condition")


def wait(f: Function, state: Record, word: str, expected: Value) -> Value:
    """Park while a word of the state is as expected; whether the thread has to say by itself that it waits no longer."""
    number = f.module.host.futex
    address = state.address(word)
    if number >= 0:
        types = "i64,ptr,i32,i32,ptr"
        answer = f.call("syscall", "i64", number, address, _WAIT_PRIVATE, expected, None, types=types, variadic=1)
        return answer.is_not(0)  # it was not woken: nobody else has said it
    mutex, condition = _place(f, state, word)
    f.call("pthread_mutex_lock", "i32", mutex)
    with f.loop():
        f.leave_if(f.load_atomic("i32", address, "seq_cst").is_not(expected))
        f.call("pthread_cond_wait", "i32", condition, mutex)
    f.call("pthread_mutex_unlock", "i32", mutex)
    return f.constant("i1", 1)


def wake(f: Function, state: Record, word: str, how_many: Operand) -> Value | None:
    """Wake who is parked on a word that has changed; how many were woken (i64), None where that is not known."""
    number = f.module.host.futex
    if number >= 0:
        address = state.address(word)
        return f.call("syscall", "i64", number, address, _WAKE_PRIVATE, how_many, types="i64,ptr,i32,i32", variadic=1)
    mutex, condition = _place(f, state, word)
    f.call("pthread_mutex_lock", "i32", mutex)
    with f.count(how_many):
        f.call("pthread_cond_signal", "i32", condition)
    f.call("pthread_mutex_unlock", "i32", mutex)
    return None
