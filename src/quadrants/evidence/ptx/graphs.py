"""Graphs of launches, as a driver that is played has them: made of nodes, fixed when they can be launched, then changed by what
is told of a node. What dependences leave open is done in the order that is least likely."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from enum import IntEnum

from quadrants.evidence.ptx.machine import Machine, Trap
from quadrants.evidence.ptx.queues import Queues
from quadrants.evidence.ptx.results import Result

__all__ = [
    "AnyParameters",
    "CUgraphConditionalNodeType",
    "CUgraphNodeType",
    "GraphFunctions",
    "NodeInMemory",
    "NodeParameters",
]

Work = Callable[[], None]
_OK, _INVALID = Result.CUDA_SUCCESS, Result.CUDA_ERROR_INVALID_VALUE
_MOST_ROUNDS = 100_000


def _nothing() -> None:
    """What a loop does beside its body."""


class CUgraphNodeType(IntEnum):
    CU_GRAPH_NODE_TYPE_KERNEL = 0
    CU_GRAPH_NODE_TYPE_CONDITIONAL = 13


class CUgraphConditionalNodeType(IntEnum):
    CU_GRAPH_COND_TYPE_IF = 0
    CU_GRAPH_COND_TYPE_WHILE = 1
    CU_GRAPH_COND_TYPE_SWITCH = 2


_KINDS = (CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE, CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF)
_CONDITIONAL = (CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL, 1)
"""Type of the node, number of bodies."""


class NodeParameters:
    """A launch, as a node has it; all has to be given but the last three."""

    func: int
    gridDimX: int
    gridDimY: int
    gridDimZ: int
    blockDimX: int
    blockDimY: int
    blockDimZ: int
    sharedMemBytes: int
    kernelParams: int
    extra = kern = ctx = 0


class NodeInMemory(ctypes.Structure):
    """The same as machine code has it (CUDA_KERNEL_NODE_PARAMS of NVIDIA's header)."""

    _fields_ = [
        ("func", ctypes.c_uint64),
        *[
            (name, ctypes.c_uint32)
            for name in ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ")
        ],
        ("sharedMemBytes", ctypes.c_uint32),
        *[(name, ctypes.c_uint64) for name in ("kernelParams", "extra", "kern", "ctx")],
    ]


class _ConditionalParameters:
    """`phGraph_out` is the driver's to fill in."""

    def __init__(self) -> None:
        self.handle, self.type, self.size, self.ctx = 0, CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF, 0, 0
        self.phGraph_out: list[int] = []


class AnyParameters:
    """A node of any type; played for conditional ones."""

    def __init__(self) -> None:
        self.type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL
        self.conditional = _ConditionalParameters()


class _Node:
    """`before`: the nodes that it waits for. A launch has a kernel and what it does; a loop has a `body`, which it repeats while the
    value of `condition` is not 0."""

    def __init__(self, before: Sequence[int], kernel: int, work: Work) -> None:
        self.before, self.kernel, self.work = frozenset(before), kernel, work
        self.body: _Graph | None = None
        self.condition = 0
        self.repeats = False


class _Graph:
    """Nodes by their handles. `conditions`: the handles that were made for it, each with whether a node has it; `owner`: the graph
    of which it is a loop's body; `instances`: how many of it can be launched."""

    def __init__(self, owner: _Graph | None = None) -> None:
        self.nodes: dict[int, _Node] = {}
        self.conditions: dict[int, bool] = {}
        self.owner = owner
        self.instances = 0

    def whole(self) -> _Graph:
        """The graph that can be launched, of which this one is a part."""
        return self if self.owner is None else self.owner.whole()

    def launches(self) -> dict[int, _Node]:
        """The nodes that are launches, those of loops' bodies, too."""
        found: dict[int, _Node] = {}
        for handle, node in self.nodes.items():
            found.update({handle: node} if node.body is None else node.body.launches())
        return found

    def loops(self) -> list[_Node]:
        """The nodes that are loops, at any depth."""
        return [inner for node in self.nodes.values() if node.body is not None for inner in (node, *node.body.loops())]

    def is_complete(self) -> bool:
        """Whether each condition has its loop."""
        bodies = [node.body for node in self.nodes.values() if node.body is not None]
        return all(self.conditions.values()) and all(body.is_complete() for body in bodies)


class _Ready:
    """What can be launched: a graph that may be gone, and what its launches do now."""

    def __init__(self, source: int, graph: _Graph) -> None:
        self.source, self.graph = source, graph
        self.works = {handle: node.work for handle, node in graph.launches().items()}


class GraphFunctions:
    """The functions of the driver for graphs. `graphs`: by handle those that are being made, `ready` those that can be launched;
    `rounds`: how many rounds the loops of graphs have made.

    Law: a node's handle is good as long as the graph is that it was added to, even where it names a node of one that was made
    of it."""

    CUDA_KERNEL_NODE_PARAMS = NodeParameters
    CUgraphNodeParams = AnyParameters
    CUgraphNodeType = CUgraphNodeType
    CUgraphConditionalNodeType = CUgraphConditionalNodeType
    CUfunction = int
    queues: Queues
    machine: Machine

    def __init__(self) -> None:
        self.graphs: dict[int, _Graph] = {}
        self.ready: dict[int, _Ready] = {}
        self.rounds = 0
        self._defaults: dict[int, int] = {}
        self._handles = 0xB000

    def work_of(self, kernel: int, blocks: int, threads: int, parameters: int, asked: int) -> tuple[Result, Work]:
        """What a launch does when it runs, with the parameters as they are now."""
        raise AssertionError("the driver says what a launch does")

    def is_faulty(self) -> bool:
        """Whether nothing runs any more."""
        raise AssertionError("the driver says what has happened")

    def _work(self, told: NodeParameters | NodeInMemory) -> tuple[Result, Work]:
        sizes = (told.gridDimY, told.gridDimZ, told.blockDimY, told.blockDimZ)
        code, work = self.work_of(told.func, told.gridDimX, told.blockDimX, told.kernelParams, told.sharedMemBytes)
        is_plain = sizes == (1, 1, 1, 1) and not (told.extra or told.kern or told.ctx)
        return (code if is_plain else _INVALID), work

    def _handle(self) -> int:
        self._handles += 16
        return self._handles

    def cuGraphCreate(self, flags: int) -> tuple[Result, int]:
        if flags:
            return _INVALID, 0
        self.graphs[handle := self._handle()] = _Graph()
        return _OK, handle

    def _add(self, graph: int, before: Sequence[int], count: int, node: _Node) -> tuple[Result, int]:
        """A new node behind others of the graph, which is still being made."""
        made = self.graphs.get(graph)
        if made is None or not count == len(before) == len(node.before) or not node.before <= made.nodes.keys():
            return _INVALID, 0
        if made.whole().instances:
            return _INVALID, 0
        made.nodes[handle := self._handle()] = node
        return _OK, handle

    def cuGraphAddKernelNode(
        self, graph: int, before: list[int], count: int, parameters: NodeParameters
    ) -> tuple[Result, int]:
        code, work = self._work(parameters)
        return self._add(graph, before, count, _Node(before, parameters.func, work)) if code == _OK else (code, 0)

    def cuGraphConditionalHandleCreate(self, graph: int, context: int, default: int, flags: int) -> tuple[Result, int]:
        if graph not in self.graphs or flags not in (0, 1) or not context:
            return _INVALID, 0
        handle = self._handle()
        self.graphs[graph].conditions[handle] = False
        if flags:
            self._defaults[handle] = default
        return _OK, handle

    def cuGraphAddNode(
        self, graph: int, before: list[int], edges: None, count: int, parameters: AnyParameters
    ) -> tuple[Result, int]:
        """Loops and branches with one body: the condition is one of the graph's, or of one around it, and of no other node."""
        told = parameters.conditional
        here = self.graphs.get(graph)
        owner = here
        while owner is not None and told.handle not in owner.conditions:
            owner = owner.owner
        kind = (parameters.type, told.size, edges)
        if here is None or owner is None or owner.conditions[told.handle] or kind != (*_CONDITIONAL, None):
            return _INVALID, 0
        if told.type not in _KINDS or not told.ctx:
            return _INVALID, 0
        node = _Node(before, 0, _nothing)
        node.body, node.condition, node.repeats = _Graph(here), told.handle, told.type == _KINDS[0]
        code, handle = self._add(graph, before, count, node)
        if code == _OK:
            owner.conditions[told.handle] = True
            self.graphs[inner := self._handle()] = node.body
            told.phGraph_out = [inner]
        return code, handle

    def cuGraphInstantiate(self, graph: int, flags: int) -> tuple[Result, int]:
        """A graph with loops can be launched in one form at a time."""
        made = self.graphs.get(graph)
        if made is None or flags or made.owner is not None or not made.is_complete():
            return _INVALID, 0
        if made.instances and made.loops():
            return _INVALID, 0
        made.instances += 1
        self.ready[handle := self._handle()] = _Ready(graph, made)
        return _OK, handle

    def cuGraphExecKernelNodeSetParams(
        self, graph: int, node: int, parameters: NodeParameters | NodeInMemory
    ) -> tuple[Result]:
        """The node of the graph that can be launched changes, that of the other one does not."""
        ready = self.ready.get(graph)
        source = None if ready is None else self.graphs.get(ready.source)
        known = None if source is None else source.launches().get(node)
        if ready is None or known is None or parameters.func != known.kernel:
            return (_INVALID,)
        code, work = self._work(parameters)
        if code == _OK:
            ready.works[node] = work
        return (code,)

    def cuGraphLaunch(self, graph: int, stream: int) -> tuple[Result]:
        """What nodes are told afterwards is for later launches."""
        ready = self.ready.get(graph)
        if ready is None or not self.queues.has(stream):
            return (Result.CUDA_ERROR_INVALID_HANDLE,)
        made, works = ready.graph, dict(ready.works)
        self.queues.add(stream, lambda: self._run(made, works))
        return (_OK,)

    def _run(self, graph: _Graph, works: dict[int, Work]) -> None:
        self.machine.conditions = {node.condition: self._defaults.get(node.condition, 0) for node in graph.loops()}
        try:
            self._run_nodes(graph, works)
        finally:
            self.machine.conditions = {}

    def _run_nodes(self, graph: _Graph, works: dict[int, Work]) -> None:
        """Of the nodes that may run, the one that was made last comes first."""
        left, done = list(graph.nodes), set[int]()
        while left:
            handle = next(handle for handle in reversed(left) if graph.nodes[handle].before <= done)
            node = graph.nodes[handle]
            if node.body is None:
                works[handle]()
            else:
                self._repeat(node.condition, node.body, works, node.repeats)
            left.remove(handle)
            done.add(handle)

    def _repeat(self, condition: int, body: _Graph, works: dict[int, Work], repeats: bool) -> None:
        for _ in range(_MOST_ROUNDS):
            if self.is_faulty() or not self.machine.conditions[condition]:
                return
            self.rounds += 1
            self._run_nodes(body, works)
            if not repeats:
                return
        raise Trap(f"a loop of a graph does not end within {_MOST_ROUNDS} rounds")

    def cuGraphDestroy(self, graph: int) -> tuple[Result]:
        """With all of its nodes, and the bodies of its loops, which go with nothing else."""
        made = self.graphs.get(graph)
        if made is None or made.owner is not None:
            return (_INVALID,)
        for handle in [handle for handle, other in self.graphs.items() if other.whole() is made]:
            del self.graphs[handle]
        return (_OK,)

    def cuGraphExecDestroy(self, graph: int) -> tuple[Result]:
        ready = self.ready.pop(graph, None)
        if ready is None:
            return (_INVALID,)
        ready.graph.instances -= 1
        return (_OK,)
