"""Programs as they are written in CUDA, taken over line by line: queues of work, wavefronts, systems, paths, filters."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("widths_of_init")]
block, subgroup = qd.simt.block, qd.simt.subgroup


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_blocks_take_work_until_none_is_left() -> None:
    @qd.kernel
    def work(jobs: qd.types.ndarray(), out: qd.types.ndarray(), head: qd.types.ndarray(), blocks: int):
        qd.loop_config(block_dim=32)
        for i in range(blocks * 32):
            t = block.thread_idx()
            job = block.SharedArray((1,), qd.i32)
            while True:
                if t == 0:
                    job[0] = qd.atomic_add(head[0], 1)
                block.sync()
                k = job[0]
                block.sync()
                if k >= jobs.shape[0]:
                    break
                s = 0
                for q in range(t, jobs[k], 32):
                    s += q
                total = block.reduce_add(s, 32)
                if t == 0:
                    out[k] = total

    jobs = rng(14).integers(0, 100, 23).astype(np.int32)
    out, head = np.full(23, -1, np.int32), np.zeros(1, np.int32)
    work(jobs, out, head, 4)
    assert (out == jobs * (jobs - 1) // 2).all() and head[0] == 27


def test_edit_distances_by_diagonals() -> None:
    """Anti-diagonals in shared memory, three rolling rows."""
    M = 24

    @qd.kernel
    def edit(
        a: qd.types.ndarray(),
        b: qd.types.ndarray(),
        la: qd.types.ndarray(),
        lb: qd.types.ndarray(),
        out: qd.types.ndarray(),
    ):
        qd.loop_config(block_dim=32)
        for p, t in qd.ndrange(a.shape[0], 32):
            d = block.SharedArray((3, M + 1), qd.i32)
            n, m = la[p], lb[p]
            for k in range(n + m + 1):
                cur, one, two = k % 3, (k + 2) % 3, (k + 1) % 3
                if t <= n and 0 <= k - t <= m:
                    i, j = t, k - t
                    if i == 0:
                        d[cur, i] = j
                    elif j == 0:
                        d[cur, i] = i
                    else:
                        cost = 0 if a[p, i - 1] == b[p, j - 1] else 1
                        d[cur, i] = min(d[two, i - 1] + cost, d[one, i] + 1, d[one, i - 1] + 1)
                block.sync()
            if t == n:
                out[p] = d[(n + m) % 3, n]

    g = rng(1)
    a, b = g.integers(0, 4, (5, M)).astype(np.uint8), g.integers(0, 4, (5, M)).astype(np.uint8)
    la, lb = g.integers(1, M, 5).astype(np.int32), g.integers(1, M, 5).astype(np.int32)
    la[0] = 0
    out = np.zeros(5, np.int32)
    edit(a, b, la, lb, out)
    for p in range(5):
        d = np.zeros((la[p] + 1, lb[p] + 1), int)
        d[:, 0] = np.arange(la[p] + 1)
        d[0] = np.arange(lb[p] + 1)
        for i in range(1, la[p] + 1):
            for j in range(1, lb[p] + 1):
                d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[p, i - 1] != b[p, j - 1]))
        assert out[p] == d[-1, -1]


def test_tridiagonal_systems_by_cyclic_reduction() -> None:
    N = 33

    @qd.kernel
    def pcr(
        lo: qd.types.ndarray(),
        di: qd.types.ndarray(),
        up: qd.types.ndarray(),
        rhs: qd.types.ndarray(),
        x: qd.types.ndarray(),
    ):
        qd.loop_config(block_dim=N)
        for s, i in qd.ndrange(rhs.shape[0], N):
            a = block.SharedArray(N, qd.f64)
            b = block.SharedArray(N, qd.f64)
            c = block.SharedArray(N, qd.f64)
            d = block.SharedArray(N, qd.f64)
            a[i], b[i], c[i], d[i] = lo[s, i], di[s, i], up[s, i], rhs[s, i]
            block.sync()
            step = 1
            while step < N:
                na, nb, nc, nd = qd.f64(0), b[i], qd.f64(0), d[i]
                if i - step >= 0:
                    k1 = a[i] / b[i - step]
                    na = -a[i - step] * k1
                    nb -= c[i - step] * k1
                    nd -= d[i - step] * k1
                if i + step < N:
                    k2 = c[i] / b[i + step]
                    nc = -c[i + step] * k2
                    nb -= a[i + step] * k2
                    nd -= d[i + step] * k2
                block.sync()
                a[i], b[i], c[i], d[i] = na, nb, nc, nd
                block.sync()
                step *= 2
            x[s, i] = d[i] / b[i]

    g = rng(2)
    lo, up = g.random((3, N)), g.random((3, N))
    di, rhs = 3 + g.random((3, N)), g.random((3, N))
    lo[:, 0] = 0
    up[:, -1] = 0
    x = np.zeros((3, N))
    pcr(lo, di, up, rhs, x)
    for s in range(3):
        m = np.diag(di[s]) + np.diag(lo[s, 1:], -1) + np.diag(up[s, :-1], 1)
        np.testing.assert_allclose(m @ x[s], rhs[s], 1e-10)


def test_relaxation_until_the_block_agrees() -> None:
    T = 6

    @qd.kernel
    def relax(u: qd.types.ndarray(), rounds: qd.types.ndarray(), tol: qd.f32):
        qd.loop_config(block_dim=T * T)
        for p, y, x in qd.ndrange(u.shape[0], T, T):
            s = block.SharedArray((T + 2, T + 2), qd.f32)
            t = y * T + x
            for k in range(t, (T + 2) * (T + 2), T * T):
                s[k // (T + 2), k % (T + 2)] = u[p, k // (T + 2), k % (T + 2)]
            block.sync()
            going = 1
            n = 0
            while going != 0 and n < 200:
                v = 0.25 * (s[y, x + 1] + s[y + 2, x + 1] + s[y + 1, x] + s[y + 1, x + 2])
                moved = abs(v - s[y + 1, x + 1]) > tol
                block.sync()
                s[y + 1, x + 1] = v
                going = block.sync_any_nonzero(moved)
                n += 1
            u[p, y + 1, x + 1] = s[y + 1, x + 1]
            if t == 0:
                rounds[p] = n

    u = rng(3).random((2, T + 2, T + 2)).astype(np.float32)
    want, n = u.copy(), []
    for p in range(2):
        for k in range(200):
            c = want[p]
            v = np.float32(0.25) * (c[:-2, 1:-1] + c[2:, 1:-1] + c[1:-1, :-2] + c[1:-1, 2:])
            moved = (abs(v - c[1:-1, 1:-1]) > np.float32(1e-3)).any()
            c[1:-1, 1:-1] = v
            if not moved:
                break
        n.append(k + 1)
    rounds = np.zeros(2, np.int32)
    relax(u, rounds, 1e-3)
    assert rounds.tolist() == n
    np.testing.assert_allclose(u, want, 1e-5)


def test_shortest_paths_by_tiles() -> None:
    T = 4

    @qd.func
    def phase1(s: qd.template(), y, x):
        for k in range(T):
            v = s[y, k] + s[k, x]
            block.sync()
            if v < s[y, x]:
                s[y, x] = v
            block.sync()

    @qd.kernel
    def diagonal(d: qd.types.ndarray(), k0: qd.i32):
        qd.loop_config(block_dim=T * T)
        for y, x in qd.ndrange(T, T):
            s = block.SharedArray((T, T), qd.i32)
            s[y, x] = d[k0 + y, k0 + x]
            block.sync()
            phase1(s, y, x)
            d[k0 + y, k0 + x] = s[y, x]

    @qd.kernel
    def cross(d: qd.types.ndarray(), k0: qd.i32, n: qd.i32):
        qd.loop_config(block_dim=T * T)
        for b, which, y, x in qd.ndrange(n // T, 2, T, T):
            s = block.SharedArray((T, T), qd.i32)
            q = block.SharedArray((T, T), qd.i32)
            if b * T != k0:
                r, c = (k0, b * T) if which == 0 else (b * T, k0)
                s[y, x] = d[k0 + y, k0 + x]
                q[y, x] = d[r + y, c + x]
                block.sync()
                for k in range(T):
                    v = s[y, k] + q[k, x] if which == 0 else q[y, k] + s[k, x]
                    block.sync()
                    q[y, x] = min(q[y, x], v)
                    block.sync()
                d[r + y, c + x] = q[y, x]

    @qd.kernel
    def rest(d: qd.types.ndarray(), k0: qd.i32, n: qd.i32):
        qd.loop_config(block_dim=T * T)
        for by, bx, y, x in qd.ndrange(n // T, n // T, T, T):
            if by * T == k0 or bx * T == k0:
                continue
            left = block.SharedArray((T, T), qd.i32)
            top = block.SharedArray((T, T), qd.i32)
            left[y, x] = d[by * T + y, k0 + x]
            top[y, x] = d[k0 + y, bx * T + x]
            block.sync()
            v = d[by * T + y, bx * T + x]
            for k in range(T):
                v = min(v, left[y, k] + top[k, x])
            d[by * T + y, bx * T + x] = v

    n = 12
    d = rng(4).integers(1, 50, (n, n)).astype(np.int32)
    d[rng(5).random((n, n)) < 0.5] = 10**6
    np.fill_diagonal(d, 0)
    want = d.copy()
    for k in range(n):
        want = np.minimum(want, want[:, k : k + 1] + want[k])
    for k0 in range(0, n, T):
        diagonal(d, k0)
        cross(d, k0, n)
        rest(d, k0, n)
    assert (d == want).all()


def test_recurrences_by_scans_of_pairs() -> None:
    @qd.func
    def affine(a, b):
        return qd.Vector([a[0] * b[0], a[1] * b[0] + b[1]])

    @qd.kernel
    def recurrence(c: qd.types.ndarray(), out: qd.types.ndarray()):
        qd.loop_config(block_dim=32)
        for i in range(c.shape[0]):
            v = qd.Vector([c[i, 0], c[i, 1]])
            r = block.inclusive_scan(v, 32, affine, qd.types.vector(2, qd.f32))
            out[i] = r[1]

    c = rng(12).integers(1, 3, (64, 2)).astype(np.float32)
    c[:, 0] = rng(13).choice([-1, 1], 64)
    out = np.zeros(64, np.float32)
    recurrence(c, out)
    for f in (0, 32):
        y = 0
        for i in range(f, f + 32):
            y = c[i, 0] * y + c[i, 1]
            assert out[i] == y


def test_a_filter_of_bytes_with_a_halo() -> None:
    T, R = 8, 2
    weights = [1, 4, 6, 4, 1]

    @qd.kernel
    def blur(src: qd.types.ndarray(), dst: qd.types.ndarray()):
        h, w = src.shape[0], src.shape[1]
        gy, gx = (h + T - 1) // T, (w + T - 1) // T
        qd.loop_config(block_dim=T * T)
        for by, bx, ty, tx in qd.ndrange(gy, gx, T, T):
            s = block.SharedArray((T + 2 * R, T + 2 * R), qd.u8)
            mid = block.SharedArray((T + 2 * R, T), qd.i32)
            for k in range(ty * T + tx, (T + 2 * R) ** 2, T * T):
                yy = by * T + k // (T + 2 * R) - R
                xx = bx * T + k % (T + 2 * R) - R
                inside = 0 <= yy < h and 0 <= xx < w
                s[k // (T + 2 * R), k % (T + 2 * R)] = src[yy, xx] if inside else 0
            block.sync()
            for k in range(ty, T + 2 * R, T):
                acc = 0
                for q in qd.static(range(5)):
                    acc += weights[q] * qd.cast(s[k, tx + q], qd.i32)
                mid[k, tx] = acc
            block.sync()
            y, x = by * T + ty, bx * T + tx
            if y < h and x < w:
                acc = 0
                for q in qd.static(range(5)):
                    acc += weights[q] * mid[ty + q, tx]
                dst[y, x] = qd.cast(acc // 256, qd.u8)

    src = rng(6).integers(0, 256, (19, 21)).astype(np.uint8)
    dst = np.zeros_like(src)
    blur(src, dst)
    p = np.pad(src.astype(int), 2)
    k = np.array(weights)
    rows = sum(k[q] * p[:, q : q + 21] for q in range(5))
    want = sum(k[q] * rows[q : q + 19] for q in range(5)) // 256
    assert (dst == want).all()
