"""Rows of elements as vector lanes: a loop over neighbours within a parallel iteration, with loops and jumps inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs

pytestmark = pytest.mark.slow


@pytest.fixture(params=[knobs.Arch.reference, None], ids=["reference", "host"])
def target(request: pytest.FixtureRequest) -> Iterator[None]:
    before = knobs.current.arch
    knobs.current.arch = request.param
    yield
    knobs.current.arch = before


def correlate(image, weights, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total = 0 * image[0, 0]
            for a in range(weights.shape[0]):
                for b in range(weights.shape[1]):
                    total += image[i + a, j + b] * weights[a, b]
            out[i, j] = total


def escape(image, weights, out):
    for i in range(out.shape[0]):
        scale = weights[0, 0] + i
        for j in range(out.shape[1]):
            x = image[i, j]
            steps = 0
            while x < 4:
                x = x * 1.5 + 0.25 * scale
                steps += 1
                if steps == 7:
                    break
            if steps % 3 == 1:
                continue
            out[i, j] = steps


def skewed(image, weights, out):
    for i in range(out.shape[0]):
        for j in range(i % 3, out.shape[1] - i % 5):
            for a in range(j % 4):
                if image[i, j + a] > 2:
                    break
                out[i, j] += image[i, j + a]


def in_order(image, weights, out):
    for i in range(out.shape[0]):
        for j in range(1, out.shape[1]):
            for a in range(2):
                out[i, j] += out[i, j - 1] * weights[a, 0]


def _arguments(columns: int, dtype: Any) -> list[np.ndarray]:
    random = np.random.default_rng(columns)
    image = (4 * random.random((9, columns + 4))).astype(dtype)
    return [image, random.random((3, 4)).astype(dtype), np.zeros((6, columns), dtype)]


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [correlate, escape, skewed, in_order], ids=lambda function: function.__name__)
def test_as_python(function: Callable[..., None], dtype: Any, columns: int, target: None) -> None:
    expected, found = _arguments(columns, dtype), _arguments(columns, dtype)
    function(*expected)
    qd.kernel(function)(*found)
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", [correlate, escape, skewed], ids=lambda function: function.__name__)
def test_rows_are_in_lanes(function: Callable[..., None]) -> None:
    kernel = qd.kernel(function)
    kernel(*_arguments(40, np.float32))
    assert "rows in lanes: 1" in kernel.report()
    assert "rows of neighbouring elements run side by side" in kernel.report()


def test_rows_that_depend_on_one_another_are_not() -> None:
    kernel = qd.kernel(in_order)
    kernel(*_arguments(40, np.float32))
    assert "rows in lanes" not in kernel.report()


def test_a_convolution_loads_vectors() -> None:
    kernel = qd.kernel(correlate)
    kernel(*_arguments(40, np.float32))
    assert "vfmadd" in kernel.assembly() and "ymm" in kernel.assembly()
    assert "vinsertps" not in kernel.assembly() and "vgather" not in kernel.assembly()


def test_the_user_may_say_otherwise() -> None:
    @qd.kernel
    def convolve(image, weights, out):
        qd.loop_config(vectorize=False)
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                for a in range(weights.shape[0]):
                    out[i, j] += image[i + a, j] * weights[a, 0]

    convolve(*_arguments(40, np.float32))
    assert "rows in lanes" not in convolve.report()
