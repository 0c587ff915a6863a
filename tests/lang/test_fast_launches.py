"""Launches that stay out of Python: numbers that change outside, containers as arguments."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsTypeError
from quadrants.runtime import launch

pytestmark = pytest.mark.skipif(not launch.is_native(), reason="this interpreter launches through Python")

FACTOR: Any = 2.0


@dataclasses.dataclass(frozen=True)
class Inner:
    weights: Any
    count: int


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    y: Any
    inner: Inner


@dataclasses.dataclass
class Loose:
    x: Any
    factor: float
    inner: Inner


def slow_calls(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each call of the kernel that Python handles."""
    found: list[int] = []
    original = type(kernel)._slow_call

    def counted(self: Any, *arguments: Any) -> Any:
        found.append(1)
        return original(self, *arguments)

    monkeypatch.setattr(type(kernel), "_slow_call", counted)
    return found


def test_changing_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def scale(x):
        for i in range(len(x)):
            x[i] = FACTOR * i

    x = np.zeros(5)
    for value in (2.0, 3.0, 4.0):
        monkeypatch.setitem(globals(), "FACTOR", value)
        scale(x)
        scale(x)
    found = slow_calls(scale, monkeypatch)
    for value in (5.0, -1.5, 0.25):
        monkeypatch.setitem(globals(), "FACTOR", value)
        scale(x)
        assert (x == value * np.arange(5)).all()
    assert not found
    monkeypatch.setitem(globals(), "FACTOR", 3)
    scale(x)
    assert (x == 3 * np.arange(5)).all() and found


def test_frozen_dataclasses(monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def fill(state, shift):
        for i in range(len(state.x)):
            state.y[i] = state.x[i] + state.inner.count * state.inner.weights[i] + shift

    state = Frozen(np.arange(4.0), np.zeros(4), Inner(np.ones(4), 3))
    for _ in range(3):
        fill(state, 1.0)
    found = slow_calls(fill, monkeypatch)
    state.x[:] = 5
    fill(state, 2.0)
    assert not found and (state.y == 10).all()
    other = dataclasses.replace(state, inner=Inner(np.full(4, 2.0), 4))
    fill(other, 2.0)
    assert found and (state.y == 15).all()
    fill(other, 2.0)
    fill(other, 2.0)
    del found[:]
    fill(other, 3.0)
    fill(state, 3.0)
    assert not found and (state.y == 11).all()
    shared = np.arange(6.0)
    aliased = Frozen(shared[:-1], shared[1:], Inner(np.zeros(5), 0))
    fill(aliased, 0.0)
    assert shared.tolist() in ([0] * 6, [0, 0, 1, 2, 3, 4])


def test_dataclasses_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def fill(state):
        for i in range(len(state.x)):
            state.x[i] = state.factor + state.inner.count

    state = Loose(np.zeros(3), 1.5, Inner(None, 2))
    for _ in range(3):
        fill(state)
    found = slow_calls(fill, monkeypatch)
    state.factor, state.x = 2.5, np.zeros(3)
    fill(state)
    assert not found and (state.x == 4.5).all()
    state.inner = Inner(None, 4)
    fill(state)
    assert (state.x == 6.5).all()


def test_tuples_of_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def add(pair, k):
        for i in range(len(pair[0])):
            pair[0][i] = pair[1][i] + k

    arrays = [np.arange(5.0) for _ in range(4)]
    for _ in range(3):
        add((arrays[0], arrays[1]), 1)
    found = slow_calls(add, monkeypatch)
    for one, other in ((0, 1), (2, 3), (3, 0)):
        add((arrays[one], arrays[other]), 2)
        assert (arrays[one] == arrays[other] + 2).all()
    assert not found
    add((arrays[1], arrays[1]), 0)
    assert (arrays[1] == np.arange(5.0)).all()


def test_containers_that_never_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call with another object: right, and not prepared for again and again."""

    @qd.kernel
    def total(state):
        s = 0.0
        for i in range(len(state.weights)):
            s += state.weights[i] * state.count
        return s

    for number in range(30):
        assert total(Inner(np.full(3, 2.0), number)) == 6 * number


def test_numbers_that_grow_beyond_64_bits() -> None:
    count = 3

    @qd.kernel
    def f(x: qd.f64):
        return x + count

    for count in (3, 4, 5, 2**63 + 5, 6, -(2**63), 7):
        assert f(0.5) == 0.5 + count
    count = 2**70
    with pytest.raises(QuadrantsTypeError, match="more than 64 bits"):
        f(0.5)
    count = 8
    assert f(0.5) == 8.5
