"""The functions of `qd.math` in the oracle, by their textbook formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from quadrants.evidence.scalar import Scalar, apply, apply_unary, cast, lift
from quadrants.evidence.tensor import Tensor, as_tensor, elementwise
from quadrants.ir.types import i32

__all__ = ["MATH"]


def _each(name: str) -> Callable[[Any], Any]:
    return lambda x: elementwise(lambda item: apply_unary(name, item), x)


def _pair(name: str) -> Callable[[Any, Any], Any]:
    return lambda x, y: elementwise(lambda a, b: apply(name, a, b), x, y)


def mix(x: Any, y: Any, a: Any) -> Any:
    return x * (1.0 - a) + y * a


def clamp(x: Any, low: Any, high: Any) -> Any:
    return _pair("min")(_pair("max")(x, low), high)


def step(edge: Any, x: Any) -> Any:
    """0 below the edge, else 1, in the type of the operands."""
    return elementwise(lambda e, v: (v - v) + (0 if v < e else 1), edge, x)


def fract(x: Any) -> Any:
    return x - _each("floor")(x)


def smoothstep(low: Any, high: Any, x: Any) -> Any:
    t = clamp((x - low) / (high - low), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def modulo(x: Any, y: Any) -> Any:
    return x - y * _each("floor")(x / y)


def length(x: Any) -> Any:
    return as_tensor(x).norm()


def distance(x: Any, y: Any) -> Any:
    return length(as_tensor(x) - y)


def normalize(x: Any) -> Any:
    return as_tensor(x) / length(x)


def reflect(x: Any, normal: Any) -> Any:
    return x - 2.0 * as_tensor(x).dot(normal) * as_tensor(normal)


def _bit_count(name: str) -> Callable[[Any], Any]:
    return lambda x: elementwise(lambda item: cast(apply_unary(name, item), i32), x)


def _find_first_set(item: Any) -> Scalar:
    scalar = lift(item)
    count = int(apply_unary("ctz", scalar)) + 1 if scalar.value else 0
    return cast(count, i32)


MATH: dict[str, Callable[..., Any]] = {
    "clamp": clamp,
    "clz": _bit_count("clz"),
    "cross": lambda x, y: as_tensor(x).cross(y),
    "degrees": lambda x: x * (180.0 / math.pi),
    "determinant": lambda x: as_tensor(x).determinant(),
    "distance": distance,
    "dot": lambda x, y: as_tensor(x).dot(y),
    "eye": lambda n: Tensor((int(n), int(n)), [float(i == j) for i in range(int(n)) for j in range(int(n))]),
    "ffs": lambda x: elementwise(_find_first_set, x),
    "fract": fract,
    "inverse": lambda x: as_tensor(x).inverse(),
    "length": length,
    "mix": mix,
    "mod": modulo,
    "normalize": normalize,
    "popcnt": _bit_count("popcount"),
    "radians": lambda x: x * (math.pi / 180.0),
    "reflect": reflect,
    "smoothstep": smoothstep,
    "step": step,
}
