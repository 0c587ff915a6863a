"""Functions of `math` and `numpy` that the library has, against Python's own."""

from __future__ import annotations

import linecache
import math
from typing import Any

import numpy as np
import pytest

import quadrants as qd

INTEGERS = [(0, 0), (12, 18), (-12, 18), (7, 3), (5, 0), (1, 1), (10, 4), (2**40, 6)]
FLOATS = [(0.0, 1.0), (-0.0, 2.0), (2.5, 1.0), (-7.25, 2.0), (3.0, -0.5), (1e300, 7.0), (math.inf, 2.0), (0.3, 0.3)]
OF_INTEGERS = [
    "math.gcd(x, y)",
    "math.gcd(x, y, 4)",
    "math.lcm(x, y)",
    "np.gcd(x, y)",
    "np.lcm(x, y)",
    "math.isqrt(abs(x))",
    "math.factorial(y % 20)",
    "math.comb(abs(x) % 30, abs(y) % 12)",
    "math.perm(abs(x) % 15, abs(y) % 8)",
    "np.bitwise_and(x, y) + np.bitwise_or(x, y) - np.bitwise_xor(x, y) + np.invert(x)",
    "np.left_shift(x, 2) - np.right_shift(x, 1)",
    "np.add(x, y) * np.subtract(x, y) - np.multiply(x, np.negative(y)) + np.square(x % 100)",
    "np.clip(x, 1, 15)",
    "np.logical_and(x, y) + 2 * np.logical_or(x, y) + 4 * np.logical_xor(x, y) + 8 * np.logical_not(x)",
    "math.pow(y, 2)",
    "math.fabs(x)",
]
OF_FLOATS = [
    "math.remainder(x, y)",
    "math.modf(x)",
    "math.frexp(x)",
    "math.ldexp(y, 3), math.ldexp(y, -4)",
    "math.isclose(x, y), math.isclose(x, x + 1e-12), math.isclose(x, y, rel_tol=0.5), math.isclose(x, y, abs_tol=3.0)",
    "np.isclose(x, y), np.isclose(x, x + 1e-9)",
    "np.clip(x, -1.0, y)",
    "np.heaviside(x, 0.5)",
    "np.sinc(y)",
    "np.signbit(x)",
    "np.logaddexp(y, 0.5)",
    "math.pow(abs(y), 1.5), np.float_power(abs(y), 2), np.fabs(x)",
    "np.equal(x, y), np.less(x, y), np.greater_equal(x, y), np.not_equal(x, y)",
    "np.divide(x, y) if y != 0 else 0.0",
    "np.mod(3.5, y) + np.floor_divide(7.5, y)",
    "divmod(2.5, y), np.divmod(2.5, y)",
]


def function_of(expression: str) -> Any:
    """A function of x and y, with a source that the compiler can read."""
    name = f"<{expression}>"
    text = f"def value(x, y):\n    return {expression}\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {"math": math, "np": np}
    exec(compile(text, name, "exec"), namespace)
    return namespace["value"]


def agrees(expression: str, arguments: list[tuple[Any, Any]], arch: Any) -> None:
    """The kernel gives what Python gives, wherever Python gives something."""
    qd.init(arch=arch, default_ip=qd.i64, default_fp=qd.f64)
    plain = function_of(expression)
    kernel = qd.kernel(plain)
    for x, y in arguments:
        try:
            with np.errstate(all="ignore"):
                expected = plain(x, y)
        except (ValueError, OverflowError):
            continue
        found = np.asarray(kernel(x, y), float)
        np.testing.assert_allclose(found, np.asarray(expected, float), rtol=1e-14, err_msg=f"{x}, {y}")


@pytest.mark.parametrize("expression", OF_INTEGERS)
def test_of_integers(expression: str, arch: Any) -> None:
    agrees(expression, INTEGERS, arch)


@pytest.mark.parametrize("expression", OF_FLOATS)
def test_of_floats(expression: str, arch: Any) -> None:
    agrees(expression, FLOATS, arch)


@pytest.mark.parametrize("expression", ["np.zeros(3)", "np.eye(3)", "np.isin(x, y)", "math.gamma(x)", "round(x, 2)"])
def test_what_is_not_there_is_refused_where_it_is_called(expression: str) -> None:
    with pytest.raises(qd.QuadrantsCompilationError, match=r"<.*>:2:12: .* in a kernel"):
        qd.kernel(function_of(expression))(1.0, 2.0)
