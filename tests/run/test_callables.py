"""What a kernel can call and be given, besides plain functions, numbers and arrays."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _without_options() -> None:
    qd.reset()


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) + 1

    return wrapper


@counted
def doubled(x):
    return 2 * x


def weighted(a, b, c=1):
    return a * b + c


def test_decorated_functions() -> None:
    @qd.kernel
    def value(x):
        return doubled(x)

    assert value(3) == 7


def test_partial_functions() -> None:
    bound = functools.partial(weighted, 3, c=5)

    @qd.kernel
    def value(x):
        return bound(x)

    assert value(2) == 11


def test_operators_as_functions() -> None:
    @qd.kernel
    def values(x, y):
        return operator.add(x, y), operator.mul(x, y), operator.lt(x, y), operator.neg(x)

    assert values(2, 3) == (5, 6, True, -2)


def test_functions_as_arguments() -> None:
    @qd.kernel
    def value(f, x):
        return f(x)

    assert value(doubled, 3) == 7
    assert value(math.sqrt, 4.0) == 2.0
    assert value(lambda x: x - 1, 3) == 2


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python keeps columns from 3.11 on")
def test_several_lambdas_on_a_line() -> None:
    steps = [lambda x: x + 1, lambda x: x * 2, lambda x: (lambda y: y - 1)(x)]

    @qd.kernel
    def value(x):
        for step in qd.static(steps):
            x = step(x)
        return x

    assert value(3) == 7


@dataclasses.dataclass
class Parameters:
    gravity: float
    count: int
    position: np.ndarray
    name: str = "box"


def test_dataclasses_with_text() -> None:
    @qd.kernel
    def fall(parameters, out):
        for i in range(parameters.count):
            out[i] = parameters.position[i] * parameters.gravity
            if parameters.name == "ball":
                out[i] += 100.0

    out = np.zeros(4)
    fall(Parameters(2.0, 3, np.arange(4.0)), out)
    assert out.tolist() == [0.0, 2.0, 4.0, 0.0]
    fall(Parameters(3.0, 2, np.arange(4.0), "ball"), out)
    assert out.tolist() == [100.0, 103.0, 4.0, 0.0]


def test_masked_arrays_are_refused() -> None:
    @qd.kernel
    def total(values):
        s = 0.0
        for i in range(len(values)):
            s += values[i]
        return s

    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    with pytest.raises(TypeError, match="argument 'values': a masked array"):
        total(masked)
    assert total(masked.data) == 3.0
