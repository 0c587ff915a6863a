"""What a target cannot do, found before any pass runs and told with the line that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.nodes import Function, Location, Module, Op, Value, walk
from quadrants.ir.types import ArrayType, Type, f32, scalar_of, scalar_types
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
        for value, location in _values(function):
            scalar = scalar_of(value.type)
            if scalar.name in missing:
                raise QuadrantsUnsupportedError.at(
                    shown(location),
                    f"the target {record.name} has no {scalar} on this machine",
                    found=f"`{value.name}`: {value.type}" if value.name else str(value.type),
                    expected=f"one of {', '.join(scalar.name for scalar in scalar_types if record.has_dtype(scalar))}",
                    hint=_way_out(value.type, record),
                )


def _way_out(type_: Type, record: CapabilityRecord) -> str:
    """What may take a type's place."""
    wide = scalar_of(type_)
    if not (wide.is_float and wide.bits == 64 and record.has_dtype(f32)):
        return "use another type, or another target: qd.init(arch=…)"
    where = "give the kernel an array of f32 (`x.astype(np.float32)`, `dtype=qd.f32`)"
    use = where if isinstance(type_, ArrayType) else "use qd.f32, or a number without a type: it is f32 there"
    return f"{use}, or take another target: qd.init(arch=…)"


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


def _values(function: Function) -> Iterator[tuple[Value, Location | None]]:
    """Every value, with the place that it comes from."""
    for parameter in function.parameters:
        yield parameter, function.location
    for op in walk(function.body):
        for result in op.results:
            yield result, op.location
