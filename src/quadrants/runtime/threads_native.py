"""The thread pool's machine code: parked workers, the caller takes part, chunks are taken from an atomic counter.

One job at a time. A job offers seats; a worker that takes a seat before the caller closes the job takes part in it, and
the caller waits only for those. So a worker that wakes late is never waited for. A caller that finds the pool busy
(another thread's job, or the job that it is itself a part of) runs its loop alone: nothing nests, nothing deadlocks.
"""

from __future__ import annotations

from quadrants.runtime import threads_parking as parking
from quadrants.runtime.native_text import Function, Module, Operand, Record, Value
from quadrants.runtime.threads_parking import cycles
from quadrants.runtime.threads_state import POOL, PoolState

__all__ = [
    "PIECE",
    "WHOLE",
    "build",
    "estimate",
    "give_if_interrupted",
    "lock",
    "pool",
    "unlock",
    "usable_threads",
    "work_is_small",
    "worthwhile_workers",
]

_WORKER_STACK_BYTES = 64 << 20  # reserved, not committed: recursion in a task has as much room as anywhere
_SMALL_WORK = 20_000  # nanoseconds: a loop that is not worth waking anybody
_WORK_FOR_ONE = 10_000  # nanoseconds of work for each thread that takes part
_TIMED_WORK = 500  # nanoseconds: from here on a small estimate is checked by timing the first part
_TIMED_CYCLES = 30_000  # about 10 microseconds: the first part of a small loop that takes longer was underestimated
_SPIN_CYCLES = 24_000  # about 10 microseconds, twice the shortest chunk: loops follow one another; then the futex
_POLL_CYCLES = 8_000_000  # 2 to 4 milliseconds between checks for signals
_POLL_CYCLES_UNLOCKED = 300_000_000  # where the check has to take the interpreter's lock first
_WOKEN_BY_CALLER, _WOKEN_BY_WORKER = 4, 3  # waking fans out, so that the caller's share of it is bounded
PIECE = 64  # iterations that are run before the clock is looked at; no vector is cut by that
WHOLE = 1 << 62
_PIECE_CYCLES = 2_000_000  # pieces grow until they take that long: under a millisecond
_SHORTEST_CHUNK, _CHUNK_CYCLES = 5_000, 15_000  # nanoseconds of the estimate; cycles by the clock: about the same
_LONGEST_CHUNK = 200  # times the shortest
_PARTS = 3  # a chunk is what is left by that and by the number of threads


def pool(function: Function) -> Record:
    """The pool's state as machine code sees it."""
    return Record(function, function.external(POOL), PoolState)


def estimate(f: Function, count: Value, cost: Value) -> Value:
    """Nanoseconds that a loop is estimated to take, without overflow."""
    return f.smaller(count, 1 << 40) * f.smaller(f.larger(cost, 1), 1 << 20)


def work_is_small(work: Value) -> Value:
    """Whether so many nanoseconds are not worth waking anybody."""
    return work < _SMALL_WORK


def worthwhile_workers(f: Function, work: Value) -> Value:
    """How many workers (i32) a loop of so many nanoseconds deserves besides its caller."""
    return f.smaller(usable_threads(f) - 1, work // _WORK_FOR_ONE).converted("trunc", "i32")


def usable_threads(f: Function) -> Value:
    """How many threads a loop may use now, its caller included."""
    count, limit = pool(f).get("thread_count"), pool(f).get("thread_limit")
    return f.select(limit.is_equal(0), count, f.smaller(limit, count), "i64")


def lock(f: Function) -> Value:
    """Try to become the pool's only user; true if so."""
    address = pool(f).address("busy")
    free = f.load_atomic("i32", address, "monotonic").is_equal(0)
    result = f.variable("i1", 0)
    with f.when(free):
        result.value = f.exchange_if("i32", address, 0, 1, "acquire")
    return result.value


def unlock(f: Function) -> None:
    f.store_atomic("i32", 0, pool(f).address("busy"), "release")


def build(module: Module) -> None:
    """Write the pool; defines `qd_parallel_for` and what the other parts use."""
    module.zeroed(POOL, PoolState)
    _build_poll(module)
    _build_pieces(module)
    _build_alone(module)
    _build_share(module)
    _build_join(module)
    _build_worker(module)
    _build_start(module)
    _build_chunk(module)
    _build_dispatch(module)
    _build_small(module)
    _build_parallel_for(module)
    _build_prepare(module)
    _build_fork_child(module)


def _wake(f: Function, state: Record, how_many: int) -> None:
    """Wake parked workers. Where it is known how many were woken they are no sleepers from then on, however late they get a
    processor: nobody wakes them twice."""
    f.update("add", "i64", state.address("wakes"), 1, "monotonic")
    woken = parking.wake(f, state, "epoch", how_many)
    if woken is not None:
        f.update("sub", "i32", state.address("sleepers"), f.larger(woken, 0).converted("trunc", "i32"), "seq_cst")


def _build_poll(module: Module) -> None:
    """qd_poll: whether to stop because a signal handler raised. Only Python's main thread ever asks Python."""
    f = module.function("qd_poll", "i1", exported=False)
    state = pool(f)
    f.give_if(f.call("pthread_self", "i64").is_not(state.get("main_thread")), 0)
    elapsed = cycles(f) - state.get("last_poll")
    f.give_if(elapsed.is_below(_POLL_CYCLES), 0)
    unlocked = f.call("PyGILState_Check", "i32").is_equal(0)
    with f.when(unlocked):
        f.give_if(elapsed.is_below(_POLL_CYCLES_UNLOCKED), 0)
    ensured = f.call("PyGILState_Ensure", "i32")
    raised = f.call("PyErr_CheckSignals", "i32").is_not(0)
    f.call("PyGILState_Release", "void", ensured)
    state.set("last_poll", cycles(f))
    with f.when(raised):
        state.set("interrupted", 1)
    f.give(raised)


_PIECES = "ptr,ptr,ptr,i64,i64,i64,i1"


def _build_pieces(module: Module) -> None:
    """qd_pieces: run iterations begin..end in pieces of `first` and more; true if the loop is to stop.

    However wrong the estimate of an iteration's cost was, a signal is seen soon. `shared`: they are part of the job.
    """
    f = module.function(
        "qd_pieces", "i1", "ptr task", "ptr frame", "ptr captures", "i64 begin", "i64 end", "i64 first", "i1 shared",
        exported=False,
    )  # fmt: skip
    task, frame, captures, begin, end, first, shared = f.parameters
    counter = pool(f).address("next")
    position, piece = f.variable("i64", begin), f.variable("i64", first)
    with f.loop():
        current = position.value
        before = cycles(f)
        stop = current + f.smaller(end - current, piece.value)
        f.call(task, "void", frame, captures, current, stop)
        position.value = stop
        f.leave_if(stop >= end)
        f.give_if(f.call("qd_poll", "i1"), 1)
        f.give_if(shared & (f.load_atomic("i64", counter, "monotonic") >= WHOLE), 1)
        with f.when((cycles(f) - before).is_below(_PIECE_CYCLES)):
            piece.value = piece.value + piece.value
    f.give(f.call("qd_poll", "i1"))


def _build_alone(module: Module) -> None:
    """qd_alone: run iterations begin..end on this thread, by chunks where they are a law, else in pieces."""
    f = module.function(
        "qd_alone", "void", "ptr task", "ptr frame", "ptr captures", "i64 begin", "i64 end", "i64 chunk", "i64 cost"
    )  # fmt: skip
    task, frame, captures, begin, end, chunk, _ = f.parameters
    with f.when(chunk <= 0):
        f.call("qd_pieces", "i1", task, frame, captures, begin, end, PIECE, 0, types=_PIECES)
        f.give()
    start = f.variable("i64", begin)
    with f.loop():
        current = start.value
        f.leave_if(current >= end)
        stop = current + f.smaller(end - current, chunk)
        f.call(task, "void", frame, captures, current, stop)
        start.value = stop
        f.leave_if(stop >= end)
        f.leave_if(f.call("qd_poll", "i1"))
    f.give()


def _build_share(module: Module) -> None:
    """qd_share: take chunks of the current job until none is left. Participant 0 is the job's caller."""
    f = module.function("qd_share", "void", "i64 participant", exported=False)
    (participant,) = f.parameters
    state = pool(f)
    frame, prepare = f.variable("ptr", state.get("frame")), state.get("prepare")
    with f.when(prepare.is_not(None) & (participant > 0)):
        f.give_if(f.load_atomic("i64", state.address("next"), "monotonic") >= state.get("limit"))
        frame.value = f.call(prepare, "ptr", participant)
        f.give_if(frame.value.is_equal(None))
    with f.when(state.get("piece").is_equal(WHOLE)):
        _share_chunks(f, state, frame.value, participant)
        f.give()
    _share_guided(f, state, frame.value, participant)
    f.give()


def _share_chunks(f: Function, state: Record, frame: Value, participant: Value) -> None:
    """Chunks of one length, which are a law: `next` and `limit` count chunks."""
    begin, end, chunk, limit = (state.get(name) for name in ("begin", "end", "chunk", "limit"))
    counter = state.address("next")
    with f.loop():
        index = f.update("add", "i64", counter, 1, "monotonic")
        f.leave_if(index >= limit)
        start = begin + index * chunk
        stop = start + f.smaller(end - start, chunk)
        _run_chunk(f, state, frame, start, stop, participant)


def _share_guided(f: Function, state: Record, frame: Value, participant: Value) -> None:
    """Chunks that get shorter, so that all threads are done at about the same time: `next` and `limit` count iterations.

    A chunk is a share of what is left, but neither much shorter than the clock of this thread's last chunk says to be
    worth taking, nor longer than a multiple of that: the estimate of an iteration's cost is only a beginning.
    """
    begin, chunk, limit, grain = (state.get(name) for name in ("begin", "chunk", "limit", "grain"))
    parts = (state.get("wanted") + 1).converted("sext", "i64") * _PARTS
    counter = state.address("next")
    shortest, position = f.variable("i64", chunk), f.variable("i64", 0)
    with f.loop():
        position.value = f.load_atomic("i64", counter, "monotonic")
        current = position.value
        f.leave_if(current >= limit)
        least = shortest.value
        size = f.smaller(f.larger((limit - current) // parts, least), least * _LONGEST_CHUNK)
        size = f.smaller(((size + grain - 1) // grain) * grain, limit - current)
        with f.when(f.exchange_if("i64", counter, current, current + size, "monotonic")):
            before = cycles(f)
            _run_chunk(f, state, frame, begin + current, begin + current + size, participant)
            shortest.value = (f.larger(size * _CHUNK_CYCLES, 1) // f.larger(cycles(f) - before, 1)) + 1


def _run_chunk(f: Function, state: Record, frame: Value, start: Value, stop: Value, participant: Value) -> None:
    task, captures, piece = (state.get(name) for name in ("task", "captures", "piece"))
    stopped = f.call("qd_pieces", "i1", task, frame, captures, start, stop, piece, 1, types=_PIECES)
    with f.when(participant.is_equal(0)), f.when(stopped):
        f.store_atomic("i64", WHOLE, state.address("next"), "monotonic")


def _build_join(module: Module) -> None:
    """qd_join: take a seat in the current job and work in it; false if there is none."""
    f = module.function("qd_join", "i1", exported=False)
    state = pool(f)
    seats = state.address("seats")
    taken = f.variable("i32", 0)
    with f.loop():
        free = f.load_atomic("i32", seats, "acquire")
        f.give_if(free <= 0, 0)
        taken.value = free
        f.leave_if(f.exchange_if("i32", seats, free, free - 1, "acquire"))
    free = taken.value
    with f.when((free > 1) & f.load_atomic("i32", state.address("sleepers"), "monotonic").is_not(0)):
        _wake(f, state, _WOKEN_BY_WORKER)
    f.call("qd_share", "void", (state.get("wanted") - free + 1).converted("sext", "i64"))
    f.update("add", "i32", state.address("finished"), 1, "seq_cst")
    with f.when(f.load_atomic("i32", state.address("waiting"), "seq_cst").is_not(0)):
        parking.wake(f, state, "finished", 1)
    f.give(f.constant("i1", 1))


def _build_worker(module: Module) -> None:
    """qd_worker: a worker's life. It spins for a moment after each job, since loops follow one another."""
    f = module.function("qd_worker", "ptr", "ptr unused", exported=False)
    state = pool(f)
    epoch, sleepers, seats = state.address("epoch"), state.address("sleepers"), state.address("seats")
    with f.loop():
        seen = f.load_atomic("i32", epoch, "acquire")
        with f.when(f.call("qd_join", "i1").is_equal(0)):
            start = cycles(f)
            offered = f.variable("i1", 0)
            with f.loop():
                offered.value = f.load_atomic("i32", seats, "monotonic") > 0
                f.leave_if(offered.value)
                parking.pause(f)
                f.leave_if(_spun_enough(f, start))
            with f.when(offered.value.is_equal(0)):
                f.update("add", "i32", sleepers, 1, "seq_cst")
                with f.when(parking.wait(f, state, "epoch", seen)):
                    f.update("sub", "i32", sleepers, 1, "seq_cst")
    f.give(None)


def _spun_enough(f: Function, start: Value) -> Value:
    return f.constant("i64", _SPIN_CYCLES).is_below(cycles(f) - start)


def _build_start(module: Module) -> None:
    """qd_start: make sure that so many workers exist; gives how many do. Only for the pool's present user."""
    f = module.function("qd_start", "i32", "i32 wanted", exported=False)
    (wanted,) = f.parameters
    state = pool(f)
    goal = wanted.converted("sext", "i64")
    thread, attributes = f.entry_slot("alloca i64"), f.entry_slot("alloca [64 x i8], align 16")
    blocked, before = f.entry_slot("alloca [128 x i8], align 16"), f.entry_slot("alloca [128 x i8], align 16")
    with f.when(state.get("started") < goal):
        f.call("pthread_attr_init", "i32", attributes)
        f.call("pthread_attr_setdetachstate", "i32", attributes, module.host.detached, types="ptr,i32")
        f.call("pthread_attr_setstacksize", "i32", attributes, _WORKER_STACK_BYTES, types="ptr,i64")
        f.call("sigfillset", "i32", blocked)
        for fault in module.host.faults:  # a worker's own faults still reach their handlers
            f.call("sigdelset", "i32", blocked, fault, types="ptr,i32")
        f.call("pthread_sigmask", "i32", module.host.replace_mask, blocked, before, types="i32,ptr,ptr")
        with f.loop():
            f.leave_if(state.get("started") >= goal)
            f.leave_if(
                f.call(
                    "pthread_create", "i32", thread, attributes, f.external("qd_worker"), None, types="ptr,ptr,ptr,ptr"
                ).is_not(0)
            )
            state.increase("started")
        f.call("pthread_sigmask", "i32", module.host.replace_mask, before, None, types="i32,ptr,ptr")
        f.call("pthread_attr_destroy", "i32", attributes)
    f.give(f.smaller(wanted, state.get("started").converted("trunc", "i32")))


def _build_chunk(module: Module) -> None:
    """qd_chunk: how many iterations are worth taking from the counter, by the estimate of their cost."""
    f = module.function("qd_chunk", "i64", "i64 count", "i64 cost", "i32 workers")
    count, cost, workers = f.parameters
    threads = (workers + 1).converted("sext", "i64")
    shortest = (f.constant("i64", _SHORTEST_CHUNK) // f.larger(cost, 1)) + 1
    f.give(f.smaller(shortest, (count + threads - 1) // threads))


def _grain(f: Function, count: Value, workers: Value) -> Value:
    """Iterations that a chunk is a multiple of: as many vector lanes as the loop's length allows to keep whole."""
    each = count // ((workers + 1).converted("sext", "i64") * 2)
    grain = f.constant("i64", 1)
    for size in (8, 16, 64):
        grain = f.select(each > size * 2, size, grain, "i64")
    return grain


def _build_dispatch(module: Module) -> None:
    """qd_dispatch: run begin..end in chunks on the caller and up to `workers` others. Only for the pool's user.

    `piece`: how many iterations of a chunk are run before the clock is looked at; if WHOLE, chunks have exactly the length
    `chunk`, else this is only what the first are not shorter than. A non-null `prepare` gives each worker
    its frame; see `PoolState`. Gives the number of seats that were offered.
    """
    f = module.function(
        "qd_dispatch", "i32", "ptr task", "ptr frame", "ptr captures", "i64 begin", "i64 end", "i64 chunk",
        "i64 piece", "i32 workers", "ptr prepare",
    )  # fmt: skip
    task, frame, captures, begin, end, chunk, piece, workers, prepare = f.parameters
    state = pool(f)
    chunks = (end - begin + chunk - 1) // chunk
    limit = f.select(piece.is_equal(WHOLE), chunks, end - begin, "i64")
    useful = f.smaller((workers).converted("sext", "i64"), chunks - 1).converted("trunc", "i32")
    wanted = f.call("qd_start", "i32", f.larger(useful, 0))
    for name, value in (
        ("task", task), ("frame", frame), ("captures", captures), ("begin", begin), ("end", end), ("chunk", chunk), ("piece", piece),
        ("limit", limit), ("grain", _grain(f, end - begin, wanted)), ("wanted", wanted), ("prepare", prepare), ("next", 0), ("finished", 0), ("waiting", 0),
    ):  # fmt: skip
        state.set(name, value)
    seats, epoch = state.address("seats"), state.address("epoch")
    f.store_atomic("i32", wanted, seats, "release")
    f.update("add", "i32", epoch, 1, "seq_cst")
    with f.when(f.load_atomic("i32", state.address("sleepers"), "seq_cst").is_not(0) & (wanted > 0)):
        _wake(f, state, _WOKEN_BY_CALLER)
    f.call("qd_share", "void", 0, types="i64")
    taken = wanted - f.update("xchg", "i32", seats, 0, "acq_rel")
    _await_finished(f, state, taken)
    state.increase("seats_taken", taken.converted("sext", "i64"))
    f.give(wanted)


def _await_finished(f: Function, state: Record, taken: Value) -> None:
    """Wait, spinning for a moment and then parked, until every worker that took a seat is done."""
    finished, waiting = state.address("finished"), state.address("waiting")
    start = cycles(f)
    with f.loop():
        f.leave_if(f.load_atomic("i32", finished, "acquire") >= taken)
        parking.pause(f)
        with f.when(_spun_enough(f, start)):
            f.store_atomic("i32", 1, waiting, "seq_cst")
            count = f.load_atomic("i32", finished, "seq_cst")
            with f.when(count < taken):
                parking.wait(f, state, "finished", count)


def _build_small(module: Module) -> None:
    """qd_small: run a loop that looks small on this thread, in parts; gives where it stopped.

    It stops before the end only where the parts took so long that the estimate must have been wrong.
    """
    f = module.function(
        "qd_small", "i64", "ptr task", "ptr frame", "ptr captures", "i64 count", "i64 chunk", "i64 work", "i64 start",
        exported=False,
    )  # fmt: skip
    task, frame, captures, count, chunk, work, start = f.parameters
    part = f.select(work < _TIMED_WORK, count, f.larger(count // 8, 1), "i64")
    part = f.select(chunk > 0, chunk, part, "i64")
    position = f.variable("i64", 0)
    with f.loop():
        current = position.value
        stop = current + f.smaller(count - current, part)
        f.call(task, "void", frame, captures, current, stop)
        position.value = stop
        f.leave_if(stop >= count)
        f.leave_if(f.constant("i64", _TIMED_CYCLES).is_below(cycles(f) - start))
    f.give(position.value)


def _build_parallel_for(module: Module) -> None:
    """qd_parallel_for(task, frame, captures, count, chunk, cost): see `quadrants.runtime.threads`."""
    f = module.function(
        "qd_parallel_for", "void", "ptr task", "ptr frame", "ptr captures", "i64 count", "i64 chunk", "i64 cost"
    )
    task, frame, captures, count, chunk, cost = f.parameters
    state = pool(f)
    f.give_if(count <= 0)
    give_if_interrupted(f)
    position, pace = f.variable("i64", 0), f.variable("i64", f.larger(cost, 1))
    work = f.variable("i64", estimate(f, count, cost))
    with f.when((usable_threads(f) > 1) & work_is_small(work.value)):
        start = cycles(f)
        position.value = f.call("qd_small", "i64", task, frame, captures, count, chunk, work.value, start)
        with f.when(position.value >= count):
            state.increase("small_loops")
            f.give()
        pace.value = f.larger((cycles(f) - start) // (position.value * 3), 1)
        work.value = estimate(f, count - position.value, pace.value)
    workers = worthwhile_workers(f, work.value)
    with f.when(workers > 0), f.when(lock(f)):
        free = f.call("qd_chunk", "i64", count - position.value, pace.value, workers)
        each = f.select(chunk > 0, chunk, free, "i64")
        piece = f.select(chunk > 0, WHOLE, PIECE, "i64")
        f.call("qd_dispatch", "i32", task, frame, captures, position.value, count, each, piece, workers, None,
               types="ptr,ptr,ptr,i64,i64,i64,i64,i32,ptr")  # fmt: skip
        state.increase("parallel_loops")
        unlock(f)
        f.give()
    state.increase("lone_loops")
    f.call("qd_alone", "void", task, frame, captures, position.value, count, chunk, pace.value)
    f.give()


def give_if_interrupted(f: Function, result: Operand = None) -> None:
    """Return from a loop's entry at once if a signal handler has raised in this thread's kernel."""
    state = pool(f)
    with f.when(state.get("interrupted").is_not(0)):
        f.give_if(f.call("pthread_self", "i64").is_equal(state.get("main_thread")), result)


def _build_prepare(module: Module) -> None:
    """qd_prepare: what the pool needs before anything else of it is called."""
    f = module.function("qd_prepare", "void")
    state = pool(f)
    parking.build_locks(f, state)
    parking.build_clock(f, state)
    f.give()


def _build_fork_child(module: Module) -> None:
    """qd_fork_child: in a forked child no worker is left and nobody uses the pool."""
    f = module.function("qd_fork_child", "void")
    state = pool(f)
    for name in ("started", "busy", "seats", "sleepers", "waiting", "interrupted", "thread_limit", "released"):
        state.set(name, 0)
    state.set("main_thread", f.call("pthread_self", "i64"))
    parking.build_locks(f, state)
    f.give()
