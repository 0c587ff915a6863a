"""Loads of a parallel loop that reach elements through an index array: which, how the index is computed, and whether
iterations share the ranges of the index array that they look at.
"""

from __future__ import annotations

from quadrants.ir.nodes import Op, Value, walk
from quadrants.ir.types import ArrayType, MatrixType, ScalarType, Type, i32, i64, scalar_of
from quadrants.passes.affine import ONE, Form, Forms
from quadrants.passes.cost import most_trips
from quadrants.passes.fold import number_of
from quadrants.passes.memory import MemoryEffects
from quadrants.passes.nest import Nest, highs, lows
from quadrants.passes.rewrite import computed_from
from quadrants.records import MutableRecord

__all__ = ["IndexAccess", "IndexAccesses", "Signature", "components_of", "is_plain", "static_sizes"]

_MOST_COMPONENTS = 24
# Iterations of a loop along an index array below which its elements are few corners of something, in any order.
_SHORT = 8

Signature = tuple[object, ...]


class IndexAccess(MutableRecord):
    """A load `array[index(order[place])]`: the load of the index, what computes the index from it, the components."""

    op: Op
    order: Op
    steps: list[Op]
    components: list[tuple[int, ...]]
    signature: Signature


class IndexAccesses:
    """Looks for accesses by index in one parallel loop."""

    def __init__(self, loop: Op, nest: Nest, effects: MemoryEffects) -> None:
        self.loop = loop
        self.nest = nest
        self.forms = Forms(nest)
        self.counters = set(loop.regions[0].arguments[: loop.attribute("rank")])
        region = effects.block(loop.regions[0])
        parameters = set(nest.function.parameters)
        self.fixed = {array for array in region.reads if array in parameters and array not in region.writes}
        self.checks = any(op.kind in ("check", "call", "print") for op in walk(loop.regions[0]))

    def run(self) -> list[IndexAccess]:
        """The accesses, none unless some range of indices is looked at by many iterations."""
        if self.checks:
            return []
        found = [access for op in walk(self.loop.regions[0]) if (access := self._access(op)) is not None]
        orders = {access.order.operands[0] for access in found if self._is_shared(access.order)}
        found = [access for access in found if access.order.operands[0] in orders]
        total = len({(access.signature, component) for access in found for component in access.components})
        return found if total <= _MOST_COMPONENTS else []

    def _access(self, op: Op) -> IndexAccess | None:
        if op.kind != "load" or len(op.operands) < 2 or op.operands[0] not in self.fixed:
            return None
        array, index, *rest = op.operands
        order = self._order_of(index)
        if order is None or self._is_fixed(order.operands[1:]):
            return None
        steps = computed_from(index, self.loop, self.nest, (order.results[0],))
        components = components_of(array.type, op.results[0].type, [number_of(value) for value in rest])
        if steps is None or components is None or not _is_number(array.type):
            return None
        signature = (array, order.operands[0], *_signature(index, order.results[0], steps))
        return IndexAccess(op, order, steps, components, signature)

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
        """Whether iterations look at ranges that others look at, too, and not at a row of their own."""
        forms = [self.forms.of(index) for index in order.operands[1:]]
        loops = self._inner_loops({atom for form in forms for atom in form.atoms()})
        return self._is_long(forms[-1]) and not any(map(self._is_apart, forms)) and not any(map(self._is_own, loops))

    def _is_long(self, form: Form) -> bool:
        """Whether a loop within runs along the index array, and not just over the few corners of something."""
        inner = [atom for atom in form.atoms() if self._inner_loops({atom}) and form.coefficient(atom) == ONE]
        trips = [most_trips(self.nest.counter[atom][0], self.forms) for atom in inner]
        return any(most is None or most >= _SHORT for most in trips)

    def _is_apart(self, form: Form) -> bool:
        """Whether an index moves with the parallel iteration, and not by as much with a counter within: `i * 8 + k`."""
        within = [atom for atom in form.atoms() if atom in self.nest.counter and atom not in self.counters]
        for counter in self.counters & form.atoms():
            step = form.coefficient(counter)
            if not any(form.coefficient(atom) == step for atom in within):
                return True
        return False

    def _is_own(self, loop: Op) -> bool:
        """Whether a loop runs over a stretch that belongs to the parallel iteration: `ptr[i] .. ptr[i + 1]`."""
        for bound in (*lows(loop), *highs(loop)):
            form = self.forms.of(bound)
            for counter in self.counters & form.atoms():
                if form.coefficient(counter) != ONE:
                    return True
            if any(map(self._is_of_iteration, self._loads_of(bound))):
                return True
        return False

    def _is_of_iteration(self, load: Op) -> bool:
        """Whether a load reaches what the parallel counters alone tell."""
        atoms = {inner for index in load.operands[1:] for inner in self.forms.of(index).atoms()}
        moving = {atom for atom in atoms if self.nest.defined_in(atom, self.loop)}
        return bool(moving) and moving <= self.counters

    def _loads_of(self, value: Value) -> list[Op]:
        """The loads within the loop that a value is computed from."""
        found: list[Op] = []
        pending, seen = [value], {value}
        while pending:
            op = pending.pop().owner
            if not isinstance(op, Op) or op.regions or op not in self.nest.parent:
                continue
            if op.kind == "load":
                found.append(op)
                continue
            new = [operand for operand in op.operands if operand not in seen]
            seen.update(new)
            pending += new
        return found


def _is_number(type_: Type) -> bool:
    return scalar_of(type_).bits > 1


def components_of(array: Type, loaded: Type, rest: list[object]) -> list[tuple[int, ...]] | None:
    """The indices behind the first one of what a load takes; None if they are not written as numbers."""
    if not isinstance(array, ArrayType) or not all(isinstance(number, int) and number >= 0 for number in rest):
        return None
    known = tuple([number for number in rest if isinstance(number, int)])
    static = static_sizes(array)
    if any(size is not None and number >= size for number, size in zip(known, static)):
        return None
    if not isinstance(loaded, MatrixType):
        return [known] if len(known) == len(static) else None
    found = [known]
    for size in static[len(known) :]:
        if size is None:
            return None
        found = [(*start, number) for start in found for number in range(size)]
    return found


def static_sizes(array: ArrayType) -> list[int | None]:
    """The sizes of an array's axes behind the first one, None for those that the code does not tell."""
    unknown = array.rank - 1 - len(array.trailing)
    return [None] * unknown + list(array.trailing[-(array.rank - 1) :] if array.rank > 1 else ())


def _signature(index: Value, order: Value, steps: list[Op]) -> Signature:
    """Equal for indices that are computed in the same way from an element of the index array."""
    numbers: dict[Value, object] = {order: "order"}
    parts: list[object] = []
    for position, step in enumerate(steps):
        operands = [numbers.get(operand) or _identity(operand) for operand in step.operands]
        attributes = tuple(sorted((name, str(value)) for name, value in step.attributes.items()))
        parts.append((step.kind, step.results[0].type, attributes, *operands))
        numbers[step.results[0]] = ("step", position)
    return (numbers.get(index, index), *parts)


def _identity(value: Value) -> object:
    """Equal for one value, and for equal numbers."""
    number = number_of(value)
    return value if number is None else ("number", number)


def is_plain(index: Value, order: Value) -> bool:
    """Whether an index is the index array's element itself, if that is not negative."""
    stripped = _without_casts(index)
    op = stripped.owner
    if isinstance(op, Op) and op.kind == "select":
        test = op.operands[0].owner
        if not isinstance(test, Op) or test.kind != "lt" or number_of(test.operands[1]) != 0:
            return False
        if _without_casts(test.operands[0]) is not order:
            return False
        stripped = _without_casts(op.operands[2])
    return stripped is order


def _without_casts(value: Value) -> Value:
    op = value.owner
    while isinstance(op, Op) and op.kind == "cast" and op.results[0].type in (i32, i64):
        value = op.operands[0]
        op = value.owner
    return value
