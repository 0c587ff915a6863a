"""What a target cannot do, found before any pass runs and told with the line that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.nodes import Function, Location, Module, Op, walk
from quadrants.ir.types import Type, scalar_of, scalar_types
from quadrants.passes.places import shown
from quadrants.targets.capability import CapabilityRecord

__all__ = ["refuse"]


def refuse(module: Module, record: CapabilityRecord) -> None:
    """QuadrantsUnsupportedError at the first value whose scalar type the target lacks, or at a call that it cannot make;
    module of stage `kernel`."""
    _refuse_functions_of_c(module, record)
    missing = [scalar.name for scalar in scalar_types if not record.has_dtype(scalar)]
    if not missing:
        return
    for function in module.functions.values():
        for type_, location in _values(function):
            if scalar_of(type_).name in missing:
                raise QuadrantsUnsupportedError.at(
                    shown(location),
                    f"the target {record.name} has no {scalar_of(type_)} on this machine",
                    found=str(type_),
                    expected=f"one of {', '.join(scalar.name for scalar in scalar_types if record.has_dtype(scalar))}",
                    hint="use another type, or another target: qd.init(arch=…)",
                )


def _refuse_functions_of_c(module: Module, record: CapabilityRecord) -> None:
    for function in module.functions.values():
        for op in walk(function.body):
            if op.kind in ("external", "external_pure"):
                targets = op.attribute("targets")
                if op.attribute("assembly"):
                    _refuse_assembly(op, record)
                elif not record.calls_c or (targets and record.name not in targets):
                    raise QuadrantsUnsupportedError.at(
                        shown(op.location),
                        f"the target {record.name} cannot call the C function {op.attribute('symbol')}",
                        expected=f"one of {', '.join(targets)}" if targets else "a CPU",
                        hint="write it as a Python function, or use another target: qd.init(arch=…)",
                    )


def _refuse_assembly(op: Op, record: CapabilityRecord) -> None:
    if record.name not in op.attributes["targets"]:
        raise QuadrantsUnsupportedError.at(
            shown(op.location),
            f"the target {record.name} does not run the assembly {op.attribute('symbol')}",
            expected=" or ".join(op.attributes["targets"]),
            hint="call a function of the language there: `if qd.static(qd.cfg.arch == qd.cuda): … else: …`",
        )


def _values(function: Function) -> Iterator[tuple[Type, Location | None]]:
    """The type of every value, with the place that it comes from."""
    for parameter in function.parameters:
        yield parameter.type, function.location
    for op in walk(function.body):
        for result in op.results:
            yield result.type, op.location
