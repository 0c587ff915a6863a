"""Stand-ins for what a kernel reaches by name: `qd`, `qd.math`, `math`, `np` and Python's builtins."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from quadrants.evidence import numerics
from quadrants.evidence.arrays import detached, place_of
from quadrants.evidence.loops import grouped, ndrange
from quadrants.evidence.scalar import OracleError, Scalar, apply, apply_unary, cast, defaults, lift
from quadrants.evidence.tensor import Tensor, as_tensor, elementwise, fold, is_tensor, truth, unify
from quadrants.evidence.tensor_methods import Matrix, Vector, scalar_type
from quadrants.evidence.vector_math import MATH
from quadrants.ir.types import ScalarType, scalar_types, u1

__all__ = [
    "BUILTINS",
    "MATH_MODULE",
    "NUMPY_MODULE",
    "QD_MATH",
    "QD_TYPES",
    "QUADRANTS",
    "TEMPLATE",
    "Dtype",
    "VectorType",
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
    """An atomic update of an element, giving its old value."""

    def function(element: Any, value: Any) -> Any:
        place = place_of(element)
        old = detached(as_tensor(element) if is_tensor(element) else element)
        place.store(operation(old, value))
        return old

    return function


def atomic_cas(element: Any, expected: Any, desired: Any) -> Any:
    """Stores `desired` where the element equals `expected`; gives the old value."""
    place, old = place_of(element), detached(element)
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


def integer(value: Any = 0) -> Any:
    return convert(value, int)


def floating(value: Any = 0.0) -> Any:
    return convert(value, float)


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


BUILTINS: dict[str, Any] = {
    **vars(builtins),
    "abs": unary("abs"),
    "all": lambda values: as_tensor(values).all() if is_tensor(values) else builtins.all(values),
    "any": lambda values: as_tensor(values).any() if is_tensor(values) else builtins.any(values),
    "bool": boolean,
    "divmod": divided,
    "float": Dtype(default_for=float),
    "int": Dtype(default_for=int),
    "max": extreme("max"),
    "min": extreme("min"),
    "pow": power,
    "range": counted,
    "round": rounded,
    "sum": total,
}

_DTYPES: dict[str, Any] = {scalar.name: Dtype(scalar) for scalar in scalar_types}
for _short, _long in (("f", "float"), ("i", "int"), ("u", "uint")):
    _DTYPES |= {
        f"{_long}{name[1:]}": dtype for name, dtype in list(_DTYPES.items()) if name[0] == _short and name[1:].isdigit()
    }

_ELEMENTARY: dict[str, Any] = {
    name: unary(name)
    for name in [
        "abs",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "cbrt",
        "erf",
        "sign",
        "trunc",
    ]
} | {
    "floor": rounding("floor"),
    "ceil": rounding("ceil"),
    "round": rounding("round"),
    "atan2": binary("atan2"),
    "hypot": binary("hypot"),
    "pow": power,
    "min": extreme("min"),
    "max": extreme("max"),
}

QD_TYPES = SimpleNamespace(
    vector=lambda n, dtype: VectorType((int(n),), dtype),
    matrix=lambda n, m, dtype: VectorType((int(n), int(m)), dtype),
    ndarray=lambda *_, **__: None,
    NDArray=None,
    template=TEMPLATE,
    Template=TEMPLATE,
    **_DTYPES,
)

_VECTOR_TYPES = {
    f"{prefix}{n}": VectorType((n,), kind)
    for prefix, kind in (("vec", float), ("ivec", int), ("uvec", scalar_types[7]))
    for n in (2, 3, 4)
} | {f"mat{n}": VectorType((n, n), float) for n in (2, 3, 4)}

QD_MATH = SimpleNamespace(
    **_ELEMENTARY,
    **MATH,
    **_VECTOR_TYPES,
    pi=math.pi,
    e=math.e,
    inf=math.inf,
    nan=math.nan,
    isnan=lambda x: elementwise(lambda item: Scalar(u1, np.isnan(lift(item).value)), x),
    isinf=lambda x: elementwise(lambda item: Scalar(u1, np.isinf(lift(item).value)), x),
)

QUADRANTS = SimpleNamespace(
    **_DTYPES,
    **_ELEMENTARY,
    **{name: atomic(operation) for name, operation in ATOMICS.items()},
    atomic_cas=atomic_cas,
    bit_cast=bit_cast,
    bit_shr=binary("ushr"),
    cast=convert,
    func=lambda function: function,
    grouped=grouped,
    loop_config=nothing,
    math=QD_MATH,
    Matrix=Matrix,
    ndrange=ndrange,
    one=lambda x: zero(x) + 1,
    raw_div=binary("truncdiv"),
    raw_mod=binary("truncmod"),
    select=select,
    static=static,
    static_assert=static_assert,
    static_print=nothing,
    sync=nothing,
    Template=TEMPLATE,
    template=TEMPLATE,
    types=QD_TYPES,
    Vector=Vector,
    zero=zero,
)

MATH_MODULE = SimpleNamespace(
    **{
        name: _ELEMENTARY[name]
        for name in [
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "atan2",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "exp",
            "exp2",
            "expm1",
            "log2",
            "log10",
            "log1p",
            "sqrt",
            "cbrt",
            "erf",
            "hypot",
            "pow",
        ]
    },
    log=lambda x, base=None: unary("log")(x) if base is None else unary("log")(x) / unary("log")(base),
    fabs=unary("abs"),
    copysign=binary("copysign"),
    floor=lambda x: convert(unary("floor")(x), int),
    ceil=lambda x: convert(unary("ceil")(x), int),
    trunc=lambda x: convert(unary("trunc")(x), int),
    radians=MATH["radians"],
    degrees=MATH["degrees"],
    isnan=QD_MATH.isnan,
    isinf=QD_MATH.isinf,
    pi=math.pi,
    e=math.e,
    tau=math.tau,
    inf=math.inf,
    nan=math.nan,
)

_NUMPY_NAMES = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "rint": "round",
    "absolute": "abs",
} | {
    name: name
    for name in [
        "abs",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "cbrt",
    ]
}

NUMPY_MODULE = SimpleNamespace(
    **{name: unary(operation) for name, operation in _NUMPY_NAMES.items()},
    **{name: unary(name) for name in ("sign", "floor", "ceil", "trunc")},
    **{name: dtype for name, dtype in _DTYPES.items() if not name[1:].isdigit()},
    arctan2=binary("atan2"),
    hypot=binary("hypot"),
    copysign=binary("copysign"),
    minimum=binary("min"),
    maximum=binary("max"),
    fmin=binary("min"),
    fmax=binary("max"),
    power=power,
    where=select,
    isnan=QD_MATH.isnan,
    isinf=QD_MATH.isinf,
    bool_=boolean,
    ndarray=np.ndarray,
    pi=math.pi,
    e=math.e,
    inf=math.inf,
    nan=math.nan,
)
