"""Captured objects that change in place are seen at the next launch, by the direct launch and by the slow path."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(params=["x64", "reference"], autouse=True)
def target(request):
    qd.init(arch=getattr(qd, request.param), default_ip=qd.i64, default_fp=qd.f64)
    yield
    qd.reset()


def test_vector_changed_in_place():
    wind = qd.Vector([1.0, 2.0])

    @qd.kernel
    def run(a):
        for i in range(len(a)):
            a[i] = wind[0] + 10 * wind[1]

    values = np.zeros(2)
    for expected, change in ((21.0, None), (21.0, None), (25.0, 5.0), (27.0, 7.0)):
        if change is not None:
            wind[0] = change
        run(values)
        assert values.tolist() == [expected, expected]


def test_vector_of_three_floats_changed_in_place():
    wind = qd.Vector([1.0, 2.0, 3.0], qd.f32)

    @qd.kernel
    def run():
        return wind[0] + wind[1] + wind[2]

    assert run() == 6.0
    assert run() == 6.0
    wind[2] = 7.0
    assert run() == 10.0


def test_list_changed_in_place():
    weights = [1, 2, 3]

    @qd.kernel
    def run():
        s = 0
        for w in weights:
            s += w
        return s

    assert run() == 6
    assert run() == 6
    weights[1] = 20
    assert run() == 24
    weights.append(100)
    assert run() == 124
    assert run() == 124


def test_list_within_a_list_changed_in_place():
    table = [[1, 2], [3, 4]]

    @qd.kernel
    def run():
        return table[1][0]

    assert run() == 3
    table[1][0] = 30
    assert run() == 30


def test_dictionary_changed_in_place():
    options = {"scale": 2}

    @qd.kernel
    def run(x):
        return x * options["scale"]

    assert run(4) == 8
    options["scale"] = 3
    assert run(4) == 12


def test_template_vector_changed_in_place():
    v = qd.Vector([0, 1, 2])

    @qd.kernel
    def run(a: qd.template()):
        return a[0] * 100 + a[1] * 10 + a[2]

    assert run(v) == 12
    v[0] = 3
    assert run(v) == 312
