"""Calls of functions of C, by C's conventions; the runtime looks their addresses up when the object is loaded."""

from __future__ import annotations

from quadrants.ir.external import link_name, pointee
from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import ArrayType, ScalarType
from quadrants.targets.llvm.scalars import register_type
from quadrants.targets.llvm.writer import Writer

__all__ = ["HANDLERS"]


def _external(writer: Writer, op: Op) -> None:
    operands = list(op.operands)
    parameters: list[str] = []
    arguments: list[str] = []
    for parameter in op.attributes["parameters"]:
        first = operands.pop(0)
        if pointee(parameter) is None:
            type_ = _passed(first.type.scalar)
            parameters.append(type_)
            arguments.append(f"{type_} {writer.name(first)}")
        else:
            parameters.append("ptr")
            arguments.append(f"ptr {_pointer(writer, first, operands)}")
    result = op.attribute("type")
    pure = op.kind == "external_pure"
    if op.attribute("assembly"):
        _assembly(writer, op, arguments, pure)
        return
    # One function may be declared in several ways: what it does is said of the call.
    symbol = '"' + link_name(op.attributes["library"], op.attributes["symbol"]).replace('"', "\\22") + '"'
    attributes = "nounwind willreturn memory(none)" if pure else "nounwind"
    returned = _returned(result) if result is not None else "void"
    writer.unit.declare(symbol, f"declare {returned} @{symbol}({', '.join(parameters)})")
    text = f"call {returned} @{symbol}({', '.join(arguments)}) {attributes}"
    if result is None:
        writer.line(text)
    else:
        writer.names[op.results[0]] = writer.assign(text)


def _assembly(writer: Writer, op: Op, arguments: list[str], pure: bool) -> None:
    """Assembly in place of a call. Law: its operands are those that there are (`qd.ptx`), for LLVM does not come back else."""
    result = op.attribute("type")
    registers = writer.program.assembly_registers
    inputs = ["l" if pointee(name) is not None else registers[name] for name in op.attributes["parameters"]]
    constraints = ([f"={registers[result.name]}"] if result is not None else []) + inputs
    if not pure:
        constraints.append("~{memory}")
    text = "".join([c if c.isprintable() and c not in '"\\' else f"\\{ord(c):02X}" for c in op.attributes["assembly"]])
    returned = register_type(result) if result is not None else "void"
    effects = ("", " willreturn memory(none)") if pure else ("sideeffect ", "")
    arguments = [argument.replace(" signext", "").replace(" zeroext", "") for argument in arguments]
    call = f'call {returned} asm {effects[0]}"{text}", "{",".join(constraints)}"({", ".join(arguments)}) nounwind{effects[1]}'
    if result is None:
        writer.line(call)
    else:
        writer.names[op.results[0]] = writer.assign(call)


def _pointer(writer: Writer, array: Value, operands: list[Value]) -> str:
    type_ = array.type
    assert type(type_) is ArrayType
    indices, operands[: type_.rank] = operands[: type_.rank], []
    return writer.array(array).address([writer.name(index) for index in indices])


def _passed(scalar: ScalarType) -> str:
    """A parameter's type; small integers fill their register."""
    type_ = register_type(scalar)
    if scalar.is_float or scalar.bits >= 32:
        return type_
    return f"{type_} {'signext' if scalar.is_signed else 'zeroext'}"


def _returned(scalar: ScalarType) -> str:
    type_ = register_type(scalar)
    if scalar.is_float or scalar.bits >= 32:
        return type_
    return f"{'signext' if scalar.is_signed else 'zeroext'} {type_}"


HANDLERS = {"external": _external, "external_pure": _external}
