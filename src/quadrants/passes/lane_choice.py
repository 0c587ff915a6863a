"""Whether iterations of a parallel loop run in lanes, and in how many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadrants.ir.nodes import Block, Location, Op, Value, walk
from quadrants.ir.ops import OPS
from quadrants.ir.types import ArrayType, scalar_of
from quadrants.passes.context import PassContext
from quadrants.passes.lane_callees import Callees, Varying
from quadrants.passes.lane_copies import Copy
from quadrants.passes.lanes import SUPPORTED
from quadrants.passes.ranges import Ranges
from quadrants.passes.structure import callee_of
from quadrants.passes.uniformity import Uniformity
from quadrants.records import Record, replace

__all__ = ["Choice", "asked_lanes", "choose", "row_choice"]

# Operations of a body from which on lanes cost more to compile than they give.
_LARGEST = 6000
# Operations of a body up to which lanes are chosen unasked: lanes multiply what the code generator has to do.
_LARGEST_UNASKED = 400
# Operations of a body up to which other numbers of lanes are tried by timing.
_LARGEST_TRIED = 1000
# The same for straight lines with calls under branches, of which the code generator makes no vectors.
_LONGEST_LINE = 1500
# Operations for each gather under a mask in a loop that lanes leave one by one, below which lanes lose.
_WORTH_A_GATHER = 6
# Operations that calls make on lanes for each access to memory, from which on lanes pay.
_WORTH_AN_ACCESS = 2
# Operations that keep numbers growing evenly.
_EVEN = frozenset({"add", "sub", "cast"})
# Operations on lanes for each access to memory, from which on a body computes rather than reaches for memory.
_COMPUTES = 8
# Operations of a body whose values fit in registers twice.
_FEW = 64
# Loops within of at most so many iterations are not worth vectors of their own.
_SHORT = 64


_HINT_UNDECIDED = "if no two iterations meet, qd.loop_config(vectorize=True) in front of it says so"
_HINT_UNASKED = "qd.loop_config(vectorize=8) in front of it asks for lanes all the same"


class Choice(Record):
    """How many lanes, and why; `is_refusal` where lanes would have paid but are not possible. `options`: other numbers that
    might be faster, which the model cannot tell; empty where they would give other bits. `hint`: what the user can do."""

    lanes: int
    reason: str
    is_refusal: bool = False
    location: Location | None = None
    options: tuple[int, ...] = ()
    hint: str = ""


def asked_lanes(loop: Op, context: PassContext) -> int | None:
    """What the user asks for: lanes, True for some, False or 1 for none; None where that is the compiler's choice."""
    config: dict[str, Any] = loop.attribute("config") or {}
    return config.get("vectorize", context.options.lanes or None)


def choose(loop: Op, facts: Uniformity, context: PassContext, callees: Callees, copies: list[Copy]) -> Choice:
    """The choice for one parallel loop of stage `lowered`; lanes would work on these copies."""
    config: dict[str, Any] = loop.attribute("config") or {}
    asked = asked_lanes(loop, context)
    if asked is not None and asked is not True and asked <= 1:
        return Choice(1, "lanes are switched off")
    if loop.attribute("undecided") and not config.get("vectorize"):
        return Choice(1, "whether its iterations depend on one another cannot be decided", hint=_HINT_UNDECIDED)
    shape = _of_loop(loop, facts, callees, copies)
    choice = _by_shape(loop, shape, asked, context)
    is_rare = loop.attribute("spare") or loop.attribute("in_place")
    if asked is None and not is_rare and shape.obstacle is None:
        options = _options(loop, shape, choice.lanes, context)
        if context.lanes_to_try in options:
            reason = f"to find out by timing whether they are faster than {choice.lanes}"
            return Choice(context.lanes_to_try, reason, options=options)
        return replace(choice, options=options)
    return choice


def _by_shape(loop: Op, shape: _Shape, asked: int | None, context: PassContext) -> Choice:
    """What the model says of a body."""
    if shape.obstacle is not None:
        return Choice(1, shape.obstacle, is_refusal=bool(asked or shape.pays), location=shape.where)
    if context.record is not None and context.record.launches:
        return Choice(1, "its iterations are threads of the device")
    if asked is not None and asked is not True:
        lanes = int(asked)
    elif context.record is None or not context.record.vector_bits:
        return Choice(1, "the target has no vectors")
    elif asked is None and not shape.pays:
        return Choice(1, shape.loss, hint=_HINT_UNASKED if shape.gathers or shape.length > _LARGEST_UNASKED else "")
    else:
        lanes = _width(context.record, shape)
    chunk = loop.attribute("chunk", 0)
    if loop.attribute("rank") == 1 and chunk % lanes:
        return Choice(1, f"its chunks of {chunk} iterations are no whole blocks of {lanes} lanes")
    return Choice(lanes, shape.why)


def row_choice(loop: Op, facts: Uniformity, context: PassContext, callees: Callees) -> int:
    """How many lanes a loop gets whose iterations follow one another along a row of elements: 1 unless all that it
    reaches are neighbours, and what it computes is worth the code."""
    if context.record is None or not context.record.vector_bits:
        return 1
    shape = _of_loop(loop, facts, callees, ())
    if shape.obstacle is not None or shape.apart or not shape.loops or shape.length > _LARGEST_UNASKED:
        return 1
    return _width(context.record, shape)


def _options(loop: Op, shape: _Shape, lanes: int, context: PassContext) -> tuple[int, ...]:
    """Numbers of lanes that may be faster than what the model chose: more or less than one vector where iterations part or
    reach apart, and lanes at all where gathers decide. Law: iterations in lanes compute what they compute alone, operation
    by operation, so only sums across iterations, or in an order that the code generator chooses, tell them apart."""
    if not context.record or not context.record.vector_bits or not (shape.diverges or shape.apart):
        return ()
    sums_freely = False
    for op in walk(loop.regions[0]):
        if op.kind == "call" or _sums_in_memory(op):
            return ()
        sums_freely = sums_freely or bool(op.attribute("reassociate"))
    if _sums_across(loop) or shape.length > _LARGEST_TRIED or (lanes == 1 and sums_freely):
        return ()
    one: int = context.record.vector_bits // shape.bits
    numbers: set[int] = {one, min(2 * one, 16)}
    if lanes > 1 and shape.apart and not sums_freely:
        numbers.add(1)
    chunk: int = loop.attribute("chunk", 0) if loop.attribute("rank") == 1 else 0
    return tuple(sorted(number for number in numbers if number != lanes and chunk % number == 0))


def _width(record: Any, shape: _Shape) -> int:
    """One vector of the widest type; two where lanes part or bodies are short, which hides latency, and where bodies
    compute rather than reach for memory, if registers hold the values of two."""
    lanes = record.vector_bits // shape.bits
    two = shape.diverges or (shape.length <= _FEW and not shape.apart)
    if record.maximum_vector_bits > record.vector_bits:
        two = two or shape.computes
    return min(lanes * 2, 16) if two else max(lanes, 2)


def _of_loop(loop: Op, facts: Uniformity, callees: Callees, copies: Sequence[Copy]) -> _Shape:
    rank: int = loop.attribute("rank")
    counter = loop.regions[0].arguments[rank - 1]
    reduces = bool(loop.attribute("reductions"))
    shape = _Shape(loop.regions[0], facts, callees, {}, {counter}, reduces, copies)
    if shape.length + shape.length_of_calls > _LARGEST:
        shape.refuse(f"its body has {shape.length + shape.length_of_calls} operations", loop)
    return shape


def _sums_across(loop: Op) -> bool:
    """Whether floats are added up from iteration to iteration."""
    return any(scalar_of(result.type).is_float for result in loop.results)


def _sums_in_memory(op: Op) -> bool:
    """Whether floats are added to elements that iterations may share: lanes take turns in them."""
    return op.kind == "update" and scalar_of(op.operands[0].type).is_float


def _near(array: Value, count: int) -> int:
    """The axis whose neighbours are neighbours in memory, of an array indexed by so many numbers."""
    type_ = array.type
    assert type(type_) is ArrayType
    return count - 1 - (len(type_.trailing) if type_.layout == "S" else 0)


def _is_free(loop: Op) -> bool:
    """Whether iterations of a loop within leave nothing to the next, as far as its form tells: the code generator makes
    vectors of their neighbouring elements, and selections of what stands under conditions. Lanes of the loop around would
    take the rows apart."""
    accesses = [op for op in walk(loop.regions[-1]) if op.kind in ("load", "store", "update")]
    loaded = [op.operands for op in accesses if op.kind == "load"]
    stored = [op.operands[1:] for op in accesses if op.kind == "store"]
    if loop.results or not stored or len(loaded) + len(stored) < len(accesses):
        return False
    return all(place[0] is not other[0] or place == other for place in stored for other in loaded)


class _Shape:
    """What a loop's body looks like, or that of a function which it calls. `known`: the functions looked at so far;
    None: one that is being looked at. `even`: numbers that grow evenly from lane to lane."""

    def __init__(
        self,
        body: Block,
        facts: Uniformity,
        callees: Callees,
        known: dict[tuple[str, Varying, Varying], _Shape | None],
        even: set[Value],
        reduces: bool = False,
        copies: Sequence[Copy] = (),
    ) -> None:
        self._copies = {copy.array for copy in copies}
        self._works_on_copies = any(copy.reused for copy in copies)
        self.facts = facts
        self.even = even
        self._callees = callees
        self._known = known
        self.obstacle: str | None = None
        self.where: Location | None = None
        self.diverges = bool(facts.masked or facts.divergent or facts.skipped)
        # Whether lanes leave loops one by one, rather than part under conditions and where iterations end early.
        self.parts = bool(facts.divergent)
        self.loops = False
        self.far = False  # a function's rare arguments stand under a branch
        self.apart = False
        self.apart_in_long_loops = False
        self.apart_in_free_loops = False
        self.gathers = False
        self.bits = 32
        self.length = 0
        self.length_of_calls = 0
        self.work = 0
        self.work_of_calls = 0
        self.accesses = 0
        self._ranges = Ranges()
        self._ops = list(walk(body))
        self._reduces = reduces
        self._updates = any(op.kind == "update" for op in self._ops)
        self._block(body, False, False)

    def refuse(self, reason: str, op: Op) -> None:
        if self.obstacle is None:
            self.obstacle, self.where = reason, op.location

    @property
    def most(self) -> int:
        return _LONGEST_LINE if self.far and not self.loops else _LARGEST_UNASKED

    @property
    def calls_pay(self) -> bool:
        """Whether its calls do enough in lanes: a function's form is compiled once for all that call it, and kept."""
        return self.work_of_calls >= _WORTH_AN_ACCESS * max(self.accesses, 8)

    @property
    def computes(self) -> bool:
        """Whether a body computes rather than reaches for memory."""
        return self.work + self.work_of_calls >= _COMPUTES * max(self.accesses, 1)

    @property
    def pays(self) -> bool:
        """Whether lanes are chosen unasked: for loops within, for calls, and for long computations on elements that are
        apart, which the code generator does one by one; what they cost to compile has to stay small. Other straight lines
        are left to the code generator, whose own vectors cost less."""
        if self.gathers or self.length > self.most:
            return False
        if self.calls_pay or (self.computes and self.apart and not self.loops and not self._updates):
            return True
        if not (self.loops or self.far):
            return False
        if self.diverges and (self.parts or self.computes):
            return True
        return not (self.apart_in_free_loops if self.diverges else self.apart_in_long_loops)

    @property
    def loss(self) -> str:
        if self.gathers:
            return "most of its time goes to elements that are apart"
        if self.length > self.most:
            return f"its body has {self.length} operations: lanes would cost more to compile than they give"
        if self.loops:
            return "its loops within run over neighbouring elements: left to the code generator"
        return "a straight line: left to the code generator"

    @property
    def why(self) -> str:
        if self.diverges:
            return "its control flow differs from iteration to iteration"
        if self.length_of_calls:
            return "its calls are worth lanes"
        if self.loops:
            return "it has loops within"
        return "it computes much for each element that it reaches" if self.computes else "its elements are apart"

    def _block(self, block: Block, in_long_loop: bool, in_free_loop: bool) -> None:
        for op in block.ops:
            self.length += 1
            self.far = self.far or (op.kind != "call" and "callee" in op.attributes)
            if op.kind not in SUPPORTED and not OPS[op.kind].elementwise:
                self.refuse(f"{op.kind} has no form in lanes", op)
            if op.kind == "call":
                self._call(op)
            inner, free = in_long_loop, in_free_loop
            if op.kind in ("for", "while"):
                self._loop(op)
                most = self._ranges.trips(op)
                if most is None or most > _SHORT:
                    inner, free = True, op.kind == "for" and _is_free(op)
            elif op.kind in ("load", "store", "update"):
                self._access(op, in_long_loop, in_free_loop)
            elif op.kind in _EVEN and not self.even.isdisjoint(op.operands):
                if not any(operand in self.facts.varying and operand not in self.even for operand in op.operands):
                    self.even.add(op.results[0])
            self.work += bool(OPS[op.kind].elementwise) and op.results[0] in self.facts.varying
            if op.results and op.results[0] in self.facts.varying and scalar_of(op.results[0].type).is_float:
                self.bits = max(self.bits, scalar_of(op.results[0].type).bits)
            for region in op.regions:
                self._block(region, inner, free)

    def _loop(self, op: Op) -> None:
        self.loops = True
        self._ranges.enter(op)
        if op in self.facts.divergent and op.attribute("rank", 1) > 1:
            self.refuse("a loop of several dimensions within, whose iterations differ", op)
        if op in self.facts.divergent:
            work, gathers = self._work(op.regions[-1])
            self.gathers = self.gathers or work < _WORTH_A_GATHER * gathers
        sums = {result for result in op.results if scalar_of(result.type).is_float}
        if self._reduces and any(inner.kind == "cast" and inner.operands[0] in sums for inner in self._ops):
            self.refuse("its sums are added up in blocks", op)

    def _call(self, op: Op) -> None:
        """What a function does counts at each call, what there is to compile once."""
        for operand in op.operands:
            self._private(operand, op)
        found = self._callee(op)
        if found is None:
            return
        self.obstacle = self.obstacle or found.obstacle
        self.where = self.where or found.where
        self.diverges = self.diverges or found.diverges
        self.parts = self.parts or found.parts
        self.gathers = self.gathers or found.gathers
        self.bits = max(self.bits, found.bits)
        self.work_of_calls += found.work + found.work_of_calls
        self.accesses += found.accesses

    def _callee(self, op: Op) -> _Shape | None:
        """The function of a call in lanes; None for a call that is no more than one for all lanes, or recursive."""
        name, varying = callee_of(op), self.facts.arguments_vary(op)
        if self._callees.is_shared(op, varying):
            return None
        even = tuple([operand in self.even for operand in op.operands])
        key = name, varying, even
        if key in self._known:
            return self._known[key]
        self._known[key] = None
        facts = self._callees.facts(name, varying)
        assert facts is not None
        body = self._callees.function(name).body
        own = {value for value, grows in zip(body.arguments, even) if grows}
        found = self._known[key] = _Shape(body, facts, self._callees, self._known, own)
        if self._callees.returns_early(name):
            found.refuse(f"{name} returns from within", op)
        self.length_of_calls += found.length + found.length_of_calls
        return found

    def _is_apart(self, op: Op) -> bool:
        """Whether lanes reach elements that are no neighbours."""
        array, *indices = op.operands[0 if op.kind == "load" else 1 :]
        varying = [index in self.facts.varying for index in indices]
        near = _near(array, len(indices))
        return (
            array not in self.facts.slots and any(varying) and varying != [axis == near for axis in range(len(varying))]
        )

    def _work(self, block: Block) -> tuple[int, int]:
        """Operations on lanes in a block and its branches, loops apart, and the gathers among them."""
        work = gathers = 0
        for op in block.ops:
            if op.kind == "load":
                gathers += self._is_gather(op)
            elif OPS[op.kind].elementwise and op.results[0] in self.facts.varying:
                work += 1
            elif op.kind == "if":
                parts = [self._work(region) for region in op.regions]
                work += sum(part[0] for part in parts)
                gathers += sum(part[1] for part in parts)
        return work, gathers

    def _is_gather(self, op: Op) -> bool:
        """Whether lanes load elements that are no neighbours for sure."""
        array, *indices = op.operands
        if array in self.facts.slots or array in self._copies or self.facts.varying.isdisjoint(indices):
            return False
        return self._is_apart(op) or indices[_near(array, len(indices))] not in self.even

    def _access(self, op: Op, in_long_loop: bool, in_free_loop: bool) -> None:
        array = op.operands[0 if op.kind == "load" else 1]
        self.accesses += array not in self.facts.slots
        if self._is_apart(op):
            self.apart = True
            is_private = array in self._copies and self._works_on_copies
            self.apart_in_long_loops = self.apart_in_long_loops or (in_long_loop and not is_private)
            self.apart_in_free_loops = self.apart_in_free_loops or (in_free_loop and not is_private)
        self._private(array, op)

    def _private(self, array: Value, op: Op) -> None:
        if type(array.type) is ArrayType and array.type.is_slot and array not in self.facts.slots:
            self.refuse("private memory of several iterations", op)
