"""Elements that a parallel loop reaches by an index array, time and again, are put in that array's order in front of it.

Where iterations look at `pos[order[k]]` for ranges of k that many of them share (the particles of neighbouring cells),
a loop of its own writes `copy[component, k] = pos[order[k]]` first. Then the ranges are neighbours in memory: loads are
vectors, caches hold what comes next, and `order` is not read again. The copy is a temporary array, made where the loop
is long enough for what it costs; else, and where there is no memory, the loop runs as it was.

Law: the loop writes neither array. Entries of `order` that no iteration reaches may be anything: what is out of range
is not copied.
"""

from __future__ import annotations

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Module, Op, Value, walk
from quadrants.ir.threads import threads_loop_of
from quadrants.ir.types import ArrayType, MatrixType, ScalarType, array_type, scalar_of
from quadrants.passes.affine import Forms
from quadrants.passes.clone import clone_ops
from quadrants.passes.context import PassContext
from quadrants.passes.cost import most_trips
from quadrants.passes.drop_atomics import parallel_loops
from quadrants.passes.fold import number_of
from quadrants.passes.index_accesses import IndexAccess, IndexAccesses, Signature, components_of, is_plain, static_sizes
from quadrants.passes.iteration_order import take_in_order_of
from quadrants.passes.memory import memory_effects
from quadrants.passes.nest import Nest, highs, lows
from quadrants.records import MutableRecord, fresh

__all__ = ["PADDING", "run"]

# Elements behind the last one of a copy's rows: lanes may read so far.
PADDING = 16
# Iterations of a loop whose bounds are not known; how often the loop must look at each element for a copy to pay.
_GUESS = 8
_TIMES = 2
# Looks of an iteration from which on the order of iterations is worth finding out.
_MANY_LOOKS = 16


class _Copy(MutableRecord):
    """What is copied of one array, and for which accesses: each component has a row of the temporary array. `is_plain`:
    the elements are those that the index array names."""

    array: Value
    is_plain: bool
    accesses: list[IndexAccess] = fresh(list[IndexAccess])
    rows: dict[tuple[int, ...], int] = fresh(dict[tuple[int, ...], int])


def run(module: Module, context: PassContext) -> None:
    """Stage `tasks`, behind `wrap_indices` and in front of `cost`. The kernel's parallel loops."""
    kernel = module.kernel
    if kernel.attributes.get("may_alias"):
        return
    for loop in [loop for loop in parallel_loops(kernel.body) if _has_loops(loop)]:
        nest = Nest(kernel)
        found = IndexAccesses(loop, nest, memory_effects(module, context)).run()
        if found and context.permit():
            _Rewriter(loop, nest, found).run()
            context.memory_effects = None
            context.count("arrays gathered once", len({access.op.operands[0] for access in found}))


def _has_loops(loop: Op) -> bool:
    return threads_loop_of(loop) is None and any(op.kind == "for" for op in walk(loop.regions[0]))


class _Rewriter:
    """Puts the copies in front of one loop, and lets it use them where they are there."""

    def __init__(self, loop: Op, nest: Nest, accesses: list[IndexAccess]) -> None:
        self.loop = loop
        self.nest = nest
        self.inner = 1
        self.groups: dict[tuple[Value, ScalarType], dict[Signature, _Copy]] = {}
        for access in accesses:
            key = access.order.operands[0], scalar_of(access.op.operands[0].type)
            copies = self.groups.setdefault(key, {})
            copy = copies.get(access.signature)
            if copy is None:
                plain = is_plain(access.op.operands[1], access.order.results[0])
                copy = copies[access.signature] = _Copy(access.op.operands[0], plain)
            copy.accesses.append(access)
            for component in access.components:
                copy.rows.setdefault(component, 0)

    def run(self) -> None:
        loop = self.loop
        front, fast, slow = Block(), Block(), Block()
        builder = Builder(front, loop.location)
        one = Builder(slow, loop.location)
        slow.ops = clone_ops([loop], {})
        _leave_alone(slow.ops[0])
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
        behind = Block()
        self._reorder(inside, Builder(behind, loop.location), temporaries)
        fast.ops += [loop, *behind.ops]
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

    def _reorder(self, builder: Builder, behind: Builder, temporaries: dict[tuple[Value, ScalarType], Value]) -> None:
        """Takes the iterations in the order of the index array, if its ranges are what lies near each of them."""
        loop = self.loop
        orders = {order for order, _ in self.groups if isinstance(order.type, ArrayType) and order.type.rank == 1}
        if len(orders) == 1 and loop.attribute("rank") == 1 and not loop.results and self.inner >= _MANY_LOOKS:
            order = orders.pop()
            if self._looks_near(order):
                counter = loop.regions[0].arguments[0]
                permuted, place = take_in_order_of(order, loop, builder, behind)
                for key, copies in self.groups.items():
                    for copy in copies.values():
                        if copy.is_plain:
                            _use_for_own(
                                loop.regions[0], copy.array, counter, (permuted, temporaries[key], place), copy
                            )
                loop.attributes = {**loop.attributes, "in_order": True}

    def _looks_near(self, order: Value) -> bool:
        """Whether the ranges of an index array that iterations look at depend on what the iterations read, as on where a
        particle is; not on their numbers alone: those are in a good order as they are."""
        for copies in self.groups.values():
            for access in [access for copy in copies.values() for access in copy.accesses]:
                if access.order.operands[0] is order:
                    ranges = {op for op in self.nest.around(access.order) if op.kind == "for" and op is not self.loop}
                    bounds = [bound for op in ranges for bound in (*lows(op), *highs(op))]
                    loads = self._loads_behind(bounds)
                    if self._loads_behind([index for load in loads for index in load.operands[1:]]):
                        return True
        return False

    def _loads_behind(self, values: list[Value]) -> list[Op]:
        """The loads within the loop that values are computed from, also by the bounds of counters."""
        found: list[Op] = []
        pending, seen = list(values), set(values)
        while pending:
            value = pending.pop()
            op = value.owner
            new: tuple[Value, ...] = ()
            if value in self.nest.counter:
                around = self.nest.counter[value][0]
                new = (*lows(around), *highs(around)) if around is not self.loop else ()
            elif isinstance(op, Op) and self.nest.defined_in(value, self.loop):
                if op.kind == "load":
                    found.append(op)
                else:
                    new = op.operands
            pending += [other for other in new if other not in seen]
            seen.update(new)
        return found

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
        for copies in self.groups.values():
            for copy in copies.values():
                for access in copy.accesses:
                    inner = 1
                    for around in self.nest.around(access.op):
                        if around is self.loop:
                            break
                        if around.kind == "for":
                            inner *= most_trips(around, forms) or _GUESS
                    self.inner = max(self.inner, inner)
        total = builder.index(self.inner)
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
        builder.op("for", *zeros, *sizes, regions=(region,), rank=type_.rank, parallel=True, short=True)

    def _use(self, temporary: Value, copy: _Copy) -> None:
        for access in copy.accesses:
            self._replace(access, temporary, copy)

    def _replace(self, access: IndexAccess, temporary: Value, copy: _Copy) -> None:
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


def _use_for_own(block: Block, array: Value, counter: Value, found: tuple[Value, Value, Value], copy: _Copy) -> None:
    """Loads of an iteration's own elements come from the copy, where the iteration has a place in it: (whether it has,
    the copies, the place)."""
    permuted, temporary, place = found
    for position, op in enumerate(block.ops):
        for region in op.regions:
            _use_for_own(region, array, counter, found, copy)
        if op.kind != "load" or op.operands[0] is not array or op.operands[1:2] != (counter,):
            continue
        type_ = op.results[0].type
        components = components_of(array.type, type_, [number_of(value) for value in op.operands[2:]])
        if components is None or not all(component in copy.rows for component in components):
            continue
        ordered, usual = Block(), Block()
        builder = Builder(ordered, op.location)
        loaded = [builder.emit("load", temporary, builder.index(copy.rows[part]), place) for part in components]
        is_matrix = isinstance(type_, MatrixType)
        builder.op("yield", builder.emit("construct", *loaded, type=type_) if is_matrix else loaded[0])
        own = Op("load", op.operands, (type_,), op.attributes, (), op.location)
        usual.ops = [own]
        Builder(usual, op.location).op("yield", own.results[0])
        choice = Op("if", (permuted,), (), {"types": (type_,)}, (ordered, usual), op.location)
        choice.results = op.results
        choice.results[0].owner = choice
        block.ops[position] = choice


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
        _copy_one(within, array, (index, component), temporary, (row, counters))
    within.op("yield")
    Builder(empty, builder.location).op("yield")
    builder.op("if", inside, regions=(branch, empty), types=())


def _copy_one(
    builder: Builder,
    array: Value,
    source: tuple[Value, tuple[int, ...]],
    temporary: Value,
    target: tuple[int, list[Value]],
) -> None:
    """Copies one number, if the array has such a component."""
    type_ = array.type
    assert isinstance(type_, ArrayType)
    index, component = source
    row, counters = target
    unknown = [axis + 1 for axis, size in enumerate(static_sizes(type_)) if size is None]
    conditions = [
        builder.lt(builder.index(component[axis - 1]), builder.emit("dim", array, axis=axis)) for axis in unknown
    ]
    branch, empty = Block(), Block()
    within = Builder(branch, builder.location) if conditions else builder
    loaded = within.emit("load", array, index, *[within.index(number) for number in component])
    within.op("store", loaded, temporary, within.index(row), *counters)
    if conditions:
        within.op("yield")
        Builder(empty, builder.location).op("yield")
        condition = conditions[0]
        for other in conditions[1:]:
            condition = builder.bit_and(condition, other)
        builder.op("if", condition, regions=(branch, empty), types=())


def _leave_alone(loop: Op) -> None:
    """Marks the form of a loop that seldom runs: it is worth no vectors, which take long to make."""
    loop.attributes["in_place"] = True
    for op in walk(loop.regions[0]):
        if op.kind == "for":
            op.attributes["short"] = True
