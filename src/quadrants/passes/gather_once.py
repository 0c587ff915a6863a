"""Elements that a parallel loop reaches by an index array, time and again, are put in that array's order in front of it.

Where iterations look at `pos[order[k]]` for ranges of k that many of them share (the particles of neighbouring cells),
a loop of its own writes `copy[component, k] = pos[order[k]]` first. Then the ranges are neighbours in memory: loads are
vectors, caches hold what comes next, and `order` is not read again. The copy is a temporary array, made where the loop
is long enough for what it costs; else, and where there is no memory, the loop runs as it was.

Law: the loop writes neither array. Entries of `order` that no iteration reaches may be anything: what is out of range
is not copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.types import ArrayType, MatrixType, ScalarType, Type, array_type, scalar_of
from quadrants.passes.affine import Forms
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.cost import most_trips
from quadrants.passes.drop_atomics import parallel_loops
from quadrants.passes.fold import number_of
from quadrants.passes.memory import MemoryEffects, memory_effects
from quadrants.passes.nest import Nest, highs, lows
from quadrants.passes.rewrite import computed_from

__all__ = ["PADDING", "run"]

# Elements behind the last one of a copy's rows: lanes may read so far.
PADDING = 16
# Iterations of a loop whose bounds are not known; how often the loop must look at each element for a copy to pay.
_GUESS = 4
_TIMES = 2
_MOST_COMPONENTS = 24

Signature = tuple[object, ...]


@dataclass
class _Access:
    """A load `array[index(order[place])]`: the load of the index, what computes the index from it, the components."""

    op: Op
    order: Op
    steps: list[Op]
    components: list[tuple[int, ...]]
    signature: Signature


@dataclass
class _Copy:
    """The accesses that one copied stretch of components serves: `first` is its place among those of its temporary."""

    accesses: list[_Access] = field(default_factory=list["_Access"])
    rows: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])


def run(module: Module, context: PassContext) -> None:
    """Stage `tasks`, behind `wrap_indices` and in front of `cost`. The kernel's parallel loops."""
    kernel = module.kernel
    if kernel.attributes.get("may_alias"):
        return
    for loop in [loop for loop in parallel_loops(kernel.body) if _has_loops(loop)]:
        nest = Nest(kernel)
        found = _Finder(loop, nest, memory_effects(module, context)).run()
        if found and context.permit():
            _Rewriter(loop, nest, found).run()
            context.memory_effects = None
            context.count("arrays gathered once", len({access.op.operands[0] for access in found}))


def _has_loops(loop: Op) -> bool:
    return any(op.kind == "for" for op in walk(loop.regions[0]))


class _Finder:
    """Looks for accesses by index in one parallel loop."""

    def __init__(self, loop: Op, nest: Nest, effects: MemoryEffects) -> None:
        self.loop = loop
        self.nest = nest
        self.forms = Forms(nest)
        region = effects.block(loop.regions[0])
        parameters = set(nest.function.parameters)
        self.fixed = {array for array in region.reads if array in parameters and array not in region.writes}
        self.checks = any(op.kind in ("check", "call", "print") for op in walk(loop.regions[0]))

    def run(self) -> list[_Access]:
        """The accesses, none unless some range of indices is looked at by many iterations."""
        if self.checks:
            return []
        found = [access for op in walk(self.loop.regions[0]) if (access := self._access(op)) is not None]
        orders = {access.order.operands[0] for access in found if self._is_shared(access.order)}
        found = [access for access in found if access.order.operands[0] in orders]
        total = len({(access.signature, component) for access in found for component in access.components})
        return found if total <= _MOST_COMPONENTS else []

    def _access(self, op: Op) -> _Access | None:
        if op.kind != "load" or len(op.operands) < 2 or op.operands[0] not in self.fixed:
            return None
        array, index, *rest = op.operands
        order = self._order_of(index)
        if order is None or self._is_fixed(order.operands[1:]):
            return None
        steps = computed_from(index, self.loop, self.nest, (order.results[0],))
        components = _components(array.type, op.results[0].type, [number_of(value) for value in rest])
        if steps is None or components is None or not _is_number(array.type):
            return None
        signature = (array, order.operands[0], *_signature(index, order.results[0], steps))
        return _Access(op, order, steps, components, signature)

    def _order_of(self, index: Value) -> Op | None:
        """The load of an index array's element that alone an index is computed from within the loop."""
        found: set[Op] = set()
        pending, seen = [index], {index}
        while pending:
            value = pending.pop()
            if not self.nest.defined_in(value, self.loop):
                continue
            op = value.owner
            if not isinstance(op, Op) or op.regions:
                return None
            if op.kind == "load":
                found.add(op)
                continue
            for operand in op.operands:
                if operand not in seen:
                    seen.add(operand)
                    pending.append(operand)
        if len(found) != 1:
            return None
        order = found.pop()
        type_ = order.operands[0].type
        is_index = isinstance(order.results[0].type, ScalarType) and scalar_of(order.results[0].type).is_integer
        whole = isinstance(type_, ArrayType) and type_.rank == len(order.operands) - 1
        return order if is_index and whole and order.operands[0] in self.fixed else None

    def _is_fixed(self, indices: tuple[Value, ...]) -> bool:
        """Whether an index is the parallel loop's own: each iteration looks at its own element, once."""
        return not any(self._inner_loops(self.forms.of(index).atoms()) for index in indices)

    def _inner_loops(self, atoms: set[Value]) -> list[Op]:
        found = [self.nest.counter[atom][0] for atom in atoms if atom in self.nest.counter]
        return [loop for loop in found if loop is not self.loop]

    def _is_shared(self, order: Op) -> bool:
        """Whether iterations look at ranges that others look at, too: their bounds are not those of a row of one's own."""
        atoms = {atom for index in order.operands[1:] for atom in self.forms.of(index).atoms()}
        loops = self._inner_loops(atoms)
        return bool(loops) and not any(self._is_own(loop) for loop in loops)

    def _is_own(self, loop: Op) -> bool:
        """Whether a loop runs over a stretch that belongs to the parallel iteration: `ptr[i] .. ptr[i + 1]`."""
        counters = set(self.loop.regions[0].arguments[: self.loop.attribute("rank")])
        for bound in (*lows(loop), *highs(loop)):
            for atom in self.forms.of(bound).atoms():
                op = atom.owner
                if isinstance(op, Op) and op.kind == "load" and self.nest.defined_in(atom, self.loop):
                    atoms = {inner for index in op.operands[1:] for inner in self.forms.of(index).atoms()}
                    if atoms and all(
                        inner in counters or not self.nest.defined_in(inner, self.loop) for inner in atoms
                    ):
                        return not atoms.isdisjoint(counters)
        return False


def _is_number(type_: Type) -> bool:
    return scalar_of(type_).bits > 1


def _components(array: Type, loaded: Type, rest: list[object]) -> list[tuple[int, ...]] | None:
    """The indices behind the first one of what a load takes; None if they are not written as numbers."""
    if not isinstance(array, ArrayType) or not all(isinstance(number, int) and number >= 0 for number in rest):
        return None
    known = tuple([number for number in rest if isinstance(number, int)])
    static = array.trailing[len(array.trailing) - (array.rank - 1) :] if array.rank > 1 else ()
    if len(static) != array.rank - 1 or any(number >= size for number, size in zip(known, static)):
        return None
    if not isinstance(loaded, MatrixType):
        return [known]
    found = [known]
    for size in static[len(known) :]:
        found = [(*start, number) for start in found for number in range(size)]
    return found


def _signature(index: Value, order: Value, steps: list[Op]) -> Signature:
    """Equal for indices that are computed in the same way from an element of the index array."""
    numbers: dict[Value, object] = {order: "order"}
    parts: list[object] = []
    for position, step in enumerate(steps):
        operands = [numbers.get(operand, number_of(operand) or operand) for operand in step.operands]
        attributes = tuple(sorted((name, str(value)) for name, value in step.attributes.items()))
        parts.append((step.kind, step.results[0].type, attributes, *operands))
        numbers[step.results[0]] = position
    return (numbers.get(index, index), *parts)


class _Rewriter:
    """Puts the copies in front of one loop, and lets it use them where they are there."""

    def __init__(self, loop: Op, nest: Nest, accesses: list[_Access]) -> None:
        self.loop = loop
        self.nest = nest
        self.groups: dict[tuple[Value, ScalarType], dict[Signature, _Copy]] = {}
        for access in accesses:
            key = access.order.operands[0], scalar_of(access.op.operands[0].type)
            copy = self.groups.setdefault(key, {}).setdefault(access.signature, _Copy())
            copy.accesses.append(access)
            for component in access.components:
                copy.rows.setdefault(component, 0)

    def run(self) -> None:
        loop = self.loop
        front, fast, slow = Block(), Block(), Block()
        builder = Builder(front, loop.location)
        one = Builder(slow, loop.location)
        slow.ops = clone_ops([loop], {})
        slow.ops[0].attributes["in_place"] = True
        one.op("yield", *slow.ops[0].results)
        there: Value | None = None
        temporaries: dict[tuple[Value, ScalarType], Value] = {}
        looks = self._looks(builder)
        for key, copies in self.groups.items():
            condition = self._worth(builder, key[0], looks) if there is None else there
            temporaries[key], there = _temporary(builder, key, copies, condition)
        assert there is not None
        inside = Builder(fast, loop.location)
        for key, copies in self.groups.items():
            self._fill(inside, key[0], temporaries[key], copies)
            for copy in copies.values():
                self._use(temporaries[key], copy)
        fast.ops.append(loop)
        results = loop.results
        loop.results = [Value(result.type, loop, result.name) for result in results]
        loop.attributes = {**loop.attributes, "gathered": self._names()}
        inside.op("yield", *loop.results)
        choice = builder.op("if", there, regions=(fast, slow), types=tuple([result.type for result in results]))
        for result in results:
            result.owner = choice
        choice.results = results
        for temporary in temporaries.values():
            builder.op("release", temporary)
        self._splice(front.ops)

    def _names(self) -> tuple[str, ...]:
        function = self.nest.function
        names = function.attributes.get("parameter_names") or ("",) * len(function.parameters)
        arrays = {signature[0] for copies in self.groups.values() for signature in copies}
        return tuple([name for name, value in zip(names, function.parameters) if value in arrays])

    def _splice(self, new: list[Op]) -> None:
        parent = self.nest.parent[self.loop]
        regions = parent.regions if parent is not None else (self.nest.function.body,)
        block = next(region for region in regions if self.loop in region.ops)
        at = block.ops.index(self.loop)
        block.ops[at : at + 1] = new

    def _looks(self, builder: Builder) -> Value:
        """About how often the loop looks at an element, by the loops that are around the deepest access."""
        forms = Forms(self.nest)
        most = 1
        for copies in self.groups.values():
            for copy in copies.values():
                for access in copy.accesses:
                    inner = 1
                    for around in self.nest.around(access.op):
                        if around is self.loop:
                            break
                        if around.kind == "for":
                            inner *= most_trips(around, forms) or _GUESS
                    most = max(most, inner)
        total = builder.index(most)
        for low, high in zip(lows(self.loop), highs(self.loop)):
            total = builder.mul(total, builder.sub(high, low))
        return total

    def _worth(self, builder: Builder, order: Value, looks: Value) -> Value:
        """Whether the loop looks at each element of an index array often enough."""
        type_ = order.type
        assert isinstance(type_, ArrayType)
        total = builder.index(_TIMES)
        for axis in range(type_.rank):
            total = builder.mul(total, builder.emit("dim", order, axis=axis))
        return builder.ge(looks, total)

    def _fill(self, builder: Builder, order: Value, temporary: Value, copies: dict[Signature, _Copy]) -> None:
        """The loop that writes the copies of one temporary array."""
        type_ = order.type
        assert isinstance(type_, ArrayType)
        region = Block()
        counters = [region.add_argument(builder.index(0).type, "k") for _ in range(type_.rank)]
        inner = Builder(region, builder.location)
        index = inner.emit("load", order, *counters)
        for copy in copies.values():
            _fill_one(inner, index, counters, temporary, copy)
        inner.op("yield")
        zeros = [builder.index(0) for _ in counters]
        sizes = [builder.emit("dim", order, axis=axis) for axis in range(type_.rank)]
        builder.op("for", *zeros, *sizes, regions=(region,), rank=type_.rank, parallel=True)

    def _use(self, temporary: Value, copy: _Copy) -> None:
        for access in copy.accesses:
            self._replace(access, temporary, copy)

    def _replace(self, access: _Access, temporary: Value, copy: _Copy) -> None:
        """Makes a load one of the copy."""
        op = access.op
        before = Block()
        builder = Builder(before, op.location)
        place = access.order.operands[1:]
        rows = [builder.index(copy.rows[component]) for component in access.components]
        if isinstance(op.results[0].type, MatrixType):
            loaded = [builder.emit("load", temporary, row, *place) for row in rows]
            op.kind, op.operands, op.attributes = "construct", tuple(loaded), {"type": op.results[0].type}
        else:
            op.operands, op.attributes = (temporary, rows[0], *place), {}
        parent = self.nest.parent[op]
        assert parent is not None
        block = next(region for region in parent.regions if op in region.ops)
        at = block.ops.index(op)
        block.ops[at:at] = before.ops


def _temporary(
    builder: Builder, key: tuple[Value, ScalarType], copies: dict[Signature, _Copy], condition: Value
) -> tuple[Value, Value]:
    """The array for the copies by one index array of one type, and whether it is there; gives each component its row."""
    order, scalar = key
    type_ = order.type
    assert isinstance(type_, ArrayType)
    count = 0
    for copy in copies.values():
        for component in copy.rows:
            copy.rows[component] = count
            count += 1
    sizes = [builder.emit("dim", order, axis=axis) for axis in range(type_.rank)]
    sizes[-1] = builder.add(sizes[-1], builder.index(PADDING))
    made = builder.op(
        "temporary", condition, builder.index(count), *sizes, type=array_type(scalar, type_.rank + 1), padding=PADDING
    )
    array, there = made.results
    array.name = "gathered"
    return array, there


def _fill_one(builder: Builder, element: Value, counters: list[Value], temporary: Value, copy: _Copy) -> None:
    """Copies the components of one element where its index is in range."""
    access = copy.accesses[0]
    array = access.op.operands[0]
    values = {access.order.results[0]: element}
    steps = clone_ops(access.steps, values)
    builder.block.ops += steps
    index = values.get(access.op.operands[1], access.op.operands[1])
    size = builder.emit("dim", array, axis=0)
    inside = builder.bit_and(builder.ge(index, builder.index(0)), builder.lt(index, size))
    branch, empty = Block(), Block()
    within = Builder(branch, builder.location)
    for component, row in copy.rows.items():
        loaded = within.emit("load", array, index, *[within.index(number) for number in component])
        within.op("store", loaded, temporary, within.index(row), *counters)
    within.op("yield")
    Builder(empty, builder.location).op("yield")
    builder.op("if", inside, regions=(branch, empty), types=())
