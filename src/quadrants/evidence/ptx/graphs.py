"""Graphs of launches, as a driver that is played has them: made of nodes, fixed when they can be launched, then changed by what
is told of a node."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.evidence.ptx.queues import Queues
from quadrants.evidence.ptx.results import Result

__all__ = ["GraphFunctions"]

Work = Callable[[], None]


class NodeParameters:
    """A launch, as a node has it; all has to be given."""

    func: int
    gridDimX: int
    gridDimY: int
    gridDimZ: int
    blockDimX: int
    blockDimY: int
    blockDimZ: int
    sharedMemBytes: int
    kernelParams: int


class _Node:
    def __init__(self, kernel: int, work: Work) -> None:
        self.kernel, self.work = kernel, work


class _Graph:
    """Launches in the order that their dependences say, by the handles of their nodes. `source`: the graph that one that can be
    launched was made of."""

    def __init__(self, nodes: dict[int, _Node], source: int | None = None) -> None:
        self.nodes, self.source = nodes, source


class GraphFunctions:
    """The functions of the driver for graphs. `graphs`: by handle those that are being made, `ready` those that can be launched.

    Law: a node's handle is good as long as the graph is that it was added to, even where it names a node of one that was made
    of it."""

    CUDA_KERNEL_NODE_PARAMS = NodeParameters
    CUfunction = int
    queues: Queues

    def __init__(self) -> None:
        self.graphs: dict[int, _Graph] = {}
        self.ready: dict[int, _Graph] = {}
        self._handles = 0xB000

    def work_of(self, kernel: int, blocks: int, threads: int, parameters: int) -> tuple[Result, Work]:
        """What a launch does when it runs, with the parameters as they are now."""
        raise AssertionError("the driver says what a launch does")

    def _work(self, told: NodeParameters) -> tuple[Result, Work]:
        sizes = (told.gridDimY, told.gridDimZ, told.blockDimY, told.blockDimZ, told.sharedMemBytes)
        code, work = self.work_of(told.func, told.gridDimX, told.blockDimX, told.kernelParams)
        return (code if sizes == (1, 1, 1, 1, 0) else Result.CUDA_ERROR_INVALID_VALUE), work

    def _handle(self) -> int:
        self._handles += 16
        return self._handles

    def cuGraphCreate(self, flags: int) -> tuple[Result, int]:
        if flags:
            return Result.CUDA_ERROR_INVALID_VALUE, 0
        handle = self._handle()
        self.graphs[handle] = _Graph({})
        return Result.CUDA_SUCCESS, handle

    def cuGraphAddKernelNode(
        self, graph: int, before: list[int], count: int, parameters: NodeParameters
    ) -> tuple[Result, int]:
        """Nodes here stand in one row: each waits for the last one."""
        made = self.graphs.get(graph)
        code, work = self._work(parameters)
        if made is None or count != len(before) or before != list(made.nodes)[-1:]:
            return Result.CUDA_ERROR_INVALID_VALUE, 0
        if code != Result.CUDA_SUCCESS:
            return code, 0
        handle = self._handle()
        made.nodes[handle] = _Node(parameters.func, work)
        return code, handle

    def cuGraphInstantiate(self, graph: int, flags: int) -> tuple[Result, int]:
        made = self.graphs.get(graph)
        if made is None or flags:
            return Result.CUDA_ERROR_INVALID_VALUE, 0
        handle = self._handle()
        nodes = {number: _Node(node.kernel, node.work) for number, node in made.nodes.items()}
        self.ready[handle] = _Graph(nodes, graph)
        return Result.CUDA_SUCCESS, handle

    def cuGraphExecKernelNodeSetParams(self, graph: int, node: int, parameters: NodeParameters) -> tuple[Result]:
        """The node of the graph that can be launched changes, that of the other one does not."""
        ready = self.ready.get(graph)
        source = None if ready is None or ready.source is None else self.graphs.get(ready.source)
        if ready is None or source is None or node not in source.nodes or parameters.func != ready.nodes[node].kernel:
            return (Result.CUDA_ERROR_INVALID_VALUE,)
        code, work = self._work(parameters)
        if code == Result.CUDA_SUCCESS:
            ready.nodes[node].work = work
        return (code,)

    def cuGraphLaunch(self, graph: int, stream: int) -> tuple[Result]:
        """What nodes are told afterwards is for later launches."""
        ready = self.ready.get(graph)
        if ready is None or not self.queues.has(stream):
            return (Result.CUDA_ERROR_INVALID_HANDLE,)
        for node in ready.nodes.values():
            self.queues.add(stream, node.work)
        return (Result.CUDA_SUCCESS,)

    def cuGraphDestroy(self, graph: int) -> tuple[Result]:
        """With all of its nodes."""
        return (Result.CUDA_SUCCESS if self.graphs.pop(graph, None) is not None else Result.CUDA_ERROR_INVALID_VALUE,)

    def cuGraphExecDestroy(self, graph: int) -> tuple[Result]:
        return (Result.CUDA_SUCCESS if self.ready.pop(graph, None) is not None else Result.CUDA_ERROR_INVALID_VALUE,)
