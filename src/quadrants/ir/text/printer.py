"""Modules to text. See the package's docstring for the form and its laws."""

from __future__ import annotations

import re
from collections.abc import Callable

from quadrants.ir.nodes import Block, Function, Location, Module, Op, Value
from quadrants.ir.ops import TERMINATORS
from quadrants.ir.text.literals import format_attributes, format_literal, format_symbol

__all__ = ["VERSION", "print_function", "print_module", "print_op"]

VERSION = 1
_NAME = re.compile(r"[^\W\d][\w.$]*")
_NOT_IN_NAMES = re.compile(r"[^\w.$]")
_TYPE_IS_RESULT = frozenset({"constant", "cast", "bitcast", "lookup", "splat", "construct"})


def print_module(module: Module, locations: bool = True) -> str:
    """The text of a module, with `// file:line:column` behind each line whose place is known if `locations`."""
    lines = [f"quadrants-ir {VERSION}", f"stage {module.stage}"]
    kernels = [name for name, function in module.functions.items() if function.is_kernel]
    if module.entry != (kernels[0] if kernels else ""):
        lines.append(f"entry {format_symbol(module.entry)}")
    for function in module.functions.values():
        _Printer(lines, locations).function(function)
    lines.append("")
    return "\n".join(lines)


def print_function(function: Function, locations: bool = True) -> str:
    """The text of one function, without the header."""
    lines: list[str] = []
    _Printer(lines, locations).function(function)
    return "\n".join(lines)


def print_op(op: Op) -> str:
    """One operation without its regions and its place, for messages; names are those that the values were given."""
    lines: list[str] = []
    printer = _Printer(lines, False)
    for operand in op.operands:
        if operand not in printer.names:
            printer.define(operand)
    shallow = Op(op.kind, op.operands, (), op.attributes)
    shallow.results = op.results
    printer.generic(shallow, "") if op.regions else printer.op(shallow, "")
    return lines[0].replace("generic ", "", 1)


class _Printer:
    """Prints functions into `lines`. `names` holds the name of each value of the function at hand."""

    def __init__(self, lines: list[str], locations: bool) -> None:
        self.lines = lines
        self.locations = locations
        self.names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._number = 0

    def define(self, value: Value) -> str:
        """The name of a value that is defined here: its own if it has one that is free, else a number."""
        name = value.name
        if not name or name.isdigit():
            name = str(self._number)
            self._number += 1
        else:
            name = self._free_name(name)
        text = self.names[value] = f"%{name}"
        return text

    def _free_name(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            name = f"_{_NOT_IN_NAMES.sub('_', name)}"
        found, count = name, 0
        while found in self._taken:
            count += 1
            found = f"{name}.{count}"
        self._taken.add(found)
        return found

    def value(self, value: Value) -> str:
        return self.names.get(value) or f"%undefined.{value.name or '?'}"

    def values(self, values: tuple[Value, ...] | list[Value]) -> str:
        names = self.names
        try:
            return ", ".join([names[value] for value in values])
        except KeyError:
            return ", ".join([self.value(value) for value in values])

    def place(self, location: Location | None) -> str:
        if location is None or not self.locations:
            return ""
        end = f"-{location.end_column}" if location.end_column else ""
        return f"  // {location.file}:{location.line}:{location.column}{end}"

    def function(self, function: Function) -> None:
        kind = function.attributes.get("kind", "function")
        parameters = ", ".join([f"{self.define(value)}: {value.type}" for value in function.parameters])
        results = f" -> {', '.join(map(str, function.result_types))}" if function.result_types else ""
        attributes = format_attributes(function.attributes, ("kind",))
        head = f"{kind} {format_symbol(function.name)}({parameters}){results}{attributes} {{"
        self.lines.append(head + self.place(function.location))
        self.block(function.body, "  ", "return")
        self.lines.append("}")

    def block(self, block: Block, indent: str, implicit: str) -> None:
        """The lines of a block; an empty terminator of kind `implicit` at its end is not written."""
        ops = block.ops
        if not ops or ops[-1].kind not in TERMINATORS:
            last = None
        else:
            last = ops[-1]
            bare = last.kind == implicit and not last.operands and not last.attributes and not last.results
            ops = ops[:-1] if bare else ops
        for op in ops:
            self.op(op, indent)
        if last is None:
            self.lines.append(f"{indent}unterminated")

    def op(self, op: Op, indent: str) -> None:
        special = _SPECIAL.get(op.kind)
        if special is not None and special(self, op, indent):
            return
        if op.regions:
            self.generic(op, indent)
            return
        attributes = op.attributes
        text = ""
        if attributes:
            drop = op.kind in _TYPE_IS_RESULT and len(op.results) == 1 and attributes.get("type") is op.results[0].type
            text = format_attributes(attributes, ("type",) if drop else ())
        operands = f" {self.values(op.operands)}" if op.operands else ""
        self.line(op, indent, f"{op.kind}{operands}{text}")

    def line(self, op: Op, indent: str, text: str, end: str = "") -> None:
        """One operation's line: results, `text`, types, `end`, place."""
        results = op.results
        if len(results) == 1:
            text = f"{self.define(results[0])} = {text} : {results[0].type}"
        elif results:
            names = ", ".join([self.define(value) for value in results])
            text = f"{names} = {text} : {', '.join([value.type.name for value in results])}"
        if self.locations and op.location is not None:
            end += self.place(op.location)
        self.lines.append(f"{indent}{text}{end}")

    def generic(self, op: Op, indent: str) -> None:
        """The form of every operation, however broken: all operands, attributes and regions in full."""
        text = f"generic {op.kind}({self.values(op.operands)}){format_attributes(op.attributes)}"
        self.line(op, indent, text, " {" if op.regions else "")
        for position, region in enumerate(op.regions):
            if position:
                self.lines.append(f"{indent}}} and {{")
            arguments = ", ".join([f"{self.define(value)}: {value.type}" for value in region.arguments])
            self.lines.append(f"{indent}^({arguments})")
            self.block(region, indent + "  ", "")
        if op.regions:
            self.lines.append(f"{indent}}}")


_Special = Callable[[_Printer, Op, str], bool]


def _constant(printer: _Printer, op: Op, indent: str) -> bool:
    attributes = op.attributes or {}
    if len(op.results) != 1 or "value" not in attributes or attributes.get("type") is not op.results[0].type:
        return False
    rest = format_attributes(attributes, ("type", "value")) if len(attributes) > 2 else ""
    printer.line(op, indent, f"constant {format_literal(attributes['value'])}{rest}")
    return True


def _dim(printer: _Printer, op: Op, indent: str) -> bool:
    axis = op.attribute("axis")
    if len(op.operands) != 1 or type(axis) is not int:
        return False
    printer.line(
        op, indent, f"dim {printer.value(op.operands[0])}, {axis}{format_attributes(op.attributes, ('axis',))}"
    )
    return True


def _slot(printer: _Printer, op: Op, indent: str) -> bool:
    if op.operands or op.attribute("type") is None:
        return False
    printer.line(op, indent, f"slot {op.attribute('type')}{format_attributes(op.attributes, ('type',))}")
    return True


def _access(values: int) -> _Special:
    """Memory operations: `values` operands, then the array and its indices."""

    def write(printer: _Printer, op: Op, indent: str) -> bool:
        operands = op.operands
        by = op.attribute("by")
        is_update = op.kind in ("update", "update_loaded")
        if len(operands) <= values or (is_update and not isinstance(by, str)):
            return False
        head = f"{op.kind} {by} " if is_update else f"{op.kind} "
        if values:
            head += f"{printer.values(operands[:values])}, "
        without = ("by",) if is_update else ()
        attributes = format_attributes(op.attributes, without) if op.attributes else ""
        place = f"{printer.value(operands[values])}[{printer.values(operands[values + 1 :])}]"
        printer.line(op, indent, f"{head}{place}{attributes}")
        return True

    return write


def _call(printer: _Printer, op: Op, indent: str) -> bool:
    callee = op.attribute("callee")
    if not isinstance(callee, str) or tuple(op.attribute("types", ())) != tuple(v.type for v in op.results):
        return False
    attributes = format_attributes(op.attributes, ("callee", "types"))
    printer.line(op, indent, f"call {format_symbol(callee)}({printer.values(op.operands)}){attributes}")
    return True


def _carry(printer: _Printer, op: Op, arguments: list[Value], inits: tuple[Value, ...]) -> str:
    """` carry (%name = %init, ...)`: argument types are those of the results, said where they are not."""
    parts: list[str] = []
    for argument, init, result in zip(arguments, inits, op.results):
        explicit = "" if argument.type is result.type else f": {argument.type}"
        start = printer.value(init)
        parts.append(f"{printer.define(argument)}{explicit} = {start}")
    return f" carry ({', '.join(parts)})" if parts else ""


def _for(printer: _Printer, op: Op, indent: str) -> bool:
    rank = op.attribute("rank")
    if type(rank) is not int or rank < 1 or len(op.regions) != 1:
        return False
    operands, arguments = op.operands, op.regions[0].arguments
    carried = len(op.results)
    if len(operands) != 2 * rank + carried or len(arguments) != rank + carried:
        return False
    bounds = [f"{printer.value(operands[axis])} .. {printer.value(operands[rank + axis])}" for axis in range(rank)]
    counters = ", ".join([printer.define(value) for value in arguments[:rank]])
    carry = _carry(printer, op, arguments[rank:], operands[2 * rank :])
    parallel = op.attribute("parallel") is True
    attributes = format_attributes(op.attributes, ("rank", "parallel") if parallel else ("rank",))
    word = "parallel for" if parallel else "for"
    printer.line(op, indent, f"{word} {counters} in {', '.join(bounds)}{carry}{attributes}", " {")
    printer.block(op.regions[0], indent + "  ", "yield")
    printer.lines.append(f"{indent}}}")
    return True


def _while(printer: _Printer, op: Op, indent: str) -> bool:
    if len(op.regions) != 2 or len(op.operands) != len(op.results):
        return False
    condition, body = op.regions
    types = [value.type for value in op.results]
    if len(condition.arguments) != len(types) or [value.type for value in body.arguments] != types:
        return False
    carry = _carry(printer, op, condition.arguments, op.operands)
    printer.line(op, indent, f"while{carry}{format_attributes(op.attributes)}", " {")
    printer.block(condition, indent + "  ", "")
    names = ", ".join([printer.define(value) for value in body.arguments])
    printer.lines.append(f"{indent}}} do ({names}) {{" if names else f"{indent}}} do {{")
    printer.block(body, indent + "  ", "yield")
    printer.lines.append(f"{indent}}}")
    return True


def _is_empty(block: Block) -> bool:
    ops = block.ops
    return len(ops) == 1 and ops[0].kind == "yield" and not ops[0].operands and not ops[0].attributes


def _if(printer: _Printer, op: Op, indent: str) -> bool:
    if len(op.regions) != 2 or len(op.operands) != 1 or any(region.arguments for region in op.regions):
        return False
    if tuple(op.attribute("types", ())) != tuple(value.type for value in op.results):
        return False
    attributes = format_attributes(op.attributes, ("types",))
    printer.line(op, indent, f"if {printer.value(op.operands[0])}{attributes}", " {")
    printer.block(op.regions[0], indent + "  ", "yield")
    if not _is_empty(op.regions[1]):
        printer.lines.append(f"{indent}}} else {{")
        printer.block(op.regions[1], indent + "  ", "yield")
    printer.lines.append(f"{indent}}}")
    return True


_SPECIAL: dict[str, _Special] = {
    "constant": _constant,
    "dim": _dim,
    "slot": _slot,
    "load": _access(0),
    "store": _access(1),
    "update": _access(1),
    "update_loaded": _access(2),
    "compare_exchange": _access(2),
    "call": _call,
    "for": _for,
    "while": _while,
    "if": _if,
}
