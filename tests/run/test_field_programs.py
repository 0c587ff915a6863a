"""Simulators over fields, as users of Taichi's family write them: classes that hold fields, templates, vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("widths_of_init")]


def close(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(
        found.to_numpy() if hasattr(found, "to_numpy") else found, expected, tolerance, tolerance
    )


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape)


# Cloth in a class: methods that are functions and kernels, a list of vectors known at compile time.


@qd.data_oriented
class Cloth:
    def __init__(self, n: int, stiffness: float) -> None:
        self.n = n
        self.stiffness = stiffness
        self.x = qd.Vector.field(3, qd.f32, shape=(n, n))
        self.v = qd.Vector.field(3, qd.f32, shape=(n, n))
        self.links = [qd.Vector([0, 1]), qd.Vector([1, 0]), qd.Vector([1, 1]), qd.Vector([-1, 1])]

    @qd.func
    def inside(self, p):
        return 0 <= p[0] < self.n and 0 <= p[1] < self.n

    @qd.func
    def pull(self, a, b):
        r = self.x[b] - self.x[a]
        length = r.norm()
        rest = (b - a).cast(float).norm() / self.n
        return self.stiffness * (length - rest) * r / length

    @qd.kernel
    def step(self, dt: float):
        for cell in qd.grouped(self.x):
            force = qd.Vector([0.0, -9.8, 0.0])
            for link in qd.static(self.links):
                for sign in qd.static((-1, 1)):
                    other = cell + sign * link
                    if self.inside(other):
                        force += self.pull(cell, other)
            self.v[cell] = (self.v[cell] + dt * force) * qd.exp(-dt)
        for cell in qd.grouped(self.x):
            if not (cell[1] == 0 and (cell[0] == 0 or cell[0] == self.n - 1)):
                self.x[cell] += dt * self.v[cell]


def test_cloth() -> None:
    n = 5
    cloth = Cloth(n, 300.0)
    x = np.array([[[i / n, 0.1 * math.sin(i + j), j / n] for j in range(n)] for i in range(n)])
    cloth.x.from_numpy(x.astype(np.float32))
    v, held = np.zeros_like(x), np.ones((n, n, 1))
    held[0, 0] = held[n - 1, 0] = 0
    for _ in range(2):
        cloth.step(1e-3)
        force = np.zeros_like(x) + [0, -9.8, 0]
        for i, j in np.ndindex(n, n):
            for a, b in ((0, 1), (1, 0), (1, 1), (-1, 1), (0, -1), (-1, 0), (-1, -1), (1, -1)):
                if 0 <= i + a < n and 0 <= j + b < n:
                    r = x[i + a, j + b] - x[i, j]
                    length = np.linalg.norm(r)
                    force[i, j] += 300 * (length - math.hypot(a, b) / n) * r / length
        v = (v + 1e-3 * force) * math.exp(-1e-3)
        x = x + 1e-3 * v * held
    close(cloth.x, x)


# Particles in cells: charges shared out by atomic sums, a field in order of colours, particles that gather.


def test_charged_particles() -> None:
    count, cells = 50, 16
    x, v = qd.field(float, count), qd.field(float, count)
    charge, potential = qd.field(float, cells), qd.field(float, cells)

    @qd.kernel
    def deposit():
        charge.fill(-1.0)
        for p in x:
            i = int(qd.floor(x[p]))
            w = x[p] - i
            charge[i % cells] += (1 - w) * cells / count
            charge[(i + 1) % cells] += w * cells / count

    @qd.kernel
    def solve(rounds: int):
        for _ in range(rounds):
            for parity in range(2):
                for i in range(cells):
                    if i % 2 == parity:
                        around = potential[(i + 1) % cells] + potential[(i - 1 + cells) % cells]
                        potential[i] = 0.5 * (around + charge[i])

    @qd.func
    def field_at(i):
        return 0.5 * (potential[(i - 1 + cells) % cells] - potential[(i + 1) % cells])

    @qd.kernel
    def push(dt: float):
        for p in x:
            i = int(qd.floor(x[p]))
            w = x[p] - i
            v[p] += dt * ((1 - w) * field_at(i % cells) + w * field_at((i + 1) % cells))
            x[p] = (x[p] + dt * v[p]) % cells

    place, speed = random(count) * cells, random(count) * 0.1
    x.from_numpy(place.astype(np.float32))
    v.from_numpy(speed.astype(np.float32))
    phi = np.zeros(cells)
    for _ in range(2):
        deposit()
        solve(10)
        push(0.1)
        rho, i = -np.ones(cells), np.floor(place).astype(int)
        w = place - i
        np.add.at(rho, i % cells, (1 - w) * cells / count)
        np.add.at(rho, (i + 1) % cells, w * cells / count)
        for _ in range(10):
            for parity in range(2):
                for k in range(parity, cells, 2):
                    phi[k] = 0.5 * (phi[(k + 1) % cells] + phi[k - 1] + rho[k])
        e = 0.5 * (np.roll(phi, 1) - np.roll(phi, -1))
        speed = speed + 0.1 * ((1 - w) * e[i % cells] + w * e[(i + 1) % cells])
        place = (place + 0.1 * speed) % cells
    close(x, place, 1e-3)


# Neighbours by sorted cells: counting, a running sum, places handed out by atomics.


def test_neighbours_in_sorted_cells() -> None:
    count, g = 30, 4
    position = qd.Vector.field(3, float, count)
    density, order = qd.field(float, count), qd.field(int, count)
    starts, cursor = qd.field(int, g**3 + 1), qd.field(int, g**3)

    @qd.func
    def number(c):
        return (c[0] * g + c[1]) * g + c[2]

    @qd.kernel
    def sort():
        cursor.fill(0)
        for i in position:
            cursor[number(qd.floor(position[i] * g, int))] += 1
        total = 0
        for c in range(g**3):
            here = cursor[c]
            starts[c] = total
            cursor[c] = total
            total += here
        starts[g**3] = total
        for i in position:
            order[qd.atomic_add(cursor[number(qd.floor(position[i] * g, int))], 1)] = i

    @qd.kernel
    def sum_up():
        for i in position:
            cell = qd.floor(position[i] * g, int)
            total = 0.0
            for offset in qd.grouped(qd.ndrange((-1, 2), (-1, 2), (-1, 2))):
                other = cell + offset
                if (other >= 0).all() and (other < g).all():
                    for k in range(starts[number(other)], starts[number(other) + 1]):
                        r2 = (position[i] - position[order[k]]).norm_sqr() * g * g
                        if r2 < 1:
                            total += (1 - r2) ** 3
            density[i] = total

    points = (random(count, 3) * 0.999).astype(np.float32)
    position.from_numpy(points)
    sort()
    sum_up()
    r2 = ((points[:, None] - points[None]) ** 2).sum(-1) * g * g
    close(density, np.where(r2 < 1, (1 - r2) ** 3, 0).sum(1))
    assert sorted(order.to_numpy()) == list(range(count))


# Elements of solids: forces from singular values, against the energy's differences.


def test_forces_of_tetrahedra(executor: TargetExecutor) -> None:
    if executor.arch == "metal":
        pytest.skip("differences of the energy need f64")
    executor.initialise(qd, ("i32", "f64"))
    tetrahedra = np.array([[0, 1, 2, 3], [1, 2, 3, 4]], np.int32)
    rest = random(5, 3) * 0.3 + np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    now = rest + 0.2 * (random(3, 5).T - 0.5)
    x, force = qd.Vector.field(3, float, 5), qd.Vector.field(3, float, 5)
    inverse, volume = qd.Matrix.field(3, 3, float, 2), qd.field(float, 2)

    @qd.func
    def edges(corners, t):
        return qd.Matrix.cols([x[corners[t, k + 1]] - x[corners[t, 0]] for k in qd.static(range(3))])

    @qd.kernel
    def prepare(corners: qd.types.ndarray()):
        for t in range(2):
            inverse[t] = edges(corners, t).inverse()
            volume[t] = abs(edges(corners, t).determinant()) / 6

    @qd.kernel
    def push(corners: qd.types.ndarray(), mu: float, stiffness: float) -> float:
        energy = 0.0
        force.fill(0)
        for t in range(2):
            f = edges(corners, t) @ inverse[t]
            u, s, v = qd.svd(f)
            if u.determinant() * v.determinant() < 0:
                for k in qd.static(range(3)):
                    u[k, 2] *= -1
                s[2, 2] *= -1
            j = s[0, 0] * s[1, 1] * s[2, 2]
            stress = 2 * mu * (f - u @ v.transpose()) + stiffness * (j - 1) * j * f.inverse().transpose()
            for k in qd.static(range(3)):
                energy += volume[t] * mu * (s[k, k] - 1) ** 2
            energy += volume[t] * stiffness / 2 * (j - 1) ** 2
            h = -volume[t] * stress @ inverse[t].transpose()
            for k in qd.static(range(3)):
                g = qd.Vector([h[0, k], h[1, k], h[2, k]])
                force[corners[t, k + 1]] += g
                force[corners[t, 0]] -= g
        return energy

    def energy_of(points: np.ndarray) -> float:
        x.from_numpy(points)
        return push(tetrahedra, 2.0, 3.0)

    x.from_numpy(rest)
    prepare(tetrahedra)
    assert abs(energy_of(rest)) < 1e-12
    differences = np.zeros_like(now)
    for i in np.ndindex(now.shape):
        step = np.zeros_like(now)
        step[i] = 1e-6
        differences[i] = (energy_of(now - step) - energy_of(now + step)) / 2e-6
    energy_of(now)
    close(force, differences, 1e-5)


# Rays through a tree of boxes: vectors of integers as stacks, infinities, two results that change together.


def test_rays_through_a_tree_of_boxes() -> None:
    n = 8
    low, high = qd.Vector.field(3, float, 2 * n - 1), qd.Vector.field(3, float, 2 * n - 1)
    center, radius = qd.Vector.field(3, float, n), qd.field(float, n)

    @qd.kernel
    def build():
        for i in range(n):
            low[n - 1 + i] = center[i] - radius[i]
            high[n - 1 + i] = center[i] + radius[i]
        for level in range(3):
            width = n >> (level + 1)
            for k in range(width):
                node = width - 1 + k
                low[node] = qd.min(low[2 * node + 1], low[2 * node + 2])
                high[node] = qd.max(high[2 * node + 1], high[2 * node + 2])

    @qd.func
    def meets_box(origin, inverse, node, best):
        a, b = (low[node] - origin) * inverse, (high[node] - origin) * inverse
        near, far = qd.min(a, b).max(), qd.max(a, b).min()
        return near <= far and far > 0 and near < best

    @qd.func
    def meets_ball(origin, direction, i):
        to_origin = origin - center[i]
        b = to_origin.dot(direction)
        root = b * b - to_origin.norm_sqr() + radius[i] ** 2
        if root <= 0:
            return qd.math.inf
        return -b - qd.sqrt(root)

    @qd.kernel
    def trace(depth: qd.types.ndarray(), ball: qd.types.ndarray()):
        for i, j in qd.ndrange(depth.shape[0], depth.shape[1]):
            origin = qd.Vector([i / 4 - 1, j / 4 - 1, -5.0])
            direction = qd.Vector([0.05, 0.02, 1.0]).normalized()
            inverse = 1.0 / direction
            best, hit = qd.math.inf, -1
            stack = qd.Vector.zero(int, 8)
            top = 1
            while top > 0:
                top -= 1
                node = stack[top]
                if not meets_box(origin, inverse, node, best):
                    continue
                if node >= n - 1:
                    t = meets_ball(origin, direction, node - n + 1)
                    if t < best:
                        best, hit = t, node - n + 1
                else:
                    stack[top] = 2 * node + 1
                    stack[top + 1] = 2 * node + 2
                    top += 2
            depth[i, j] = best if hit >= 0 else -1.0
            ball[i, j] = hit

    points = (random(n, 3) * 2 - 1).astype(np.float32)
    points = points[np.argsort(points[:, 0])]
    radii = (0.2 + 0.2 * random(n)).astype(np.float32)
    center.from_numpy(points)
    radius.from_numpy(radii)
    build()
    depth, ball = np.zeros((8, 7), np.float32), np.zeros((8, 7), np.int32)
    trace(depth, ball)
    direction = np.array([0.05, 0.02, 1.0])
    direction /= np.linalg.norm(direction)
    for i, j in np.ndindex(8, 7):
        to_origin = np.array([i / 4 - 1, j / 4 - 1, -5.0]) - points
        b = to_origin @ direction
        root = b * b - (to_origin**2).sum(1) + radii.astype(float) ** 2
        if abs(root).min() > 1e-3:  # else rounding decides whether it meets
            t = np.where(root > 0, -b - np.sqrt(np.maximum(root, 0)), np.inf)
            assert ball[i, j] == (t.argmin() if t.min() < np.inf else -1)
            close(depth[i, j], t.min() if t.min() < np.inf else -1)


# Links with colours: constraints of one colour in parallel, ranges of a field given by numbers.


def test_constraints_by_colour() -> None:
    n = 5
    edges = [(i * n + j, i * n + j + 1) for i in range(n) for j in range(n - 1)]
    edges += [(i * n + j, i * n + j + n) for i in range(n - 1) for j in range(n)]
    colours: list[list[tuple[int, int]]] = []
    for edge in edges:
        free = [colour for colour in colours if not any(set(edge) & set(other) for other in colour)]
        if not free:
            free = [[]]
            colours += free
        free[0].append(edge)
    flat = np.array([edge for colour in colours for edge in colour], np.int32)
    ends = np.cumsum([0] + [len(colour) for colour in colours])
    x, weight = qd.Vector.field(3, float, n * n), qd.field(float, n * n)
    link, push = qd.Vector.field(2, int, len(flat)), qd.field(float, len(flat))

    @qd.kernel
    def project(first: int, last: int, softness: float, rest: float):
        for c in range(first, last):
            a, b = link[c]
            total = weight[a] + weight[b]
            if total > 0:
                d = x[a] - x[b]
                length = d.norm()
                change = -(length - rest + softness * push[c]) / (total + softness)
                push[c] += change
                x[a] += weight[a] * change * d / length
                x[b] -= weight[b] * change * d / length

    points = np.array([[i * 0.1, 0.02 * (i * j % 3), j * 0.13] for i in range(n) for j in range(n)])
    weights = np.ones(n * n)
    weights[[0, n - 1]] = 0
    x.from_numpy(points.astype(np.float32))
    weight.from_numpy(weights.astype(np.float32))
    link.from_numpy(flat)
    pushes = np.zeros(len(flat))
    for _ in range(2):
        for k in range(len(colours)):
            project(ends[k], ends[k + 1], 0.01, 0.1)
        for c, (a, b) in enumerate(flat):
            total = weights[a] + weights[b]
            if total > 0:
                d = points[a] - points[b]
                length = np.linalg.norm(d)
                change = -(length - 0.1 + 0.01 * pushes[c]) / (total + 0.01)
                pushes[c] += change
                points[a] += weights[a] * change * d / length
                points[b] -= weights[b] * change * d / length
    close(x, points)


# A hash table of 64-bit keys, filled by compare and exchange.


def test_cells_in_a_hash_table() -> None:
    capacity = 128
    key, total, used = qd.field(qd.i64, capacity), qd.field(qd.f32, capacity), qd.field(qd.i32, ())

    @qd.func
    def packed(c):
        x, y, z = [qd.cast(c[k] + 1000, qd.i64) for k in qd.static(range(3))]
        return x << 40 | y << 20 | z

    @qd.kernel
    def insert(points: qd.types.ndarray(dtype=qd.types.vector(3, qd.f32), ndim=1)):
        key.fill(-1)
        for i in points:
            wanted = packed(qd.floor(points[i], int))
            slot = qd.cast(qd.u64(wanted) * qd.u64(0x9E3779B97F4A7C15) >> 57, qd.i32)
            while True:
                old = qd.atomic_cas(key[slot], qd.i64(-1), wanted)
                if old == -1:
                    used[None] += 1
                if old == -1 or old == wanted:
                    total[slot] += 1.0
                    break
                slot = (slot + 1) % capacity

    points = (random(60, 3) * 8 - 4).astype(np.float32)
    insert(points)
    cells, counts = np.unique(np.floor(points).astype(int) + 1000, axis=0, return_counts=True)
    expected = {int(x) << 40 | int(y) << 20 | int(z): int(n) for (x, y, z), n in zip(cells, counts)}
    found = {int(k): int(t) for k, t in zip(key.to_numpy(), total.to_numpy()) if k != -1}
    assert found == expected and used[None] == len(cells)
