"""Summaries: which elements of its array parameters a function reads, writes and updates, as forms over its own scalar
parameters, so that dependence is decided across calls without looking into them again."""

from __future__ import annotations

from quadrants.ir.nodes import Function, Module, Op, Value
from quadrants.ir.types import ArrayType
from quadrants.passes.accesses import Access, Dims, Summary, collect
from quadrants.passes.affine import Forms
from quadrants.passes.nest import Nest

__all__ = ["Summaries"]

_NOTHING = Forms(Nest(Function("")))


class Summaries:
    """The summaries of a module's functions, each made when it is first asked for. `recursive` has the functions among
    these that may call themselves."""

    __slots__ = ("_made", "_module", "_open", "recursive")

    def __init__(self, module: Module) -> None:
        self._module = module
        self._made: dict[str, Summary] = {}
        self._open: set[str] = set()
        self.recursive: set[str] = set()

    def of(self, name: str) -> Summary:
        """The summary of a function. Functions that call themselves may do anything to the arrays that they get."""
        found = self._made.get(name)
        if found is not None:
            return found
        function = self._module.functions[name]
        if name in self._open:
            self.recursive |= self._open
            return _anything(function)
        self._open.add(name)
        made = self._made[name] = self._summarise(function)
        self._open.discard(name)
        return made

    def _summarise(self, function: Function) -> Summary:
        if not any(type(parameter.type) is ArrayType for parameter in function.parameters):
            return Summary(function.parameters, [], _NOTHING)
        nest = Nest(function)
        forms = Forms(nest)
        parameters = set(function.parameters)
        accesses = collect(
            function.body,
            nest,
            forms,
            self.of,
            is_known=lambda atom: atom in parameters or _is_size_of(atom, parameters),
            is_shared=lambda array: array in parameters,
            decides=lambda leaf: False,
        )
        return Summary(function.parameters, accesses, forms)


def _is_size_of(atom: Value, arrays: set[Value]) -> bool:
    op = atom.owner
    return type(op) is Op and op.kind == "dim" and op.operands[0] in arrays


def _anything(function: Function) -> Summary:
    accesses: list[Access] = []
    for parameter in function.parameters:
        if type(parameter.type) is ArrayType:
            nothing = Op("yield")
            nowhere: Dims = (None,) * parameter.type.rank
            kinds = ("load", "store", "update")
            accesses += [Access(kind, parameter, nowhere, nowhere, nothing, nothing) for kind in kinds]
    return Summary(function.parameters, accesses, Forms(Nest(function)))
