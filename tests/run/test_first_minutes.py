"""What a newcomer tries in the first ten minutes, exactly as it is typed."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd

GRAVITY = 9.8


def test_reduction_over_a_range() -> None:
    @qd.kernel
    def squares(n):
        s = 0
        for i in range(n):
            s += i * i
        return s

    assert squares(1000) == 332833500


def test_argmax() -> None:
    @qd.kernel
    def argmax(a):
        best = 0
        for i in range(len(a)):
            if a[i] > a[best]:
                best = i
        return best

    values = np.random.default_rng(0).random(5000)
    assert argmax(values) == values.argmax()


def test_periodic_stencil() -> None:
    @qd.kernel
    def blur(u, v):
        n = len(u)
        for i in range(n):
            v[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[(i + 1) % n]

    u = np.random.default_rng(0).random(1000)
    v = np.zeros(1000)
    blur(u, v)
    np.testing.assert_allclose(v, 0.25 * np.roll(u, 1) + 0.5 * u + 0.25 * np.roll(u, -1), rtol=1e-14)


def test_time_loop_around_an_inner_loop() -> None:
    @qd.kernel
    def advance(x, v, steps, dt):
        for t in range(steps):
            for i in range(len(x)):
                v[i] -= GRAVITY * dt
                x[i] += v[i] * dt
                if x[i] < 0.0:
                    x[i] = -x[i]
                    v[i] = -0.8 * v[i]

    x, v = np.linspace(1.0, 2.0, 500), np.zeros(500)
    expected_x, expected_v = x.copy(), v.copy()
    advance(x, v, 100, 0.01)
    for _ in range(100):
        expected_v -= GRAVITY * 0.01
        expected_x += expected_v * 0.01
        low = expected_x < 0
        expected_x[low] *= -1
        expected_v[low] *= -0.8
    np.testing.assert_allclose(x, expected_x, rtol=1e-10)


def test_row_as_a_view() -> None:
    @qd.kernel
    def damp(v):
        for i in range(len(v)):
            w = v[i]
            w *= 0.5

    v = np.ones((100, 3), np.float32)
    damp(v)
    assert (v == 0.5).all()


def test_changed_global(monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def fall(t):
        return 0.5 * GRAVITY * t * t

    assert fall(2.0) == pytest.approx(19.6)
    monkeypatch.setitem(globals(), "GRAVITY", 1.6)
    assert fall(2.0) == pytest.approx(3.2)


def test_wrong_argument() -> None:
    @qd.kernel
    def total(values):
        s = 0.0
        for i in range(len(values)):
            s += values[i]
        return s

    with pytest.raises((TypeError, ValueError), match="'values'.*list"):
        total([1.0, 2.0, 3.0])
    assert total(np.array([1.0, 2.0, 3.0])) == 6.0


def test_index_out_of_range_in_debug_mode() -> None:
    qd.init(debug=True)

    @qd.kernel
    def read(a, i):
        return a[i]

    with pytest.raises(IndexError):
        read(np.zeros(10), 10)


def test_numpy_functions_and_constants() -> None:
    @qd.kernel
    def circle(area):
        return np.sqrt(area / np.pi)

    assert circle(2.0) == pytest.approx(np.sqrt(2.0 / np.pi), rel=1e-15)


def test_whole_array_expression() -> None:
    @qd.kernel
    def move(pos, vel, dt):
        pos += dt * vel

    pos, vel = np.zeros(10), np.ones(10)
    try:
        move(pos, vel, 0.5)
    except qd.QuadrantsCompilationError as refused:
        assert "range(len(" in str(refused)
        assert (pos == 0).all()
    else:
        assert (pos == 0.5).all()


def test_the_example_of_the_front_page() -> None:
    def attraction(r, eps):
        d2 = r.dot(r) + eps * eps
        if d2 > 100.0:
            return 0 * r
        return r / (d2 * qd.sqrt(d2))

    @qd.kernel
    def accelerate(pos, mass, acc, eps):
        for i in range(len(pos)):
            a = 0 * pos[i]
            for j in range(len(pos)):
                a += mass[j] * attraction(pos[j] - pos[i], eps)
            acc[i] = a

    random = np.random.default_rng(1)
    pos, mass, acc = random.standard_normal((50, 3)), random.random(50), np.zeros((50, 3))
    accelerate(pos, mass, acc, 0.05)
    r = pos[None] - pos[:, None]
    d2 = (r * r).sum(-1) + 0.05**2
    np.testing.assert_allclose(acc, (mass[None, :, None] * r / (d2 * np.sqrt(d2))[..., None]).sum(1), rtol=1e-9)


def test_plain_call_again_with_other_types() -> None:
    @qd.kernel
    def twice(x):
        return 2 * x

    assert twice(3) == 6 and isinstance(twice(3), int)
    assert twice(1.5) == 3.0 and isinstance(twice(1.5), float)
