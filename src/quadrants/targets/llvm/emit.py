"""A lowered module to LLVM text: one LLVM module for the kernel with its tasks (several if it is large), one for each
group of functions.

A function's symbol is its name and a hash of its text, in which the symbols of its callees stand: kernels that reach
the same function share its object, and a change anywhere below changes every symbol above. Functions that call one
another in a circle form one group. The emitter knows no processor: it asks the capability record.
"""

from __future__ import annotations

import re

from quadrants.digest import blake2b
from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Function, Module, Op, walk
from quadrants.ir.types import lanes_of
from quadrants.records import Record
from quadrants.targets.artifact import Message, PrintFormat
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.frame import Frame, frame_layout
from quadrants.targets.llvm import (
    emit_arithmetic,
    emit_cast,
    emit_control,
    emit_effects,
    emit_external,
    emit_functions,
    emit_interleave,
    emit_lane_memory,
    emit_lanes,
    emit_memory,
    emit_parallel,
    emit_temporary,
)
from quadrants.targets.llvm.split import split
from quadrants.targets.llvm.writer import Program, Unit

__all__ = ["EmittedModule", "EmittedObject", "call_groups", "emit_module", "facts"]

for _part in (emit_arithmetic, emit_cast):
    emit_control.DISPATCH.update({kind: emit_lanes.vectorised(handler) for kind, handler in _part.HANDLERS.items()})
for _part in (
    emit_memory,
    emit_effects,
    emit_external,
    emit_control,
    emit_parallel,
    emit_temporary,
    emit_lanes,
    emit_lane_memory,
    emit_interleave,
):
    emit_control.DISPATCH.update(_part.HANDLERS)


class EmittedObject(Record):
    """One LLVM module's text; `name` is one of its symbols; `is_shared`: it holds functions that any kernel may call."""

    name: str
    text: str
    is_shared: bool


class EmittedModule(Record):
    """The LLVM modules of a program, callees first and the kernel's entry last, and what its message and print ids stand for."""

    objects: tuple[EmittedObject, ...]
    entry: str
    messages: dict[int, Message]
    prints: dict[int, PrintFormat]


def emit_module(module: Module, record: CapabilityRecord, header: str, attributes: str) -> EmittedModule:
    """Emits a module at stage 'lowered'. `header` starts each text (data layout and triple), `attributes` end each
    `define` line. Raises QuadrantsInternalError for what a lowered module cannot contain."""
    if module.stage != "lowered":
        raise QuadrantsInternalError(f"the LLVM emitter takes modules at stage 'lowered', not {module.stage!r}")
    groups = call_groups(module)
    frame = frame_layout(module.kernel)
    program = facts(module, groups, record, attributes)
    messages: dict[int, Message] = {}
    prints: dict[int, PrintFormat] = {}
    objects: dict[str, EmittedObject] = {}
    for group in groups:
        unit = Unit(program)
        for made in _emit_group(unit, [module.functions[name] for name in group], frame, header):
            objects.setdefault(made.name, made)  # functions of one text are one
        messages.update(unit.messages)
        prints.update(unit.prints)
    return EmittedModule(tuple(objects.values()), program.symbols[module.entry], messages, prints)


def _emit_group(unit: Unit, functions: list[Function], frame: Frame, header: str) -> list[EmittedObject]:
    symbols = unit.program.symbols
    for k, function in enumerate(functions):
        symbols[function.name] = f"qd$self{k}$"
        unit.defined.add(symbols[function.name])
    for function in functions:
        if function.is_kernel:
            emit_functions.write_entry(unit, function, frame, symbols[function.name])
        else:
            emit_functions.write_function(unit, function, symbols[function.name])
    digest = blake2b((header + unit.text()).encode(), digest_size=12).hexdigest()
    placeholders = {}
    for k, function in enumerate(functions):
        symbols[function.name] = placeholders[f"qd$self{k}$"] = f"{_plain(function.name)}_{digest}"
    first = symbols[functions[0].name]
    modules = split(unit, first) if functions[0].is_kernel else [(first, unit.text())]
    made = []
    for symbol, text in modules:
        for placeholder, name in placeholders.items():
            text = text.replace(placeholder, name)
        made.append(EmittedObject(symbol, header + text, not functions[0].is_kernel))
    return made


def _plain(name: str) -> str:
    """A function's name as part of a symbol, without the number that tells it from others of that name in one module."""
    return re.sub("[^A-Za-z0-9_]", "_", re.sub(r"\.\d+(?=\.|$)", "", name))


def _calls(function: Function) -> list[Op]:
    return [op for op in walk(function.body) if "callee" in op.attributes]


def call_groups(module: Module) -> list[list[str]]:
    """The functions that the kernel reaches, in groups that call one another in circles, callees first."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    open_names: set[str] = set()
    groups: list[list[str]] = []
    callees = {}

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        open_names.add(name)
        callees[name] = [op.attributes["callee"] for op in _calls(module.functions[name])]
        for callee in callees[name]:
            if callee not in order:
                visit(callee)
                low[name] = min(low[name], low[callee])
            elif callee in open_names:
                low[name] = min(low[name], order[callee])
        if low[name] == order[name]:
            at = stack.index(name)
            groups.append(stack[at:])
            open_names.difference_update(stack[at:])
            del stack[at:]

    visit(module.entry)
    return groups


def facts(module: Module, groups: list[list[str]], record: CapabilityRecord, attributes: str) -> Program:
    """What the texts of functions depend on; `groups`: their names, callees first."""
    program = Program(record, define_attributes=f"nounwind {attributes}".strip())
    for group in groups:
        functions = [module.functions[name] for name in group]
        ops = [op for function in functions for op in walk(function.body)]
        callees = [op.attributes["callee"] for op in ops if "callee" in op.attributes]
        if any(op.kind == "check" for op in ops) or any(callee in program.may_fail for callee in callees):
            program.may_fail.update(group)
        circular = len(group) > 1 or group[0] in callees
        effects = _effects(program, ops, [callee for callee in callees if callee not in group], circular)
        for name in group:
            if module.functions[name].attributes.get("may_alias"):
                program.may_alias.add(name)
            program.effects[name] = effects
            program.conventions[name] = _convention(module.functions[name], record)
            program.attributes[name] = f"{effects} {program.define_attributes}".strip()
    return program


def _convention(function: Function, record: CapabilityRecord) -> str:
    """The calling convention of a function, by whether it takes or gives lanes."""
    types = [*[parameter.type for parameter in function.parameters], *function.result_types]
    return record.lane_convention if any(lanes_of(type_) > 1 for type_ in types) else record.calling_convention


def _effects(program: Program, ops: list[Op], callees: list[str], circular: bool) -> str:
    """LLVM's words for what a group of functions does to memory, and whether it surely returns."""
    words = [program.effects[callee] for callee in callees]
    kinds = {op.kind for op in ops}
    returns = not circular and "while" not in kinds and all("willreturn" in word for word in words)
    writes = any(
        op.kind
        in (
            "update",
            "lane_update",
            "lane_store",
            "deinterleave",
            "compare_exchange",
            "print",
            "check",
            "random",
            "external",
            "tally",
        )
        or (op.kind == "store" and not op.operands[1].type.is_slot)
        or (op.kind == "store" and not isinstance(op.operands[1].owner, Op))
        for op in ops
    )
    if writes or any("memory" not in word for word in words):
        memory = ""
    elif any(op.kind in ("load", "lane_load", "interleave", "dim") for op in ops) or any(
        "memory(read)" in word for word in words
    ):
        memory = "memory(read)"
    else:
        memory = "memory(none)"
    return " ".join([word for word in (memory, "willreturn" if returns else "") if word])
