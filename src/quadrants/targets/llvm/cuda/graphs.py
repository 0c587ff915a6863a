"""The calls of NVIDIA's driver for graphs of launches."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from quadrants.targets.llvm.device_graphs import Node

__all__ = ["GraphCalls"]


class _Graph:
    """What can be launched, and the graph that it was made of: by the nodes of that one the driver is told what changes, so it
    lives as long."""

    def __init__(self, source: Any, ready: Any) -> None:
        self.source, self.ready = source, ready

    def __int__(self) -> int:
        """What machine code launches."""
        return int(self.ready)


class GraphCalls:
    """`_cuda`: the module `cuda.bindings.driver`; `_context`: the context of all calls."""

    _cuda: Any
    _context: Any

    def _here(self) -> None:
        """The context is each thread's own affair."""
        raise AssertionError("the driver says how its context is taken")

    def _call(self, function: Any, *arguments: Any) -> Any:
        """What a function of the driver gives behind its result code; MemoryError, QuadrantsRuntimeError."""
        raise AssertionError("the driver says how its functions are called")

    @property
    def stream(self) -> int:
        """The stream that is launched to."""
        raise AssertionError("the driver knows its stream")

    def make_graph(self, nodes: Sequence[Node]) -> _Graph:
        """A graph of launches one after the other, ready to be launched; notes the nodes' handles."""
        self._here()
        graph = self._call(self._cuda.cuGraphCreate, 0)
        try:
            before: list[Any] = []
            for node in nodes:
                parameters, keep = self._parameters(node)
                node.handle = self._call(self._cuda.cuGraphAddKernelNode, graph, before, len(before), parameters)
                before, _ = [node.handle], keep
            return _Graph(graph, self._call(self._cuda.cuGraphInstantiate, graph, 0))
        except BaseException:  # an interrupt, too: nobody else knows the graph
            self._cuda.cuGraphDestroy(graph)
            raise

    def _parameters(self, node: Node) -> tuple[Any, Any]:
        """A launch in the driver's words, which copies the frame; and what has to live until it has."""
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(node.frame))
        parameters = self._cuda.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = self._cuda.CUfunction(node.kernel)
        parameters.gridDimX, parameters.blockDimX = node.blocks, node.threads
        parameters.gridDimY = parameters.gridDimZ = parameters.blockDimY = parameters.blockDimZ = 1
        parameters.sharedMemBytes = 0
        parameters.kernelParams = ctypes.addressof(pointers)
        return parameters, pointers

    def change_node(self, graph: _Graph, node: Node) -> None:
        """From the next launch on the node has other sizes and another frame."""
        self._here()
        parameters, keep = self._parameters(node)
        self._call(self._cuda.cuGraphExecKernelNodeSetParams, graph.ready, node.handle, parameters)
        del keep

    def launch_graph(self, graph: _Graph) -> None:
        self._here()
        self._call(self._cuda.cuGraphLaunch, graph.ready, self.stream)

    def drop_graph(self, graph: _Graph) -> None:
        """Finalisers call this, too; a launch that runs still has what it needs."""
        self._cuda.cuCtxSetCurrent(self._context)
        self._cuda.cuGraphExecDestroy(graph.ready)
        self._cuda.cuGraphDestroy(graph.source)
