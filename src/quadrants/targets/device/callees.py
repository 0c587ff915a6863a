"""The functions that tasks call, for devices whose threads have no stack that recursion could use."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.nodes import Function, Module, walk
from quadrants.passes.places import shown
from quadrants.targets.device.tasks import Task

__all__ = ["callees_first"]


def callees_first(module: Module, tasks: Sequence[Task], place: str) -> list[Function]:
    """The functions that tasks reach, each behind those that it calls itself. QuadrantsUnsupportedError, with the line of the
    call, for recursion: it cannot run at that place (`on AMD's GPUs`)."""
    found: dict[str, Function] = {}
    open_names: set[str] = set()

    def visit(caller: Function) -> None:
        open_names.add(caller.name)
        for op in walk(caller.body):
            name = op.attributes.get("callee")
            if name is None or name in found:
                continue
            if name in open_names:
                raise QuadrantsUnsupportedError.at(
                    shown(op.location),
                    f"functions that call themselves, directly or through others, cannot run {place}",
                    hint="write the recursion as a loop, or use another target: qd.init(arch=…)",
                )
            visit(module.functions[name])
            found[name] = module.functions[name]
        open_names.discard(caller.name)

    for task in tasks:
        visit(task.function)
    return list(found.values())
