"""The state of the thread pool in memory, as its machine code and Python share it."""

from __future__ import annotations

import ctypes

__all__ = ["FAILURE_VALUES", "LARGEST_COUNT", "POOL", "ParkingPlace", "PoolState"]

POOL = "qd_pool"
LARGEST_COUNT = 512
FAILURE_VALUES = 32

_I64, _I32, _PTR = ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p
_LINE = ctypes.c_uint8 * 64


class ParkingPlace(ctypes.Structure):
    """A mutex and a condition of pthreads, with room for those of every system."""

    _fields_ = [("mutex", _I64 * 8), ("condition", _I64 * 8)]


class PoolState(ctypes.Structure):
    """Everything the pool knows. Fields that different threads write are kept on cache lines of their own."""

    _fields_ = [
        ("thread_count", _I64),
        ("thread_limit", _I64),  # of the launch that is running, 0 for none; a hint: launches of other threads share it
        ("started", _I64),
        ("main_thread", _I64),
        ("last_poll", _I64),
        ("cycles_a_tick", _I64),  # where a counter of a fixed pace stands in for the processor's (`threads_parking`)
        ("interrupted", _I32),
        ("waiting", _I32),
        ("gap_1", _LINE),
        ("task", _PTR),
        ("frame", _PTR),
        ("captures", _PTR),
        ("begin", _I64),
        ("end", _I64),
        ("chunk", _I64),
        ("limit", _I64),  # where the counter `next` ends: chunks where their length is a law, else iterations
        ("grain", _I64),  # other chunks are multiples of that
        ("wanted", _I32),
        ("piece", _I64),  # iterations of a chunk that are run first, before it is known how long they take
        ("prepare", _PTR),  # ptr(i64 participant): the frame that a worker runs on; null: everybody runs on `frame`
        ("gap_2", _LINE),
        ("busy", _I32),
        ("gap_3", _LINE),
        ("epoch", _I32),
        ("sleepers", _I32),
        ("gap_4", _LINE),
        ("seats", _I32),
        ("gap_5", _LINE),
        ("next", _I64),
        ("gap_6", _LINE),
        ("finished", _I32),
        ("gap_7", _LINE),
        ("launches", _I64),
        ("released", _I64),  # launches that run without the interpreter's lock; written by who holds it
        ("parallel_loops", _I64),
        ("small_loops", _I64),
        ("lone_loops", _I64),
        ("seats_taken", _I64),
        ("wakes", _I64),
        ("scatter_serial", _I64),
        ("scatter_private", _I64),
        ("scatter_atomic", _I64),
        ("gap_8", _LINE),
        ("random_state", _I64),
        ("gap_9", _LINE),
        ("print_lock", _I64 * 8),
        ("print_buffer", _PTR),
        ("print_size", _I64),
        ("print_capacity", _I64),
        ("epoch_place", ParkingPlace),  # where threads park that wait for `epoch` to change, where there is no futex
        ("finished_place", ParkingPlace),
        ("failure_state", _I32),
        ("failure", _I64 * (2 + FAILURE_VALUES)),
    ]
