"""Small programs as data: a plain function, its arguments and what must come out; and the executors that run them.

A program is written once and run by the oracle and on every target:

    @program(section="Numbers", args=(-7, 2), result=("i32", -4))
    def floor_division(a: qd.i32, b: qd.i32):
        return a // b
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from quadrants.evidence import numerics, oracle
from quadrants.evidence.arrays import FieldView
from quadrants.ir import types
from quadrants.knobs import arch_by_name

__all__ = [
    "EXECUTORS",
    "Executor",
    "FieldOf",
    "Outcome",
    "Program",
    "TargetExecutor",
    "disagreement",
    "mismatch",
    "program",
]


@dataclass(frozen=True)
class FieldOf:
    """An argument that is a field (or ndarray) of ours: filled with `values`, whose last axes are the elements'.

    `elements` is how many axes an element has: 0 numbers, 1 vectors, 2 matrices. `kind` is 'field' or 'ndarray'; a
    `planar` field is a structure of arrays.
    """

    dtype: str
    values: Any
    elements: int = 0
    kind: str = "field"
    planar: bool = False

    def array(self) -> np.ndarray:
        """A new array of the initial values."""
        return np.array(self.values, numerics.held(getattr(types, self.dtype)))


@dataclass(frozen=True)
class Program:
    """A function with its arguments (or a callable that makes them, for views of arrays) and the expected outcome.

    `result` is a (dtype name, value) pair, a tuple of such pairs, or None. `after` gives arguments by position as they
    are afterwards. `defaults` are the dtypes of what stays weak. Without a `tolerance` values are equal to the bit (any NaN
    equals any other). `joins`: the result's dtype depends on paths that this run does not take, which the oracle cannot
    see.
    """

    name: str
    function: Callable[..., Any]
    arguments: Any
    result: Any
    after: dict[int, Any]
    section: str
    defaults: tuple[str, str] = ("i64", "f64")
    tolerance: float = 0.0
    joins: bool = False

    def make_arguments(self) -> tuple[Any, ...]:
        """New arguments for one run: arrays are copied, so that runs do not see one another."""
        if not isinstance(self.arguments, tuple):
            return tuple(self.arguments())
        return tuple(value.copy() if isinstance(value, np.ndarray) else value for value in self.arguments)


@dataclass
class Outcome:
    """What a run gave: the dtype names of the result's parts (None where unknown), its value in Python numbers, and the
    arguments afterwards (arrays and fields as NumPy arrays)."""

    dtypes: list[str] | None
    value: Any
    arguments: list[Any] = field(default_factory=list)


def program(
    registry: list[Program],
    *,
    section: str = "",
    args: Any = (),
    result: Any = None,
    after: dict[int, Any] | None = None,
    defaults: tuple[str, str] = ("i64", "f64"),
    tolerance: float = 0.0,
    joins: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds the function to `registry` as a Program and gives it back unchanged."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        item = Program(name, function, args, result, after or {}, section, defaults, tolerance, joins)
        registry.append(item)
        return function

    return register


class Executor(ABC):
    """Runs programs in one way. `available` is False where this build cannot run them."""

    name: str

    def fitting(self, item: Program) -> Program:
        """The program with defaults that the executor has: what is told of its outcome may hold for others only."""
        return item

    @abstractmethod
    def run(self, item: Program) -> Outcome:
        """Runs the program once, on new arguments."""

    @abstractmethod
    def launcher(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A callable that launches one kernel of `function` again and again, giving Python numbers."""


class OracleExecutor(Executor):
    name = "oracle"

    def run(self, item: Program) -> Outcome:
        """The undecorated function over the oracle's values."""
        arguments = [_for_oracle(value) for value in item.make_arguments()]
        integer, floating = (getattr(types, name) for name in item.defaults)
        result = oracle.run(item.function, *arguments, default_int=integer, default_float=floating)
        parts = result if isinstance(result, tuple) else () if result is None else (result,)
        return Outcome(
            None if item.joins else [oracle.dtype_of(part).name for part in parts],
            oracle.to_python(result),
            [value.array if isinstance(value, FieldView) else value for value in arguments],
        )

    def launcher(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Each launch is a run of the function."""
        return lambda *arguments: oracle.to_python(oracle.run(function, *arguments))


def _for_oracle(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, FieldOf):
        return _of_members(value, _for_oracle)
    if not isinstance(value, FieldOf):
        return value
    array = value.array()
    element_shape = array.shape[array.ndim - value.elements :]
    wraps = value.kind == "ndarray"
    return FieldView(array, getattr(types, value.dtype), element_shape, wraparound=wraps)


class TargetExecutor(Executor):
    """A kernel of the function on one target, with the options of `qd.init` given."""

    def __init__(self, name: str, arch: str, **options: Any) -> None:
        self.name = name
        self.arch = arch
        self.options = options

    def fitting(self, item: Program) -> Program:
        """Where the target has no f64, floats without a type of their own are f32."""
        from quadrants.targets import table

        has_f64 = table.find(arch_by_name(self.arch)).record().has_dtype(types.f64)
        return item if has_f64 or item.defaults[1] != "f64" else replace(item, defaults=(item.defaults[0], "f32"))

    @property
    def optimises(self) -> bool:
        """Whether all passes run, not only those that meaning requires."""
        return bool(self.options.get("opt_level", 1))

    def run(self, item: Program) -> Outcome:
        """The function as a kernel."""
        import quadrants as qd

        self.initialise(qd, item.defaults)
        arguments = [_for_kernel(qd, value) for value in item.make_arguments()]
        kernel = qd.kernel(item.function)
        result = kernel(*arguments)
        return Outcome(
            [_scalar_name(name) for name in kernel.result_types()],
            plain(result),
            [value.to_numpy() if hasattr(value, "to_numpy") else value for value in arguments],
        )

    def launcher(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """One kernel for all launches."""
        import quadrants as qd

        self.initialise(qd)
        kernel = qd.kernel(function)
        return lambda *arguments: plain(kernel(*arguments))

    def initialise(self, qd: Any, defaults: tuple[str, str] = ("i64", "f64")) -> None:
        """Chooses the target; `init` is called even where the defaults are those without it, to name the target."""
        integer, floating = (getattr(types, name) for name in defaults)
        qd.init(arch=self.arch, default_ip=integer, default_fp=floating, **self.options)


class BareExecutor(TargetExecutor):
    """The default target without any `qd.init`, where the program's defaults allow it."""

    def initialise(self, qd: Any, defaults: tuple[str, str] = ("i64", "f64")) -> None:
        """Forgets earlier options; programs for other defaults get them through `init`."""
        if defaults == ("i64", "f64"):
            qd.reset()
        else:
            super().initialise(qd, defaults)


EXECUTORS: dict[str, Executor] = {
    executor.name: executor
    for executor in (OracleExecutor(), TargetExecutor("reference", "reference"), BareExecutor("x64", "x64"))
}


def _of_members(value: Any, made: Callable[[Any], Any]) -> Any:
    """A dataclass of the same kind, of what is made of its members."""
    return type(value)(**{member.name: made(getattr(value, member.name)) for member in fields(value)})


def _for_kernel(qd: Any, value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, FieldOf):
        return _of_members(value, lambda member: _for_kernel(qd, member))
    if not isinstance(value, FieldOf):
        return value
    array = value.array()
    shape = array.shape[: array.ndim - value.elements]
    element = array.shape[array.ndim - value.elements :]
    dtype = getattr(qd, value.dtype)
    options = {"layout": qd.Layout.SOA} if value.planar else {}
    if value.elements == 0:
        made = getattr(qd, value.kind)(dtype, shape, **options)
    else:
        made = getattr((qd.Vector, qd.Matrix)[value.elements - 1], value.kind)(*element, dtype, shape, **options)
    made.from_numpy(array)
    return made


def _scalar_name(name: Any) -> str:
    """The scalar type's name in a type's name: 'f32' in 'matrix<f32, 3>'."""
    found = re.match(r"(?:matrix<)?(\w+)", str(name))
    return found.group(1) if found else str(name)


def plain(value: Any) -> Any:
    """A kernel's result as Python numbers, lists and tuples."""
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if hasattr(value, "to_list"):
        return plain(value.to_list())
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def mismatch(item: Program, outcome: Outcome) -> str | None:
    """What is wrong with the outcome, or None where it is as the program says."""
    dtypes, value = _expected(item.result)
    if outcome.dtypes is not None and outcome.dtypes != dtypes:
        return f"dtypes {outcome.dtypes}, expected {dtypes} (value {outcome.value})"
    if not same(outcome.value, value, item.tolerance):
        return f"value {outcome.value!r}, expected {value!r}"
    for position, expected in item.after.items():
        found = outcome.arguments[position]
        if not same(plain(np.asarray(found)), plain(np.asarray(expected)), item.tolerance):
            return f"argument {position} is {plain(np.asarray(found))}, expected {plain(np.asarray(expected))}"
    return None


def disagreement(item: Program, executor: Executor) -> str | None:
    """How the executor's outcome differs from the oracle's: in dtypes, result or any argument; None if it does not."""
    item = executor.fitting(item)
    expected, found = EXECUTORS["oracle"].run(item), executor.run(item)
    if expected.dtypes is not None and found.dtypes is not None and found.dtypes != expected.dtypes:
        return f"dtypes {found.dtypes}, the oracle has {expected.dtypes} (values {found.value}, {expected.value})"
    if not same(found.value, expected.value, item.tolerance):
        return f"value {found.value!r}, the oracle has {expected.value!r}"
    for position, (mine, reference) in enumerate(zip(found.arguments, expected.arguments, strict=True)):
        if not isinstance(reference, np.ndarray):
            continue
        if not same(plain(np.asarray(mine)), plain(reference), item.tolerance):
            return f"argument {position} is {plain(np.asarray(mine))}, the oracle has {plain(reference)}"
    return None


def _expected(result: Any) -> tuple[list[str], Any]:
    if result is None:
        return [], None
    if isinstance(result[0], str):
        return [result[0]], result[1]
    return [part[0] for part in result], tuple(part[1] for part in result)


def same(found: Any, expected: Any, tolerance: float = 0.0) -> bool:
    """Equality of nested numbers: NaN equals NaN, zeros have signs; with a tolerance floats may differ by it,
    absolutely or relatively."""
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(found, (list, tuple))
            and len(found) == len(expected)
            and all(same(f, e, tolerance) for f, e in zip(found, expected, strict=True))
        )
    if isinstance(found, (list, tuple)) or (found is None) != (expected is None):
        return False
    if isinstance(expected, float) or isinstance(found, float):
        return _same_float(float(found), float(expected), tolerance)
    return found == expected


def _same_float(found: float, expected: float, tolerance: float) -> bool:
    if math.isnan(expected) or math.isnan(found):
        return math.isnan(expected) and math.isnan(found)
    if tolerance:
        return math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance)
    return found == expected and math.copysign(1.0, found) == math.copysign(1.0, expected)


def sections(programs: Iterable[Program]) -> dict[str, int]:
    """How many programs each section of the language's definition has."""
    counts: dict[str, int] = {}
    for item in programs:
        counts[item.section] = counts.get(item.section, 0) + 1
    return counts
