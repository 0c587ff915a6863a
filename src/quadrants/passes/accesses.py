"""What one iteration of a loop, or one call of a function, does to memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from quadrants.ir.nodes import Block, Op, Value, walk
from quadrants.ir.types import ArrayType
from quadrants.passes.affine import Form, Forms
from quadrants.passes.computed import Computed
from quadrants.passes.memory import ARRAY_POSITION, external_pointers
from quadrants.passes.nest import Nest, counters, highs, lows
from quadrants.passes.structure import loop_jumps

__all__ = ["Access", "Conditions", "Dims", "Summary", "accesses_of", "by_array", "collect", "group_of", "name_of"]

_GROUPS = {"sub": "add"}

Dims = tuple[Form | None, ...]
Conditions = tuple[tuple[Form, bool], ...]


class _Path(NamedTuple):
    """On the way to an operation: the truth values that can be told, and whether there are others."""

    conditions: Conditions
    hidden: bool

    def under(self, condition: Form | None, holds: bool) -> _Path:
        return self.veiled() if condition is None else _Path((*self.conditions, (condition, holds)), self.hidden)

    def veiled(self) -> _Path:
        return _Path(self.conditions, True)


def group_of(by: str) -> str:
    """Updates of one group may be made in any order: subtraction is addition."""
    return _GROUPS.get(by, by)


def name_of(array: Value) -> str:
    """How messages call an array."""
    return array.name or "an array"


class Access:
    """Accesses of one kind to the same elements of one array.

    `dims` are the indices as polynomials, None where nothing is known of one; fewer than the array's axes reach all of the
    rest. `places` are the indices as far as they can be computed at all (see `Computed`). `loops` are the loops around it
    within the loop (or function) looked at, outermost first, whose counters these may use. `conditions`: an iteration
    makes it only where these truth values are as told, and does where they are unless it is `hidden`: under conditions that
    nobody can tell. `group`: of an update. `used`: an update whose old value is used. `op` is the first operation that makes
    it, in the function looked at, `origins` all, in the functions that they are in.
    """

    __slots__ = (
        "array",
        "conditions",
        "dims",
        "group",
        "hidden",
        "kind",
        "loops",
        "op",
        "origins",
        "places",
        "used",
        "wraps",
    )

    def __init__(self, kind: str, array: Value, dims: Dims, places: Dims, op: Op, origin: Op) -> None:
        self.kind = kind
        self.array = array
        self.dims = dims
        self.places = places
        self.op = op
        self.origins = [origin]
        self.loops: tuple[Op, ...] = ()
        self.conditions: Conditions = ()
        self.hidden = True
        self.group = ""
        self.used = False
        self.wraps = False

    @property
    def writes(self) -> bool:
        return self.kind != "load"

    @property
    def is_update(self) -> bool:
        return self.kind in ("update", "compare_exchange")

    @property
    def certain(self) -> bool:
        """Whether every iteration makes it."""
        return not self.hidden and not self.conditions

    def key(self) -> tuple[object, ...]:
        return (*self.element_key(), self.conditions, self.hidden)

    def element_key(self) -> tuple[object, ...]:
        """Equal for accesses of one kind to the same elements, whatever the conditions."""
        return (self.array, self.kind, self.group, self.used, self.wraps, self.dims, self.places, self.loops)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.group} {name_of(self.array)}{list(self.dims)}{' certain' * self.certain}>"


class Summary:
    """What a function does to the arrays that it is given: `accesses` are to its own parameters, in indices over these and
    the counters of its loops, whose lows and highs are the `bounds`."""

    __slots__ = ("accesses", "bounds", "parameters", "positions")

    def __init__(self, parameters: list[Value], accesses: list[Access], forms: Forms) -> None:
        self.parameters = parameters
        self.positions = {parameter: position for position, parameter in enumerate(parameters)}
        self.accesses = accesses
        self.bounds: dict[Op, list[Form]] = {
            loop: [forms.of(value) for value in (*lows(loop), *highs(loop))]
            for access in accesses
            for loop in access.loops
        }


def collect(
    block: Block,
    nest: Nest,
    forms: Forms,
    summary_of: Callable[[str], Summary],
    is_known: Callable[[Value], bool],
    is_shared: Callable[[Value], bool],
    decides: Callable[[Value], bool],
) -> list[Access]:
    """The accesses that a block makes to arrays that `is_shared`, equal ones once. Indices may use the variables that
    `is_known`, and the counters of loops within the block whose bounds do; conditions the ones of them that `decides`."""
    collector = _Collector(nest, forms, summary_of, is_known, is_shared, decides)
    collector.block(block, (), _Path((), False))
    return list(collector.found.values())


def accesses_of(loop: Op, nest: Nest, forms: Forms, summary_of: Callable[[str], Summary]) -> list[Access]:
    """The accesses of one iteration of a loop to arrays that the iterations share."""
    own = set(counters(loop))
    computed = Computed(forms)
    loops = [op for op in (loop, *nest.around(loop), *walk(loop.regions[0])) if op.kind == "for"]
    bounds = [bound for each in loops for bound in (*lows(each), *highs(each))]
    sizes = {leaf for bound in bounds for leaf in computed.leaves_of(forms.of(bound))}
    return collect(
        loop.regions[0],
        nest,
        forms,
        summary_of,
        is_known=lambda atom: atom in own or forms.invariant(atom, loop),
        is_shared=lambda array: not nest.defined_in(array, loop),
        decides=lambda leaf: leaf in own or leaf in sizes or _is_size(leaf) or _is_outer_counter(leaf, loop, nest),
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
        decides: Callable[[Value], bool],
    ) -> None:
        self.nest = nest
        self.forms = forms
        self.summary_of = summary_of
        self.is_known = is_known
        self.is_shared = is_shared
        self.decides = decides
        self.computed = Computed(forms)
        self.found: dict[object, Access] = {}
        # Counters of loops within the block whose bounds are known as polynomials, and those whose bounds can be computed.
        self._bounded: set[Value] = set()
        self._counted: set[Value] = set()
        self._known: dict[Value, bool] = {}
        self._jumps: dict[Block, list[Op]] = {}

    def block(self, block: Block, loops: tuple[Op, ...], path: _Path) -> None:
        for op in block.ops:
            kind = op.kind
            if kind in ARRAY_POSITION:
                self._access(op, loops, path)
            elif kind == "call":
                self._call(op, loops, path)
            elif kind == "external":
                self._external(op, loops, path)
            elif kind == "for":
                self._bounds(op)
                self.block(op.regions[0], (*loops, op), path)
                path = path.veiled() if _returns(op) else path
            elif kind == "while":
                for region in op.regions:
                    self.block(region, loops, path)
                path = path.veiled() if _returns(op) else path
            elif op.regions:
                path = self._branch(op, loops, path)

    def _branch(self, op: Op, loops: tuple[Op, ...], path: _Path) -> _Path:
        """Collects from an `if`; gives the path to what follows it."""
        condition = self._condition(op)
        if not path.hidden and condition is None and all(region.ops[-1].kind == "yield" for region in op.regions):
            self._either(op, loops, path)
        else:
            for region, holds in zip(op.regions, (True, False)):
                self.block(region, loops, path.under(condition, holds))
        jumps = [self._jumps_in(region) for region in op.regions]
        if not any(jumps):
            return path
        for leaving, staying, holds in ((0, 1, False), (1, 0, True)):
            end = op.regions[leaving].ops[-1]
            if end.kind == "continue" and jumps[leaving] == [end] and not jumps[staying]:
                return path.under(condition, holds)
        return path.veiled()

    def _jumps_in(self, block: Block) -> list[Op]:
        """What `loop_jumps` gives, without looking into a branch once for each `if` around it."""
        found = self._jumps.get(block)
        if found is None:
            found = self._jumps[block] = []
            for op in block.ops:
                if op.kind == "if":
                    found += [jump for region in op.regions for jump in self._jumps_in(region)]
                elif op.regions:
                    inner = [jump for region in op.regions for jump in loop_jumps(region)]
                    found += [jump for jump in inner if jump.kind == "return"]
            if block.ops and block.ops[-1].kind in ("return", "break", "continue"):
                found.append(block.ops[-1])
        return found

    def _either(self, op: Op, loops: tuple[Op, ...], path: _Path) -> None:
        """Collects from an `if` whose condition nobody can tell: what both branches do is done in any case."""
        before = self.found
        branches: list[dict[object, Access]] = []
        for region in op.regions:
            self.found = {}
            self.block(region, loops, path)
            branches.append(self.found)
        self.found = before
        sure = [
            {found.element_key() for found in branch.values() if (found.conditions, found.hidden) == path}
            for branch in branches
        ]
        for access in (*branches[0].values(), *branches[1].values()):
            access.hidden = access.hidden or access.element_key() not in sure[0] & sure[1]
            self._note(access)

    def _condition(self, op: Op) -> Form | None:
        """The condition of an `if`, None where it cannot be told from counters and sizes."""
        form = self.forms.of(op.operands[0])
        leaves = self.computed.leaves_of(form)
        return form if all(leaf in self._counted or self.decides(leaf) for leaf in leaves) else None

    def _bounds(self, loop: Op) -> None:
        bounds = [self.forms.of(value) for value in (*lows(loop), *highs(loop))]
        if all(self.dim_known(form) for form in bounds):
            self._bounded.update(counters(loop))
        if all(self.computable(form) for form in bounds):
            self._counted.update(counters(loop))

    def dim_known(self, form: Form) -> bool:
        for atom in form.atoms():
            found = self._known.get(atom)
            if found is None:
                found = atom in self._bounded or self.is_known(atom)
                self._known[atom] = found
            if not found:
                return False
        return True

    def computable(self, form: Form) -> bool:
        return all(leaf in self._counted or self.is_known(leaf) for leaf in self.computed.leaves_of(form))

    def _access(self, op: Op, loops: tuple[Op, ...], path: _Path) -> None:
        position = ARRAY_POSITION[op.kind]
        array = op.operands[position]
        if not self.is_shared(array):
            return
        if op.kind == "load" and self.nest.only_before_updates(op):
            return  # the update is the access
        wraps = bool(op.attribute("wrap"))
        indices = [self.forms.of(index) for index in op.operands[position + 1 :]]
        if wraps:
            indices = [self._wrapped(array, axis, index) for axis, index in enumerate(indices)]
        kind = "update" if op.kind == "update_loaded" else op.kind
        access = Access(kind, array, *self._dims(indices), op, op)
        access.wraps = wraps
        if kind == "update":
            access.group = group_of(op.attribute("by"))
            access.used = any(self.nest.users.get(result) for result in op.results)
        elif op.kind == "compare_exchange":
            access.used = True
        self._add(access, loops, path)

    def _wrapped(self, array: Value, axis: int, index: Form) -> Form:
        """An index with a constant that counts from the end made one that counts from the start."""
        constant = index.constant
        return index if constant is None or constant >= 0 else self.forms.size(array, axis).shifted(constant)

    def _dims(self, indices: Sequence[Form | None]) -> tuple[Dims, Dims]:
        """The dims and the places of an access."""
        dims = tuple([form if form is not None and self.dim_known(form) else None for form in indices])
        if None not in dims:
            return dims, dims
        return dims, tuple([form if form is not None and self.computable(form) else None for form in indices])

    def _add(self, access: Access, loops: tuple[Op, ...], path: _Path) -> None:
        access.conditions, access.hidden = path
        forms = [form for form in access.places if form is not None] + [form for form, _ in path.conditions]
        leaves = {leaf for form in forms for leaf in self.computed.leaves_of(form)}
        last = max([depth for depth, loop in enumerate(loops) if not leaves.isdisjoint(counters(loop))], default=-1)
        access.loops = tuple([loop for loop in loops[: last + 1] if self._counted.issuperset(counters(loop))])
        self._note(access)

    def _note(self, access: Access) -> None:
        existing = self.found.setdefault(access.key(), access)
        if existing is not access:
            existing.origins.extend(access.origins)

    def _call(self, op: Op, loops: tuple[Op, ...], path: _Path) -> None:
        summary = self.summary_of(op.attribute("callee"))
        instance = _Instance(op, summary, self.forms)
        for entry in summary.accesses:
            array = op.operands[summary.positions[entry.array]]
            if not self.is_shared(array):
                continue
            own = tuple([self._loop_of(loop, instance) for loop in entry.loops])
            dims = self._dims([instance.form(dim) for dim in entry.dims])
            access = Access(entry.kind, array, *dims, op, op)
            access.origins = list(entry.origins)
            access.group, access.used, access.wraps = entry.group, entry.used, entry.wraps
            self._add(access, (*loops, *own), path if entry.certain else path.veiled())

    def _external(self, op: Op, loops: tuple[Op, ...], path: _Path) -> None:
        """Nobody knows which elements a function of C reaches through a pointer."""
        for array, reads, writes in external_pointers(op):
            assert type(array.type) is ArrayType
            nowhere: Dims = (None,) * array.type.rank
            if self.is_shared(array):
                for kind in ["load"] * reads + ["store"] * writes:
                    self._add(Access(kind, array, nowhere, nowhere, op, op), loops, path.veiled())

    def _loop_of(self, loop: Op, instance: _Instance) -> Op:
        """A loop of a callee as if it stood in place of the call."""
        found = instance.loops.get(loop)
        if found is None:
            found = instance.loop(loop)
            self.nest.adopt_loop(found, instance.call)
            self._bounds(found)
        return found


class _Instance:
    """What a function does as one call of it does it: forms over the function's parameters and counters become forms over
    the caller's values, and its loops loops of the caller."""

    def __init__(self, call: Op, summary: Summary, forms: Forms) -> None:
        self.call = call
        self.summary = summary
        self.forms = forms
        self.loops: dict[Op, Op] = {}
        self._values: dict[Value, Form | None] = {}

    def loop(self, loop: Op) -> Op:
        bounds = [self.forms.standing_for(self.form(bound), self.call) for bound in self.summary.bounds[loop]]
        body = Block()
        for counter in counters(loop):
            self._values[counter] = Form.of(body.add_argument(counter.type, counter.name))
        made = self.loops[loop] = Op("for", tuple(bounds), (), {"rank": loop.attribute("rank")}, (body,))
        return made

    def form(self, form: Form | None) -> Form | None:
        """The caller's form for one of the function's, None where nothing is known of it."""
        if form is None:
            return None
        total = Form({})
        for monomial, count in form.terms.items():
            product = Form.number(count)
            for factor in monomial:
                if factor not in self._values:
                    self._values[factor] = self._value(factor)
                value = self._values[factor]
                if value is None:
                    return None
                product = product.times(value)
            total = total.plus(product)
        return total

    def _value(self, factor: Value) -> Form | None:
        positions = self.summary.positions
        if factor in positions:
            return self.forms.of(self.call.operands[positions[factor]])
        if _is_size(factor):
            op = factor.owner
            assert type(op) is Op
            return self.forms.size(self.call.operands[positions[op.operands[0]]], op.attribute("axis"))
        return None


def _is_outer_counter(leaf: Value, loop: Op, nest: Nest) -> bool:
    return leaf in nest.counter and not nest.defined_in(leaf, loop)


def _is_size(leaf: Value) -> bool:
    return type(leaf.owner) is Op and leaf.owner.kind == "dim"


def _returns(op: Op) -> bool:
    return any(jump.kind == "return" for region in op.regions for jump in loop_jumps(region))
