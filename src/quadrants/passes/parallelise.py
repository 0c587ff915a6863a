"""Decides which loops run in parallel: the truth table of loops.

Looked at are the `for`s at the kernel's top level, and those within a loop that stays in order. Under a run-time `if` or
`while` a loop is parallel only where its iterations are proved independent.
"""

from __future__ import annotations

from typing import Any

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Location, Module, Op, Value
from quadrants.passes.accesses import Access, name_of
from quadrants.passes.affine import Forms
from quadrants.passes.context import PassContext
from quadrants.passes.cost import estimate, trip_count
from quadrants.passes.dependence import FINE, UNDECIDED
from quadrants.passes.independence import Conflict, Independence
from quadrants.passes.nest import Nest, carried_arguments, inits
from quadrants.passes.reductions import Chain, recognise
from quadrants.passes.rewrite import drop_carried, replace_uses
from quadrants.passes.structure import loop_jumps
from quadrants.passes.summaries import Summaries

__all__ = ["CHUNK", "run"]

CHUNK = 32768
_TOO_SHORT = 2_000
_SUBGROUP = 32
"""Iterations from which on a device runs a short loop on threads at once: one thread takes each of them as long as they all do."""
_VERBS = {"load": "loads", "store": "stores", "update": "updates", "compare_exchange": "exchanges"}


def run(module: Module, context: PassContext) -> None:
    """Sets `parallel=True`, with `reductions` and `chunk` where values are carried, on loops of the kernel, which is then
    at stage 'tasks'; a notice tells of each loop that only a dependence keeps in order."""
    module.stage = "tasks"
    kernel = module.kernel
    if any(op.regions for op in kernel.body.ops):
        classifier = _Classifier(module, context)
        classifier.block(kernel.body, False)


class _Classifier:
    def __init__(self, module: Module, context: PassContext) -> None:
        kernel = module.kernel
        self.context = context
        self.summaries = Summaries(module)
        self.behind: list[Op] = []
        self.undecided = False
        self.chains: list[Chain] = []
        self.nest = Nest(kernel)
        self.forms = Forms(self.nest)
        self.independence = Independence(self.nest, self.forms, self.summaries)
        names = kernel.attributes.get("parameter_names") or ()
        self.names = dict(zip(kernel.parameters, names))

    def block(self, block: Block, strict: bool) -> None:
        """Decides on the loops that stand in a block; `strict`: only proof makes them parallel."""
        for op in list(block.ops):
            if op.kind == "for":
                if not self.loop(op, strict):
                    self.block(op.regions[0], strict)
                elif self.behind:
                    place = block.ops.index(op) + 1
                    block.ops[place:place] = self.behind
                    self.nest.adopt(self.behind, self.nest.parent[op])
                    self.behind = []
            else:
                for region in op.regions:
                    self.block(region, True)

    def loop(self, loop: Op, strict: bool) -> bool:
        """Decides on one loop; whether it is settled: parallel, or so short that nothing in it is worth a task."""
        asked = _asked(loop)
        if asked is True or any(jump.kind != "continue" for jump in loop_jumps(loop.regions[0])):
            return False
        insists = asked is False
        trips = trip_count(loop, self.forms)
        is_short = trips is not None and trips * estimate(loop.regions[0], self.forms) < _TOO_SHORT and not insists
        if is_short and not self._fills_subgroup(loop, trips or 0, strict):
            return True
        combiners = self.combiners(loop, strict)
        if combiners is None or not (insists or self.free(loop, strict or is_short)):
            return is_short
        for chain in self.chains:
            self._combine_extremes(chain)
        self._keep_nans(loop)
        if insists or self.undecided:
            self._join_updates(loop)
        attributes = {**(loop.attributes or {}), "parallel": True}
        if combiners:
            attributes |= {"reductions": combiners, "chunk": CHUNK}
        if self.undecided and not insists:
            attributes["undecided"] = True
        loop.attributes = attributes
        self.context.count("parallel loops")
        return True

    def _fills_subgroup(self, loop: Op, trips: int, strict: bool) -> bool:
        """Whether a device may run a short loop on threads: one that it launches in any case, and that carries nothing."""
        record = self.context.record
        at_once = record is not None and record.block_threads > 0
        return at_once and trips >= _SUBGROUP and not strict and not loop.results and self.nest.parent[loop] is None

    def combiners(self, loop: Op, strict: bool) -> tuple[str, ...] | None:
        """The combiners of the carried values; None, and a notice, if one of them is no reduction."""
        names: list[str] = []
        self.chains.clear()
        for position in range(len(loop.results) - 1, -1, -1):
            chain = recognise(loop, position, self.nest)
            if chain is None:
                if not strict:
                    self._tell_carried(loop, position)
                return None
            if chain.combiner:
                names.insert(0, chain.combiner)
                self.chains.append(chain)
            else:
                self._drop(loop, position)
        return tuple(names)

    def _join_updates(self, loop: Op) -> None:
        from quadrants.passes.full_updates import join_updates  # few kernels need it

        joined = join_updates(loop, self.nest, self.forms, self.summaries)
        if joined:
            self.context.count("updates written in full", joined)

    def _combine_extremes(self, chain: Chain) -> None:
        """Law: of a comparison's choice, the combiner gives the same (a NaN start is put back behind the loop); and a
        partial that is NaN still would never give way to a number by comparisons."""
        steps: dict[Value, Value] = {}
        for choice, version, other in chain.extremes:
            step = Op(chain.combiner, (steps.get(version, version), other), (version.type,), None, (), choice.location)
            steps[choice.results[0]] = step.results[0]
            around = self.nest.parent[choice]
            assert around is not None
            block = next(region for region in around.regions if choice in region.ops)
            block.ops[block.ops.index(choice)] = step
            replace_uses(self.nest, choice.results[0], step.results[0])
            self.nest.adopt([step], around)

    def _keep_nans(self, loop: Op) -> None:
        """Behind the loop: where a start is NaN that the combiner would lose, it is the result."""
        keep_nan = {chain.argument for chain in self.chains if chain.keeps_nan}
        block = Block()
        builder = Builder(block, loop.location)
        for argument, start, result in zip(carried_arguments(loop), inits(loop), loop.results):
            if argument in keep_nan:
                replace_uses(self.nest, result, builder.select(builder.is_nan(start), start, result))
        self.behind = block.ops

    def _drop(self, loop: Op, position: int) -> None:
        """A value that is handed on unchanged is what it was before the loop."""
        start = inits(loop)[position]
        result = loop.results[position]
        ends = {*loop_jumps(loop.regions[0]), loop.regions[0].ops[-1]}
        argument = carried_arguments(loop)[position]
        drop_carried(loop, position, ends)
        for value in (result, argument):
            replace_uses(self.nest, value, start)

    def _tell_carried(self, loop: Op, position: int) -> None:
        if loop.attribute("quiet"):
            return
        argument, end = carried_arguments(loop)[position], loop.regions[0].ops[-1]
        where = (_assignment(end.operands[position], argument) if end.kind == "yield" else None) or end.location
        users = [op for op, _ in self.nest.users.get(argument, ()) if op.location]
        used = [op.location for op in users if op.kind not in ("yield", "select")] or [op.location for op in users]
        name = f"`{argument.name}`" if argument.name else "a value"
        read = used[0] if used else None
        text = (
            f"the loop at {_place(loop.location)} runs in order: {name}, assigned at {_line(where)}, "
            f"is carried over to the next iteration{f' and read at {_line(read)}' if used else ''}"
        )
        self._tell(text, loop.location, where, read)

    def _tell(self, text: str, *locations: Location | None) -> None:
        """A notice, with each line once."""
        lines = {(place.file, place.line): place for place in reversed(locations) if place is not None}
        self.context.notice("parallelise", text, *reversed(lines.values()))

    def free(self, loop: Op, strict: bool) -> bool:
        """Whether memory lets a loop's iterations run in any order."""
        verdict = self.independence.of(loop, strict)
        self.undecided = verdict is UNDECIDED
        if isinstance(verdict, Conflict):
            if not strict:
                self._tell_memory(loop, verdict.array, verdict.first, verdict.second)
            return False
        return verdict is FINE or (verdict is UNDECIDED and not strict)

    def _tell_memory(self, loop: Op, array: Value, first: Access, second: Access) -> None:
        if loop.attribute("quiet"):
            return
        name = f"`{self.names.get(array) or name_of(array)}`"
        one, other = first.op.location, second.op.location
        verb, other_verb = _VERBS[first.kind], _VERBS[second.kind]
        text = (
            f"the loop at {_place(loop.location)} runs in order: an iteration {verb} an element of {name} at "
            f"{_line(one)} that another {other_verb} at {_line(other)}; "
            "qd.loop_config(serialize=False) before the loop insists on parallel"
        )
        self._tell(text, loop.location, one, other)


def _assignment(value: Value, carried: Value) -> Location | None:
    """Where a value that takes the place of the carried one was made: within a branch or a loop, where those hand it on."""
    maker = value.owner
    if type(maker) is not Op:
        return None
    position = maker.results.index(value)
    ends = [region.ops[-1] for region in maker.regions]
    made = [end.operands[position] for end in ends if end.kind == "yield" and position < len(end.operands)]
    if maker.kind == "select":
        made = [*maker.operands[1:]]
    places = (_assignment(one, carried) for one in made if one is not carried and one.owner is not value.owner)
    return next(filter(None, places), maker.location)


def _asked(loop: Op) -> bool | None:
    """What the user asked for: True in order, False in parallel, None nothing."""
    config: dict[str, Any] = loop.attribute("config") or {}
    if config.get("parallelize") == 1:
        return True
    asked = config.get("serialize")
    return None if asked is None else bool(asked)


def _place(location: Location | None) -> str:
    return f"{location.file}:{location.line}" if location is not None else "an unknown line"


def _line(location: Location | None) -> str:
    return f"line {location.line}" if location is not None else "an unknown line"
