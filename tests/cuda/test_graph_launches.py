"""What machine code knows of a graph while the driver fails: never a graph or a frame that is gone."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from quadrants.targets.llvm.device_graphs import GraphLaunches, Node


class Driver:
    """Counts its graphs; fails on request."""

    def __init__(self) -> None:
        self.fails = False
        self.made: list[int] = []
        self.dropped: list[int] = []

    def has_loops(self) -> bool:
        return False

    def make_graph(self, nodes: Sequence[Node], failure: int) -> Any:
        if self.fails:
            raise MemoryError("the GPU has no memory left")
        for number, node in enumerate(nodes):
            node.handle = 100 + number
        self.made.append(len(self.made) + 1000)
        return self.made[-1]

    def change_node(self, graph: Any, node: Node, failure: int) -> None:
        assert graph not in self.dropped

    def launch_graph(self, graph: Any) -> None:
        assert graph not in self.dropped

    def drop_graph(self, graph: Any) -> None:
        self.dropped.append(graph)


def run(graph: GraphLaunches, launches: int, known: int) -> None:
    """A run of so many launches; the first ones are as machine code knows them."""
    for number in range(known, launches):
        graph.note(number, 0x100 + number, 1, 1, 0, bytes(64))
    graph._state.cursor = launches
    graph.finish()


@pytest.mark.parametrize("launches", [2, 0])
def test_a_graph_that_cannot_be_made_leaves_nothing_that_is_gone(launches: int) -> None:
    driver = Driver()
    graph = GraphLaunches(driver)
    run(graph, 3, 0)
    assert graph._state.graph == 1000 and graph._state.count == 3
    last = weakref.ref(graph._nodes[2].frame)
    driver.fails = launches > 0  # nothing is made of no launches
    if driver.fails:
        with pytest.raises(MemoryError):
            run(graph, launches, launches)
    else:
        run(graph, launches, launches)
    assert driver.dropped == [1000] and not graph._state.graph
    assert last() is None and graph._state.count == launches
    driver.fails = False
    run(graph, 3, launches)
    assert graph._state.graph == driver.made[-1] == 1001 and graph._state.count == 3


def test_a_launch_of_another_kind_is_known_to_be_gone() -> None:
    driver = Driver()
    graph = GraphLaunches(driver)
    run(graph, 3, 0)
    graph.note(1, 0x999, 1, 1, 0, bytes(64))
    assert not graph._state.graph and graph._state.count == 1 and driver.dropped == [1000]
    graph._state.cursor = 2
    graph.finish()
    assert graph._state.graph == 1001 and graph._state.count == 2


def test_a_graph_whose_end_is_interrupted_keeps_no_owner() -> None:
    driver = Driver()
    graph = GraphLaunches(driver)
    driver.fails = True
    with pytest.raises(MemoryError):
        run(graph, 1, 0)
    assert graph._owner is None
    graph.wait()
    assert graph._state.busy == 0


def test_a_kernel_that_goes_gives_its_graph_back() -> None:
    driver = Driver()
    graph = GraphLaunches(driver)
    run(graph, 2, 0)
    del graph
    assert driver.dropped == [1000]
