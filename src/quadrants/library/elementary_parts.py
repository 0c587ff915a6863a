"""What the elementary functions of both precisions share."""

from __future__ import annotations

from typing import Any

from quadrants.lang.loops import static
from quadrants.lang.ops import fma

__all__ = ["INF", "NAN", "polynomial"]

INF = float("inf")
NAN = float("nan")


def polynomial(x: Any, coefficients: Any) -> Any:
    """coefficients[0] + coefficients[1] * x + …, by Horner's rule."""
    value = fma(x, coefficients[-1], coefficients[-2])
    for k in static(range(len(coefficients) - 3, -1, -1)):
        value = fma(value, x, coefficients[k])
    return value
