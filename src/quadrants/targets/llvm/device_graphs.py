"""Launches of one kernel as a graph of the driver's: made once, and launched as a whole by one call.

The host's part of the kernel runs as ever, but its launches are compared with those that the graph has. Where none differs,
machine code launches the graph; where sizes or arguments differ, those nodes are told; where other kernels are launched, or
more or fewer, or launches wait for others (graph_order.py), the graph is made anew.

Loops and branches that the device decides on (host_loops.py) stand among the launches as their bodies between two marks, whose
"kernels" are the addresses of `qd_graph_loop` or `qd_graph_branch`, and of `qd_graph_end_of`; the first one's frame is
{ i64 address of the flag; i64 bytes of it; i64 1 where the body runs when the flag is 0, else 0 }.

`qd_graph` { i64 launches so far in this run; i64 nodes; i64 whether a launch differs; ptr graph; ptr nodes; i64 whether a run
is under way }, a node is { ptr kernel; i32 blocks; i32 threads; i64 bytes; ptr frame; ptr the driver's node, null for a mark;
ptr the bits of the frame that say where arrays are }. Where all else of a launch differs at most, machine code tells the driver.
`void qd_graph_wait(ptr code, ptr qd_graph)`
    Waits until no other thread's run is under way; machine code looks again, as it alone says that a run is under way.
`void qd_graph_note(ptr code, ptr qd_graph, i64 number, ptr kernel, i32 blocks, i32 threads, i32 asked, ptr frame, i64 bytes)`
    A launch that differs from the graph's.
`void qd_graph_finish(ptr code, ptr qd_graph)`
    Makes the graph what the launches of this run are, and launches it.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from quadrants.errors import QuadrantsRuntimeError
from quadrants.records import MutableRecord
from quadrants.targets.device.failures import NOTED
from quadrants.targets.llvm.graph_order import LOOP_BEGINS, LOOP_ENDS, Access, Reach, is_row, mask_of, reach_of, waits

__all__ = [
    "BRANCH",
    "GRAPH",
    "LOOP",
    "LOOP_END",
    "LOOP_MARKS",
    "GraphDriver",
    "GraphLaunches",
    "Node",
    "graph_symbols",
    "graph_text",
    "service_text",
]

GRAPH = "qd_graph"
LOOP_MARKS = ("qd_graph_loop", "qd_graph_branch", "qd_graph_end_of")
_marks = (ctypes.c_uint64 * 3)()
LOOP, BRANCH, LOOP_END = (ctypes.addressof(_marks) + 8 * k for k in range(3))
"""What stands for a launch's kernel where a loop or a branch begins, and where it ends."""
_STEPS = {LOOP: LOOP_BEGINS, BRANCH: LOOP_BEGINS, LOOP_END: LOOP_ENDS}


def graph_symbols(graph: GraphLaunches) -> dict[str, int]:
    """The addresses of what machine code reads and writes of a kernel's graph."""
    return {GRAPH: graph.address, **dict(zip(LOOP_MARKS, (LOOP, BRANCH, LOOP_END)))}


class Node(MutableRecord):
    """A launch: the driver's kernel, blocks, threads of each, the frame, the bytes of shared memory that it asks for (the same at all launches of
    a kernel); or a mark. `mask`: the bits of the frame that say where
    arrays are; `handle`: the driver's node, or what it has of a loop; `reach`: the memory that it reaches, None where it has its place in a row; `before`: the numbers of the nodes that
    it waits for (graph_order.py)."""

    kernel: int
    blocks: int
    threads: int
    frame: Any
    mask: Any = None
    handle: Any = None
    reach: Reach | None = None
    before: tuple[int, ...] = ()
    asked: int = 0


class GraphDriver(Protocol):
    """What a driver does for graphs. `failure`: the address of the word that is not 0 once a check has failed, 0 where none can."""

    def has_loops(self) -> bool:
        """Whether the device decides on loops and branches of graphs by itself."""
        ...

    def make_graph(self, nodes: Sequence[Node], failure: int) -> Any:
        """A graph that can be launched, of launches each of which waits for those `before` it; notes the nodes' handles."""
        ...

    def change_node(self, graph: Any, node: Node, failure: int) -> None:
        """From the next launch on the node has other sizes and another frame."""
        ...

    def launch_graph(self, graph: Any) -> None: ...

    def drop_graph(self, graph: Any) -> None: ...


class _Record(ctypes.Structure):
    _fields_ = [
        ("kernel", ctypes.c_void_p),
        ("blocks", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("bytes", ctypes.c_int64),
        ("frame", ctypes.c_void_p),
        ("handle", ctypes.c_void_p),
        ("mask", ctypes.c_void_p),
    ]


class _State(ctypes.Structure):
    _fields_ = [
        ("cursor", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("differs", ctypes.c_int64),
        ("graph", ctypes.c_void_p),
        ("nodes", ctypes.c_void_p),
        ("busy", ctypes.c_int64),
    ]


_PAUSE = 2e-5
"""Seconds until a thread asks again whether another one's run is over: such a run waits for nothing."""


class GraphLaunches:
    """The graph of one kernel. `failure`: as GraphDriver has it.

    Runs of several threads follow one another: Python lets another thread go on while it makes the graph for one."""

    _is_ending = staticmethod(sys.is_finalizing)

    def __init__(self, driver: GraphDriver) -> None:
        self._driver = driver
        self._state = _State()
        self._nodes: list[Node] = []
        self._records: Any = None
        self._changed: set[int] = set()
        self._graph: Any = None
        self._owner: int | None = None
        """The thread whose launches this is being told of: what it launches meanwhile would wait for itself."""
        self.failure = 0
        self.accesses: dict[int, Sequence[Access]] = {}
        """By the driver's kernels the arrays of tasks, where their launches need not follow one another."""

    @property
    def address(self) -> int:
        return ctypes.addressof(self._state)

    def wait(self) -> None:
        """Until no run is under way."""
        while self._state.busy:
            if self._owner == threading.get_ident():
                raise QuadrantsRuntimeError(
                    "a kernel that is a graph was launched while this thread is making its graph: by a finaliser or the handler"
                    " of a signal, which has to leave the launch to the program"
                )
            time.sleep(_PAUSE)

    def note(self, number: int, kernel: int, blocks: int, threads: int, asked: int, frame: bytes) -> None:
        """A launch that differs from the node of that number, or for which there is none. Machine code knows the nodes that are
        listed; those behind one that is new are asked about again, and listed when the run is over."""
        with self._told():
            self._note(number, kernel, blocks, threads, asked, frame)

    def _note(self, number: int, kernel: int, blocks: int, threads: int, asked: int, frame: bytes) -> None:
        self._state.differs = 1
        accesses = self.accesses.get(kernel)
        reach = reach_of(accesses, frame) if accesses is not None else None
        known = self._nodes[number] if number < len(self._nodes) else None
        if known is not None and known.kernel == kernel and len(known.frame) == len(frame):
            known.blocks, known.threads, known.reach = blocks, threads, reach
            ctypes.memmove(known.frame, frame, len(frame))
            self._changed.add(number)
            if number < self._state.count:
                self._records[number].blocks, self._records[number].threads = blocks, threads
            return
        self._drop()
        mask = mask_of(accesses or (), len(frame))
        content = ctypes.create_string_buffer(frame, len(frame))
        self._state.count = min(self._state.count, number)
        self._nodes[number:] = [Node(kernel, blocks, threads, content, mask, reach=reach, asked=asked)]

    def finish(self) -> None:
        """The run has launched all that it launches."""
        with self._told():
            self._finish()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """While this is told of launches."""
        self._owner = threading.get_ident()
        try:
            yield
        finally:
            self._owner = None

    def _finish(self) -> None:
        self._take_over()
        count = self._state.cursor
        if count != len(self._nodes):
            self._drop()
            self._state.count = min(self._state.count, count)
            del self._nodes[count:]
        if self._graph is None or self._changed:
            self._put_in_order()
        if self._graph is None and self._nodes:
            self._graph = self._driver.make_graph(self._nodes, self.failure)
        elif self._graph is not None:
            for number in sorted(self._changed):
                self._driver.change_node(self._graph, self._nodes[number], self.failure)
        self._changed.clear()
        self._list()
        self._state.graph = int(self._graph) if self._graph is not None else None
        self._state.differs = 0
        if self._graph is not None:
            self._driver.launch_graph(self._graph)

    def report(self) -> str:
        """What the last graph was, in words; '' before the first one."""
        launches = [node for node in self._nodes if node.kernel not in _STEPS]
        if self._graph is None or not launches:
            return ""
        loops = sum(node.kernel == LOOP for node in self._nodes)
        told = f"launched as a graph of {len(launches)}"
        if loops:
            told += f", with {loops} loop{'s' if loops > 1 else ''} that the GPU repeats"
        branches = sum(node.kernel == BRANCH for node in self._nodes)
        if branches:
            told += f", {'and' if loops else 'with'} {branches} part{'s' if branches > 1 else ''} that it runs or leaves out"
        in_row = is_row([_STEPS.get(node.kernel) for node in self._nodes], [node.before for node in self._nodes])
        return told if in_row else told + ", some of them side by side"

    def _put_in_order(self) -> None:
        """Notes what each node waits for; a graph in which that is otherwise is made anew."""
        steps = [_STEPS.get(node.kernel, node.reach) for node in self._nodes]
        order = waits(steps)
        if order != [node.before for node in self._nodes]:
            self._drop()
        for node, before in zip(self._nodes, order):
            node.before = before

    def _take_over(self) -> None:
        """What machine code has told the driver; frames it writes in place."""
        for node, record in zip(self._nodes, (self._records or ())[: self._state.count]):
            node.blocks, node.threads = record.blocks, record.threads

    def _list(self) -> None:
        """Machine code compares launches with these."""
        self._state.count = 0
        self._records = (_Record * max(len(self._nodes), 1))(*map(_record, self._nodes))
        self._state.nodes, self._state.count = ctypes.addressof(self._records), len(self._nodes)

    def _drop(self) -> None:
        """Law: machine code knows a graph no longer than it lives, and a node no longer than its frame, whatever fails next."""
        graph, self._graph, self._state.graph = self._graph, None, None
        if graph is not None:
            self._driver.drop_graph(graph)

    def __del__(self) -> None:
        if not self._is_ending():
            self._drop()


def _record(node: Node) -> _Record:
    handle = 0 if node.kernel in _STEPS or node.handle is None else int(node.handle)
    frame, mask = ctypes.addressof(node.frame), ctypes.addressof(node.mask)
    return _Record(node.kernel, node.blocks, node.threads, len(node.frame), frame, handle, mask)


def graph_text(launch: str) -> str:
    """`i32 qd_graph_begin()`, which begins a run, `qd_launch`, `i32 qd_graph_end()`, which launches what the run has launched, and
    `void qd_graph_leave()`, which ends it; `launch`: LLVM text that defines
    `i32 qd_graph_launch(ptr graph)` of the driver, and `i32 qd_graph_set(ptr graph, ptr node, ptr kernel, i32 blocks, i32 threads,
    i32 asked, ptr frame)`, which tells it of a launch that differs."""
    return f"{launch}{_TEXT}{_SERVICES}"


def service_text(name: str, *types: str) -> str:
    """LLVM text that declares a service (device_host.py), and defines a function `{name}_code` that calls it, and gives its code."""
    parameters = ", ".join(f"{type_} %a{k}" for k, type_ in enumerate(types))
    return f"""
declare void @{name}({", ".join(["ptr", *types])})
define internal i32 @{name}_code({parameters}) nounwind {{
  %code = alloca i32, align 4
  store i32 {NOTED}, ptr %code, align 4
  call void @{name}({", ".join(["ptr %code", *[f"{type_} %a{k}" for k, type_ in enumerate(types)]])})
  %told = load i32, ptr %code, align 4
  ret i32 %told
}}
"""


_SERVICES = (
    service_text("qd_graph_wait", "ptr")
    + service_text("qd_graph_note", "ptr", "i64", "ptr", "i32", "i32", "i32", "ptr", "i64")
    + service_text("qd_graph_finish", "ptr")
)


_TEXT = """
@qd_graph = external global [6 x i64]
declare i32 @memcmp(ptr, ptr, i64)
define internal i32 @qd_launch(ptr %kernel, i32 %blocks, i32 %threads, i32 %asked, ptr %frame, i64 %bytes) nounwind {
entry:
  %k = load i64, ptr @qd_graph, align 8
  %next = add i64 %k, 1
  store i64 %next, ptr @qd_graph, align 8
  %at.count = getelementptr inbounds i8, ptr @qd_graph, i64 8
  %count = load i64, ptr %at.count, align 8
  %known = icmp ult i64 %k, %count
  br i1 %known, label %compare, label %other
compare:
  %at.nodes = getelementptr inbounds i8, ptr @qd_graph, i64 32
  %nodes = load ptr, ptr %at.nodes, align 8
  %offset = mul i64 %k, 48
  %node = getelementptr inbounds i8, ptr %nodes, i64 %offset
  %node.kernel = load ptr, ptr %node, align 8
  %same.kernel = icmp eq ptr %node.kernel, %kernel
  %at.bytes = getelementptr inbounds i8, ptr %node, i64 16
  %node.bytes = load i64, ptr %at.bytes, align 8
  %same.bytes = icmp eq i64 %node.bytes, %bytes
  %alike = and i1 %same.kernel, %same.bytes
  br i1 %alike, label %content, label %other
content:
  %at.blocks = getelementptr inbounds i8, ptr %node, i64 8
  %node.blocks = load i32, ptr %at.blocks, align 8
  %same.blocks = icmp eq i32 %node.blocks, %blocks
  %at.threads = getelementptr inbounds i8, ptr %node, i64 12
  %node.threads = load i32, ptr %at.threads, align 4
  %same.threads = icmp eq i32 %node.threads, %threads
  %at.frame = getelementptr inbounds i8, ptr %node, i64 24
  %node.frame = load ptr, ptr %at.frame, align 8
  %order = call i32 @memcmp(ptr %node.frame, ptr %frame, i64 %bytes)
  %same.frame = icmp eq i32 %order, 0
  %same.shape = and i1 %same.blocks, %same.threads
  %same = and i1 %same.shape, %same.frame
  br i1 %same, label %done, label %changed
changed:
  %at.differs = getelementptr inbounds i8, ptr @qd_graph, i64 16
  %differs = load i64, ptr %at.differs, align 8
  %at.graph = getelementptr inbounds i8, ptr @qd_graph, i64 24
  %graph = load ptr, ptr %at.graph, align 8
  %at.handle = getelementptr inbounds i8, ptr %node, i64 32
  %handle = load ptr, ptr %at.handle, align 8
  %at.mask = getelementptr inbounds i8, ptr %node, i64 40
  %mask = load ptr, ptr %at.mask, align 8
  %whole = icmp eq i64 %differs, 0
  %made = icmp ne ptr %graph, null
  %known.node = icmp ne ptr %handle, null
  %there = and i1 %made, %known.node
  %may.tell = and i1 %whole, %there
  br i1 %may.tell, label %words, label %other
words:
  %at = phi i64 [ 0, %changed ], [ %at.next, %word ]
  %more = icmp ult i64 %at, %bytes
  br i1 %more, label %word, label %tell
word:
  %old.at = getelementptr inbounds i8, ptr %node.frame, i64 %at
  %old = load i64, ptr %old.at, align 8
  %new.at = getelementptr inbounds i8, ptr %frame, i64 %at
  %new = load i64, ptr %new.at, align 8
  %mask.at = getelementptr inbounds i8, ptr %mask, i64 %at
  %bits = load i64, ptr %mask.at, align 8
  %apart = xor i64 %old, %new
  %moved = and i64 %apart, %bits
  %at.next = add i64 %at, 8
  %stays = icmp eq i64 %moved, 0
  br i1 %stays, label %words, label %other
tell:
  %told = call i32 @qd_graph_set(ptr %graph, ptr %handle, ptr %kernel, i32 %blocks, i32 %threads, i32 %asked, ptr %frame)
  %taken = icmp eq i32 %told, 0
  br i1 %taken, label %keep, label %refused
keep:
  store i32 %blocks, ptr %at.blocks, align 8
  store i32 %threads, ptr %at.threads, align 4
  call void @llvm.memcpy.p0.p0.i64(ptr %node.frame, ptr %frame, i64 %bytes, i1 false)
  ret i32 0
refused:
  ret i32 %told
other:
  %code = call i32 @qd_graph_note_code(ptr @qd_graph, i64 %k, ptr %kernel, i32 %blocks, i32 %threads, i32 %asked, ptr %frame, i64 %bytes)
  ret i32 %code
done:
  ret i32 0
}
define internal i32 @qd_graph_begin() nounwind {
entry:
  %at.busy = getelementptr inbounds i8, ptr @qd_graph, i64 40
  br label %look
look:
  %busy = load i64, ptr %at.busy, align 8
  %free = icmp eq i64 %busy, 0
  br i1 %free, label %begin, label %wait
wait:
  %code = call i32 @qd_graph_wait_code(ptr @qd_graph)
  %there = icmp eq i32 %code, 0
  br i1 %there, label %look, label %leave
begin:
  store i64 1, ptr %at.busy, align 8
  store i64 0, ptr @qd_graph, align 8
  ret i32 0
leave:
  ret i32 %code
}
define internal void @qd_graph_leave() alwaysinline nounwind {
  %at.busy = getelementptr inbounds i8, ptr @qd_graph, i64 40
  store i64 0, ptr %at.busy, align 8
  ret void
}
define internal i32 @qd_graph_end() nounwind {
entry:
  %launches = load i64, ptr @qd_graph, align 8
  %at.count = getelementptr inbounds i8, ptr @qd_graph, i64 8
  %count = load i64, ptr %at.count, align 8
  %at.differs = getelementptr inbounds i8, ptr @qd_graph, i64 16
  %differs = load i64, ptr %at.differs, align 8
  %at.graph = getelementptr inbounds i8, ptr @qd_graph, i64 24
  %graph = load ptr, ptr %at.graph, align 8
  %whole = icmp eq i64 %launches, %count
  %equal = icmp eq i64 %differs, 0
  %there = icmp ne ptr %graph, null
  %both = and i1 %whole, %equal
  %all = and i1 %both, %there
  br i1 %all, label %launch, label %finish
launch:
  %told = call i32 @qd_graph_launch(ptr %graph)
  ret i32 %told
finish:
  %code = call i32 @qd_graph_finish_code(ptr @qd_graph)
  ret i32 %code
}
"""
