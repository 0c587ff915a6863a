"""Stand-ins for what a kernel reaches by name: `qd`, `qd.math`, `math`, `np` and Python's builtins."""

from __future__ import annotations

import builtins
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from quadrants.evidence.functions import (
    ATOMICS,
    TEMPLATE,
    Dtype,
    VectorType,
    atomic,
    atomic_cas,
    binary,
    bit_cast,
    boolean,
    convert,
    counted,
    divided,
    extreme,
    nothing,
    power,
    rounded,
    rounding,
    select,
    static,
    static_assert,
    total,
    unary,
    zero,
)
from quadrants.evidence.loops import grouped, ndrange
from quadrants.evidence.scalar import Scalar, lift
from quadrants.evidence.tensor import as_tensor, elementwise, is_tensor
from quadrants.evidence.tensor_methods import Matrix, Vector
from quadrants.evidence.vector_math import MATH
from quadrants.ir.types import scalar_types, u1, u32

__all__ = ["BUILTINS", "MATH_MODULE", "NUMPY_MODULE", "QD_MATH", "QD_TYPES", "QUADRANTS"]

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
    for prefix, kind in (("vec", float), ("ivec", int), ("uvec", u32))
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
        ]
    },
    log=lambda x, base=None: unary("log")(x) if base is None else unary("log")(x) / unary("log")(base),
    pow=lambda base, exponent: power(base * 1.0, exponent * 1.0),
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
