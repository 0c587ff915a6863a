"""What one iteration of a loop, or one call of a function, does to memory."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.ir.nodes import Block, Op, Value
from quadrants.ir.types import ArrayType
from quadrants.passes.affine import Form, Forms
from quadrants.passes.memory import ARRAY_POSITION
from quadrants.passes.nest import Nest, counters, highs, lows
from quadrants.passes.structure import loop_jumps

__all__ = ["Access", "Summary", "accesses_of", "by_array", "collect", "group_of", "name_of"]

_GROUPS = {"sub": "add"}

Dims = tuple[Form | None, ...]


def group_of(by: str) -> str:
    """Updates of one group may be made in any order: subtraction is addition."""
    return _GROUPS.get(by, by)


def name_of(array: Value) -> str:
    """How messages call an array."""
    return array.name or "an array"


class Access:
    """Accesses of one kind to the same elements of one array.

    `dims` are the indices, None where nothing is known of one; fewer than the array's axes reach all of the rest.
    `loops` are the loops around it within the loop (or function) looked at, outermost first, whose counters `dims` may
    use. `certain`: every iteration makes it. `group`: of an update. `used`: an update whose old value is used.
    `op` is the first operation that makes it, in the function looked at, `origins` all, in the functions that they are in.
    """

    __slots__ = ("array", "certain", "dims", "group", "kind", "loops", "op", "origins", "used", "wraps")

    def __init__(self, kind: str, array: Value, dims: Dims, op: Op, origin: Op) -> None:
        self.kind = kind
        self.array = array
        self.dims = dims
        self.op = op
        self.origins = [origin]
        self.loops: tuple[Op, ...] = ()
        self.certain = False
        self.group = ""
        self.used = False
        self.wraps = False

    @property
    def writes(self) -> bool:
        return self.kind != "load"

    @property
    def is_update(self) -> bool:
        return self.kind in ("update", "compare_exchange")

    def key(self) -> tuple[object, ...]:
        dims = tuple([None if dim is None else dim.key for dim in self.dims])
        return (self.array, self.kind, self.group, self.used, self.certain, self.wraps, dims, self.loops)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.group} {name_of(self.array)}{list(self.dims)}{' certain' * self.certain}>"


class Summary:
    """What a function does to the arrays that it is given: `accesses` are to its own parameters."""

    __slots__ = ("accesses", "parameters", "positions")

    def __init__(self, parameters: list[Value], accesses: list[Access]) -> None:
        self.parameters = parameters
        self.positions = {parameter: position for position, parameter in enumerate(parameters)}
        self.accesses = accesses


def collect(
    block: Block,
    nest: Nest,
    forms: Forms,
    summary_of: Callable[[str], Summary],
    is_known: Callable[[Value], bool],
    is_shared: Callable[[Value], bool],
) -> list[Access]:
    """The accesses that a block makes to arrays that `is_shared`, equal ones once. Indices may use the variables that
    `is_known`, and the counters of loops within the block whose bounds do."""
    collector = _Collector(nest, forms, summary_of, is_known, is_shared)
    collector.block(block, (), True)
    return list(collector.found.values())


def accesses_of(loop: Op, nest: Nest, forms: Forms, summary_of: Callable[[str], Summary]) -> list[Access]:
    """The accesses of one iteration of a loop to arrays that the iterations share."""
    own = set(counters(loop))
    return collect(
        loop.regions[0],
        nest,
        forms,
        summary_of,
        is_known=lambda atom: atom in own or forms.invariant(atom, loop),
        is_shared=lambda array: not nest.defined_in(array, loop),
    )


def by_array(accesses: list[Access], may_alias: bool) -> dict[Value, list[Access]]:
    """Accesses by the array that they are to; where arrays may overlap, those of one element type and rank together."""
    merged: dict[object, list[Access]] = {}
    for access in accesses:
        type_ = access.array.type
        assert type(type_) is ArrayType
        together = may_alias and not type_.is_slot
        merged.setdefault((type_.scalar, type_.rank) if together else access.array, []).append(access)
    return {found[0].array: found for found in merged.values()}


class _Collector:
    def __init__(
        self,
        nest: Nest,
        forms: Forms,
        summary_of: Callable[[str], Summary],
        is_known: Callable[[Value], bool],
        is_shared: Callable[[Value], bool],
    ) -> None:
        self.nest = nest
        self.forms = forms
        self.summary_of = summary_of
        self.is_known = is_known
        self.is_shared = is_shared
        self.found: dict[object, Access] = {}
        self._bounded: set[Value] = set()
        self._known: dict[Value, bool] = {}

    def block(self, block: Block, loops: tuple[Op, ...], certain: bool) -> None:
        for op in block.ops:
            kind = op.kind
            if kind in ARRAY_POSITION:
                self._access(op, loops, certain)
            elif kind == "call":
                self._call(op, loops, certain)
            elif kind == "for":
                self._bounds(op)
                self.block(op.regions[0], (*loops, op), certain)
                certain = certain and not _returns(op)
            elif op.regions:
                inside = certain and kind == "while"
                for region in op.regions:
                    self.block(region, loops, inside)
                certain = certain and not (_returns(op) if kind == "while" else _jumps(op))

    def _bounds(self, loop: Op) -> None:
        bounds = [self.forms.of(value) for value in (*lows(loop), *highs(loop))]
        if all(self.dim_known(form) for form in bounds):
            self._bounded.update(loop.regions[0].arguments[: len(bounds) // 2])

    def dim_known(self, form: Form) -> bool:
        for atom in form.atoms():
            found = self._known.get(atom)
            if found is None:
                found = atom in self._bounded or self.is_known(atom)
                self._known[atom] = found
            if not found:
                return False
        return True

    def _access(self, op: Op, loops: tuple[Op, ...], certain: bool) -> None:
        position = ARRAY_POSITION[op.kind]
        array = op.operands[position]
        if not self.is_shared(array):
            return
        wraps = bool(op.attribute("wrap"))
        indices = [self.forms.of(index) for index in op.operands[position + 1 :]]
        if wraps:
            indices = [self._wrapped(array, axis, index) for axis, index in enumerate(indices)]
        access = Access(op.kind, array, tuple(map(self._dim, indices)), op, op)
        access.wraps = wraps
        if op.kind == "update":
            access.group = group_of(op.attribute("by"))
            access.used = bool(self.nest.users.get(op.results[0]))
        elif op.kind == "compare_exchange":
            access.used = True
        self._add(access, loops, certain)

    def _wrapped(self, array: Value, axis: int, index: Form) -> Form:
        """An index with a constant that counts from the end made one that counts from the start."""
        constant = index.constant
        return index if constant is None or constant >= 0 else self.forms.size(array, axis).shifted(constant)

    def _dim(self, form: Form) -> Form | None:
        return form if self.dim_known(form) else None

    def _add(self, access: Access, loops: tuple[Op, ...], certain: bool) -> None:
        access.certain = certain
        used = [loop for loop in loops if _uses(access.dims, loop)]
        access.loops = loops[: loops.index(used[-1]) + 1] if used else ()
        existing = self.found.setdefault(access.key(), access)
        if existing is not access:
            existing.origins.extend(access.origins)

    def _call(self, op: Op, loops: tuple[Op, ...], certain: bool) -> None:
        summary = self.summary_of(op.attribute("callee"))
        values: dict[Value, Form] | None = None
        for entry in summary.accesses:
            array = op.operands[summary.positions[entry.array]]
            if not self.is_shared(array):
                continue
            if values is None:
                values = {
                    parameter: self.forms.of(operand) for parameter, operand in zip(summary.parameters, op.operands)
                }
            dims = tuple([self._substituted(dim, values) for dim in entry.dims])
            access = Access(entry.kind, array, dims, op, op)
            access.origins = list(entry.origins)
            access.group, access.used, access.wraps = entry.group, entry.used, entry.wraps
            self._add(access, loops, certain and entry.certain)

    def _substituted(self, dim: Form | None, values: dict[Value, Form]) -> Form | None:
        if dim is None:
            return None
        total = Form({})
        for monomial, count in dim.terms.items():
            product = Form.number(count)
            for factor in monomial:
                product = product.times(values[factor])
            total = total.plus(product)
        return self._dim(total)


def _uses(dims: Dims, loop: Op) -> bool:
    arguments = loop.regions[0].arguments[: loop.attributes["rank"]]  # type: ignore[index]
    return any(dim is not None and any(atom in arguments for atom in dim.atoms()) for dim in dims)


def _returns(op: Op) -> bool:
    return any(jump.kind == "return" for region in op.regions for jump in loop_jumps(region))


def _jumps(branch: Op) -> bool:
    """Whether something in an `if` may end the iteration around it."""
    return any(loop_jumps(region) for region in branch.regions)
