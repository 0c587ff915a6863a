"""Loops within an iteration of a parallel loop whose own iterations can be vector lanes: reductions over neighbouring
elements, with bounds that differ from iteration to iteration.
"""

from __future__ import annotations

from quadrants.ir.nodes import Block, Op, walk
from quadrants.ir.ops import OPS
from quadrants.ir.types import ArrayType, scalar_of, u1
from quadrants.passes.affine import Forms
from quadrants.passes.cost import most_trips
from quadrants.passes.nest import Nest
from quadrants.passes.reductions import Chain, recognise
from quadrants.passes.uniformity import Uniformity

__all__ = ["InnerLoop", "find_inner_loops"]

# Trips from which on vectors of an inner loop pay; operations for each element that is apart, below which they do not.
_FEW_TRIPS = 8
_WORTH_A_GATHER = 10
_CONTROL = frozenset({"if", "yield", "continue", "load", "constant", "dim"})


class InnerLoop:
    """One such loop. `facts`: what varies from iteration to iteration; `work`, `neighbours`, `apart`: operations of an
    iteration, loads of neighbouring elements and of others; `bits`: the widest number; `chains`: its reductions by
    position, each recognised at the outermost loop that just hands it on (the first of the chain's `loops`)."""

    def __init__(self, loop: Op, forms: Forms) -> None:
        self.loop = loop
        self.chains: list[Chain] = []
        region = loop.regions[0]
        self.facts = Uniformity(region, list(region.arguments))
        self.work = self.neighbours = self.apart = 0
        self.bits = 32
        self._addresses = _index_arithmetic(region)
        for op in walk(region):
            self._count(op, forms)

    def _count(self, op: Op, forms: Forms) -> None:
        if op.kind == "load":
            if any(index in self.facts.varying for index in op.operands[1:]):
                if self._is_neighbour(op, forms):
                    self.neighbours += 1
                else:
                    self.apart += 1
        elif OPS[op.kind].elementwise and op.results[0] in self.facts.varying and op not in self._addresses:
            self.work += 1
        if op.results and op.results[0] in self.facts.varying and scalar_of(op.results[0].type).is_float:
            self.bits = max(self.bits, scalar_of(op.results[0].type).bits)

    def _is_neighbour(self, op: Op, forms: Forms) -> bool:
        """Whether a load reaches the next element in the next iteration."""
        array, *indices = op.operands
        type_ = array.type
        if type(type_) is not ArrayType or type_.layout == "A":
            return False
        near = len(indices) - 1 - (len(type_.trailing) if type_.layout == "S" else 0)
        if [index in self.facts.varying for index in indices] != [axis == near for axis in range(len(indices))]:
            return False
        counter = self.loop.regions[0].arguments[0]
        form = forms.of(indices[near])
        factor = form.coefficient(counter)
        rest = form.without(counter)
        return factor is not None and factor.constant == 1 and rest.atoms().isdisjoint(self.facts.varying)

    @property
    def pays(self) -> bool:
        """Whether lanes pay, though some elements may be apart."""
        return self.neighbours > 0 and self.work >= _WORTH_A_GATHER * self.apart


def _index_arithmetic(region: Block) -> set[Op]:
    """The operations in a loop's region that compute indices of its loads."""
    inside = set(walk(region))
    pending = [index for op in inside if op.kind == "load" for index in op.operands[1:]]
    found: set[Op] = set()
    while pending:
        op = pending.pop().owner
        if isinstance(op, Op) and op in inside and op not in found and op.kind != "load":
            found.add(op)
            pending += op.operands
    return found


def find_inner_loops(parallel: Op, nest: Nest, forms: Forms) -> list[InnerLoop]:
    """The loops within a parallel loop that can run in lanes, and that gain by it."""
    loops = [InnerLoop(loop, forms) for loop in _innermost(parallel.regions[0]) if _fits(loop, forms)]
    loops = [inner for inner in loops if inner.pays]
    while True:
        found = {inner.loop for inner in loops}
        kept = [inner for inner in loops if _find_chains(inner, parallel, found, nest)]
        if len(kept) == len(loops):
            return kept
        loops = kept


def _innermost(block: Block) -> list[Op]:
    found: list[Op] = []
    for op in block.ops:
        inside = [loop for region in op.regions for loop in _innermost(region)]
        if op.kind == "for" and op.results and not inside:
            found.append(op)
        found += inside
    return found


def _fits(loop: Op, forms: Forms) -> bool:
    """Whether a loop is of a form that lanes can take, and long enough for what the code tells."""
    if loop.attribute("rank") != 1 or loop.attribute("short"):
        return False
    trips = most_trips(loop, forms)
    if trips is not None and trips < _FEW_TRIPS:
        return False
    return all(op.kind in _CONTROL or OPS[op.kind].elementwise for op in walk(loop.regions[0]))


def _find_chains(inner: InnerLoop, parallel: Op, found: set[Op], nest: Nest) -> bool:
    """Finds the reduction at each position; False if some carried value is something else."""
    inner.chains = []
    for position in range(len(inner.loop.results)):
        chain = _chain(inner.loop, position, parallel, found, nest)
        if chain is None:
            return False
        inner.chains.append(chain)
    return True


def _chain(loop: Op, position: int, parallel: Op, found: set[Op], nest: Nest) -> Chain | None:
    """The reduction recognised at the outermost loop of those around that only hand the value on."""
    for outer, place in reversed(_holders(loop, position, parallel, nest)):
        chain = recognise(outer, place, nest)
        if chain is None or not chain.combiner or _is_unfit(chain):
            continue
        if outer is loop or all(_inside(step, found, nest) for step in _combining(chain)):
            chain.loops.insert(0, outer)
            return chain
    return None


def _is_unfit(chain: Chain) -> bool:
    scalar = scalar_of(chain.argument.type)
    return scalar is u1 and chain.combiner not in ("bit_or", "bit_and")


def _combining(chain: Chain) -> list[Op]:
    return [step for step, _ in chain.steps] + [choice for choice, _, _ in chain.extremes]


def _inside(op: Op, found: set[Op], nest: Nest) -> bool:
    return any(around in found for around in nest.around(op))


def _holders(loop: Op, position: int, parallel: Op, nest: Nest) -> list[tuple[Op, int]]:
    """The loop, and the `for`s around whose carried value it goes on with, innermost first; with the positions."""
    holders = [(loop, position)]
    around = list(nest.around(loop))
    inside = around[: around.index(parallel)]
    init = loop.operands[2 + position]
    for outer in inside:
        if outer.kind != "for" or not isinstance(init.owner, Block) or init.owner is not outer.regions[0]:
            continue
        rank: int = outer.attribute("rank")
        place = outer.regions[0].arguments.index(init) - rank
        if place < 0:
            break
        holders.append((outer, place))
        init = outer.operands[2 * rank + place]
    return holders
