"""Mark aliases: functions whose array parameters may overlap get the attribute `may_alias`.

Distinct arrays of the kernel do not overlap, unless the kernel itself is marked. A function's parameters overlap where
a call passes one array twice, or several out of a caller that is marked.
"""

from __future__ import annotations

from quadrants.ir.nodes import Function, Module, Op
from quadrants.ir.types import ArrayType
from quadrants.passes.context import PassContext
from quadrants.passes.structure import callee_of, calls

__all__ = ["run"]


def run(module: Module, context: PassContext) -> None:
    """Marks functions, callers before callees; any stage."""
    if len(module.functions) == 1:
        return
    pairs = [(function, call) for function in module.functions.values() for call in calls(function.body)]
    changed = True
    while changed:
        changed = False
        for caller, call in pairs:
            callee = module.functions[callee_of(call)]
            if not callee.attributes.get("may_alias") and _overlap(caller, call):
                callee.attributes["may_alias"] = True
                changed = True


def _overlap(caller: Function, call: Op) -> bool:
    arrays = [operand for operand in call.operands if type(operand.type) is ArrayType]
    if len(set(arrays)) < len(arrays):
        return True
    shared = [array for array in arrays if not array.type.is_slot]
    return len(shared) > 1 and bool(caller.attributes.get("may_alias"))
