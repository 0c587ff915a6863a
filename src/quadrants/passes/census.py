"""What a module has for a target, at a glance: a pass that looks for something else need not run, nor be imported."""

from __future__ import annotations

from typing import Any

from quadrants.ir.nodes import Block, Module, Op

__all__ = ["Census"]


class Census:
    """`kinds`: of operations. `parallel`: how many loops are. `depth`: the most counters of `for`s within one another.
    `carries`: a `for` carries values; `carries_integers`: nothing but integers; `carries_inside`: one within another does;
    `carries_lines`: and is a straight line.
    `independent`: a loop within is marked so. `atomics`: an update may be atomic. `reads_integers`: integers are loaded.
    `launches`: the target runs loops on a device; `marked_vectors`: it makes vectors of marked loops."""

    __slots__ = (
        "atomics",
        "carries",
        "carries_inside",
        "carries_integers",
        "carries_lines",
        "depth",
        "independent",
        "kinds",
        "launches",
        "marked_vectors",
        "parallel",
        "reads_integers",
    )

    def __init__(self, module: Module, record: Any = None) -> None:
        self.launches: bool = record is not None and record.launches
        self.marked_vectors: bool = record is not None and record.marked_vectors
        self.kinds: set[str] = set()
        self.parallel = self.depth = 0
        self.carries = self.carries_integers = self.carries_inside = self.carries_lines = False
        self.independent = self.atomics = self.reads_integers = False
        for function in module.functions.values():
            self._block(function.body, 0)

    def _block(self, block: Block, depth: int) -> None:
        kinds = self.kinds
        for op in block.ops:
            kind = op.kind
            kinds.add(kind)
            if op.regions:
                inner = depth if kind != "for" else self._loop(op, depth)
                for region in op.regions:
                    self._block(region, inner)
            elif kind == "load":
                type_ = op.results[0].type
                self.reads_integers = self.reads_integers or (type_.scalar is type_ and type_.scalar.is_integer)
            elif kind == "update":
                self.atomics = self.atomics or op.attributes.get("atomic", True)

    def _loop(self, loop: Op, outside: int) -> int:
        attributes = loop.attributes
        depth = outside + attributes["rank"]
        self.depth = max(self.depth, depth)
        if attributes.get("parallel"):
            self.parallel += 1
        if attributes.get("independent"):
            self.independent = True
        if loop.results:
            self.carries = True
            if not any(value.type.scalar.is_float for value in loop.results):
                self.carries_integers = True
            if outside:
                self.carries_inside = True
                self.carries_lines = self.carries_lines or not any(op.regions for op in loop.regions[0].ops)
        return depth
