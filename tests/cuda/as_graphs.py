"""A plugin of pytest: kernels of the played GPU are graphs wherever the host looks at nothing in between, and a launch that reaches
more memory than is said of it is a fault. `told` says at the end how many graphs there were, and how many with branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadrants import compiler
from quadrants.evidence.ptx.driver import PlayedDriver
from quadrants.targets.llvm.cuda.graphs import GraphCalls
from quadrants.targets.llvm.device_graphs import Node

counts = {"graphs": 0, "branched": 0}
_compiled, _make_graph, _start = compiler._compiled, GraphCalls.make_graph, PlayedDriver.__init__


def compiled_as_graph(*arguments: Any) -> Any:
    return _compiled(*arguments[:-1], True)


def make_graph(self: GraphCalls, nodes: Sequence[Node], failure: int) -> Any:
    counts["graphs"] += 1
    counts["branched"] += any(len(node.before) != 1 for node in nodes[1:])
    return _make_graph(self, nodes, failure)


def start(self: PlayedDriver, *arguments: Any, **keywords: Any) -> None:
    _start(self, *arguments, **keywords)
    self.watch()


compiler._compiled, GraphCalls.make_graph, PlayedDriver.__init__ = compiled_as_graph, make_graph, start


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"graphs: {counts['graphs']}, with branches: {counts['branched']}")
