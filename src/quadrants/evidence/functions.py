"""What stands for the functions and types that a kernel calls by name, over numbers and vectors of the oracle."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from quadrants.evidence import numerics
from quadrants.evidence.arrays import detached, place_of
from quadrants.evidence.scalar import OracleError, Scalar, apply, apply_unary, cast, defaults, lift
from quadrants.evidence.tensor import Tensor, as_tensor, elementwise, fold, is_tensor, truth, unify
from quadrants.evidence.tensor_methods import scalar_type
from quadrants.ir.types import ScalarType

__all__ = [
    "ATOMICS",
    "TEMPLATE",
    "Dtype",
    "TemplateType",
    "VectorType",
    "atomic",
    "atomic_cas",
    "binary",
    "bit_cast",
    "boolean",
    "convert",
    "counted",
    "divided",
    "extreme",
    "nothing",
    "power",
    "rounded",
    "rounding",
    "select",
    "static",
    "static_assert",
    "total",
    "unary",
    "zero",
]


class Dtype:
    """The stand-in for a dtype: calling it casts. `default_for` is Python's int or float where the dtype follows the
    defaults."""

    def __init__(self, scalar: ScalarType | None = None, default_for: type | None = None) -> None:
        self._scalar = scalar
        self.default_for = default_for

    @property
    def scalar_type(self) -> ScalarType:
        if self._scalar is not None:
            return self._scalar
        return defaults.floating if self.default_for is float else defaults.integer

    def __call__(self, value: Any = 0) -> Any:
        return convert(value, self)

    def __repr__(self) -> str:
        return f"qd.{self.scalar_type}"

    def __eq__(self, other: object) -> bool:
        return getattr(other, "scalar_type", other) is self.scalar_type

    def __hash__(self) -> int:
        return hash(self.scalar_type.name)


class TemplateType:
    """The stand-in for `qd.template()`: the parameter is passed by reference."""

    def __call__(self, *_: Any) -> TemplateType:
        return self

    def __getitem__(self, _: Any) -> TemplateType:
        return self


TEMPLATE = TemplateType()


class VectorType:
    """The stand-in for `qd.types.vector(n, dtype)` and `qd.types.matrix(n, m, dtype)`."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype

    def __call__(self, *parts: Any) -> Tensor:
        items: list[Any] = []
        for part in parts:
            items.extend(as_tensor(part).items if is_tensor(part) else [part])
        count = math.prod(self.shape)
        if len(items) == 1:
            items *= count
        if len(items) != count:
            raise OracleError(f"{len(items)} numbers for a value of shape {self.shape}")
        return Tensor(self.shape, [cast(item, scalar_type(self.dtype)) for item in items])


def convert(value: Any, dtype: Any) -> Any:
    """`qd.cast`: numbers and vectors to a dtype; a vector type gives a vector of its shape."""
    if isinstance(dtype, VectorType):
        return dtype(value)
    target = scalar_type(dtype)
    if is_tensor(value):
        return elementwise(lambda item: cast(item, target), value)
    return cast(value, target)


def unary(name: str) -> Callable[[Any], Any]:
    """An operation of the op table on a number or vector."""
    return lambda x: elementwise(lambda item: apply_unary(name, item), x)


def rounding(name: str) -> Callable[..., Any]:
    """floor, ceil or round, with a dtype for the result if one is given."""

    def function(x: Any, dtype: Any = None) -> Any:
        result = unary(name)(x)
        return result if dtype is None else convert(result, dtype)

    return function


def binary(name: str) -> Callable[[Any, Any], Any]:
    """A binary operation of the op table on numbers or vectors."""
    return lambda x, y: elementwise(lambda a, b: apply(name, a, b), x, y)


def extreme(name: str) -> Callable[..., Any]:
    """min or max of the arguments, or of the elements of a single one."""

    def function(*values: Any) -> Any:
        if len(values) == 1:
            values = tuple(values[0])
        return fold(binary(name), values)

    return function


def select(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition holds, else `no`, in the type that they meet in."""

    def pick(which: Any, a: Any, b: Any) -> Any:
        left, right = Tensor((2,), [a, b]).items
        return left if lift(which) else right

    return elementwise(pick, condition, yes, no)


def bit_cast(value: Any, dtype: Any) -> Scalar:
    """The bits of a typed number as another dtype of the same width."""
    scalar, target = lift(value), scalar_type(dtype)
    if scalar.dtype.bits != target.bits:
        raise OracleError(f"bit_cast of {scalar.dtype} to {target}: the widths differ")
    return Scalar(target, numerics.bit_cast(scalar.value, scalar.dtype, target))


def atomic(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An atomic update of an element, giving its old value: that of the update, after the operands were evaluated."""

    def function(element: Any, value: Any) -> Any:
        place = place_of(element)
        old = place.load()
        place.store(operation(old, value))
        return old

    return function


def atomic_cas(element: Any, expected: Any, desired: Any) -> Any:
    """Stores `desired` where the element equals `expected`; gives the old value."""
    place = place_of(element)
    old = place.load()
    if old == cast(expected, old.dtype):
        place.store(desired)
    return old


ATOMICS: dict[str, Callable[[Any, Any], Any]] = {
    "atomic_add": lambda old, value: old + value,
    "atomic_sub": lambda old, value: old - value,
    "atomic_mul": lambda old, value: old * value,
    "atomic_min": binary("min"),
    "atomic_max": binary("max"),
    "atomic_and": binary("bit_and"),
    "atomic_or": binary("bit_or"),
    "atomic_xor": binary("bit_xor"),
    "atomic_exchange": lambda old, value: value,
}


def static(*values: Any) -> Any:
    return values[0] if len(values) == 1 else values


def static_assert(condition: Any, message: Any = None) -> None:
    assert condition, message


def zero(x: Any) -> Any:
    """0 of the type and shape of `x`."""
    return elementwise(lambda item: Scalar(lift(item).dtype, lift(item).value * 0, lift(item).weak), detached(x))


def nothing(*_: Any, **__: Any) -> None:
    """Hints that do not change the meaning."""


def boolean(value: Any = False) -> Any:
    return elementwise(truth, value)


def rounded(value: Any, digits: Any = None) -> Any:
    """Python's round: half to even, giving the default integer; with digits, a float of the same dtype."""
    if digits is None:
        return value if lift(value).dtype.kind != "f" else convert(unary("round")(value), int)
    scale = 10.0 ** int(digits)
    return unary("round")(value * scale) / scale


def power(base: Any, exponent: Any, modulus: Any = None) -> Any:
    result = elementwise(lambda a, b: apply("pow", a, b), base, exponent)
    return result if modulus is None else result % modulus


def counted(*bounds: Any) -> Any:
    """range: its counters are weak, or of the type that typed bounds meet in."""
    counters = builtins.range(*(lift(bound).__index__() for bound in bounds))
    typed = [lift(bound) for bound in bounds if not lift(bound).weak]
    if not typed:
        return counters
    dtype = unify(typed)[0].dtype
    return [cast(counter, dtype) for counter in counters]


def divided(x: Any, y: Any) -> tuple[Any, Any]:
    return x // y, x % y


def total(values: Any, start: Any = 0) -> Any:
    return fold(lambda a, b: a + b, [start, *values])
