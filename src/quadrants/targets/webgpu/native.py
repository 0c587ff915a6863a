"""The host's part of kernels as machine code (targets/llvm/emit_host.py). It notes the launches of a run, and calls back once for all
of them: at its end, before it reads a number of the device, and where there is no room for more.

Law: nothing of Python runs between the first launch that is noted and the call, so that the launches of one run stay together,
whatever other threads do; these take what is noted before they look at the device's memory (`Launches.take_noted`). Where memory or a number of the device is asked for in between, runs are made one at a time, by Python.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from quadrants import knobs
from quadrants.blocks import busy
from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Block, Module, Op
from quadrants.ir.ops import OPS, TERMINATORS
from quadrants.ir.threads import threads_loop_of
from quadrants.records import Record
from quadrants.targets.device.interface import HostCode
from quadrants.targets.device.tasks import Task
from quadrants.targets.llvm.device_graphs import service_text
from quadrants.targets.llvm.device_host import Plan, Services, compiled
from quadrants.targets.llvm.emit_host import PLAN, STREAM, LaunchShape, temporaries
from quadrants.targets.webgpu.emit import WORKGROUP
from quadrants.targets.webgpu.heap import BASE
from quadrants.targets.webgpu.tasks import MOST_GROUPS, Tasks

if TYPE_CHECKING:
    from quadrants.targets.webgpu.device import WebDevice

__all__ = ["NativeHost"]

_ROOM = 1 << 16
_WORDS = struct.Struct("<2q")
_HEAD = struct.Struct("<3q")
_TEXT = f"""
@qd_launches = external global i8, align 8
{service_text("qd_launches_end")}
define internal i32 @qd_graph_begin() nounwind {{
  ret i32 0
}}
define internal void @qd_graph_leave() nounwind {{
  ret void
}}
define internal i32 @qd_graph_end() nounwind {{
  %code = call i32 @qd_launches_end_code()
  ret i32 %code
}}
define internal i32 @qd_launch(ptr %kernel, i32 %blocks, i32 %threads, i32 %asked, ptr %frame, i64 %bytes) nounwind {{
entry:
  %size = add i64 %bytes, {_HEAD.size}
  %at.taken = getelementptr i8, ptr @qd_launches, i64 8
  br label %again
again:
  %used = load i64, ptr @qd_launches, align 8
  %taken = load i64, ptr %at.taken, align 8
  %empty = icmp eq i64 %used, %taken
  %start = select i1 %empty, i64 0, i64 %used
  %end = add i64 %start, %size
  %fits = icmp ule i64 %end, {_ROOM}
  br i1 %fits, label %put, label %full
full:
  %code = call i32 @qd_launches_end_code()
  %good = icmp eq i32 %code, 0
  br i1 %good, label %again, label %bad
bad:
  ret i32 %code
put:
  %before = select i1 %empty, i64 0, i64 %taken
  store i64 %before, ptr %at.taken, align 8
  store i64 %end, ptr @qd_launches, align 8
  %records = getelementptr i8, ptr @qd_launches, i64 {_WORDS.size}
  %record = getelementptr i8, ptr %records, i64 %start
  store ptr %kernel, ptr %record, align 8
  %at.blocks = getelementptr i8, ptr %record, i64 8
  %wide = zext i32 %blocks to i64
  store i64 %wide, ptr %at.blocks, align 8
  %at.bytes = getelementptr i8, ptr %record, i64 16
  store i64 %bytes, ptr %at.bytes, align 8
  %to = getelementptr i8, ptr %record, i64 24
  br label %head
head:
  %k = phi i64 [ 0, %put ], [ %next, %copy ]
  %more = icmp ult i64 %k, %bytes
  br i1 %more, label %copy, label %done
copy:
  %from.k = getelementptr i8, ptr %frame, i64 %k
  %word = load i64, ptr %from.k, align 8
  %to.k = getelementptr i8, ptr %to, i64 %k
  store i64 %word, ptr %to.k, align 8
  %next = add i64 %k, 8
  br label %head
done:
  ret i32 0
}}
"""
"""Notes a launch: { i64 task; i64 groups; i64 bytes; frame }, behind the words that say how many bytes are noted, and how many of them
were taken. Law: each frame fits into the room; the first word is machine code's alone, and so is the second where the two are equal."""


def _shape(task: Task) -> LaunchShape:
    """The workgroups of a launch: of blocks, or of iterations, which have as many invocations whatever the number of iterations is."""
    return LaunchShape(WORKGROUP, MOST_GROUPS, threads_loop_of(task.loop) is not None)


def _host_ops(block: Block) -> Iterator[Op]:
    """The operations of a host's part: those outside of parallel loops."""
    for op in block.ops:
        yield op
        for region in op.regions if not op.attribute("parallel") else ():
            yield from _host_ops(region)


_NATIVE = frozenset({"for", "if", "while", "load", "temporary", "release"})


def can_be_native(module: Module, tasks: Tasks) -> bool:
    """Whether the host's part has nothing that only the interpreter does for such devices: what it prints or checks, say."""
    if any(_HEAD.size + frame.size > _ROOM for frame in tasks.frames):
        return False
    ops = list(_host_ops(module.kernel.body))
    return all(op.kind in _NATIVE or op.kind in TERMINATORS or OPS[op.kind].effects == "pure" for op in ops)


def calls_back_early(module: Module) -> bool:
    """Whether the host's part may call Python for more than launches: what it asks for is the kernel's, not the run's."""
    return any(op.kind in ("load", "temporary") for op in _host_ops(module.kernel.body))


class _NoCode(Record):
    """What of such kernels could be kept: they are made anew in each process."""

    messages: dict[int, Any]
    prints: dict[int, Any]


class _Launchable:
    """The tasks of a kernel, as programs hold them."""

    def __init__(self, plan: Plan, tasks: Tasks) -> None:
        self.code = _NoCode({}, {})
        self.plan = plan
        self._tasks = tasks  # kept: the device knows them by their numbers only

    def report(self, module: Module | None) -> list[str]:
        """One after the other: nothing is to be told."""
        return []

    def get_ready(self) -> None:
        """They are."""

    def finish(self) -> None:
        """They neither print nor check."""


class NativeHost:
    """What the machine code of one device's kernels shares."""

    def __init__(self, device: WebDevice) -> None:
        self._device = device
        self._services = Services(self)
        self._tasks: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._numbers = count(1)
        self._noted = (ctypes.c_uint64 * (2 + _ROOM // 8))()
        self._bytes = memoryview(self._noted).cast("B")
        self._is_taking = False
        self._stream = ctypes.c_uint64(0)
        self._symbols = {
            **self._services.symbols,
            "qd_launches": ctypes.addressof(self._noted),
            "qd_launches_end": self._services.exported(self._end),
            STREAM: ctypes.addressof(self._stream),
        }

    def host_code(self, module: Module, tasks: Sequence[Task], prepared: Tasks, options: knobs.Options) -> HostCode:
        """The host's part of a kernel whose tasks neither print nor check."""
        launched = list(zip(tasks, prepared.frames))
        level = 1 if options.opt_level else 0
        shapes = [_shape(task) for task in tasks]
        objects, entry, externals = compiled(module, launched, _TEXT, False, shapes, level, options.verify)
        plan = Plan(len(temporaries(module)), len(tasks), self._services.epochs)
        self._services.plans[plan.address] = plan
        numbers = [next(self._numbers) for _ in tasks]
        self._tasks.update(zip(numbers, prepared.tasks))
        plan.fill(numbers)
        symbols = {**self._symbols, PLAN: plan.address}
        launchable = _Launchable(plan, prepared)
        return HostCode(objects, entry, externals, symbols, self._device, launchable, calls_back_early(module))

    def _end(self) -> None:
        self.flush()

    def flush(self) -> None:
        """Launches what was noted. Another thread may do it for the one that noted it, and is about to say so: the host's state of
        a run's arrays is that of a run that was launched, from when machine code begins on."""
        with busy():
            if self._is_taking:
                return  # what others note while a run's launches are made comes behind them
            self._is_taking = True
            try:
                while True:
                    # Other threads may note more between any two lines: both words are read at once, and what lies between
                    # them stays where it is until the second one is written.
                    used, taken = _WORDS.unpack_from(self._bytes)
                    if used == taken:
                        return
                    data, at = self._bytes[_WORDS.size + taken : _WORDS.size + used].tobytes(), 0
                    self._noted[1] = used
                    while at < len(data):
                        number, groups, size = _HEAD.unpack_from(data, at)
                        at += _HEAD.size + size
                        self._tasks[number].launch_frame(data[at - size : at], groups)
            finally:
                self._is_taking = False

    # What the services ask for.

    def provide(self, plan: Plan, number: int, size: int) -> int:
        """Memory for a temporary array. Launches that were noted come before whatever the memory is for."""
        self.flush()
        return self._services.provide(plan, 0, number, size, self._device.allocate, self._device.launches.submit)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the device, behind everything launched before."""
        self.flush()
        with busy():
            return self._device.heap.read(address - BASE, size)

    def error_of(self, code: int) -> Exception:
        return QuadrantsInternalError(f"no driver has given the code {code}")
