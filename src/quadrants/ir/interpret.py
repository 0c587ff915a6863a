"""The interpreter: runs a module of any stage on NumPy data, by the meanings that the op table's rows give.

It is the reference for every target. Each operation becomes one closure over the values it reads, chosen by kind; a
block is a row of closures. Parallel loops run in order, their reductions chunk by chunk as the law of chunks says.
An index out of range is an error here whatever the options: the interpreter touches no memory but the array's.
"""

# pyright: basic
# NumPy's own annotations leave the types of views, shapes and elements unknown.

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from quadrants.errors import QuadrantsAssertionError, QuadrantsBoundsError, QuadrantsRuntimeTypeError
from quadrants.ir import evaluate as ev
from quadrants.ir import streams
from quadrants.ir.external import call as call_external
from quadrants.ir.external import pointee
from quadrants.ir.formatting import format_message, format_print
from quadrants.ir.interpret_copies import lines_aligned
from quadrants.ir.interpret_lanes import interleaving, lane_access
from quadrants.ir.interpret_threads import (
    THREAD_STEPS,
    block_loop,
    counting,
    going,
    is_block_loop,
    note_access,
    threads_loop,
)
from quadrants.ir.nodes import Block, Function, Module, Op, Value
from quadrants.ir.ops import OPS, Row
from quadrants.ir.races import BlockRaces, RaceFinder, is_shared
from quadrants.ir.threads import has_meetings, is_threads_loop
from quadrants.ir.types import ArrayType, MatrixType, ScalarType, Type, scalar_of, shape_of
from quadrants.recursion import deep_recursion

__all__ = ["FOR", "Environment", "Host", "Step", "identity_of", "interpret", "prepare"]

Environment = dict[Value, Any]
Signal = tuple[int, tuple[Any, ...]]
Step = Callable[[Environment], "Signal | None"]

YIELD, CONTINUE, BREAK, RETURN = range(4)
_ENDS = {"yield": YIELD, "continue": CONTINUE, "break": BREAK, "return": RETURN}
_DIVISIONS = frozenset({"floordiv", "mod", "truncdiv", "truncmod"})
_UNDEFINED_BYTE = 0xA5


def interpret(
    module: Module, arguments: list[Any], *, debug: bool = False, output: Callable[[str], None] | None = None
) -> tuple[Any, ...]:
    """Runs the module's kernel once and gives its results as NumPy scalars and arrays.

    Arguments: numbers for scalars, sequences or arrays for matrices, NumPy arrays (updated in place) for arrays.
    `debug` also finds integer divisions by zero, casts that promised to be exact and are not, and races between the
    iterations of parallel loops. `output` takes what the kernel prints (else standard output does). Raises QuadrantsRuntimeTypeError for an argument that does not fit,
    QuadrantsBoundsError and QuadrantsAssertionError for what goes wrong on the way.
    """
    return prepare(module, debug=debug, output=output)(arguments)


class Host(Protocol):
    """Memory that is not the interpreter's, where it runs a kernel for the host of a device."""

    steps: Mapping[str, Callable[[Any, Op], Step]]
    """Kinds of operations that mean something else there."""

    def running(self, bound: list[Any]) -> AbstractContextManager[list[Any]]:
        """Around a run: the arguments with arrays in that memory; behind it they are back in the caller's."""
        ...


def prepare(
    module: Module, *, debug: bool = False, output: Callable[[str], None] | None = None, host: Host | None = None
) -> Callable[[list[Any]], tuple[Any, ...]]:
    """`interpret` in two steps: the function given runs the kernel on its arguments, as often as wanted."""
    program = _Program(module, debug, output or _to_standard_output, host.steps if host is not None else {})
    kernel = module.kernel
    whole = kernel.attributes.get("unlowered_parameters")
    whole_results = kernel.attributes.get("unlowered_results")
    types = whole if whole is not None else tuple([parameter.type for parameter in kernel.parameters])

    def run(arguments: list[Any]) -> tuple[Any, ...]:
        if len(arguments) != len(types):
            raise QuadrantsRuntimeTypeError(f"@{kernel.name} takes {len(types)} arguments, not {len(arguments)}")
        bound = [_bind(argument, type_, position) for position, (argument, type_) in enumerate(zip(arguments, types))]
        if whole is not None:
            bound = list(_flat(bound, types))
        with np.errstate(all="ignore"), deep_recursion():
            if host is None:
                results = program.call(kernel.name, bound)
            else:
                with host.running(bound) as placed:
                    results = program.call(kernel.name, placed)
        return results if whole_results is None else _joined(results, whole_results)

    return run


def _to_standard_output(text: str) -> None:
    sys.stdout.write(text)


def _bind(argument: Any, type_: Type, position: int) -> Any:
    """An argument as the value of its parameter's type."""
    try:
        if type(type_) is ArrayType:
            return _bind_array(argument, type_)
        held = ev.held_dtype(scalar_of(type_))
        if type(type_) is MatrixType:
            return ev.finish(type_.scalar, np.array(argument, held).reshape(type_.shape))
        return ev.finish(scalar_of(type_), held.type(argument))
    except (TypeError, ValueError, OverflowError) as error:
        raise QuadrantsRuntimeTypeError(f"argument {position} does not fit {type_}: {error}") from None


def _bind_array(argument: Any, type_: ArrayType) -> np.ndarray:
    if not isinstance(argument, np.ndarray):
        raise TypeError(f"a {type(argument).__name__} is no NumPy array")
    if argument.ndim != type_.rank or argument.shape[argument.ndim - len(type_.trailing) :] != type_.trailing:
        raise TypeError(f"its shape is {argument.shape}")
    if argument.dtype not in _dtypes_in_memory(type_.scalar):
        raise TypeError(f"its dtype is {argument.dtype}")
    if type_.layout == "C" and not argument.flags.c_contiguous:
        raise TypeError("it is not contiguous")
    if type_.layout == "S" and not _is_planar(argument, len(type_.trailing)):
        raise TypeError("its components are no dense planes")
    return argument


def _is_planar(array: np.ndarray, static: int) -> bool:
    first = array[(..., *[0] * static)]
    return bool(first.flags.c_contiguous) and array.strides[-1] >= first.nbytes


def _dtypes_in_memory(scalar: ScalarType) -> tuple[np.dtype, ...]:
    if scalar.name == "bf16":
        return (np.dtype(np.uint16), np.dtype(np.float32))
    held = ev.held_dtype(scalar)
    return (held, np.dtype(np.uint8)) if scalar.bits == 1 else (held,)


def _flat(arguments: list[Any], types: tuple[Type, ...]) -> Iterator[Any]:
    """Matrices element by element, as the parameters of a lowered kernel are."""
    for argument, type_ in zip(arguments, types):
        if type(type_) is MatrixType:
            yield from argument.reshape(-1)
        else:
            yield argument


def _joined(results: tuple[Any, ...], types: tuple[Type, ...]) -> tuple[Any, ...]:
    found: list[Any] = []
    at = 0
    for type_ in types:
        if type(type_) is MatrixType:
            elements = results[at : at + type_.count]
            found.append(np.array(elements, ev.held_dtype(type_.scalar)).reshape(type_.shape))
            at += type_.count
        else:
            found.append(results[at])
            at += 1
    return tuple(found)


class _Program:
    """The closures of a module, made function by function when first called."""

    def __init__(
        self,
        module: Module,
        debug: bool,
        output: Callable[[str], None],
        steps: Mapping[str, Callable[[Any, Op], Step]],
    ) -> None:
        self.module = module
        self.special = {**_SPECIAL, **steps} if steps else _SPECIAL
        self.debug = debug
        self.output = output
        names = module.kernel.attributes.get("parameter_names") or ()
        self.names: dict[Value, str] = dict(zip(module.kernel.parameters, names))
        self.races = RaceFinder(self.names) if debug else None
        self._codes: dict[str, tuple[list[Value], Step]] = {}
        self.in_block = False
        self.meets = any(has_meetings(function.body) for function in module.functions.values())

    def block_races(self) -> BlockRaces | None:
        """What watches the threads of a block, where races are looked for."""
        return BlockRaces(self.names) if self.races is not None else None

    def combiner(self, by: str, scalar: ScalarType) -> Callable[[Any, Any], Any]:
        return _combiner(by, scalar)

    def call(self, name: str, arguments: list[Any]) -> tuple[Any, ...]:
        code = self._codes.get(name)
        if code is None:
            function: Function = self.module.functions[name]
            code = self._codes[name] = (function.parameters, self.block(function.body))
        parameters, run = code
        signal = run(dict(zip(parameters, arguments)))
        return signal[1] if signal is not None else ()

    def block(self, block: Block) -> Step:
        """A closure that runs a block; its signal says how the block ended, with the values given."""
        steps = [self.op(op) for op in block.ops[:-1]]
        last = block.ops[-1]
        end, operands = _ENDS[last.kind], last.operands

        def run(env: Environment) -> Signal:
            for step in steps:
                signal = step(env)
                if signal is not None:
                    return signal
            return end, tuple([env[operand] for operand in operands])

        return run

    def op(self, op: Op) -> Step:
        special = self.special.get(op.kind)
        if special is not None:
            return special(self, op)
        return _evaluated(self, op, OPS[op.kind])


def _evaluated(program: _Program, op: Op, row: Row) -> Step:
    """An operation whose row says what it means."""
    assert row.evaluate is not None, op.kind
    result, operands, evaluate = op.results[0], op.operands, row.evaluate
    scalar = scalar_of(result.type)
    held = ev.held_dtype(scalar)
    rounded = scalar.name == "bf16"
    keywords = {name: op.attributes[name] for name in _keywords(evaluate)}
    check = _debug_check(op, scalar) if program.debug else None
    first, second = (*operands, result, result)[:2]  # the result stands in for operands that are not there

    def unary(env: Environment) -> None:
        value = evaluate(scalar, env[first])
        env[result] = value if value.dtype is held else ev.finish(scalar, value)

    def binary(env: Environment) -> None:
        value = evaluate(scalar, env[first], env[second])
        env[result] = value if value.dtype is held else ev.finish(scalar, value)

    def general(env: Environment) -> None:
        values = [env[operand] for operand in operands]
        value = evaluate(scalar, *values, **keywords)
        env[result] = ev.finish(scalar, value)
        if check is not None:
            check(env[result], *values)

    if rounded or keywords or check is not None or not 1 <= len(operands) <= 2:
        return general
    return unary if len(operands) == 1 else binary


_keyword_cache: dict[Any, tuple[str, ...]] = {}


def _keywords(evaluate: Callable[..., Any]) -> tuple[str, ...]:
    """The attributes that a row's meaning asks for."""
    found = _keyword_cache.get(evaluate)
    if found is None:
        parameters = inspect.signature(evaluate).parameters.values()
        found = tuple([parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY])
        _keyword_cache[evaluate] = found
    return found


def _debug_check(op: Op, scalar: ScalarType) -> Callable[..., None] | None:
    if op.kind in _DIVISIONS and not scalar.is_float:

        def not_zero(result: Any, a: Any, b: Any) -> None:
            if np.any(b == 0):
                raise _failed(QuadrantsAssertionError, "integer division by zero", op)

        return not_zero
    if op.kind == "cast" and op.attribute("exact"):

        def exact(result: Any, a: Any) -> None:
            if not np.array_equal(result, a):
                raise _failed(QuadrantsAssertionError, f"a cast to {scalar} of {a} is not exact", op)

        return exact
    return None


def _failed(kind: type[QuadrantsAssertionError], text: str, op: Op) -> QuadrantsAssertionError:
    error = kind(text)
    error.location = op.location
    return error


def _constant(program: _Program, op: Op) -> Step:
    result = op.results[0]
    scalar = scalar_of(result.type)
    value = ev.finish(scalar, ev.constant(scalar, type=result.type, value=op.attribute("value")))

    def run(env: Environment) -> None:
        env[result] = value

    return run


def _locator(op: Op, values: int) -> Callable[[Environment], tuple[np.ndarray, tuple[int, ...]]]:
    """The array and the checked indices of an access whose array is operand `values`."""
    array_value, indices = op.operands[values], op.operands[values + 1 :]
    wrap = bool(op.attribute("wrap"))

    def locate(env: Environment) -> tuple[np.ndarray, tuple[int, ...]]:
        array = env[array_value]
        found: list[int] = []
        for axis, value in enumerate(indices):
            at = int(env[value])
            size = array.shape[axis]
            if wrap and at < 0:
                at += size
            if not 0 <= at < size:
                name = array_value.name or "array"
                place = ", ".join([str(int(env[value])) for value in indices])
                text = f"{name}[{place}] is out of range: the shape of {name} is {array.shape}"
                raise _failed(QuadrantsBoundsError, text, op)
            found.append(at)
        return array, tuple(found)

    return locate


def _reader(type_: Type) -> Callable[[np.ndarray, tuple[int, ...]], Any]:
    """Reads an element: a copy in the dtype that holds its type."""
    scalar, is_matrix = scalar_of(type_), type(type_) is MatrixType
    held = ev.held_dtype(scalar)
    is_bf16 = scalar.name == "bf16"

    def read(array: np.ndarray, indices: tuple[int, ...]) -> Any:
        value = array[indices]
        if is_bf16 and value.dtype == np.uint16:
            return (np.asarray(value).astype(np.uint32) << np.uint32(16)).view(np.float32)[()]
        return np.array(value, held) if is_matrix else value if value.dtype is held else value.astype(held)

    return read


def _write(array: np.ndarray, indices: tuple[int, ...], value: Any) -> None:
    if array.dtype == np.uint16 and value.dtype == np.float32:
        array[indices] = (np.asarray(value).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    else:
        array[indices] = value


def _watched(program: _Program, op: Op, position: int) -> Callable[[Environment], tuple[np.ndarray, tuple[int, ...]]]:
    """`_locator`, with each access noted where races are looked for."""
    locate, races, array_value = _locator(op, position), program.races, op.operands[position]
    type_ = array_value.type
    if races is None or (type(type_) is ArrayType and type_.is_slot):
        return locate
    stored = op.operands[0] if op.kind == "store" else None
    in_block = is_shared(array_value)

    def noted(env: Environment) -> tuple[np.ndarray, tuple[int, ...]]:
        found = locate(env)
        value = env[stored] if stored is not None else None
        if not in_block:
            races.note(op, array_value, *found, value)
        note_access(op, array_value, found, value)
        return found

    return noted


def _load(program: _Program, op: Op) -> Step:
    locate, result = _watched(program, op, 0), op.results[0]
    read = _reader(result.type)

    def run(env: Environment) -> None:
        env[result] = read(*locate(env))

    return run


def _store(program: _Program, op: Op) -> Step:
    locate, value = _watched(program, op, 1), op.operands[0]

    def run(env: Environment) -> None:
        _write(*locate(env), env[value])

    return run


def _combiner(by: str, scalar: ScalarType) -> Callable[[Any, Any], Any]:
    if by == "exchange":
        return lambda old, value: value
    evaluate = OPS[by].evaluate
    assert evaluate is not None, by
    return lambda old, value: ev.finish(scalar, evaluate(scalar, old, value))


def _update(program: _Program, op: Op) -> Step:
    locate, value, result = _watched(program, op, 1), op.operands[0], op.results[0]
    read, combine = _reader(result.type), _combiner(op.attribute("by"), scalar_of(result.type))

    def run(env: Environment) -> None:
        array, indices = locate(env)
        old = env[result] = read(array, indices)
        _write(array, indices, combine(old, env[value]))

    return run


def _update_loaded(program: _Program, op: Op) -> Step:
    locate, (value, before) = _watched(program, op, 2), op.operands[:2]
    combine = _combiner(op.attribute("by"), scalar_of(value.type))

    def run(env: Environment) -> None:
        _write(*locate(env), combine(env[before], env[value]))

    return run


def _compare_exchange(program: _Program, op: Op) -> Step:
    locate, (expected, value), result = _watched(program, op, 2), op.operands[:2], op.results[0]
    read = _reader(result.type)

    def run(env: Environment) -> None:
        array, indices = locate(env)
        old = env[result] = read(array, indices)
        if old == env[expected]:
            _write(array, indices, env[value])

    return run


def _dim(program: _Program, op: Op) -> Step:
    array, axis, result = op.operands[0], op.attribute("axis"), op.results[0]

    def run(env: Environment) -> None:
        env[result] = np.int64(env[array].shape[axis])

    return run


def _step(program: _Program, op: Op) -> Step:
    array, axis, result = op.operands[0], op.attribute("axis"), op.results[0]

    def run(env: Environment) -> None:
        env[result] = np.int64(env[array].strides[axis] // env[array].itemsize)

    return run


def _nothing(program: _Program, op: Op) -> Step:
    return lambda env: None


def _random(program: _Program, op: Op) -> Step:
    result = op.results[0]

    def run(env: Environment) -> None:
        env[result] = np.uint64(streams.next_bits())

    return run


def _slot(program: _Program, op: Op) -> Step:
    element, result = op.attribute("type"), op.results[0]
    shape, held = shape_of(element), ev.held_dtype(scalar_of(element))
    count = int(np.prod(shape, dtype=np.int64)) * held.itemsize
    byte = 1 if held.kind == "b" else 0xFF if held.kind == "f" else _UNDEFINED_BYTE

    def run(env: Environment) -> None:
        env[result] = np.full(count, byte, np.uint8).view(held).reshape(shape)

    return run


def _temporary(program: _Program, op: Op) -> Step:
    condition, *sizes = op.operands
    array, there = op.results
    held = ev.held_dtype(scalar_of(array.type))
    byte = 1 if held.kind == "b" else 0xFF if held.kind == "f" else _UNDEFINED_BYTE

    def run(env: Environment) -> None:
        shape = [max(int(env[size]), 0) if env[condition] else 0 for size in sizes]
        count = int(np.prod(shape, dtype=np.int64)) * held.itemsize
        env[array] = np.full(count, byte, np.uint8).view(held).reshape(shape)
        env[there] = np.bool_(env[condition])

    return run


def _for(program: _Program, op: Op) -> Step:
    if op.attribute("parallel") and op.results:
        return _reducing_for(program, op)
    if is_threads_loop(op):
        return threads_loop(program, op)
    if is_block_loop(program, op):
        return block_loop(program, op)
    rank = op.attribute("rank")
    lows, highs, inits = op.operands[:rank], op.operands[rank : 2 * rank], op.operands[2 * rank :]
    arguments, results = op.regions[0].arguments, op.results
    run_body = program.block(op.regions[0])
    if program.meets:
        run_body = counting(run_body)
    races = program.races if op.attribute("parallel") else None

    def run(env: Environment) -> Signal | None:
        ranges = [range(int(env[low]), int(env[high])) for low, high in zip(lows, highs)]
        values = tuple([env[init] for init in inits])
        iterations = itertools.product(*ranges)
        for counters in iterations if races is None else races.watch(op, iterations):
            env.update(zip(arguments, (*map(np.int64, counters), *values)))
            signal = run_body(env)
            assert signal is not None
            if signal[0] == RETURN:
                return signal
            values = signal[1]
            if signal[0] == BREAK:
                break
        env.update(zip(results, values))
        return None

    return going(op, run) if program.meets else run


FOR = _for
"""What a `for` means here: for hosts that run loops in order."""


def identity_of(combiner: str, type_: Type) -> Any:
    """The value that a chunk's partial starts with, held as `type_` is."""
    scalar = scalar_of(type_)
    if combiner in ("min", "max"):
        if scalar.is_float:
            number: Any = np.nan  # the minimum and the maximum of NaN and a number are the number
        else:
            number = scalar.maximum if combiner == "min" else scalar.minimum
    else:
        number = OPS[combiner].identity
        if number == -1 and scalar.kind == "u":
            number = scalar.maximum
    held = ev.held_dtype(scalar)
    return np.full(shape_of(type_), number, held)[()] if shape_of(type_) else held.type(number)


def _reducing_for(program: _Program, op: Op) -> Step:
    """A parallel loop with reductions: a partial a chunk of the outer iterations, combined in the chunks' order."""
    rank, chunk, combiners = op.attribute("rank"), op.attribute("chunk"), op.attribute("reductions")
    lows, highs, inits = op.operands[:rank], op.operands[rank : 2 * rank], op.operands[2 * rank :]
    arguments, results = op.regions[0].arguments, op.results
    identities = tuple([identity_of(name, result.type) for name, result in zip(combiners, results)])
    combine = [_combiner(name, scalar_of(result.type)) for name, result in zip(combiners, results)]
    run_body = program.block(op.regions[0])
    outer_rank = max(rank - 1, 1)
    races = program.races

    def run(env: Environment) -> Signal | None:
        ranges = [range(int(env[low]), int(env[high])) for low, high in zip(lows, highs)]
        totals = tuple([env[init] for init in inits])
        outer = itertools.product(*ranges[:outer_rank])
        first = True
        while part := list(itertools.islice(outer, chunk)):
            partials = identities
            rows = [itertools.product(*[(counter,) for counter in place], *ranges[outer_rank:]) for place in part]
            iterations = itertools.chain.from_iterable(rows)
            for counters in iterations if races is None else races.watch(op, iterations, first):
                env.update(zip(arguments, (*map(np.int64, counters), *partials)))
                signal = run_body(env)
                assert signal is not None and signal[0] <= CONTINUE
                partials = signal[1]
            totals = tuple([join(total, partial) for join, total, partial in zip(combine, totals, partials)])
            first = False
        env.update(zip(results, totals))
        return None

    return run


def _while(program: _Program, op: Op) -> Step:
    condition, body = op.regions
    inits, results = op.operands, op.results
    run_condition, run_body = program.block(condition), program.block(body)
    if program.meets:
        run_condition = counting(run_condition)

    def run(env: Environment) -> Signal | None:
        values = tuple([env[init] for init in inits])
        while True:
            env.update(zip(condition.arguments, values))
            signal = run_condition(env)
            assert signal is not None
            if signal[0] == RETURN:
                return signal
            if not signal[1][0]:
                break
            env.update(zip(body.arguments, values))
            signal = run_body(env)
            assert signal is not None
            if signal[0] == RETURN:
                return signal
            values = signal[1]
            if signal[0] == BREAK:
                break
        env.update(zip(results, values))
        return None

    return going(op, run) if program.meets else run


def _if(program: _Program, op: Op) -> Step:
    condition, results = op.operands[0], op.results
    run_yes, run_no = map(program.block, op.regions)

    def run(env: Environment) -> Signal | None:
        signal = run_yes(env) if env[condition] else run_no(env)
        assert signal is not None
        if signal[0] != YIELD:
            return signal
        env.update(zip(results, signal[1]))
        return None

    return run


def _call(program: _Program, op: Op) -> Step:
    callee, operands, results = op.attribute("callee"), op.operands, op.results

    def run(env: Environment) -> None:
        env.update(zip(results, program.call(callee, [env[operand] for operand in operands])))

    return going(op, run) if program.meets else run


def _print(program: _Program, op: Op) -> Step:
    pieces, specs = op.attribute("format"), op.attribute("specs")

    def run(env: Environment) -> None:
        program.output(format_print(pieces, specs, [env[operand] for operand in op.operands]))

    return run


def _external(program: _Program, op: Op) -> Step:
    library, symbol, parameters = (op.attribute(name) for name in ("library", "symbol", "parameters"))
    operands = list(op.operands)
    groups: list[list[Value]] = []
    for parameter in parameters:
        first = operands.pop(0)
        count = first.type.rank if pointee(parameter) is not None and type(first.type) is ArrayType else 0
        groups.append([first, *operands[:count]])
        del operands[:count]
    result = op.attribute("type")

    def run(env: Environment) -> None:
        arguments = [env[group[0]] if len(group) == 1 else _address(*[env[part] for part in group]) for group in groups]
        found = call_external(library, symbol, parameters, result.name if result else "", arguments)
        if result is not None:
            env[op.results[0]] = found

    return run


def _address(array: np.ndarray, *indices: Any) -> int:
    return array.ctypes.data + sum(int(index) * stride for index, stride in zip(indices, array.strides))


def _check(program: _Program, op: Op) -> Step:
    condition, values, message = op.operands[0], op.operands[1:], op.attribute("message")
    error = QuadrantsBoundsError if op.attribute("error") == "index" else QuadrantsAssertionError

    def run(env: Environment) -> None:
        if not env[condition]:
            raise _failed(error, format_message(message, [env[value] for value in values]), op)

    return run


def _by_lanes(scalar_step: Callable[[_Program, Op], Step]) -> Callable[[_Program, Op], Step]:
    return lambda program, op: lane_access(program, op, scalar_step)


_SPECIAL: dict[str, Callable[[_Program, Op], Step]] = {
    "constant": _constant,
    "load": _load,
    "store": _store,
    "update": _update,
    "update_loaded": _update_loaded,
    "compare_exchange": _compare_exchange,
    "lane_load": _by_lanes(_load),
    "lane_store": _by_lanes(_store),
    "lane_update": _by_lanes(_update),
    "interleave": interleaving,
    "deinterleave": interleaving,
    "dim": _dim,
    "step": _step,
    "lines_aligned": lines_aligned,
    "slot": _slot,
    "temporary": _temporary,
    "release": _nothing,
    "tally": _nothing,
    "random": _random,
    "for": _for,
    "while": _while,
    "if": _if,
    "call": _call,
    "print": _print,
    "check": _check,
    "external": _external,
    **THREAD_STEPS,
}
