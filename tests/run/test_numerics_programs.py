"""Programs in plain Python, as a user of NumPy or Numba writes them: kernels give what the undecorated functions give."""

from __future__ import annotations

import copy
import enum
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

pytestmark = pytest.mark.slow


def agrees(executor: TargetExecutor, function: Callable[..., Any], *arguments: Any, tolerance: float = 1e-9) -> Any:
    """Runs the function as a kernel and as Python: same results, same arrays; gives the kernel's result."""
    plain = copy.deepcopy(arguments)
    executor.initialise(qd)
    found = qd.kernel(function)(*arguments)
    with np.errstate(all="ignore"):
        expected = function(*plain)
    if expected is not None:
        np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), tolerance, tolerance)
    for ours, theirs in zip(arguments, plain):
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance)
    return found


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape)


# A lattice Boltzmann step: constant tables, periodic neighbours, `continue`.

CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]


def lattice_boltzmann(f, new, solid, tau):
    nx, ny, _ = f.shape
    for x in range(nx):
        for y in range(ny):
            if solid[x, y]:
                for q in range(9):
                    new[x, y, OPPOSITE[q]] = f[(x - CX[q]) % nx, (y - CY[q]) % ny, q]
                continue
            rho = 0.0
            ux = uy = 0.0
            for q in range(9):
                v = f[(x - CX[q]) % nx, (y - CY[q]) % ny, q]
                rho += v
                ux += CX[q] * v
                uy += CY[q] * v
            ux /= rho
            uy /= rho
            for q in range(9):
                cu = 3 * (CX[q] * ux + CY[q] * uy)
                equilibrium = WEIGHTS[q] * rho * (1 + cu + 0.5 * cu * cu - 1.5 * (ux**2 + uy**2))
                v = f[(x - CX[q]) % nx, (y - CY[q]) % ny, q]
                new[x, y, q] = v + (equilibrium - v) / tau


def test_lattice_boltzmann(executor: TargetExecutor) -> None:
    agrees(executor, lattice_boltzmann, random(8, 7, 9) + 1, np.zeros((8, 7, 9)), random(8, 7) < 0.2, 0.6)


# Boids: rows as vectors, a neighbour loop with `continue`, a second loop after the first.


def boids(pos, vel, out, radius, dt):
    for i in range(len(pos)):
        center = 0 * pos[i]
        push = 0 * pos[i]
        count = 0
        for j in range(len(pos)):
            if i == j:
                continue
            d = pos[j] - pos[i]
            distance = np.sqrt(d.dot(d))
            if distance < radius:
                center += pos[j]
                count += 1
                if distance < 0.3 * radius:
                    push -= d / max(distance, 1e-6)
        v = 1.0 * vel[i]
        if count:
            v += 0.01 * (center / count - pos[i])
        v += 0.1 * push
        speed = math.sqrt(v[0] ** 2 + v[1] ** 2)
        if speed > 2.0:
            v *= 2.0 / speed
        out[i] = v
    for i in range(len(pos)):
        vel[i] = out[i]
        pos[i] += vel[i] * dt


def test_boids(executor: TargetExecutor) -> None:
    agrees(executor, boids, random(12, 2), random(13, 2)[:12] * 5, np.zeros((12, 2)), 0.4, 0.1)


# A fast Fourier transform: bits, swaps, a `while` over stages, strided views.


def fourier(re, im):
    n = len(re)
    bits = 0
    while 1 << bits < n:
        bits += 1
    for i in range(n):
        r = 0
        for b in range(bits):
            r |= ((i >> b) & 1) << (bits - 1 - b)
        if r > i:
            re[i], re[r] = re[r], re[i]
            im[i], im[r] = im[r], im[i]
    size = 2
    while size <= n:
        half = size // 2
        for k in range(n // 2):
            block, j = divmod(k, half)
            p = block * size + j
            q = p + half
            angle = -2 * math.pi * j / size
            c, s = math.cos(angle), math.sin(angle)
            tr = c * re[q] - s * im[q]
            ti = c * im[q] + s * re[q]
            re[p], re[q] = re[p] + tr, re[p] - tr
            im[p], im[q] = im[p] + ti, im[p] - ti
        size *= 2


def test_fourier_transform_in_place(executor: TargetExecutor) -> None:
    values = random(16) + 1j * random(17)[:16]
    expected = np.fft.fft(values)
    executor.initialise(qd)
    qd.kernel(fourier)(values.real, values.imag)
    np.testing.assert_allclose(values, expected, rtol=1e-12)


# Linear equations: pivots, an early return, loops downwards.


def solve(a, b):
    n = len(b)
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[p, k]):
                p = i
        if a[p, k] == 0.0:
            return False
        if p != k:
            for j in range(n):
                a[k, j], a[p, j] = a[p, j], a[k, j]
            b[k], b[p] = b[p], b[k]
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    for i in range(n):
        for j in range(i):
            b[i] -= a[i, j] * b[j]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            b[i] -= a[i, j] * b[j]
        b[i] /= a[i, i]
    return True


def test_linear_equations(executor: TargetExecutor) -> None:
    assert agrees(executor, solve, random(6, 6), random(6))
    assert not agrees(executor, solve, np.zeros((3, 3)), np.ones(3))


# Eigenvalues by Jacobi rotations: small matrices indexed by static pairs, in a function.


def rotated(a):
    for _ in range(12):
        for p, q in ((0, 1), (0, 2), (1, 2)):
            if abs(a[p, q]) < 1e-15:
                continue
            angle = 0.5 * math.atan2(2 * a[p, q], a[q, q] - a[p, p])
            c = math.cos(angle)
            s = math.sin(angle)
            rotation = qd.Matrix([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
            rotation[p, p] = c
            rotation[q, q] = c
            rotation[p, q] = s
            rotation[q, p] = -s
            a = rotation.transpose() @ a @ rotation
    return qd.Vector([a[0, 0], a[1, 1], a[2, 2]])


def test_eigenvalues(executor: TargetExecutor) -> None:
    executor.initialise(qd)

    @qd.kernel
    def eigenvalues(matrices, values):
        for i in range(len(matrices)):
            values[i] = rotated(1.0 * matrices[i])

    matrices = random(4, 3, 3)
    matrices += matrices.transpose(0, 2, 1)
    values = np.zeros((4, 3))
    eigenvalues(matrices, values)
    np.testing.assert_allclose(np.sort(values, axis=1), np.linalg.eigvalsh(matrices), rtol=1e-9, atol=1e-12)


# k-means: a time loop around loops that scatter.


def k_means(points, centers, label, counts, sums, rounds):
    n, d = points.shape
    k = centers.shape[0]
    for _ in range(rounds):
        for i in range(n):
            best, nearest = 1e300, -1
            for c in range(k):
                distance = 0.0
                for x in range(d):
                    distance += (points[i, x] - centers[c, x]) ** 2
                if distance < best:
                    best, nearest = distance, c
            label[i] = nearest
        for c in range(k):
            counts[c] = 0
            for x in range(d):
                sums[c, x] = 0
        for i in range(n):
            counts[label[i]] += 1
            for x in range(d):
                sums[label[i], x] += points[i, x]
        for c in range(k):
            if counts[c] > 0:
                for x in range(d):
                    centers[c, x] = sums[c, x] / counts[c]


def test_k_means(executor: TargetExecutor) -> None:
    points = random(30, 2)
    counts = np.zeros(4, np.int64)
    agrees(executor, k_means, points, points[:4].copy(), np.zeros(30, np.int64), counts, np.zeros((4, 2)), 4)


# Conjugate gradients on a sparse matrix: a `while` with reductions inside, a tuple as the result.


def conjugate_gradients(starts, columns, data, b, x, r, p, ap, most, tolerance):
    rs = 0.0
    for i in range(len(b)):
        r[i] = b[i]
        p[i] = b[i]
        rs += r[i] * r[i]
    count = 0
    while count < most and rs > tolerance * tolerance:
        pap = 0.0
        for i in range(len(b)):
            s = 0.0
            for k in range(starts[i], starts[i + 1]):
                s += data[k] * p[columns[k]]
            ap[i] = s
            pap += p[i] * s
        alpha = rs / pap
        new = 0.0
        for i in range(len(b)):
            x[i] += alpha * p[i]
            r[i] -= alpha * ap[i]
            new += r[i] ** 2
        for i in range(len(b)):
            p[i] = r[i] + new / rs * p[i]
        rs = new
        count += 1
    return count, rs


def test_conjugate_gradients(executor: TargetExecutor) -> None:
    n = 12
    matrix = 4 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1) - 0.5 * np.eye(n, k=5) - 0.5 * np.eye(n, k=-5)
    starts = np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]).astype(np.int32)
    columns = np.nonzero(matrix)[1].astype(np.int32)
    b, x, work = random(n), np.zeros(n), np.zeros((3, n))
    agrees(executor, conjugate_gradients, starts, columns, matrix[matrix != 0], b, x, *work, 100, 1e-12)
    np.testing.assert_allclose(matrix @ x, b, rtol=1e-9)


# A finite automaton: members of an enumeration and nested tuples as tables, a loop's `else`.


class State(enum.IntEnum):
    START = 0
    DIGITS = 1
    DOT = 2
    FRACTION = 3
    BAD = 4


TRANSITIONS = (
    (State.DIGITS, State.BAD, State.BAD),
    (State.DIGITS, State.DOT, State.BAD),
    (State.FRACTION, State.BAD, State.BAD),
    (State.FRACTION, State.BAD, State.BAD),
    (State.BAD,) * 3,
)


def letter_class(letter):
    if 48 <= letter <= 57:
        return 0
    return 1 if letter == 46 else 2


def accepts(texts, out):
    for i in range(len(texts)):
        state = State.START
        for j in range(texts.shape[1]):
            letter = texts[i, j]
            if letter == 0:
                break
            state = TRANSITIONS[state][letter_class(letter)]
            if state == State.BAD:
                break
        else:
            state = State.BAD
        out[i] = state == State.DIGITS or state == State.FRACTION


def test_a_finite_automaton(executor: TargetExecutor) -> None:
    words = [b"123", b"1.5", b"1.", b"", b".5", b"12a", b"1.2.3", b"0"]
    texts = np.array([list(word.ljust(6, b"\0")) for word in words], np.uint8)
    accepted = np.zeros(8, bool)
    agrees(executor, accepts, texts, accepted)
    assert accepted.tolist() == [True, True, False, False, False, False, False, True]


# Runge-Kutta over tuples, with the equation as a function that is passed on.


def pendulum(state, t, g):
    angle, speed = state
    return speed, -g * math.sin(angle) - 0.1 * speed + 0.2 * math.cos(t)


def moved(state, slope, h):
    return tuple(a + h * b for a, b in zip(state, slope))


def runge_kutta(f, state, t, h, *rest):
    k1 = f(state, t, *rest)
    k2 = f(moved(state, k1, h / 2), t + h / 2, *rest)
    k3 = f(moved(state, k2, h / 2), t + h / 2, *rest)
    k4 = f(moved(state, k3, h), t + h, *rest)
    return tuple(x + h / 6 * (a + 2 * b + 2 * c + d) for x, a, b, c, d in zip(state, k1, k2, k3, k4))


def ensemble(states, steps, h):
    for i in range(states.shape[0]):
        state = (states[i, 0], states[i, 1])
        t = 0.0
        for _ in range(steps):
            state = runge_kutta(pendulum, state, t, h, 9.81)
            t += h
        states[i, 0], states[i, 1] = state


def test_runge_kutta_of_an_ensemble(executor: TargetExecutor) -> None:
    agrees(executor, ensemble, random(5, 2), 10, 0.02)


# Step sizes that adapt: an endless loop left in the middle, per element.


def stiff(start, end, tolerance, out, counts):
    for i in range(len(start)):
        t, y, h, n = 0.0, start[i], 0.1, 0
        while True:
            if t >= end or n > 1000:
                break
            h = min(h, end - t)
            k1 = -50 * (y - math.cos(t))
            k2 = -50 * (y + h * k1 - math.cos(t + h))
            error = abs(0.5 * h * (k2 - k1))
            if error <= tolerance:
                t += h
                y += 0.5 * h * (k1 + k2)
            h *= min(2.0, max(0.2, 0.9 * (tolerance / (error + 1e-300)) ** 0.5))
            n += 1
        out[i] = y
        counts[i] = n


def test_adaptive_steps(executor: TargetExecutor) -> None:
    agrees(executor, stiff, np.linspace(-1, 1, 5), 0.2, 1e-3, np.zeros(5), np.zeros(5, np.int64), tolerance=1e-7)


# Dynamic programming and shortest paths: dependence that has to be seen.


def edit_distance(a, b, d):
    for i in range(len(a) + 1):
        d[i, 0] = i
    for j in range(len(b) + 1):
        d[0, j] = j
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d[len(a), len(b)]


def test_edit_distance(executor: TargetExecutor) -> None:
    a, b = (np.frombuffer(text, np.uint8) for text in (b"kitten sitting", b"sitting kitten"))
    agrees(executor, edit_distance, a, b, np.zeros((15, 15), np.int32))


def shortest_paths(d):
    for k in range(len(d)):
        for i in range(len(d)):
            for j in range(len(d)):
                d[i, j] = min(d[i, j], d[i, k] + d[k, j])


def test_shortest_paths(executor: TargetExecutor) -> None:
    agrees(executor, shortest_paths, random(9, 9))


def knapsack(weights, values, best):
    qd.loop_config(serialize=True)
    for i in range(len(weights)):
        for c in range(len(best) - 1, weights[i] - 1, -1):
            best[c] = max(best[c], best[c - weights[i]] + values[i])
    return best[-1]


def test_knapsack(executor: TargetExecutor) -> None:
    source = np.random.default_rng(0)
    agrees(executor, knapsack, source.integers(1, 9, 8), source.integers(1, 99, 8), np.zeros(21, np.int64))


def test_unsigned_numbers_that_wrap_in_a_cast_may_be_negative() -> None:
    @qd.kernel
    def compare(m: qd.i64, out: qd.types.ndarray()):
        bits = qd.u32(-m)
        small = qd.u8(-m)
        for i in range(2):
            out[i] = 1 if -5 < qd.i32(bits | 31) else 2
            out[i + 2] = 1 if -5 < qd.i8(small) else 2
            out[i + 4] = 1 if -5 < qd.i64(bits) else 2

    out = np.zeros(6, np.int32)
    compare(48, out)
    assert out.tolist() == [2, 2, 2, 2, 1, 1]


def test_the_smallest_integer_has_no_absolute_value() -> None:
    @qd.kernel
    def compare(x, out):
        for i in range(len(x)):
            out[i] = 1 if abs(x[i]) >= 0 else 2

    out = np.zeros(2, np.int32)
    compare(np.array([-(2**31), 5], np.int32), out)
    assert out.tolist() == [2, 1]
