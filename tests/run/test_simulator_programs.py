"""Programs of simulators as their users write them, with plain loops: what comes out is what Python gives, on every target."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import FieldOf, Program, TargetExecutor, disagreement, program

pytestmark = pytest.mark.slow

PROGRAMS: list[Program] = []
runs = partial(program, PROGRAMS, defaults=("i32", "f32"))


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).random(shape).astype(np.float32)


def field(values: np.ndarray, elements: int = 0) -> FieldOf:
    return FieldOf("f32", values, elements)


def zeros(*shape: int, elements: int = 0) -> FieldOf:
    return FieldOf("f32", np.zeros(shape), elements)


def integers(high: int, *shape: int, dtype: type = np.int32) -> np.ndarray:
    return np.random.default_rng(high).integers(0, high, shape).astype(dtype)


def units(*shape: int) -> np.ndarray:
    values = f32(*shape) - 0.5
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


# Counts and extremes that all iterations share, written in full, under conditions on data.


@runs(args=(f32(300), np.zeros(3, np.int32), np.array([1e9, -1e9], np.float32)))
def census_in_full(x, counts, extremes):
    for i in range(len(x)):
        if x[i] < 0.3:
            counts[0] = counts[0] + 1
            extremes[1] = max(extremes[1], x[i])
        elif x[i] > 0.6:
            counts[1] = 2 + counts[1]
            extremes[0] = min(x[i], extremes[0])
        else:
            continue
        counts[2] = counts[2] - i


# Spins of several states on a chequerboard, drawn by hashes.


def pcg(state):
    s = state * qd.u32(747796405) + qd.u32(2891336453)
    w = ((s >> ((s >> qd.u32(28)) + qd.u32(4))) ^ s) * qd.u32(277803737)
    return (w >> qd.u32(22)) ^ w


@runs(args=(integers(5, 8, 10, dtype=np.uint8), 5, 0.8, 3))
def potts(spin, states, beta, step):
    n, m = spin.shape[0], spin.shape[1]
    for colour in qd.static(range(2)):
        for i, j in qd.ndrange(n, m):
            if (i + j) % 2 == colour:
                h = pcg(qd.u32(i * m + j) ^ pcg(qd.u32(step * 2 + colour)))
                new = qd.cast(h % qd.u32(states), qd.u8)
                u = qd.cast(pcg(h) >> qd.u32(8), qd.f32) / 16777216.0
                de = 0
                for di, dj in qd.static(((1, 0), (-1, 0), (0, 1), (0, -1))):
                    s = spin[(i + di + n) % n, (j + dj + m) % m]
                    de += int(s == spin[i, j]) - int(s == new)
                if de <= 0 or u < qd.exp(-beta * de):
                    spin[i, j] = new


# Cars that brake at random, on lanes of bytes.


def hash32(x):
    x = qd.u32(x)
    x ^= x >> 16
    x *= qd.u32(0x7FEB352D)
    x ^= x >> 15
    x *= qd.u32(0x846CA68B)
    return x ^ (x >> 16)


@runs(args=(np.where(f32(3, 30) < 0.3, 0, -1).astype(np.int8), np.zeros((3, 30), np.int8), 5, 2))
def traffic(speed, new, vmax, t):
    lanes, n = speed.shape[0], speed.shape[1]
    for l, i in qd.ndrange(lanes, n):
        new[l, i] = -1
    moved = 0
    for l, i in qd.ndrange(lanes, n):
        if speed[l, i] >= 0:
            gap = 1
            while gap <= vmax and speed[l, (i + gap) % n] < 0:
                gap += 1
            s = min(min(speed[l, i] + 1, vmax), gap - 1)
            if s > 0 and hash32(t * 7919 + l * n + i) % qd.u32(3) == 0:
                s -= 1
            new[l, (i + s) % n] = s
            moved += s
    for l, i in qd.ndrange(lanes, n):
        speed[l, i] = new[l, i]
    return moved


# Links of a lattice of SU(2), as quaternions.


def qmul(a, b):
    return qd.Vector(
        [
            a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
            a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
            a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
            a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
        ]
    )


@runs(args=(field(units(4, 4, 2, 4), 1), 4, 0.3), tolerance=1e-5)
def links_of_a_lattice(U, n, eps):
    for mu in qd.static(range(2)):
        for colour in qd.static(range(2)):
            for i, j in qd.ndrange(n, n):
                if (i + j) % 2 == colour:
                    nu = 1 - mu
                    di, dj = (1, 0) if mu == 0 else (0, 1)
                    ei, ej = (1, 0) if nu == 0 else (0, 1)
                    u1, u2, u3 = U[(i + di) % n, (j + dj) % n, nu], U[(i + ei) % n, (j + ej) % n, mu], U[i, j, nu]
                    s = qmul(
                        u1, qmul(qd.Vector([u2[0], -u2[1], -u2[2], -u2[3]]), qd.Vector([u3[0], -u3[1], -u3[2], -u3[3]]))
                    )
                    new = U[i, j, mu] + eps * qd.Vector([s[0], -s[1], -s[2], -s[3]])
                    U[i, j, mu] = new / qd.sqrt(new.dot(new))


# A spinning top for each line of arrays.


@runs(args=(field(units(5, 4), 1), field(f32(5, 3), 1), f32(5, 3, seed=4) + np.float32(0.5), 0.02, 12), tolerance=1e-4)
def spinning_tops(quaternions, omega, inertia, dt, steps):
    for i in range(len(inertia)):
        q, w, I = quaternions[i], omega[i], inertia[i]
        for _ in range(steps):
            L = qd.Vector([I[0] * w[0], I[1] * w[1], I[2] * w[2]])
            torque = w.cross(L)
            w = w - dt * qd.Vector([torque[0] / I[0], torque[1] / I[1], torque[2] / I[2]])
            q = q + 0.5 * dt * qmul(q, qd.Vector([0.0, w[0], w[1], w[2]]))
            q = q / qd.sqrt(q.dot(q))
        quaternions[i], omega[i] = q, w


# Bodies that attract one another through a tree, walked with a stack.


def tree_of_points(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The children (-1: none, a leaf; 0: no such child), centre, mass and size of each square."""
    children, centres, masses, sizes = [], [], [], []

    def build(inside: np.ndarray, corner: np.ndarray, size: float, depth: int) -> int:
        node = len(children)
        children.append([-1] * 4)
        centres.append(inside.mean(0))
        masses.append(len(inside))
        sizes.append(size)
        if len(inside) > 1 and depth < 4:
            corners = [corner + size / 2 * np.array([a, b]) for a in (0, 1) for b in (0, 1)]
            parts = [inside[((inside >= low) & (inside < low + size / 2)).all(1)] for low in corners]
            children[node] = [
                build(part, low, size / 2, depth + 1) if len(part) else 0 for part, low in zip(parts, corners)
            ]
        return node

    build(points, np.zeros(2), 1.0, 0)
    return np.array(children, np.int32), np.float32(centres), np.float32(masses), np.float32(sizes)


POINTS = f32(12, 2)
CHILDREN, CENTRES, MASSES, SIZES = tree_of_points(POINTS)


@runs(
    args=(field(POINTS, 1), CHILDREN, field(CENTRES, 1), MASSES, SIZES, zeros(12, 2, elements=1), 0.5), tolerance=1e-4
)
def bodies_in_a_tree(x, child, centre, mass, size, acc, theta):
    for i in range(x.shape[0]):
        stack = qd.Vector([0 for _ in range(16)])
        top = 1
        a = 0 * x[i]
        while top > 0:
            top -= 1
            node = stack[top]
            d = centre[node] - x[i]
            r2 = d.dot(d) + 1e-4
            leaf = child[node, 0] < 0
            if leaf or size[node] ** 2 < theta**2 * r2:
                a += mass[node] / (r2 * qd.sqrt(r2)) * d
            else:
                for k in range(4):
                    c = child[node, k]
                    if c > 0:
                        stack[top] = c
                        top += 1
        acc[i] = a


# Six equations in six unknowns for each system, with pivots; one has none.


def systems() -> np.ndarray:
    found = f32(5, 6, 6) - np.float32(0.5) + np.eye(6, dtype=np.float32)
    found[3, 2] = 0
    return found


@runs(args=(systems(), f32(5, 6), np.zeros((5, 6), np.float32), np.zeros(5, bool)), tolerance=1e-3)
def systems_of_equations(A, b, x, singular):
    for k in range(A.shape[0]):
        M = qd.Matrix.zero(float, 6, 6)
        r = qd.Vector([0.0 for _ in range(6)])
        for i in range(6):
            r[i] = b[k, i]
            for j in range(6):
                M[i, j] = A[k, i, j]
        bad = False
        for c in range(6):
            p = c
            for i in range(c + 1, 6):
                if abs(M[i, c]) > abs(M[p, c]):
                    p = i
            if abs(M[p, c]) < 1e-6:
                bad = True
                break
            if p != c:
                for j in range(6):
                    t = M[c, j]
                    M[c, j] = M[p, j]
                    M[p, j] = t
                t = r[c]
                r[c] = r[p]
                r[p] = t
            for i in range(c + 1, 6):
                f = M[i, c] / M[c, c]
                for j in range(c, 6):
                    M[i, j] -= f * M[c, j]
                r[i] -= f * r[c]
        singular[k] = bad
        if not bad:
            for c in range(5, -1, -1):
                s = r[c]
                for j in range(c + 1, 6):
                    s -= M[c, j] * r[j]
                r[c] = s / M[c, c]
            for i in range(6):
                x[k, i] = r[i]


# Decays that are fitted, each until it no longer changes.


def decays(times: np.ndarray, count: int) -> np.ndarray:
    return ((f32(count)[:, None] + 1) * np.exp(-(f32(count, seed=3)[:, None] + 0.5) * times)).astype(np.float32)


TIMES = np.linspace(0, 2, 12).astype(np.float32)


@runs(args=(TIMES, decays(TIMES, 5), field(np.ones((5, 2)), 1), 20), tolerance=1e-3)
def fitted_decays(t, y, p, rounds):
    for b in range(y.shape[0]):
        a, k = p[b][0], p[b][1]
        lam = 1e-2
        last = 1e30
        for it in range(rounds):
            H = qd.Matrix([[0.0, 0.0], [0.0, 0.0]])
            g = qd.Vector([0.0, 0.0])
            cost = 0.0
            for i in range(t.shape[0]):
                e = qd.exp(-k * t[i])
                r = y[b, i] - a * e
                J = qd.Vector([e, -a * t[i] * e])
                H += J.outer_product(J)
                g += J * r
                cost += r * r
            lam = lam * 0.5 if cost < last else lam * 3
            last = cost
            H += lam * qd.Matrix([[H[0, 0], 0.0], [0.0, H[1, 1]]])
            d = H.inverse() @ g
            a += d[0]
            k += d[1]
            if qd.max(abs(d[0]), abs(d[1])) < 1e-6:
                break
        p[b][0], p[b][1] = a, k


# Neurons whose spikes arrive later, through a ring of sums.


@runs(
    args=(
        -65 + 10 * f32(12),
        np.full(12, -13, np.float32),
        np.zeros((8, 12), np.float32),
        integers(12, 12, 4),
        4 * f32(12, 4),
        integers(6, 12, 4, dtype=np.int8) + np.int8(1),
        np.zeros(12, np.int32),
        0,
        12,
    ),
    tolerance=1e-3,
)
def neurons_with_delays(v, u, ring, post, weight, delay, spikes, t0, steps):
    L = ring.shape[0]
    for t in range(t0, t0 + steps):
        for i in range(v.shape[0]):
            I = ring[t % L, i] + 6.0
            ring[t % L, i] = 0.0
            v[i] += 0.5 * (0.04 * v[i] ** 2 + 5 * v[i] + 140 - u[i] + I)
            v[i] += 0.5 * (0.04 * v[i] ** 2 + 5 * v[i] + 140 - u[i] + I)
            u[i] += 0.02 * (0.2 * v[i] - u[i])
            if v[i] >= 30:
                v[i] = -65.0
                u[i] += 8
                spikes[i] += 1
                for s in range(post.shape[1]):
                    ring[(t + delay[i, s]) % L, post[i, s]] += weight[i, s]


# Words aligned along diagonals.


@runs(args=(integers(4, 9, dtype=np.uint8), integers(4, 12, dtype=np.uint8), np.zeros((10, 13), np.int32)))
def aligned_words(a, b, H):
    best = 0
    n, m = a.shape[0], b.shape[0]
    for d in range(n + m - 1):
        for i in range(max(0, d - m + 1), min(n, d + 1)):
            j = d - i
            s = 3 if a[i] == b[j] else -2
            v = max(0, H[i, j] + s, H[i, j + 1] - 2, H[i + 1, j] - 2)
            H[i + 1, j + 1] = v
            best = max(best, v)
    return best


# Contacts, one after another, until nothing changes.


def contacts() -> np.ndarray:
    found = f32(7, 7)
    return found @ found.T + 3 * np.eye(7, dtype=np.float32)


@runs(args=(contacts(), f32(7) - np.float32(0.5), np.zeros(7, np.float32), zeros(7), 20), tolerance=1e-4, joins=True)
def contacts_in_turn(A, b, lo, x, rounds):
    n = x.shape[0]
    done = -1
    for it in range(rounds):
        change = 0.0
        for i in range(n):
            s = b[i]
            for j in range(n):
                if j != i:
                    s -= A[i, j] * x[j]
            new = max(s / A[i, i], lo[i])
            change = max(change, abs(new - x[i]))
            x[i] = new
        if change < 1e-5:
            done = it
            break
    else:
        done = rounds
    return done


@pytest.mark.parametrize("item", PROGRAMS, ids=lambda item: item.name)
def test_programs_of_simulators(item: Program, executor: TargetExecutor) -> None:
    assert disagreement(executor.fitting(item), executor) is None
