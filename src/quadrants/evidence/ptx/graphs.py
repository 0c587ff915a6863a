"""Graphs of launches, as a driver that is played has them: made of nodes, fixed when they can be launched, then changed by what
is told of a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


class GraphFunctions:
    """The functions of the driver for graphs. `graphs`: by handle the nodes of those that are being made, or can be launched, in
    the order that their dependences say."""

    CUDA_KERNEL_NODE_PARAMS = NodeParameters
    CUfunction = int
    graphs: dict[int, list[_Node]]
    queues: Queues

    def work_of(self, kernel: int, blocks: int, threads: int, parameters: int) -> tuple[Result, Work]:
        """What a launch does when it runs, with the parameters as they are now."""
        raise AssertionError("the driver says what a launch does")

    def _work(self, told: NodeParameters) -> tuple[Result, Work]:
        sizes = (told.gridDimY, told.gridDimZ, told.blockDimY, told.blockDimZ, told.sharedMemBytes)
        code, work = self.work_of(told.func, told.gridDimX, told.blockDimX, told.kernelParams)
        return (code if sizes == (1, 1, 1, 1, 0) else Result.CUDA_ERROR_INVALID_VALUE), work

    def _open(self, nodes: list[_Node]) -> int:
        handle = 0xB000 + 16 * (max([*self.graphs, 0xB000]) - 0xB000 + 16) // 16
        self.graphs[handle] = nodes
        return handle

    def cuGraphCreate(self, flags: int) -> tuple[Result, int]:
        return (Result.CUDA_SUCCESS, self._open([])) if flags == 0 else (Result.CUDA_ERROR_INVALID_VALUE, 0)

    def cuGraphAddKernelNode(
        self, graph: int, before: list[Any], count: int, parameters: NodeParameters
    ) -> tuple[Result, Any]:
        """Nodes here stand in one row: each waits for the last one."""
        nodes = self.graphs.get(graph)
        code, work = self._work(parameters)
        if nodes is None or count != len(before) or before != nodes[-1:]:
            return Result.CUDA_ERROR_INVALID_VALUE, None
        if code == Result.CUDA_SUCCESS:
            nodes.append(_Node(parameters.func, work))
        return code, nodes[-1] if nodes else None

    def cuGraphInstantiate(self, graph: int, flags: int) -> tuple[Result, int]:
        nodes = self.graphs.get(graph)
        if nodes is None or flags:
            return Result.CUDA_ERROR_INVALID_VALUE, 0
        return Result.CUDA_SUCCESS, self._open(nodes)

    def cuGraphExecKernelNodeSetParams(self, graph: int, node: _Node, parameters: NodeParameters) -> tuple[Result]:
        nodes = self.graphs.get(graph)
        if nodes is None or node not in nodes or parameters.func != node.kernel:
            return (Result.CUDA_ERROR_INVALID_VALUE,)
        code, work = self._work(parameters)
        if code == Result.CUDA_SUCCESS:
            node.work = work
        return (code,)

    def cuGraphLaunch(self, graph: int, stream: int) -> tuple[Result]:
        """What nodes are told afterwards is for later launches."""
        nodes = self.graphs.get(graph)
        if nodes is None or not self.queues.has(stream):
            return (Result.CUDA_ERROR_INVALID_HANDLE,)
        for node in nodes:
            self.queues.add(stream, node.work)
        return (Result.CUDA_SUCCESS,)

    def cuGraphDestroy(self, graph: int) -> tuple[Result]:
        return (Result.CUDA_SUCCESS if self.graphs.pop(graph, None) is not None else Result.CUDA_ERROR_INVALID_VALUE,)

    cuGraphExecDestroy = cuGraphDestroy
