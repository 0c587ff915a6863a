"""Looks into a compilation: the program is interpreted as it is after one of the passes, on arguments of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from quadrants import knobs
from quadrants.frontend.arguments import Argument
from quadrants.ir.interpret import prepare
from quadrants.ir.nodes import Module
from quadrants.passes import driver
from quadrants.passes.context import PassContext
from quadrants.passes.pipeline import Pass
from quadrants.program import interpreter_value

__all__ = ["interpreted_after"]


class Interpreted:
    """What interpreting gave: `result`, and the `arguments` as they are afterwards. None where the pass did not run."""

    def __init__(self) -> None:
        self.result: tuple[Any, ...] | None = None
        self.arguments: list[Any] = []
        self.error: Exception | None = None


@contextmanager
def interpreted_after(name: str, kernel: Any, make: Callable[[], list[Any]]) -> Iterator[Interpreted]:
    """While it lasts, a kernel that is compiled is interpreted after the pass `name`, with arguments made for that. Where
    two forms are compiled, the second one is meant: the first does not hold for overlapping arguments."""
    found = Interpreted()

    def look(step: Pass, module: Module, context: PassContext) -> None:
        if step.name != name:
            return
        found.arguments, found.error, found.result = make(), None, None
        described = kernel._describe(kernel._bind(tuple(found.arguments), {}))
        leaves = [leaf for _, argument in described for leaf in argument.leaves()]
        try:
            found.result = prepare(module)(_values(module, leaves))
        except Exception as error:  # raised again below, unless a second form follows: compiling goes on until then
            found.error = error

    before, driver._look = driver._look, look
    shown, knobs.current.print_ir = knobs.current.print_ir, name  # so that passes run one after the other
    try:
        yield found
    finally:
        driver._look, knobs.current.print_ir = before, shown
    if found.error is not None:
        raise found.error


def _values(module: Module, leaves: list[Argument]) -> list[Any]:
    kernel = module.kernel
    types: Any = kernel.attributes.get("unlowered_parameters")
    if types is None:
        types = [parameter.type for parameter in kernel.parameters]
    return [interpreter_value(type_, leaf, leaf.value) for type_, leaf in zip(types, leaves)]
