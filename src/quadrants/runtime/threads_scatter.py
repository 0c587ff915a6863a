"""Machine code of loops whose iterations conflict only in updates `array[...] += value` of some arrays.

`qd_parallel_scatter(plain, atomic, frame, frame_size, captures, count, cost, table, table_length, updates)` gets the
task twice: with plain read-modify-writes and with atomic ones. It runs `plain` on one thread (0); or `plain` on several,
where every worker updates zeroed private copies of the arrays that are added to the real ones afterwards (1), if they
are contiguous and small against the work; or `atomic` on several (2). It gives which of these it did.

`table` has one `ScatterEntry` for each array; `updates` is the number of updates in one iteration.
"""

from __future__ import annotations

import ctypes

from quadrants.runtime.native_text import Function, Module, Record, Value
from quadrants.runtime.threads_native import (
    PIECE,
    WHOLE,
    estimate,
    give_if_interrupted,
    lock,
    pool,
    unlock,
    work_is_small,
    worthwhile_workers,
)
from quadrants.runtime.threads_state import LARGEST_COUNT

__all__ = ["ScatterEntry", "build"]

_I64, _PTR = ctypes.c_int64, ctypes.c_void_p
_JOB, _SLOTS = "qd_scatter_job", "qd_scatter_slots"
_LARGEST_TOTAL = 256 << 20  # bytes of all private copies together
_LARGEST_KEPT = 16 << 20  # bytes of one worker's private copies that are kept for the next loop
_MERGE_CHUNK = 4096  # elements: stay in the nearest cache while the copies are added one after the other
_TYPES = (("float", 4), ("double", 8), ("i32", 4), ("i64", 8))  # by ScatterEntry.kind


class ScatterEntry(ctypes.Structure):
    """One updated array: where its descriptor lies in the frame, and its elements (kind 0 f32, 1 f64, 2 i32, 3 i64).

    An array of any other kind is never copied. Of a structure of arrays `planes` counts the axes that name a plane: it is
    copied with what pads its planes.
    """

    _fields_ = [("descriptor", _I64), ("rank", _I64), ("element_bytes", _I64), ("kind", _I64), ("planes", _I64)]


class _Job(ctypes.Structure):
    """The scatter that the pool runs now; read by workers when they make their private copies."""

    _fields_ = [("frame", _PTR), ("frame_size", _I64), ("table", _PTR), ("table_length", _I64), ("private_bytes", _I64)]


class _Slot(ctypes.Structure):
    """One participant's private memory: a frame, then the copies, each on cache lines of their own.

    Law: where `clean` is set, all of it is zero. It is while no loop runs: merging clears what it has added.
    """

    _fields_ = [("memory", _PTR), ("capacity", _I64), ("used", _I64), ("clean", _I64)]


class _Slots(ctypes.Structure):
    _fields_ = [("slots", _Slot * LARGEST_COUNT)]


class _Merge(ctypes.Structure):
    """What a merging task needs: the real array, where its copies lie in each participant's memory, of which kind."""

    _fields_ = [("real", _PTR), ("offset", _I64), ("participants", _I64), ("kind", _I64)]


def build(module: Module) -> None:
    """Write `qd_parallel_scatter`."""
    module.zeroed(_JOB, _Job)
    module.zeroed(_SLOTS, _Slots)
    _build_entry_bytes(module)
    _build_private_bytes(module)
    _build_private_frame(module)
    _build_merge(module)
    _build_collect(module)
    _build_run_private(module)
    _build_scatter(module)


def _job(f: Function) -> Record:
    return Record(f, f.external(_JOB), _Job)


def _slot(f: Function, participant: Value) -> Record:
    return Record(f, f.offset(f.external(_SLOTS), participant * ctypes.sizeof(_Slot)), _Slot)


def _entry(f: Function, table: Value, index: Value) -> Record:
    return Record(f, f.offset(table, index * ctypes.sizeof(ScatterEntry)), ScatterEntry)


def _lines(size: Value) -> Value:
    return (size + 63) & -64


def _build_entry_bytes(module: Module) -> None:
    """qd_entry_bytes: bytes of a contiguous array; -1 if it is not contiguous or of a kind that is never copied."""
    f = module.function("qd_entry_bytes", "i64", "ptr frame", "ptr entry", exported=False)
    frame, entry = f.parameters
    record = Record(f, entry, ScatterEntry)
    f.give_if(f.constant("i64", len(_TYPES) - 1).is_below(record.get("kind")), -1)
    rank = record.get("rank")
    shape = f.offset(f.offset(frame, record.get("descriptor")), 8)
    strides = f.offset(shape, rank * 8)
    batch = (rank - record.get("planes")) * 8
    with f.when(record.get("planes").is_not(0)):
        f.give(f.load("i64", shape, batch) * f.load("i64", strides, batch))
    expected = f.variable("i64", record.get("element_bytes"))
    with f.count(rank) as axis:
        place = (rank - axis - 1) * 8
        size = f.load("i64", shape, place)
        f.give_if(size.is_not(1) & f.load("i64", strides, place).is_not(expected.value), -1)
        expected.value = expected.value * size
    f.give(expected.value)


def _build_private_bytes(module: Module) -> None:
    """qd_private_bytes: bytes of one set of copies; -1 if an array cannot be copied."""
    f = module.function("qd_private_bytes", "i64", "ptr frame", "ptr table", "i64 length", exported=False)
    frame, table, length = f.parameters
    total = f.variable("i64", 0)
    with f.count(length) as index:
        size = f.call("qd_entry_bytes", "i64", frame, _entry(f, table, index).base)
        f.give_if(size < 0, -1)
        total.value = total.value + _lines(size)
    f.give(total.value)


def _build_private_frame(module: Module) -> None:
    """qd_private_frame: a worker's frame, whose descriptors point to zeroed copies; null without memory."""
    f = module.function("qd_private_frame", "ptr", "i64 participant", exported=False)
    (participant,) = f.parameters
    job, slot = _job(f), _slot(f, participant)
    header = _lines(job.get("frame_size"))
    needed = header + job.get("private_bytes")
    with f.when(needed > slot.get("capacity")):
        f.call("free", "void", slot.get("memory"))
        slot.set("capacity", 0)
        slot.set("memory", f.call("aligned_alloc", "ptr", 64, needed, types="i64,i64"))
        f.give_if(slot.get("memory").is_equal(None), None)
        slot.set("capacity", needed)
        slot.set("clean", 0)
    memory = slot.get("memory")
    with f.when(slot.get("clean").is_equal(0)):
        f.call("memset", "ptr", memory, 0, slot.get("capacity"), types="ptr,i32,i64")
    slot.set("clean", 0)
    f.call("memcpy", "ptr", memory, job.get("frame"), job.get("frame_size"))
    position = f.variable("i64", header)
    with f.count(job.get("table_length")) as index:
        entry = _entry(f, job.get("table"), index)
        size = f.call("qd_entry_bytes", "i64", job.get("frame"), entry.base)
        f.store("ptr", f.offset(memory, position.value), memory, entry.get("descriptor"))
        position.value = position.value + _lines(size)
    slot.set("used", 1)
    f.give(memory)


def _build_merge(module: Module) -> None:
    """qd_merge: a task that adds begin..end of every used copy to the real array, in order of participants."""
    f = module.function("qd_merge", "void", "ptr record", "ptr captures", "i64 begin", "i64 end", exported=False)
    record, _, begin, end = f.parameters
    merge = Record(f, record, _Merge)
    kind, real = merge.get("kind"), merge.get("real")
    with f.count(merge.get("participants"), start=1) as participant:
        slot = _slot(f, participant)
        with f.when(slot.get("used").is_not(0)):
            copy = f.offset(slot.get("memory"), merge.get("offset"))
            for number, (element, size) in enumerate(_TYPES):
                with f.when(kind.is_equal(number)):
                    _add_range(f, element, size, real, copy, begin, end)
    f.give()


def _add_range(f: Function, element: str, size: int, real: Value, copy: Value, begin: Value, end: Value) -> None:
    """Add elements begin..end of a copy to the real array and clear them: 64 bytes at a time, unless nothing was added
    there, then one by one."""
    vector, step = f"<{16 // size} x {element}>", 64 // size
    middle = begin + ((end - begin) & -step)
    with f.count(middle, start=begin, step=step) as index:
        bits = f.call("llvm.vector.reduce.or.v8i64", "i64", f.load_vector("<8 x i64>", copy, index * size))
        with f.when(bits.is_not(0)):
            for place in range(0, 64, 16):
                distance = index * size + place
                total = f.load_vector(vector, real, distance).added(f.load_vector(vector, copy, distance), element)
                f.store_vector(total, real, distance)
                f.store_vector(Value(f, vector, "zeroinitializer"), copy, distance)
    with f.count(end, start=middle) as index:
        total = f.load(element, real, index * size) + f.load(element, copy, index * size)
        f.store(element, total, real, index * size)
        f.store(element, Value(f, element, "zeroinitializer"), copy, index * size)


def _build_collect(module: Module) -> None:
    """qd_collect: after the loop, merge all copies of `participants` participants, array by array, in parallel."""
    f = module.function("qd_collect", "void", "i64 participants", exported=False)
    (participants,) = f.parameters
    job = _job(f)
    merge = Record(f, f.stack(_Merge), _Merge)
    position = f.variable("i64", _lines(job.get("frame_size")))
    with f.count(job.get("table_length")) as index:
        entry = _entry(f, job.get("table"), index)
        size = f.call("qd_entry_bytes", "i64", job.get("frame"), entry.base)
        merge.set("real", f.load("ptr", job.get("frame"), entry.get("descriptor")))
        merge.set("offset", position.value)
        merge.set("participants", participants)
        merge.set("kind", entry.get("kind"))
        elements = size // entry.get("element_bytes")
        workers = worthwhile_workers(f, (elements * participants) // 2)
        with f.when(elements > 0):
            f.call("qd_dispatch", "i32", f.external("qd_merge"), merge.base, None, 0, elements, _MERGE_CHUNK, WHOLE,
                   workers, None, types="ptr,ptr,ptr,i64,i64,i64,i64,i32,ptr")  # fmt: skip
        position.value = position.value + _lines(size)
    with f.count(participants) as participant:
        slot = _slot(f, participant)
        with f.when(slot.get("used").is_not(0)):
            f.call("memset", "ptr", slot.get("memory"), 0, _lines(job.get("frame_size")), types="ptr,i32,i64")
            slot.set("clean", 1)
        with f.when(slot.get("capacity") > _LARGEST_KEPT):
            f.call("free", "void", slot.get("memory"))
            slot.set("memory", None)
            slot.set("capacity", 0)
    f.give()


def _build_run_private(module: Module) -> None:
    """qd_run_private: the loop on private copies, then the merge. Only for the pool's present user."""
    f = module.function(
        "qd_run_private", "void", "ptr task", "ptr frame", "i64 frame_size", "ptr captures", "i64 count", "i64 chunk",
        "i32 workers", "ptr table", "i64 length", "i64 private_bytes", exported=False,
    )  # fmt: skip
    task, frame, frame_size, captures, count, chunk, workers, table, length, private_bytes = f.parameters
    job = _job(f)
    for name, value in (
        ("frame", frame), ("frame_size", frame_size), ("table", table), ("table_length", length),
        ("private_bytes", private_bytes),
    ):  # fmt: skip
        job.set(name, value)
    participants = workers.converted("sext", "i64") + 1
    with f.count(participants) as participant:
        _slot(f, participant).set("used", 0)
    f.call("qd_dispatch", "i32", task, frame, captures, 0, count, chunk, PIECE, workers,
           f.external("qd_private_frame"), types="ptr,ptr,ptr,i64,i64,i64,i64,i32,ptr")  # fmt: skip
    f.call("qd_collect", "void", participants)
    f.give()


def _build_scatter(module: Module) -> None:
    f = module.function(
        "qd_parallel_scatter", "i64", "ptr plain", "ptr atomic", "ptr frame", "i64 frame_size", "ptr captures",
        "i64 count", "i64 cost", "ptr table", "i64 table_length", "i64 updates",
    )  # fmt: skip
    plain, atomic, frame, frame_size, captures, count, cost, table, length, updates = f.parameters
    state = pool(f)
    f.give_if(count <= 0, 0)
    give_if_interrupted(f, 0)
    work = estimate(f, count, cost)
    with f.when(lock(f).is_equal(0)):  # inside another loop, or beside another thread's: others may update the arrays
        f.call("qd_alone", "void", atomic, frame, captures, 0, count, 0, cost, types="ptr,ptr,ptr,i64,i64,i64,i64")
        state.increase("scatter_atomic")
        f.give(2)
    workers = worthwhile_workers(f, work)
    with f.when(work_is_small(work) | (workers <= 0)):
        f.call("qd_alone", "void", plain, frame, captures, 0, count, 0, cost, types="ptr,ptr,ptr,i64,i64,i64,i64")
        unlock(f)
        state.increase("scatter_serial")
        f.give(0)
    chunk = f.call("qd_chunk", "i64", count, cost, workers)
    size = f.call("qd_private_bytes", "i64", frame, table, length)
    bound = f.smaller(count, 1 << 40) * f.smaller(updates, 1 << 16)
    fits = (size // 4 <= bound * 2) & (size * workers.converted("sext", "i64") < _LARGEST_TOTAL)
    with f.when((size >= 0) & fits):
        f.call("qd_run_private", "void", plain, frame, frame_size, captures, count, chunk, workers, table, length, size)
        unlock(f)
        state.increase("scatter_private")
        f.give(1)
    f.call("qd_dispatch", "i32", atomic, frame, captures, 0, count, chunk, PIECE, workers, None,
           types="ptr,ptr,ptr,i64,i64,i64,i64,i32,ptr")  # fmt: skip
    unlock(f)
    state.increase("scatter_atomic")
    f.give(2)
