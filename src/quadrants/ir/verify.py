"""The verifier: what must hold of a module at each stage, checked in one walk.

Everywhere: values are defined once and used where they are visible; results have the types of the op table's rules;
blocks end in one terminator, with the values that their owner takes; calls fit their callee.
Stage `kernel`: no loop is parallel. Stages `tasks` and `lowered`: a parallel loop stands in the kernel, in no other
parallel loop, is not left by `break` or `return`, and carries reductions only. Threads of blocks: the laws of `ir/threads.py`.
Stage `lowered`: no matrices, no `wrap`, every access to memory is to one number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import STAGES, Block, Function, Location, Module, Op, Value
from quadrants.ir.ops import OPS, TERMINATORS
from quadrants.ir.threads import TEAM_OPS, is_threads_loop
from quadrants.ir.types import ArrayType, MatrixType, ScalarType, Type, i64, scalar_of, shape_of, u1
from quadrants.ir.verify_threads import check_loop, check_team_op

__all__ = ["COMBINERS", "UPDATES", "VerificationError", "verify"]

COMBINERS = frozenset({"add", "mul", "min", "max", "bit_and", "bit_or", "bit_xor"})
UPDATES = COMBINERS | {"sub", "exchange"}
_BITWISE = frozenset({"bit_and", "bit_or", "bit_xor"})
_REGIONS = {"for": 1, "while": 2, "if": 2}


class VerificationError(QuadrantsInternalError):
    """A module breaks a law of its stage: `function` is the function's name, `op` the operation (None for a law of the
    function itself), `location` its place in the user's source."""

    def __init__(
        self, message: str, function: str = "", op: Op | None = None, location: Location | None = None
    ) -> None:
        where = f"{location.file}:{location.line}:{location.column + 1}: " if location is not None else ""
        inside = f"function @{function}: " if function else ""
        shown = f"\n    {_text(op)}" if op is not None else ""
        super().__init__(f"{where}{inside}{message}{shown}")
        self.function = function
        self.op = op
        self.location = location


def _text(op: Op) -> str:
    from quadrants.ir.text import print_op

    return print_op(op)


def verify(module: Module) -> None:
    """Checks a whole module; VerificationError says what does not hold, and where."""
    if module.stage not in STAGES:
        raise VerificationError(f"unknown stage {module.stage!r}")
    if module.entry:
        entry = module.functions.get(module.entry)
        if entry is None or not entry.is_kernel:
            raise VerificationError(f"the entry @{module.entry} is no kernel of the module")
    for name, function in module.functions.items():
        if name != function.name:
            raise VerificationError(f"function @{function.name} is listed as @{name}", name)
        _Verifier(module, function).function()


class _Loop:
    """A loop around the code at hand; `types` None: the code is a loop's condition, which nothing leaves. `is_parallel`: its
    iterations run in any order, or at once; `op`: the loop."""

    __slots__ = ("is_parallel", "op", "types")

    def __init__(self, op: Op, types: tuple[Type, ...] | None, is_parallel: bool) -> None:
        self.op = op
        self.types = types
        self.is_parallel = is_parallel


class _Verifier:
    """The walk through one function. `visible` holds the values that may be used; `loops` the loops around."""

    def __init__(self, module: Module, function: Function) -> None:
        self.module = module
        self.within = function
        self.lowered = module.stage == "lowered"
        self.visible: set[Value] = set()
        self.seen: set[int] = set()
        self.loops: list[_Loop] = []

    def fail(self, message: str, op: Op | None = None) -> NoReturn:
        location = op.location if op is not None else self.within.location
        raise VerificationError(message, self.within.name, op, location)

    def function(self) -> None:
        function = self.within
        if function.attributes.get("kind") not in ("kernel", "function"):
            self.fail(f"the kind is {function.attributes.get('kind')!r}, not 'kernel' or 'function'")
        names = function.attributes.get("parameter_names")
        if names is not None and len(names) != len(function.parameters):
            self.fail(f"{len(names)} parameter names for {len(function.parameters)} parameters")
        for parameter in function.parameters:
            if function.is_kernel and type(parameter.type) is ArrayType and not parameter.type.has_descriptor:
                self.fail(f"the kernel's parameter {parameter} is memory of threads")
        for type_ in function.result_types:
            if type(type_) is ArrayType:
                self.fail(f"a result is an array: {type_}")
            if self.lowered and type(type_) is MatrixType:
                self.fail(f"a result is a matrix, {type_}, in stage lowered")
        self.block(function.body, None, ("return",), ())

    def block(self, block: Block, owner: Op | None, ends: tuple[str, ...], yielded: tuple[Type, ...]) -> None:
        """One region: `ends` are the terminators it may have, `yielded` the types that `yield` must give."""
        if id(block) in self.seen:
            self.fail("a block has two owners", owner)
        self.seen.add(id(block))
        defined: list[Value] = []
        for argument in block.arguments:
            self.define(argument, block, owner, defined)
        ops = block.ops
        if not ops or ops[-1].kind not in TERMINATORS:
            self.fail("a region does not end in a terminator", owner if not ops else ops[-1])
        last = len(ops) - 1
        for position, op in enumerate(ops):
            self.op(op, position == last)
            for result in op.results:
                self.define(result, op, op, defined)
        self.terminator(ops[-1], ends, yielded)
        self.visible.difference_update(defined)

    def define(self, value: Value, owner: Op | Block, op: Op | None, defined: list[Value]) -> None:
        if value in self.visible or id(value) in self.seen:
            self.fail(f"{value} is defined twice", op)
        if value.owner is not owner:
            self.fail(f"{value} names another owner than what defines it", op)
        if self.lowered and type(value.type) is MatrixType:
            self.fail(f"{value} is a matrix in stage lowered", op)
        self.seen.add(id(value))
        self.visible.add(value)
        defined.append(value)

    def op(self, op: Op, is_last: bool) -> None:
        if id(op) in self.seen:
            self.fail("an operation stands in two places", op)
        self.seen.add(id(op))
        row = OPS.get(op.kind)
        if row is None:
            self.fail(f"unknown operation {op.kind!r}", op)
        if op.kind in TERMINATORS and not is_last:
            self.fail(f"{op.kind} stands before the end of its region", op)
        visible = self.visible
        for operand in op.operands:
            if operand not in visible:
                self.fail(f"operand {operand} is not visible here", op)
        if row.arity >= 0 and len(op.operands) != row.arity:
            self.fail(f"{op.kind} takes {row.arity} operands, not {len(op.operands)}", op)
        if len(op.regions) != _REGIONS.get(op.kind, 0):
            self.fail(f"{op.kind} has {_REGIONS.get(op.kind, 0)} regions, not {len(op.regions)}", op)
        if row.evaluate is not None:
            self.no_arrays(op, tuple([operand.type for operand in op.operands]), "an operand")
        self.result_types(op, row.rule)
        check = _CHECKS.get(op.kind)
        if check is not None:
            check(self, op)

    def result_types(self, op: Op, rule: Callable[..., tuple[Type, ...]]) -> None:
        try:
            expected = tuple(rule(tuple([operand.type for operand in op.operands]), op.attributes or {}))
        except TypeError as error:
            self.fail(f"{op.kind}: {error}", op)
        except KeyError as error:
            self.fail(f"{op.kind} lacks the attribute {error}", op)
        except (ValueError, IndexError, AttributeError) as error:
            self.fail(f"{op.kind} is malformed: {error}", op)
        found = tuple([result.type for result in op.results])
        if found != expected:
            self.fail(f"the results are ({_list(found)}), by the rule of {op.kind} ({_list(expected)})", op)

    def terminator(self, op: Op, ends: tuple[str, ...], yielded: tuple[Type, ...]) -> None:
        if op.kind not in ends:
            self.fail(f"{op.kind} cannot end this region; {' or '.join(ends)} can", op)
        if op.kind == "yield":
            expected = yielded
        elif op.kind == "return":
            expected = self.within.result_types
            if any(loop.is_parallel for loop in self.loops):
                self.fail("return leaves a parallel loop", op)
        else:
            expected = self.leaves(op)
        found = tuple([operand.type for operand in op.operands])
        if found != tuple(expected):
            self.fail(f"{op.kind} gives ({_list(found)}), not ({_list(expected)})", op)

    def leaves(self, op: Op) -> tuple[Type, ...]:
        """The types that a `break` or `continue` must give."""
        if not self.loops:
            self.fail(f"{op.kind} outside of a loop", op)
        loop = self.loops[-1]
        if loop.types is None:
            self.fail(f"{op.kind} within the condition of a while", op)
        if op.kind == "break" and loop.is_parallel:
            self.fail("break leaves a parallel loop", op)
        return loop.types

    def arguments(self, op: Op, region: Block, expected: tuple[Type, ...]) -> None:
        found = tuple([argument.type for argument in region.arguments])
        if found != expected:
            self.fail(f"a region takes ({_list(found)}), not ({_list(expected)})", op)

    def no_arrays(self, op: Op, types: tuple[Type, ...], what: str) -> None:
        for type_ in types:
            if type(type_) is ArrayType:
                self.fail(f"{what} is an array: {type_}", op)

    def enclosed(self, block: Block, op: Op, types: tuple[Type, ...], is_parallel: bool = False) -> None:
        """The body of a loop that carries values of these types."""
        self.loops.append(_Loop(op, types, is_parallel))
        self.block(block, op, ("yield", "break", "continue", "return"), types)
        self.loops.pop()


def _list(types: tuple[Type, ...]) -> str:
    return ", ".join(map(str, types))


def _for(verifier: _Verifier, op: Op) -> None:
    rank = op.attribute("rank")
    if type(rank) is not int or rank < 1:
        verifier.fail(f"for of rank {rank!r}", op)
    carried = tuple([operand.type for operand in op.operands[2 * rank :]])
    verifier.no_arrays(op, carried, "a carried value")
    verifier.arguments(op, op.regions[0], (i64,) * rank + carried)
    is_parallel = bool(op.attribute("parallel"))
    if is_parallel:
        _parallel(verifier, op, carried)
    check_loop(verifier, op)
    verifier.enclosed(op.regions[0], op, carried, is_parallel or is_threads_loop(op))


def _parallel(verifier: _Verifier, op: Op, carried: tuple[Type, ...]) -> None:
    if verifier.module.stage == "kernel":
        verifier.fail("a parallel loop in stage kernel", op)
    if not verifier.within.is_kernel:
        verifier.fail("a parallel loop in a function; only kernels have them", op)
    if any(loop.is_parallel for loop in verifier.loops):
        verifier.fail("a parallel loop within a parallel loop", op)
    reductions = op.attribute("reductions", ())
    if len(reductions) != len(carried) or not COMBINERS.issuperset(reductions):
        verifier.fail(f"{len(carried)} carried values with the reductions {reductions!r}", op)
    for combiner, type_ in zip(reductions, carried):
        _combines(verifier, op, combiner, type_)
    chunk = op.attribute("chunk", 0)
    if type(chunk) is not int or chunk < 0 or (reductions and chunk == 0):
        verifier.fail(f"the chunk is {chunk!r}; reductions need a fixed one", op)
    cost = op.attribute("cost", 1)
    if type(cost) is not int or cost < 1:
        verifier.fail(f"the cost is {cost!r}, not a whole number of at least 1", op)


def _combines(verifier: _Verifier, op: Op, combiner: str, type_: Type) -> None:
    if type(type_) is ArrayType:
        verifier.fail(f"{combiner} of {type_}", op)
    scalar = scalar_of(type_)
    if (combiner in _BITWISE and scalar.is_float) or (combiner not in _BITWISE and scalar is u1):
        if combiner != "exchange":
            verifier.fail(f"{combiner} does not combine {type_}", op)


def _while(verifier: _Verifier, op: Op) -> None:
    carried = tuple([operand.type for operand in op.operands])
    verifier.no_arrays(op, carried, "a carried value")
    for region in op.regions:
        verifier.arguments(op, region, carried)
    verifier.loops.append(_Loop(op, None, False))
    verifier.block(op.regions[0], op, ("yield",), (u1,))
    verifier.loops.pop()
    verifier.enclosed(op.regions[1], op, carried)


def _if(verifier: _Verifier, op: Op) -> None:
    types = tuple([result.type for result in op.results])
    verifier.no_arrays(op, types, "a result")
    for region in op.regions:
        verifier.arguments(op, region, ())
        verifier.block(region, op, ("yield", "break", "continue", "return"), types)


def _fits(argument: Type, parameter: Type) -> bool:
    """Whether an argument can be passed: of the parameter's type, a dense array where any strides are taken, or a slot in
    place of memory that a block shares."""
    if argument is parameter:
        return True
    if type(argument) is not ArrayType or type(parameter) is not ArrayType:
        return False
    same = argument.scalar is parameter.scalar and argument.rank == parameter.rank
    if not same or argument.trailing != parameter.trailing:
        return False
    return parameter.layout == "B" if argument.is_slot else parameter.layout == "A" and argument.has_descriptor


def _call(verifier: _Verifier, op: Op) -> None:
    callee = verifier.module.functions.get(op.attribute("callee", ""))
    if callee is None:
        verifier.fail(f"call of @{op.attribute('callee')}, which the module does not have", op)
    if callee.is_kernel:
        verifier.fail(f"call of the kernel @{callee.name}", op)
    arguments = [operand.type for operand in op.operands]
    parameters = [parameter.type for parameter in callee.parameters]
    if len(arguments) != len(parameters) or not all(map(_fits, arguments, parameters)):
        taken = _list(tuple(parameters))
        verifier.fail(f"call of @{callee.name} with ({_list(tuple(arguments))}); it takes ({taken})", op)
    results = tuple([result.type for result in op.results])
    if results != tuple(callee.result_types):
        verifier.fail(f"@{callee.name} gives ({_list(callee.result_types)}), not ({_list(results)})", op)


def _constant(verifier: _Verifier, op: Op) -> None:
    type_, value = op.results[0].type, op.attribute("value")
    if type(type_) is ArrayType:
        verifier.fail(f"a constant of {type_}", op)
    if not _holds(value, shape_of(type_), scalar_of(type_)):
        verifier.fail(f"{value!r} is no constant of {type_}", op)


def _holds(value: Any, shape: tuple[int, ...], scalar: ScalarType) -> bool:
    if shape:
        is_row = isinstance(value, tuple) and len(cast("tuple[Any, ...]", value)) == shape[0]
        return is_row and all(_holds(part, shape[1:], scalar) for part in cast("tuple[Any, ...]", value))
    if scalar is u1:
        return value in (0, 1)
    if scalar.is_float:
        return isinstance(value, (int, float))
    return isinstance(value, int) and scalar.minimum <= value <= scalar.maximum


def _slot(verifier: _Verifier, op: Op) -> None:
    element = op.attribute("type")
    if type(element) is ArrayType:
        verifier.fail(f"a slot for {element}", op)


def _temporary(verifier: _Verifier, op: Op) -> None:
    if not verifier.within.is_kernel or any(loop.is_parallel for loop in verifier.loops):
        verifier.fail(f"{op.kind} outside of the serial part of a kernel", op)


def _access(values: int) -> Callable[[_Verifier, Op], None]:
    def check(verifier: _Verifier, op: Op) -> None:
        if op.kind in ("update", "update_loaded"):
            by = op.attribute("by")
            if by not in UPDATES:
                verifier.fail(f"update by {by!r}", op)
            _combines(verifier, op, by, op.operands[0].type)
        if not verifier.lowered:
            return
        if op.kind == "update_loaded":
            verifier.fail("`update_loaded` in stage lowered", op)
        if op.attribute("wrap"):
            verifier.fail("`wrap` in stage lowered", op)
        array = op.operands[values].type
        if type(array) is ArrayType and len(op.operands) - values - 1 != array.rank:
            verifier.fail(f"a partial index into {array} in stage lowered", op)

    return check


def _of_threads(verifier: _Verifier, op: Op) -> None:
    if op.kind == "shared":
        _slot(verifier, op)
    check_team_op(verifier, op)


def _print(verifier: _Verifier, op: Op) -> None:
    verifier.no_arrays(op, tuple([operand.type for operand in op.operands]), "what is printed")
    pieces, specs = op.attribute("format"), op.attribute("specs")
    if not isinstance(pieces, tuple) or len(cast("tuple[str, ...]", pieces)) != len(op.operands) + 1:
        verifier.fail(f"{len(op.operands)} operands want {len(op.operands) + 1} pieces of text around them", op)
    if specs is not None and len(specs) != len(op.operands):
        verifier.fail(f"{len(specs)} format specs for {len(op.operands)} operands", op)


def _check(verifier: _Verifier, op: Op) -> None:
    verifier.no_arrays(op, tuple([operand.type for operand in op.operands]), "a value of the message")
    for name in ("message", "error"):
        if not isinstance(op.attribute(name), str):
            verifier.fail(f"check lacks the attribute {name!r}", op)


_CHECKS: dict[str, Callable[[_Verifier, Op], None]] = {
    "for": _for,
    "while": _while,
    "if": _if,
    "call": _call,
    "constant": _constant,
    "slot": _slot,
    "temporary": _temporary,
    "release": _temporary,
    "load": _access(0),
    "store": _access(1),
    "update": _access(1),
    "update_loaded": _access(2),
    "compare_exchange": _access(2),
    "print": _print,
    "check": _check,
    **dict.fromkeys(TEAM_OPS, _of_threads),
}
