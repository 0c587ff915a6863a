"""Physics programs over fields and ndarrays, in the style of Taichi's family, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _started(executor: TargetExecutor) -> None:
    """Fields are made after `qd.init`."""
    executor.initialise(qd, ("i32", "f64"))


def close(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(
        found.to_numpy() if hasattr(found, "to_numpy") else found, expected, tolerance, tolerance
    )


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape)


# Smoothed particles with a grid of neighbours: slots handed out by atomics, indices that are vectors.


def test_smoothed_particles() -> None:
    n, cells, capacity = 24, 4, 32
    h = 1.0 / cells
    position = qd.Vector.field(2, dtype=qd.f64, shape=n)
    density = qd.field(qd.f64, shape=n)
    count = qd.field(qd.i32, shape=(cells, cells))
    inside = qd.field(dtype=qd.i32, shape=(cells, cells, capacity))

    @qd.func
    def cell_of(p):
        return qd.min(qd.max(qd.cast(qd.floor(p / h), qd.i32), 0), cells - 1)

    @qd.func
    def weight(r):
        q = r / h
        result = 0.0
        if q < 1:
            result = (1 - q) ** 3
        return result

    @qd.kernel
    def sort():
        for cell in qd.grouped(count):
            count[cell] = 0
        for i in position:
            cell = cell_of(position[i])
            k = qd.atomic_add(count[cell], 1)
            if k < capacity:
                inside[cell[0], cell[1], k] = i

    @qd.kernel
    def sum_up():
        for i in range(n):
            cell = cell_of(position[i])
            total = 0.0
            for offset in qd.static(qd.grouped(qd.ndrange((-1, 2), (-1, 2)))):
                other = cell + offset
                if 0 <= other[0] < cells and 0 <= other[1] < cells:
                    for k in range(count[other]):
                        j = inside[other, k]
                        total += weight((position[i] - position[j]).norm())
            density[i] = total

    points = random(n, 2)
    position.from_numpy(points)
    sort()
    sum_up()
    q = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1)) / h
    close(density, np.where(q < 1, (1 - q) ** 3, 0).sum(1))


# A net of springs as a class with fields.


@qd.data_oriented
class Springs:
    def __init__(self, n: int, stiffness: float, rest: float) -> None:
        self.n = n
        self.stiffness = stiffness
        self.rest = rest
        self.x = qd.Vector.field(3, dtype=float, shape=(n, n))
        self.v = qd.Vector.field(3, float, (n, n))
        self.offsets = [(0, 1), (1, 0), (0, -1), (-1, 0)]

    @qd.kernel
    def reset(self):
        for i, j in self.x:
            self.x[i, j] = [i * self.rest, 0.1 * i * j, j * self.rest]
            self.v[i, j] = qd.Vector.zero(float, 3)

    @qd.func
    def pull(self, a, b):
        d = b - a
        return self.stiffness * d.normalized() * (d.norm() - self.rest)

    @qd.kernel
    def step(self, dt: qd.f64):
        for i in qd.grouped(self.x):
            force = qd.Vector([0.0, -9.8, 0.0])
            for offset in qd.static(self.offsets):
                j = i + qd.Vector(offset)
                if 0 <= j[0] < self.n and 0 <= j[1] < self.n:
                    force += self.pull(self.x[i], self.x[j])
            self.v[i] += dt * force
        for i in qd.grouped(self.x):
            if all(i == 0):
                self.v[i].fill(0.0)
            self.x[i] += dt * self.v[i]

    @qd.kernel
    def energy(self) -> qd.f64:
        total = 0.0
        for i in qd.grouped(self.v):
            total += 0.5 * self.v[i].norm_sqr()
        return total


def test_springs() -> None:
    n, rest, dt = 4, 0.3, 0.01
    net = Springs(n, 10.0, rest)
    net.reset()
    x = np.array([[[i * rest, 0.1 * i * j, j * rest] for j in range(n)] for i in range(n)])
    v = 0 * x
    for _ in range(3):
        net.step(dt)
        force = np.zeros_like(x) + [0, -9.8, 0]
        for i, j in np.ndindex(n, n):
            for a, b in net.offsets:
                if 0 <= i + a < n and 0 <= j + b < n:
                    d = x[i + a, j + b] - x[i, j]
                    force[i, j] += 10.0 * d / np.linalg.norm(d) * (np.linalg.norm(d) - rest)
        v = v + dt * force
        v[0, 0] = 0
        x = x + dt * v
    close(net.x, x)
    close(net.energy(), 0.5 * (v**2).sum())


# Finite elements: matrices from columns, inverses, determinants, forces gathered by atomics.


def test_triangles() -> None:
    n = 3
    rest = np.array([[i, j] for i in range(n) for j in range(n)], float)
    lower = [[i * n + j, (i + 1) * n + j, i * n + j + 1] for i in range(n - 1) for j in range(n - 1)]
    upper = [[(i + 1) * n + j + 1, i * n + j + 1, (i + 1) * n + j] for i in range(n - 1) for j in range(n - 1)]
    triangles = np.array(lower + upper, np.int32)
    inverse = np.array([np.linalg.inv((rest[t[1:]] - rest[t[0]]).T) for t in triangles])
    x = qd.Vector.field(2, qd.f64, n * n)
    f = qd.Vector.field(2, qd.f64, n * n)

    @qd.kernel
    def forces(
        x: qd.template(), f: qd.template(), t: qd.types.ndarray(), inv: qd.types.ndarray(), mu: qd.f64, la: qd.f64
    ):
        for i in f:
            f[i] = qd.Vector([0.0, 0.0])
        for e in range(t.shape[0]):
            a, b, c = t[e, 0], t[e, 1], t[e, 2]
            rest_inverse = qd.Matrix([[inv[e, 0, 0], inv[e, 0, 1]], [inv[e, 1, 0], inv[e, 1, 1]]])
            deformation = qd.Matrix.cols([x[b] - x[a], x[c] - x[a]]) @ rest_inverse
            back = deformation.inverse().transpose()
            stress = mu * (deformation - back) + la * qd.log(deformation.determinant()) * back
            h = -0.5 / abs(rest_inverse.determinant()) * stress @ rest_inverse.transpose()
            f[b] += qd.Vector([h[0, 0], h[1, 0]])
            f[c] += h[:, 1]
            f[a] -= h[:, 0] + h[:, 1]

    now = rest + 0.1 * random(n * n, 2)
    x.from_numpy(now)
    forces(x, f, triangles, inverse, 1.3, 2.1)
    expected = np.zeros_like(now)
    for t, b in zip(triangles, inverse):
        g = (now[t[1:]] - now[t[0]]).T @ b
        back = np.linalg.inv(g).T
        h = -0.5 / abs(np.linalg.det(b)) * (1.3 * (g - back) + 2.1 * np.log(np.linalg.det(g)) * back) @ b.T
        expected[t[1]] += h[:, 0]
        expected[t[2]] += h[:, 1]
        expected[t[0]] -= h.sum(1)
    close(f, expected)


# Rigid bodies: quaternions, annotated vectors and matrices, unpacking.

vec4 = qd.types.vector(4, qd.f64)
mat3 = qd.types.matrix(3, 3, qd.f64)


@qd.func
def product(a, b):
    return qd.Vector(
        [
            a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
            a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
            a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
            a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
        ]
    )


@qd.func
def rotation(q: vec4) -> mat3:
    w, x, y, z = q
    return mat3(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_rigid_bodies() -> None:
    @qd.kernel
    def turn(q: qd.template(), w: qd.types.ndarray(dtype=qd.f64, ndim=2), dt: qd.f64, steps: qd.i32):
        for i in range(q.shape[0]):
            for _ in range(steps):
                omega = qd.Vector([w[i, 0], w[i, 1], w[i, 2]])
                r = rotation(q[i])
                inertia = r @ qd.Matrix([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]]) @ r.transpose()
                omega -= dt * inertia.inverse() @ omega.cross(inertia @ omega)
                spin = product(qd.Vector([0.0, omega.x, omega.y, omega.z]), q[i])
                q[i] = (q[i] + 0.5 * dt * spin).normalized()
                for k in qd.static(range(3)):
                    w[i, k] = omega[k]

    start = random(3, 4) - 0.5
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    q = qd.Vector.field(4, qd.f64, shape=3)
    q.from_numpy(start)
    w = random(3, 3)
    expected_w = w.copy()
    turn(q, w, 0.01, 5)
    for i in range(3):
        now, omega = start[i], expected_w[i]
        for _ in range(5):
            a, v = now[0], now[1:]
            cross = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
            r = np.eye(3) + 2 * a * cross + 2 * cross @ cross
            inertia = r @ np.diag([1.0, 2.0, 3.0]) @ r.T
            omega = omega - 0.01 * np.linalg.inv(inertia) @ np.cross(omega, inertia @ omega)
            now = now + 0.005 * np.array([-omega @ v, *(a * omega + np.cross(omega, v))])
            now /= np.linalg.norm(now)
        close(q[i].to_numpy(), now)
        close(w[i], omega)


# A ray marcher: functions of functions, loops left early, swizzles.


@qd.func
def ball(p, radius):
    return p.norm() - radius


@qd.func
def box(p, size):
    q = abs(p) - size
    return qd.max(q, 0.0).norm() + qd.min(qd.max(q[0], qd.max(q[1], q[2])), 0.0)


@qd.func
def scene(p):
    nearest = qd.min(ball(p - qd.Vector([0.3, 0.0, 0.0]), 0.5), p.y + 0.6)
    return qd.min(nearest, box(p + qd.Vector([0.4, 0.1, 0.0]), qd.Vector([0.3, 0.2, 0.25])))


def test_marching_rays() -> None:
    depth = qd.field(qd.f64, shape=(7, 6))

    @qd.kernel
    def march():
        for i, j in depth:
            direction = qd.Vector([i / 7 - 0.5, j / 6 - 0.5, 1.0]).normalized()
            t = 0.0
            for _ in range(64):
                distance = scene(qd.Vector([0.0, 0.0, -2.0]) + t * direction)
                if distance < 1e-4:
                    break
                t += distance
                if t > 10:
                    t = -1.0
                    break
            depth[i, j] = t

    march()

    def distance_at(p: np.ndarray) -> float:
        q = np.abs(p + [0.4, 0.1, 0]) - [0.3, 0.2, 0.25]
        boxed = np.linalg.norm(np.maximum(q, 0)) + min(max(q), 0)
        return min(np.linalg.norm(p - [0.3, 0, 0]) - 0.5, boxed, p[1] + 0.6)

    expected = np.zeros((7, 6))
    for i, j in np.ndindex(7, 6):
        direction = np.array([i / 7 - 0.5, j / 6 - 0.5, 1.0])
        direction /= np.linalg.norm(direction)
        for _ in range(64):
            distance = distance_at(np.array([0, 0, -2.0]) + expected[i, j] * direction)
            if distance < 1e-4:
                break
            expected[i, j] += distance
            if expected[i, j] > 10:
                expected[i, j] = -1.0
                break
    close(depth, expected, 1e-7)


# A tree of intervals, walked with a stack of its own.


def test_walking_a_tree() -> None:
    low = qd.field(qd.f32, 31)
    high = qd.field(qd.f32, 31)

    @qd.kernel
    def build(leaves: qd.types.ndarray(dtype=qd.f32, ndim=1)):
        for i in range(16):
            low[15 + i] = leaves[i]
            high[15 + i] = leaves[i] + 0.05
        for level in range(4):
            first = (1 << (3 - level)) - 1
            for k in range(1 << (3 - level)):
                low[first + k] = qd.min(low[2 * (first + k) + 1], low[2 * (first + k) + 2])
                high[first + k] = qd.max(high[2 * (first + k) + 1], high[2 * (first + k) + 2])

    @qd.kernel
    def query(points: qd.types.ndarray(), found: qd.types.ndarray()):
        for i in range(points.shape[0]):
            stack = qd.Vector([0] * 8)
            top = 1
            n = 0
            while top > 0:
                top -= 1
                node = stack[top]
                if low[node] <= points[i] <= high[node]:
                    if node >= 15:
                        n += 1
                    else:
                        stack[top] = 2 * node + 1
                        stack[top + 1] = 2 * node + 2
                        top += 2
            found[i] = n

    leaves = np.sort(random(16)).astype(np.float32)
    points = random(20).astype(np.float32)
    found = np.zeros(20, np.int32)
    build(leaves)
    query(points, found)
    close(found, ((leaves <= points[:, None]) & (points[:, None] <= leaves + np.float32(0.05))).sum(1))


# Constraints projected in order on ndarrays of vectors.


def test_projected_constraints() -> None:
    vec3 = qd.types.vector(3, qd.f64)

    @qd.kernel
    def project(p: qd.types.ndarray(dtype=vec3, ndim=1), w: qd.types.ndarray(), edges: qd.types.ndarray(), rest: float):
        qd.loop_config(serialize=True)
        for _ in range(4):
            qd.loop_config(serialize=True)
            for e in range(edges.shape[0]):
                a, b = edges[e, 0], edges[e, 1]
                d = p[a] - p[b]
                change = (rest - d.norm()) / (w[a] + w[b]) * d.normalized()
                p[a] += w[a] * change
                p[b] -= w[b] * change

    n = 5
    points = np.arange(n)[:, None] * np.array([1.0, 0.1, 0.0])
    weights = np.array([0.0, 1, 1, 1, 1])
    edges = np.array([[i, i + 1] for i in range(n - 1)], np.int32)
    p = qd.Vector.ndarray(3, qd.f64, n)
    p.from_numpy(points)
    project(p, weights, edges, 0.9)
    for _ in range(4):
        for a, b in edges:
            d = points[a] - points[b]
            length = np.linalg.norm(d)
            change = (0.9 - length) / (weights[a] + weights[b]) * d / length
            points[a] += weights[a] * change
            points[b] -= weights[b] * change
    close(p, points)


# Spins, random numbers and small integers.


def test_cooling_spins() -> None:
    n = 12
    spin = qd.field(qd.i8, (n, n))

    @qd.kernel
    def start():
        for cell in qd.grouped(spin):
            spin[cell] = 1 if qd.random() < 0.5 else -1

    @qd.kernel
    def sweep(beta: qd.f32, parity: qd.i32) -> qd.i32:
        flips = 0
        for i, j in spin:
            if (i + j) % 2 == parity:
                around = spin[(i + 1) % n, j] + spin[(i - 1) % n, j] + spin[i, (j + 1) % n] + spin[i, (j - 1) % n]
                change = 2 * spin[i, j] * around
                if change <= 0 or qd.random(qd.f32) < qd.exp(-beta * change):
                    spin[i, j] = -spin[i, j]
                    flips += 1
        return flips

    def energy() -> int:
        s = spin.to_numpy().astype(int)
        assert set(np.unique(s)) <= {-1, 1}
        return -(s * np.roll(s, 1, 0) + s * np.roll(s, 1, 1)).sum()

    start()
    before = energy()
    flips = sum(sweep(1.0, k % 2) for k in range(30))
    assert flips > 0 and energy() < before - 50


# Labels that spread until nothing changes, and hashes of 64 bits.


def test_connected_components() -> None:
    @qd.kernel
    def spread(label: qd.types.ndarray(), image: qd.types.ndarray()) -> qd.i32:
        changed = 0
        for i, j in qd.ndrange(label.shape[0], label.shape[1]):
            if image[i, j]:
                least = label[i, j]
                for d in qd.static(((0, 1), (1, 0), (0, -1), (-1, 0))):
                    x, y = i + d[0], j + d[1]
                    if 0 <= x < label.shape[0] and 0 <= y < label.shape[1] and image[x, y]:
                        least = min(least, label[x, y])
                if least < label[i, j]:
                    label[i, j] = least
                    qd.atomic_max(changed, 1)
        return changed

    image = random(7, 8) < 0.6
    label = np.arange(56, dtype=np.int32).reshape(7, 8)
    expected = label.copy()
    while spread(label, image):
        pass
    for _ in range(56):
        padded = np.pad(np.where(image, expected, 99), 1, constant_values=99)
        around = [padded[1:-1, 2:], padded[2:, 1:-1], padded[1:-1, :-2], padded[:-2, 1:-1]]
        expected = np.where(image, np.minimum(expected, np.min(around, axis=0)), expected)
    close(label, expected)


def test_hashes_of_64_bits() -> None:
    @qd.func
    def mixed(x: qd.u64) -> qd.u64:
        z = x + qd.u64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> 30)) * qd.u64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> 27)) * qd.u64(0x94D049BB133111EB)
        return z ^ (z >> 31)

    @qd.kernel
    def hashes(out: qd.types.ndarray(dtype=qd.u64, ndim=1)):
        for i in out:
            out[i] = mixed(qd.cast(i, qd.u64))

    out = np.zeros(20, np.uint64)
    hashes(out)
    for i, found in enumerate(out):
        z = (i + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        assert int(found) == z ^ (z >> 31)
