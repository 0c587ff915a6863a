"""The calls of NVIDIA's driver for graphs of launches."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from quadrants.targets.llvm.cuda.loops import Loops, loop_parameters
from quadrants.targets.llvm.device_graphs import BRANCH, LOOP, LOOP_END, Node

__all__ = ["GraphCalls"]


class _Graph:
    """What can be launched, and the graph that it was made of: by the nodes of that one the driver is told what changes, so it
    lives as long."""

    def __init__(self, source: Any, ready: Any) -> None:
        self.source, self.ready = source, ready

    def __int__(self) -> int:
        """What machine code launches."""
        return int(self.ready)


class _Loop:
    """What the driver has of a loop or a branch: its condition, its node, and the nodes that decide on the first round and on the
    others."""

    def __init__(self, condition: Any) -> None:
        self.condition = condition
        self.node: Any = None
        self.first: Any = None
        self.again: Any = None


def _handle(node: Node) -> Any:
    """The driver's node for which those wait that come behind a launch, or a loop."""
    return node.handle.node if node.kernel in (LOOP, BRANCH) else node.handle


class GraphCalls:
    """`_cuda`: the module `cuda.bindings.driver`."""

    _cuda: Any
    _context: Any
    _loops: Loops

    def _here(self) -> None:
        """The context is each thread's own affair."""
        raise AssertionError("the driver says how its context is taken")

    def _aside(self, *calls: tuple[Any, Any]) -> None:
        """Calls functions with their handles for finalisers."""
        raise AssertionError("the driver says how its context is taken")

    def _call(self, function: Any, *arguments: Any) -> Any:
        """What a function of the driver gives behind its result code; MemoryError, QuadrantsRuntimeError."""
        raise AssertionError("the driver says how its functions are called")

    @property
    def stream(self) -> int:
        """The stream that is launched to."""
        raise AssertionError("the driver knows its stream")

    def has_loops(self) -> bool:
        return self._loops.are_there()

    def make_graph(self, nodes: Sequence[Node], failure: int) -> _Graph:
        """A graph of launches each of which waits for those before it, ready to be launched; notes the nodes' handles."""
        self._here()
        graph = self._call(self._cuda.cuGraphCreate, 0)
        try:
            bodies: list[tuple[Any, Node | None]] = [(graph, None)]
            for node in nodes:
                here, loop = bodies[-1]
                before = [_handle(nodes[number]) for number in node.before]
                if node.kernel in (LOOP, BRANCH):
                    bodies.append((self._begin_loop(here, before, node, failure), node))
                elif node.kernel == LOOP_END:
                    assert loop is not None
                    if loop.kernel == LOOP or not before:  # a body is never empty
                        loop.handle.again = self._add(here, before, self._loops.decision(loop, failure))
                    bodies.pop()
                else:
                    node.handle = self._add(here, before, node)
            return _Graph(graph, self._call(self._cuda.cuGraphInstantiate, graph, 0))
        except BaseException:  # an interrupt, too: nobody else knows the graph
            self._cuda.cuGraphDestroy(graph)
            raise

    def _add(self, graph: Any, before: list[Any], node: Node) -> Any:
        """A launch behind others; its handle."""
        parameters, keep = self._parameters(node)
        handle = self._call(self._cuda.cuGraphAddKernelNode, graph, before, len(before), parameters)
        del keep
        return handle

    def _begin_loop(self, graph: Any, before: list[Any], node: Node, failure: int) -> Any:
        """Adds who decides on the first round, and the loop or branch; gives the graph of its body."""
        condition = self._call(self._cuda.cuGraphConditionalHandleCreate, graph, self._context, 0, 0)
        loop = node.handle = _Loop(condition)
        loop.first = self._add(graph, before, self._loops.decision(node, failure))
        parameters = loop_parameters(self._cuda, node.kernel == LOOP, condition, self._context)
        # Up to 12.9 the package has the form that takes data of edges under a name of its own, from 13.0 on no other one.
        edges = () if hasattr(self._cuda, "cuGraphAddNode_v2") else (None,)
        loop.node = self._call(self._cuda.cuGraphAddNode, graph, [loop.first], *edges, 1, parameters)
        return parameters.conditional.phGraph_out[0]

    def _parameters(self, node: Node) -> tuple[Any, Any]:
        """A launch in the driver's words, which copies the frame; and what has to live until it has."""
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(node.frame))
        parameters = self._cuda.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = self._cuda.CUfunction(node.kernel)
        parameters.gridDimX, parameters.blockDimX = node.blocks, node.threads
        parameters.gridDimY = parameters.gridDimZ = parameters.blockDimY = parameters.blockDimZ = 1
        parameters.sharedMemBytes = node.asked
        parameters.kernelParams = ctypes.addressof(pointers)
        return parameters, (pointers, node.frame)

    def change_node(self, graph: _Graph, node: Node, failure: int) -> None:
        """From the next launch on the node has other sizes and another frame."""
        self._here()
        if node.kernel in (LOOP, BRANCH):
            parameters, keep = self._parameters(self._loops.decision(node, failure))
            handles = [handle for handle in (node.handle.first, node.handle.again) if handle is not None]
        else:
            parameters, keep = self._parameters(node)
            handles = [node.handle]
        for handle in handles:
            self._call(self._cuda.cuGraphExecKernelNodeSetParams, graph.ready, handle, parameters)
        del keep

    def launch_graph(self, graph: _Graph) -> None:
        self._here()
        self._call(self._cuda.cuGraphLaunch, graph.ready, self.stream)

    def drop_graph(self, graph: _Graph) -> None:
        """Finalisers call this, too; a launch that runs still has what it needs."""
        self._aside((self._cuda.cuGraphExecDestroy, graph.ready), (self._cuda.cuGraphDestroy, graph.source))
