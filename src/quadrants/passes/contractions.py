"""Contractions: nests of loops that sum products of a factor of rows and a factor of columns, `c[i, j] += a[i, k] * b[k, j]`.

The factors may be any expressions: what counts is on which counters they depend. The sum may be carried by the loop over
the depth k, with anything around it that is done once for each (i, j), or be an update of an element in the innermost
loop, with the loops in any order. Counters besides row, column and depth are those of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable

from quadrants.ir.nodes import Block, Function, Op, Value, walk
from quadrants.ir.ops import OPS
from quadrants.ir.threads import threads_loop_of
from quadrants.ir.types import ScalarType
from quadrants.passes.nest import Nest, carried_arguments, counters, highs, inits, lows
from quadrants.records import Record

__all__ = ["Contraction", "Range", "find_contractions"]

# Types of sums that lanes add up at full speed.
_TYPES = frozenset({"f32", "f64", "i32", "u32", "i64", "u64"})
_SHARED = frozenset({"load", "store", "update", "yield", "if"})


class Range(Record):
    """A counter with its bounds."""

    counter: Value
    low: Value
    high: Value


class Contraction(Record):
    """One nest: `block` holds `outer`, its outermost loop; `parallel` says whether its iterations may be in any order.

    For each point of `batch`, `row` and `column`, what `statement` (a block within) does, with the sum over `depth` of
    `left * right` in the place of `reduction`: of a loop's result, or of the value of an update or a store. The sum
    begins at `start` (None: the place is an update, which adds to its element); `negative`: products are subtracted.
    `left` does not depend on the column, `right` not on the row.
    """

    block: Block
    outer: Op
    parallel: bool
    batch: tuple[Range, ...]
    row: Range
    column: Range
    depth: Range
    left: Value
    right: Value
    scalar: ScalarType
    statement: Block
    reduction: Op
    start: Value | None
    negative: bool
    slices: dict[Value, list[Op]]


def find_contractions(function: Function) -> list[Contraction]:
    """The contractions of a kernel, none within another or within a parallel loop, whose iterations are short."""
    if function.attributes.get("may_alias") or not any(_is_deep(op, 3) for op in function.body.ops):
        return []
    nest = Nest(function)
    found: list[Contraction] = []
    _search(function.body, nest, found)
    return found


def _is_deep(op: Op, levels: int) -> bool:
    """Whether loops of so many counters stand within one another."""
    left = levels - op.attribute("rank", 0) if op.kind == "for" else levels
    return left <= 0 or any(_is_deep(inner, left) for region in op.regions for inner in region.ops if inner.regions)


def _search(block: Block, nest: Nest, found: list[Contraction]) -> None:
    for op in block.ops:
        if op.regions and _is_deep(op, 3):
            is_nest = op.kind == "for" and not op.results and threads_loop_of(op) is None
            contraction = _Recogniser(block, op, nest).recognise() if is_nest else None
            if contraction is not None:
                found.append(contraction)
            elif not op.attribute("parallel"):
                for region in op.regions:
                    _search(region, nest, found)


class _Product(Record):
    """What is summed over the depth, where, and from which start."""

    factors: tuple[Value, Value]
    statement: Block
    reduction: Op
    start: Value | None
    negative: bool
    depth: Range


class _Recogniser:
    """Looks at the nest of one loop."""

    def __init__(self, block: Block, outer: Op, nest: Nest) -> None:
        self.block = block
        self.outer = outer
        self.nest = nest
        self.ranges: dict[Value, Range] = {}
        self.loop_of: dict[Value, Op] = {}
        self.written: set[Value] = set()
        self._depends: dict[Value, frozenset[Value] | None] = {}

    def recognise(self) -> Contraction | None:
        if self.outer.attribute("undecided") or "vectorize" in (self.outer.attribute("config") or {}):
            return None
        body = self._descend()
        if body is None:
            return None
        self.written = {
            op.operands[1] for op in walk(self.outer.regions[0]) if op.kind in ("store", "update", "lane_store")
        }
        product = self._carried(body) or self._updated(body)
        return None if product is None else self._contraction(product)

    def _descend(self) -> Block | None:
        """The innermost block of the perfect nest; notes the counters on the way."""
        loop = self.outer
        while True:
            if not self._note(loop):
                return None
            body = loop.regions[0]
            inner = [op for op in body.ops if op.regions]
            others = [op for op in body.ops if not op.regions]
            if len(inner) != 1 or inner[0].kind != "for" or inner[0].results or not all(map(_is_quiet, others)):
                return body
            loop = inner[0]

    def _note(self, loop: Op) -> bool:
        """Takes in a loop's counters; whether its bounds are known in front of the nest."""
        if any(self.nest.defined_in(bound, self.outer) for bound in (*lows(loop), *highs(loop))):
            return False
        for counter, low, high in zip(counters(loop), lows(loop), highs(loop)):
            self.ranges[counter] = Range(counter, low, high)
            self.loop_of[counter] = loop
        return loop.regions[0].ops[-1].kind == "yield"

    # What is summed.

    def _carried(self, body: Block) -> _Product | None:
        """The sum is what a loop over the depth carries."""
        loops = [op for op in body.ops if op.kind == "for"]
        if len(loops) != 1 or not all(self._is_allowed(op) for op in body.ops if op is not loops[0]):
            return None
        (loop,) = loops
        if len(loop.results) != 1 or loop.attribute("rank") != 1 or not self._note(loop):
            return None
        if not all(map(_is_quiet, loop.regions[0].ops)):
            return None
        (argument,) = carried_arguments(loop)
        step = loop.regions[0].ops[-1].operands[0].owner
        if type(step) is not Op or len(self.nest.users.get(argument, ())) != 1:
            return None
        if step.results[0].type.scalar.is_float and not step.attribute("reassociate"):
            return None
        factors = self._step(step, argument)
        if factors is None:
            return None
        depth = self.ranges[counters(loop)[0]]
        return _Product(factors, body, loop, inits(loop)[0], step.kind == "sub", depth)

    def _is_allowed(self, op: Op) -> bool:
        """Whether an operation around the sum may be done behind all sums of a tile."""
        if op.regions:
            return op.kind == "if" and all(self._is_allowed(inner) for region in op.regions for inner in region.ops)
        return op.kind in _SHARED or OPS[op.kind].effects == "pure"

    def _step(self, step: Op, before: Value) -> tuple[Value, Value] | None:
        """The factors of the product that is added to (or subtracted from) a value."""
        if step.kind not in ("add", "sub") or step.results[0].type.name not in _TYPES:
            return None
        first, second = step.operands
        if second is before and step.kind == "add":
            first, second = second, first
        product = second.owner
        if first is not before or type(product) is not Op or product.kind != "mul":
            return None
        return product.operands[0], product.operands[1]

    def _updated(self, body: Block) -> _Product | None:
        """The sum is an element that the innermost loop updates."""
        effects = [op for op in body.ops if not _is_quiet(op)]
        if len(effects) != 1 or effects[0].kind not in ("update", "store"):
            return None
        (op,) = effects
        value, _, *indices = op.operands
        depths = [counter for counter in self.ranges if counter not in indices]
        if len(depths) != 1:
            return None
        depth = self.ranges[depths[0]]
        if op.kind == "update":
            product = value.owner
            if op.attribute("by") not in ("add", "sub") or value.type.name not in _TYPES:
                return None
            if self.nest.users.get(op.results[0]) or type(product) is not Op or product.kind != "mul":
                return None
            factors = (product.operands[0], product.operands[1])
            return _Product(factors, body, op, None, op.attribute("by") == "sub", depth)
        return self._stored(op, depth, body)

    def _stored(self, op: Op, depth: Range, body: Block) -> _Product | None:
        """`c[i, j] = c[i, j] + product`, in order."""
        value, array, *indices = op.operands
        if type(value.owner) is not Op or self.loop_of[depth.counter].attribute("parallel"):
            return None
        reads = [read for read in body.ops if read.kind == "load" and read.operands == (array, *indices)]
        if len(reads) != 1 or len(self.nest.users.get(reads[0].results[0], ())) != 1:
            return None
        factors = self._step(value.owner, reads[0].results[0])
        if factors is None:
            return None
        return _Product(factors, body, op, reads[0].results[0], value.owner.kind == "sub", depth)

    # Who depends on what.

    def depends(self, value: Value) -> frozenset[Value] | None:
        """The counters of the nest that a value is computed from; None if it cannot be computed elsewhere in the nest."""
        if value not in self._depends:
            self._depends[value] = None
            self._depends[value] = self._find(value)
        return self._depends[value]

    def _find(self, value: Value) -> frozenset[Value] | None:
        if value in self.ranges:
            return frozenset([value])
        if not self.nest.defined_in(value, self.outer):
            return frozenset()
        op = value.owner
        if type(op) is not Op or op.regions or not _is_quiet(op):
            return None
        if op.kind == "load" and op.operands[0] in self.written:
            return None
        found: frozenset[Value] = frozenset()
        for operand in op.operands:
            part = self.depends(operand)
            if part is None:
                return None
            found |= part
        return found

    def slice_of(self, value: Value) -> list[Op]:
        """The operations of the nest that compute a value, in order. Only for those whose dependences are known."""
        needed: list[Op] = []
        seen: set[Value] = set()

        def gather(part: Value) -> None:
            if part in seen or part in self.ranges or not self.nest.defined_in(part, self.outer):
                return
            seen.add(part)
            assert type(part.owner) is Op
            for operand in part.owner.operands:
                gather(operand)
            needed.append(part.owner)

        gather(value)
        return needed

    def _contraction(self, product: _Product) -> Contraction | None:
        left, right = product.factors
        k = product.depth.counter
        of_left, of_right = self.depends(left), self.depends(right)
        if of_left is None or of_right is None or k not in of_left or k not in of_right:
            return None
        own_left, own_right = of_left - of_right, of_right - of_left
        last = self._last_index(product.statement)
        if last in own_left:
            left, right, own_left, own_right = right, left, own_right, own_left
        if not own_left or not own_right:
            return None
        order = list(self.ranges)
        row = max(own_left, key=order.index)
        column = last if last is not None and last in own_right else max(own_right, key=order.index)
        batch = [counter for counter in order if counter not in (row, column, k)]
        outside = self._outside(product)
        if outside is None or not self._any_order(product, [*batch, row, column]):
            return None
        return Contraction(
            self.block,
            self.outer,
            bool(self.outer.attribute("parallel")),
            tuple([self.ranges[counter] for counter in batch]),
            self.ranges[row],
            self.ranges[column],
            product.depth,
            left,
            right,
            left.type.scalar,
            product.statement,
            product.reduction,
            product.start,
            product.negative,
            {value: self.slice_of(value) for value in (left, right, *outside)},
        )

    def _last_index(self, statement: Block) -> Value | None:
        for op in walk(statement):
            if op.kind in ("store", "update") and len(op.operands) > 2:
                return op.operands[-1]
        return None

    def _outside(self, product: _Product) -> list[Value] | None:
        """What the statement uses of the blocks around it; None if that cannot be computed there."""
        inside: set[Value] = set()
        used: dict[Value, None] = {}
        if product.reduction.kind == "for":
            skipped = set(product.reduction.regions[0].ops)
            for op in walk(product.statement):
                if op not in skipped:
                    used.update(dict.fromkeys(op.operands))
                    inside.update(op.results)
        else:
            used.update(dict.fromkeys(product.reduction.operands[1:]))
        outside = [
            value
            for value in used
            if value not in inside and value not in self.ranges and self.nest.defined_in(value, self.outer)
        ]
        return None if any(self.depends(value) is None for value in outside) else outside

    def _any_order(self, product: _Product, points: Iterable[Value]) -> bool:
        """Whether the statement may be done in any order: its loops are parallel, or each point has elements of its
        own."""
        serial = [counter for counter in points if not self._is_parallel(counter)]
        if not serial:
            return True
        places: dict[Value, tuple[Value, ...]] = {}
        for op in walk(product.statement):
            if op.kind in ("load", "store", "update"):
                array, *indices = op.operands[0 if op.kind == "load" else 1 :]
                if array in self.written and places.setdefault(array, tuple(indices)) != tuple(indices):
                    return False
        return all(counter in indices for indices in places.values() for counter in serial)

    def _is_parallel(self, counter: Value) -> bool:
        return bool(self.loop_of[counter].attribute("parallel"))


def _is_quiet(op: Op) -> bool:
    return op.kind in ("load", "yield") or (not op.regions and OPS[op.kind].effects == "pure")
