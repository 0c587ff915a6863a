"""Programs for blocks of threads, as users of CUDA write them: rows by subgroups, matrices and products in shared memory, searches."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("widths_of_init")]
block, subgroup = qd.simt.block, qd.simt.subgroup


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape).astype(np.float32)


@pytest.mark.parametrize("columns", [1, 31, 50])
def test_softmax_of_rows(columns: int) -> None:
    """A subgroup a row; its members have different numbers of columns."""

    @qd.kernel
    def softmax(x: qd.types.ndarray(), y: qd.types.ndarray(), columns: int):
        qd.loop_config(block_dim=128)
        for thread in range(x.shape[0] * 32):
            row, lane = thread // 32, thread % 32
            largest = -qd.math.inf
            column = lane
            while column < columns:
                largest = max(largest, x[row, column])
                column += 32
            largest = subgroup.reduce_all_max(largest)
            total = 0.0
            for k in range((columns + 31 - lane) // 32):
                total += qd.exp(x[row, lane + 32 * k] - largest)
            total = subgroup.reduce_all_add(total)
            for k in range((columns + 31 - lane) // 32):
                y[row, lane + 32 * k] = qd.exp(x[row, lane + 32 * k] - largest) / total

    x = 8 * random(5, columns) - 4
    y = np.zeros_like(x)
    softmax(x, y, columns)
    expected = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, expected / expected.sum(1, keepdims=True), 1e-5)


def test_factors_of_matrices_in_shared_memory() -> None:
    """A block a matrix, a thread a row; barriers in loops whose bounds all threads share."""

    @qd.kernel
    def factor(a: qd.types.ndarray(), n: int):
        qd.loop_config(block_dim=32)
        for thread in range(a.shape[0] * 32):
            m, t = thread // 32, thread % 32
            s = block.SharedArray((12, 12), qd.f32)
            for k in range((n * n + 31) // 32):
                e = k * 32 + t
                if e < n * n:
                    s[e // n, e % n] = a[m, e // n, e % n]
            block.sync()
            for k in range(n - 1):
                if k < t < n:
                    s[t, k] /= s[k, k]
                block.sync()
                for c in range(k + 1, n):
                    if k < t < n:
                        s[t, c] -= s[t, k] * s[k, c]
                block.sync()
            for k in range((n * n + 31) // 32):
                e = k * 32 + t
                if e < n * n:
                    a[m, e // n, e % n] = s[e // n, e % n]

    n = 9
    a = random(3, n, n) + np.float32(n) * np.eye(n, dtype=np.float32)
    factors = a.copy()
    factor(factors, n)
    for f, expected in zip(factors, a):
        np.testing.assert_allclose((np.tril(f, -1) + np.eye(n)) @ np.triu(f), expected, 1e-4, 1e-5)


@pytest.mark.parametrize(("n", "k", "m"), [(8, 8, 8), (13, 9, 17), (1, 3, 2)])
def test_products_by_tiles(n: int, k: int, m: int) -> None:
    """Tiles that stand out over the edges are filled up with zeros."""

    @qd.kernel
    def multiply(a: qd.types.ndarray(), b: qd.types.ndarray(), c: qd.types.ndarray()):
        across = (b.shape[1] + 7) // 8
        qd.loop_config(block_dim=64)
        for thread in range((a.shape[0] + 7) // 8 * across * 64):
            tile, t = thread // 64, thread % 64
            ti, tj = t // 8, t % 8
            left, right = block.SharedArray((8, 8), qd.f32), block.SharedArray((8, 8), qd.f32)
            i, j = tile // across * 8 + ti, tile % across * 8 + tj
            total = 0.0
            for step in range((a.shape[1] + 7) // 8):
                ka, kb = step * 8 + tj, step * 8 + ti
                left[ti, tj] = a[i, ka] if i < a.shape[0] and ka < a.shape[1] else 0.0
                right[ti, tj] = b[kb, j] if kb < b.shape[0] and j < b.shape[1] else 0.0
                block.sync()
                for q in qd.static(range(8)):
                    total += left[ti, q] * right[q, tj]
                block.sync()
            if i < c.shape[0] and j < c.shape[1]:
                c[i, j] = total

    a, b, c = random(n, k), random(k, m), np.zeros((n, m), np.float32)
    multiply(a, b, c)
    np.testing.assert_allclose(c, a @ b, 1e-5)


def test_the_least_of_each_block_and_its_place() -> None:
    @qd.kernel
    def least(x: qd.types.ndarray(), best: qd.types.ndarray(), place: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(x.shape[0]):
            t = block.thread_idx()
            values, places = block.SharedArray((64,), qd.f32), block.SharedArray((64,), qd.i32)
            values[t], places[t] = x[i], i
            block.sync()
            count = min(64, x.shape[0] - i // 64 * 64)
            step = 32
            while step > 0:
                if t < step and t + step < count:
                    a, b = (values[t], places[t]), (values[t + step], places[t + step])
                    if b < a:
                        values[t], places[t] = b
                block.sync()
                step >>= 1
            if t == 0:
                best[i // 64], place[i // 64] = values[0], places[0]

    x = np.floor(random(150) * 20)
    best, place = np.zeros(3, np.float32), np.zeros(3, np.int32)
    least(x, best, place)
    for k in range(3):
        part = x[64 * k : 64 * k + 64]
        assert (best[k], place[k]) == (part.min(), 64 * k + part.argmin())


def test_distances_in_a_graph() -> None:
    """Level by level: whoever comes to a node first puts it into the next queue."""

    @qd.kernel
    def level(
        starts: qd.types.ndarray(),
        ends: qd.types.ndarray(),
        distance: qd.types.ndarray(),
        queue: qd.types.ndarray(),
        count: int,
        found: qd.types.ndarray(),
        counter: qd.types.ndarray(),
        now: int,
    ):
        qd.loop_config(block_dim=32)
        for i in range(count):
            node = queue[i]
            for e in range(starts[node], starts[node + 1]):
                if qd.atomic_cas(distance[ends[e]], -1, now) == -1:
                    found[qd.atomic_add(counter[0], 1)] = ends[e]

    n = 40
    near: list[set[int]] = [set() for _ in range(n)]
    for a, b in np.random.default_rng(5).integers(0, n, (55, 2)).tolist():
        near[a].add(b)
        near[b].add(a)
    starts = np.cumsum([0] + [len(others) for others in near]).astype(np.int32)
    ends = np.array([other for others in near for other in sorted(others)], np.int32)
    distance = np.full(n, -1, np.int32)
    distance[0] = 0
    queue, count, now = np.zeros(n, np.int32), 1, 0
    while count:
        now += 1
        found, counter = np.zeros(n, np.int32), np.zeros(1, np.int32)
        level(starts, ends, distance, queue, count, found, counter, now)
        queue, count = found, int(counter[0])
    expected, front = {0: 0}, [0]
    while front:
        front = [
            other
            for node in front
            for other in near[node]
            if other not in expected and not expected.update({other: expected[node] + 1})
        ]
    assert distance.tolist() == [expected.get(node, -1) for node in range(n)]
