"""Vectors and matrices on every target, against Python itself."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import FieldOf, Program, TargetExecutor, disagreement, program

PROGRAMS: list[Program] = []
runs = partial(program, PROGRAMS)
RANDOM = np.random.default_rng(5)
CLOSE = 1e-5


def f64(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


@runs(args=(1.5, 2))
def construction(x: qd.f32, n: qd.i32):
    return qd.Vector([x, n]), qd.Vector([n, n]), qd.Matrix([[n, 1], [2, n]]), qd.Vector([1, 2], qd.f64)


@runs(args=(3,))
def constant_matrices(n: qd.i32):
    i = qd.Matrix.identity(qd.f32, 3)
    z = qd.Matrix.zero(qd.i32, 2, 3)
    o = qd.Vector.one(qd.f32, 2)
    d = qd.Matrix.diag(2, 4.0)
    return i * n, z + n, o, d, qd.Vector.unit(3, 1)


@runs(args=(2.0, -3.0), tolerance=CLOSE)
def elementwise_operators(x: qd.f32, y: qd.f32):
    a = qd.Vector([x, y])
    b = qd.Vector([y, 4.0])
    return a + b, a - b, a * b, a / b, a // b, a % b, -a, abs(b), a**2


@runs(args=(13, 7))
def integer_vector_operators(m: qd.i32, n: qd.i32):
    a = qd.Vector([m, -m, n])
    b = qd.Vector([n, n, -2])
    return a // b, a % b, a & b, a | b, a ^ b, a << 2, a >> 1, ~a, a / b


@runs(args=(2.0, -3.0))
def comparisons_and_reductions(x: qd.f32, y: qd.f32):
    a = qd.Vector([x, y, 0.5])
    return a < 1.0, (a < 1.0).any(), (a < 1.0).all(), a.sum(), a.min(), a.max()


@runs(args=(f64(3), f64(3)), tolerance=CLOSE)
def products_of_vectors(p, q):
    a = qd.Vector([p[0], p[1], p[2]])
    b = qd.Vector([q[0], q[1], q[2]])
    return a.dot(b), a.cross(b), a.outer_product(b), a.norm(), a.normalized(), a.norm_sqr()


@runs(args=(f64(2, 2),), tolerance=CLOSE)
def two_by_two(a):
    m = qd.Matrix([[a[0, 0], a[0, 1]], [a[1, 0], a[1, 1]]])
    return m.determinant(), m.inverse(), m.transpose(), m.trace(), m @ m, m.inverse() @ m


@runs(args=(f64(3, 3),), tolerance=CLOSE)
def three_by_three(a):
    m = qd.Matrix([[a[0, 0], a[0, 1], a[0, 2]], [a[1, 0], a[1, 1], a[1, 2]], [a[2, 0], a[2, 1], a[2, 2]]])
    return m.determinant(), m.inverse(), m @ m.transpose(), m[1, 2], m[:, 0], m[1, :]


@runs(args=(f64(4, 4),), tolerance=1e-8)
def four_by_four_row_view(a):
    return a[0] * 2.0, a[1].dot(a[2])


@runs(args=(FieldOf("f64", f64(2, 4, 4), 2),), tolerance=1e-8)
def four_by_four(f):
    m = f[0]
    f[1] = m.inverse()
    return m.determinant(), m @ f[1]


@runs(args=(1.0, 2.0, 3.0))
def swizzles(x: qd.f32, y: qd.f32, z: qd.f32):
    v = qd.Vector([x, y, z])
    a = v.zyx
    v.xz = v.zx
    v.y = 10.0
    w = v.xxyy
    return a, v, w, v.rgb.b, v.st


@runs(args=(1, 5))
def run_time_indices(k, n):
    v = qd.Vector([10, 20, 30, 40])
    m = qd.Matrix([[1, 2], [3, 4]])
    s = 0
    for i in range(n):
        v[(i + k) % 4] += i
        s += v[i % 4] * m[i % 2, k]
    return v, s


@runs(args=(2.0,))
def copies_and_aliases(x: qd.f32):
    a = qd.Vector([x, x])
    b = a
    c = [a, b]
    a[0] = 5.0
    d = (a, b)
    b[1] = 9.0
    return a, b, c[0], c[1], d[1]


@runs(args=(0.5,), tolerance=CLOSE)
def quadratic_weights(fx: qd.f32):
    w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2]
    total = 0.0
    for k in qd.static(range(3)):
        total += w[k] * (k + 1)
    return total, w[2]


@runs(args=(1.5,), tolerance=CLOSE)
def vector_mathematics(x: qd.f32):
    v = qd.Vector([x, -x, 0.25])
    return qd.sin(v), qd.exp(v), qd.floor(v), qd.max(v, 0.0), qd.min(v, v.yxz), qd.sqrt(abs(v)), qd.cast(v, qd.i32)


@runs(args=(0.3,), tolerance=CLOSE)
def functions_of_qd_math(x: qd.f32):
    a = qd.Vector([x, 1.0])
    b = qd.Vector([2.0, x])
    t = qd.math.clamp(x * 5.0, 0.0, 1.0)
    return qd.math.mix(a, b, t), qd.math.dot(a, b), qd.math.length(a), qd.math.fract(-x), qd.math.sign(-x)


@runs(args=(3,))
def matrix_of_integers(n: qd.i32):
    m = qd.Matrix([[1, 2], [3, n]])
    v = qd.Vector([n, 1])
    return m @ v, m @ m, m.transpose(), m.determinant(), m.trace(), m.sum()


@runs(args=(3.0,))
def matrix_rows_and_entries(x: qd.f32):
    m = qd.Matrix([[x, 0.0], [1.0, x]])
    m[0, 1] = 5.0
    m[1, 0] += x
    r = m[1, :]
    r[0] = 100.0
    return m, r


@runs(args=(6,))
def rotation_by_repeated_products(n):
    r = qd.Matrix([[0, -1], [1, 0]])
    v = qd.Vector([2, 1])
    for i in range(n):
        v = r @ v
    return v


@runs(args=(4.0,), tolerance=CLOSE)
def vector_carried_by_a_loop(x: qd.f32):
    v = qd.Vector([x, 1.0])
    steps = 0
    while v.norm() > 0.5:
        v *= 0.75
        v.y += 0.01
        steps += 1
    return v, steps


def spring(p, q, rest):
    d = q - p
    l = d.norm()
    if l < 1e-9:
        return 0 * d
    return (l - rest) * d / l


@runs(args=(f64(12, 3), np.zeros((12, 3))), tolerance=1e-9)
def chain_of_springs(x, f):
    for i in range(len(x)):
        if i > 0:
            f[i] += spring(x[i], x[i - 1], 0.5)
        if i < len(x) - 1:
            f[i] += spring(x[i], x[i + 1], 0.5)


@runs(args=(FieldOf("f32", RANDOM.random((30, 2)), 1), FieldOf("f32", np.zeros((8, 8))), 7.0), tolerance=CLOSE)
def particles_to_grid(x, grid, scale):
    for p in x:
        position = x[p] * (scale - 2.0) + 0.5
        base = qd.cast(position - 0.5, qd.i32)
        fx = position - base
        w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1) ** 2, 0.5 * (fx - 0.5) ** 2]
        for i, j in qd.static(qd.ndrange(3, 3)):
            offset = qd.Vector([i, j])
            grid[base + offset] += w[i].x * w[j].y


@runs(args=(FieldOf("f32", RANDOM.random((10, 2)), 1), FieldOf("f32", RANDOM.random((10, 2, 2)), 2)), tolerance=CLOSE)
def affine_update(v, c):
    for p in v:
        new_v = qd.Vector.zero(qd.f32, 2)
        new_c = qd.Matrix.zero(qd.f32, 2, 2)
        for i, j in qd.static(qd.ndrange(2, 2)):
            d = qd.Vector([i, j]) - 0.5
            new_v += v[p] * 0.25
            new_c += 4.0 * v[p].outer_product(d) * 0.25
        v[p] = new_v
        c[p] = new_c + 0.5 * c[p]
        v[p].y -= 9.8 * 1e-3


@pytest.mark.parametrize("item", PROGRAMS, ids=lambda item: item.name)
def test_vectors(item: Program, executor: TargetExecutor) -> None:
    assert disagreement(item, executor) is None
