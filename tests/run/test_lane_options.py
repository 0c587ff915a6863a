"""Numbers of lanes that are left to timing give the same bits, ends of loops included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.program import Program

pytestmark = pytest.mark.slow

COUNT = 61  # whole blocks and a rest at every width


def escaping(x, y, index, out):
    for i in range(len(out)):
        a = x[i]
        b = y[i]
        n = 0
        while a * a + b * b < 4.0 and n < 40:
            a, b = a * a - b * b + x[i], 2 * a * b + y[i]
            n += 1
        out[i] = a * n + b


def springs(x, y, index, out):
    for i in range(len(out)):
        d = x[index[i]] - x[i]
        e = y[index[i]] - y[i]
        r = qd.sqrt(d * d + e * e) + 1e-3
        if r > 0.5:
            out[i] = d * (r - 0.5) / r + e * d - x[i] * y[i]
        else:
            out[i] = qd.sin(d) * e + qd.exp(-r * r) * y[i]


def neighbours(x, y, index, out):
    for i in range(len(out)):
        total = 0 * x[i]
        weight = 1 + 0 * x[i]
        k = 0
        while k < index[i] % 9:
            j = index[(i + k) % len(out)]
            k += 1
            if x[j] == x[i]:
                continue
            r = (x[j] - x[i]) * (x[j] - x[i]) + (y[j] - y[i]) * (y[j] - y[i])
            if r < 2.0:
                total += y[j] * (2.0 - r) * r
                weight *= 1.0 + r * x[j]
        out[i] = total - weight * x[i]


def products(x, y, index, out):
    for i in range(len(out)):
        a = x[i] * y[i]
        if index[i] % 3 == 0:
            b = a + x[i]
        elif index[i] % 3 == 1:
            b = y[i] - a
        else:
            b = a * a + a
        out[i] = b + a * y[index[i]]


PROGRAMS = [escaping, springs, neighbours, products]


def bits(kernel: Any, lanes: int, arguments: tuple[Any, ...]) -> tuple[bytes, Program]:
    described = kernel._describe(kernel._bind(arguments, {}))
    leaves = [leaf for _, argument in described for leaf in argument.leaves()]
    program = kernel._form(described, leaves, knobs.current, False, lanes)
    arguments[-1][:] = 0
    program.run([(leaf, leaf.value) for leaf in leaves])
    return arguments[-1].tobytes(), program


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_every_option_gives_the_same_bits(function: Callable[..., None], dtype: type) -> None:
    random = np.random.default_rng(3)
    x, y = random.normal(size=(2, COUNT)).astype(dtype)
    index = random.permutation(COUNT)
    kernel = qd.kernel(function)
    expected, program = bits(kernel, 0, (x, y, index, np.zeros(COUNT, dtype)))
    options = program.lane_options
    assert options
    widths = {program.tasks[0][1]}
    for lanes in options:
        for count in (COUNT, 1, 16, 24):
            found, variant = bits(kernel, lanes, (x, y, index % count, np.zeros(count, dtype)))
            usual, _ = bits(kernel, 0, (x, y, index % count, np.zeros(count, dtype)))
            assert found == usual
        assert bits(kernel, lanes, (x, y, index, np.zeros(COUNT, dtype)))[0] == expected
        widths.add(variant.tasks[0][1])
    assert len(widths) == 1 + len(options)


def test_sums_across_iterations_are_not_left_to_timing() -> None:
    def total(x, index, out):
        s = 0.0
        for i in range(len(x)):
            if x[i] > 0:
                s += x[index[i]]
        out[0] = s

    def spread(x, index, out):
        for i in range(len(x)):
            if x[i] > 0:
                out[index[i]] += x[i]

    for function in (total, spread):
        kernel = qd.kernel(function)
        kernel(np.ones(50), np.arange(50), np.zeros(50))
        assert kernel._last is not None
        assert kernel._last.lane_options == ()


def test_long_computations_on_elements_that_are_apart_run_in_lanes() -> None:
    def relaxed(m, out):
        for i in range(len(m)):
            a = m[i, 0]
            b = m[i, 1]
            for _ in qd.static(range(8)):
                r = 0.5 / (a * a + b * b + 1.0)
                a, b = a + r * b, b - r * a
                s = qd.sqrt(a * a + b * b)
                a = a / s * 1.5
                b = b / s * 1.5
            out[i, 0] = a
            out[i, 1] = b

    def moved(m, out):
        for i in range(len(m)):
            out[i, 0] = m[i, 0] + 0.5 * m[i, 1]
            out[i, 1] = m[i, 1]

    m = np.random.default_rng(1).uniform(1, 2, size=(COUNT, 2))
    out = np.zeros_like(m)
    kernel = qd.kernel(relaxed)
    kernel(m, out)
    assert " lanes: it computes much for each element that it reaches" in kernel.report()
    a, b = m[:, 0], m[:, 1]
    for _ in range(8):
        r = 0.5 / (a * a + b * b + 1.0)
        a, b = a + r * b, b - r * a
        s = np.sqrt(a * a + b * b)
        a, b = a / s * 1.5, b / s * 1.5
    assert np.allclose(out, np.stack([a, b], 1), rtol=1e-13)
    kernel = qd.kernel(moved)
    kernel(m, out)
    assert "no lanes: a straight line" in kernel.report()


@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_lanes_that_are_asked_for_are_in_the_code(lanes: int) -> None:
    qd.init(arch="cpu", lanes=lanes)

    @qd.kernel
    def halved(x):
        for i in range(len(x)):
            x[i] *= 0.5

    x = np.ones(COUNT)
    halved(x)
    assert (x == 0.5).all()
    assert f"lanes = {lanes}," in str(halved.ir())
    assert ("lanes<" in str(halved.ir())) == (lanes > 1)
