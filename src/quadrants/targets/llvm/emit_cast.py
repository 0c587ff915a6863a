"""Conversions: wrap between integers, truncate and saturate from float to integer, round once between floats."""

from __future__ import annotations

from quadrants.ir.nodes import Op
from quadrants.ir.types import ScalarType, f32, f64
from quadrants.targets.llvm.arrays import from_memory, to_memory
from quadrants.targets.llvm.emit_arithmetic import round_narrow
from quadrants.targets.llvm.helpers import call_helper
from quadrants.targets.llvm.scalars import is_narrow_float, literal, memory_type, register_type
from quadrants.targets.llvm.writer import Writer, scalar

__all__ = ["HANDLERS", "convert"]


def _cast(writer: Writer, op: Op) -> None:
    source, target = scalar(op.operands[0]), scalar(op.results[0])
    value = writer.name(op.operands[0])
    writer.names[op.results[0]] = convert(writer, source, target, value, bool(op.attribute("exact")))


def convert(writer: Writer, source: ScalarType, target: ScalarType, value: str, exact: bool = False) -> str:
    """`value` as another type; `exact` says that an integer is known to fit."""
    if source is target:
        return value
    if target.bits == 1:
        test = "fcmp une" if source.is_float else "icmp ne"
        zero = "0.0" if source.is_float else "0"
        return writer.assign(f"{test} {register_type(source)} {value}, {zero}")
    if source.is_float:
        return _from_float(writer, source, target, value, exact)
    if target.is_float:
        convert_text = "sitofp" if source.is_signed else "uitofp"
        text = f"{convert_text} {register_type(source)} {value} to {register_type(target)}"
        return round_narrow(writer, target, writer.assign(text))
    return _between_integers(writer, source, target, value, exact)


def _between_integers(writer: Writer, source: ScalarType, target: ScalarType, value: str, exact: bool) -> str:
    if source.bits == target.bits:
        return value
    if source.bits < target.bits:
        kind = "sext" if source.is_signed else "zext"
    else:
        kind = "trunc" + ((" nsw" if source.is_signed else " nuw") if exact else "")
    return writer.assign(f"{kind} {register_type(source)} {value} to {register_type(target)}")


def _from_float(writer: Writer, source: ScalarType, target: ScalarType, value: str, exact: bool) -> str:
    register = register_type(source)
    if not target.is_float:
        kind = "si" if target.is_signed else "ui"
        if exact:
            return writer.assign(f"fpto{kind} {register} {value} to {register_type(target)}")
        return _saturating(writer, source, target, value, kind)
    if target.bits == 64:
        return writer.assign(f"fpext float {value} to double")
    if source.bits == 64:
        if target.name == "f16":
            value = call_helper(writer, "double_to_odd", source, value)
        else:
            value = writer.assign(f"fptrunc double {value} to float")
        return round_narrow(writer, target, value)
    return round_narrow(writer, target, value) if is_narrow_float(target) else value


def _saturating(writer: Writer, source: ScalarType, target: ScalarType, value: str, kind: str) -> str:
    """Truncates, saturates, and takes NaN for 0. Written out rather than as LLVM's intrinsic, which is no vector code on
    most processors: the limits that floats have exactly are compared with, and what is poison then is not selected."""
    wide = f64 if source.bits == 64 else f32
    register, integer = register_type(wide), register_type(target)
    low, high = literal(wide, float(target.minimum)), literal(wide, float(target.maximum + 1))
    above = writer.assign(f"fcmp ogt {register} {value}, {low}")
    raised = writer.assign(f"select i1 {above}, {register} {value}, {register} {low}")
    whole = writer.assign(f"fpto{kind} {register} {raised} to {integer}")
    below = writer.assign(f"fcmp olt {register} {value}, {high}")
    if not target.is_signed:  # where it is not above 0, NaN included, it is 0 by now
        below = writer.assign(f"fcmp ult {register} {value}, {high}")
    limited = writer.assign(f"select i1 {below}, {integer} {whole}, {integer} {target.maximum}")
    if not target.is_signed:
        return limited
    number = writer.assign(f"fcmp ord {register} {value}, {value}")
    return writer.assign(f"select i1 {number}, {integer} {limited}, {integer} 0")


def _bitcast(writer: Writer, op: Op) -> None:
    source, target = scalar(op.operands[0]), scalar(op.results[0])
    value = writer.name(op.operands[0])
    if source is target or (not source.is_float and not target.is_float):
        writer.names[op.results[0]] = value
        return
    bits = to_memory(writer, source, value)
    from_type, to_type = memory_type(source), memory_type(target)
    if from_type != to_type:
        bits = writer.assign(f"bitcast {from_type} {bits} to {to_type}")
    writer.names[op.results[0]] = from_memory(writer, target, bits)


HANDLERS = {"cast": _cast, "bitcast": _bitcast}
