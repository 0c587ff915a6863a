"""Programs as they are written in CUDA, taken over line by line: sums in trees, histograms, compaction, transforms, rows."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("widths_of_init")]
block, subgroup = qd.simt.block, qd.simt.subgroup


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_prefixes_by_a_tree_in_padded_memory() -> None:
    N = 128

    @qd.func
    def cf(n):
        return n + (n >> 5)

    @qd.kernel
    def exscan(x: qd.types.ndarray(), y: qd.types.ndarray()):
        qd.loop_config(block_dim=N // 2)
        for g in range(x.shape[0] // 2):
            temp = block.SharedArray((N + N // 32,), qd.i32)
            tid = g % (N // 2)
            base = g // (N // 2) * N
            ai = tid
            bi = tid + N // 2
            temp[cf(ai)] = x[base + ai]
            temp[cf(bi)] = x[base + bi]
            offset = 1
            d = N >> 1
            while d > 0:
                block.sync()
                if tid < d:
                    a = cf(offset * (2 * tid + 1) - 1)
                    b = cf(offset * (2 * tid + 2) - 1)
                    temp[b] += temp[a]
                offset *= 2
                d >>= 1
            if tid == 0:
                temp[cf(N - 1)] = 0
            d = 1
            while d < N:
                offset >>= 1
                block.sync()
                if tid < d:
                    a = cf(offset * (2 * tid + 1) - 1)
                    b = cf(offset * (2 * tid + 2) - 1)
                    t = temp[a]
                    temp[a] = temp[b]
                    temp[b] += t
                d *= 2
            block.sync()
            y[base + ai] = temp[cf(ai)]
            y[base + bi] = temp[cf(bi)]

    x = rng(7).integers(-9, 9, 2 * N).astype(np.int32)
    y = np.zeros_like(x)
    exscan(x, y)
    want = np.concatenate([np.cumsum(p) - p for p in x.reshape(2, N)])
    assert (y == want).all()


def test_a_histogram_of_more_bins_than_threads() -> None:
    BINS, B = 256, 64

    @qd.kernel
    def hist(data: qd.types.ndarray(dtype=qd.u8, ndim=1), bins: qd.types.ndarray(dtype=qd.u32, ndim=1), blocks: qd.i32):
        qd.loop_config(block_dim=B)
        for g in range(blocks * B):
            t = block.thread_idx()
            local = block.SharedArray((BINS,), qd.u32)
            for k in range(t, BINS, B):
                local[k] = 0
            block.sync()
            for k in range(g, data.shape[0], blocks * B):
                qd.atomic_add(local[data[k]], 1)
            block.sync()
            for k in range(t, BINS, B):
                if local[k] > 0:
                    qd.atomic_add(bins[k], local[k])

    data = (rng(8).standard_normal(1500) * 30 + 128).astype(np.uint8)
    bins = np.zeros(256, np.uint32)
    hist(data, bins, 3)
    assert (bins == np.bincount(data, minlength=256)).all()


def test_blocks_reserve_places_for_what_they_keep() -> None:
    B = 96

    @qd.kernel
    def compact(x: qd.types.ndarray(), y: qd.types.ndarray(), counter: qd.types.ndarray()):
        qd.loop_config(block_dim=B)
        for i in range((x.shape[0] + B - 1) // B * B):
            t = block.thread_idx()
            warp = t // 32
            warp_counts = block.SharedArray((B // 32,), qd.i32)
            base = block.SharedArray((1,), qd.i32)
            keep = False
            v = 0
            if i < x.shape[0]:
                v = x[i]
                keep = v % 3 == 0
            mask = subgroup.ballot(keep)
            if subgroup.invocation_id() == 0:
                warp_counts[warp] = qd.math.popcnt(mask)
            block.sync()
            if t == 0:
                total = 0
                for w in qd.static(range(B // 32)):
                    c = warp_counts[w]
                    warp_counts[w] = total
                    total += c
                base[0] = qd.atomic_add(counter[0], total)
            block.sync()
            if keep:
                y[base[0] + warp_counts[warp] + qd.math.popcnt(mask & subgroup.lanemask_lt())] = v

    x = rng(12).integers(0, 1000, 500).astype(np.int32)
    y = np.zeros(500, np.int32)
    counter = np.zeros(1, np.int32)
    compact(x, y, counter)
    want = x[x % 3 == 0]
    assert counter[0] == len(want)
    assert (np.sort(y[: counter[0]]) == np.sort(want)).all()


def test_fourier_transforms_of_rows() -> None:
    N = 64
    vec2 = qd.math.vec2

    @qd.kernel
    def fft(re: qd.types.ndarray(), im: qd.types.ndarray()):
        qd.loop_config(block_dim=N // 2)
        for g in range(re.shape[0] * (N // 2)):
            row = g // (N // 2)
            t = g % (N // 2)
            a = block.SharedArray((N,), vec2)
            b = block.SharedArray((N,), vec2)
            a[t] = vec2(re[row, t], im[row, t])
            a[t + N // 2] = vec2(re[row, t + N // 2], im[row, t + N // 2])
            block.sync()
            for s in qd.static(range(6)):
                m = 1 << s
                k = t & (m - 1)
                j = t - k
                ang = -qd.math.pi * j / (N // 2)
                w = vec2(qd.cos(ang), qd.sin(ang))
                if qd.static(s % 2 == 0):
                    u, v = a[t], a[t + N // 2]
                    b[2 * j + k] = u + v
                    b[2 * j + k + m] = qd.math.cmul(u - v, w)
                else:
                    u, v = b[t], b[t + N // 2]
                    a[2 * j + k] = u + v
                    a[2 * j + k + m] = qd.math.cmul(u - v, w)
                block.sync()
            for h in range(2):
                re[row, t + h * (N // 2)] = a[t + h * (N // 2)].x
                im[row, t + h * (N // 2)] = a[t + h * (N // 2)].y

    x = rng(1).standard_normal((3, N)) + 1j * rng(2).standard_normal((3, N))
    re, im = x.real.astype(np.float32).copy(), x.imag.astype(np.float32).copy()
    fft(re, im)
    np.testing.assert_allclose(re + 1j * im, np.fft.fft(x, axis=1), 1e-4, 1e-4)


def test_the_first_largest_of_a_row() -> None:
    B = 64

    @qd.func
    def better(va, ia, vb, ib):
        return vb > va or (vb == va and ib < ia)

    @qd.kernel
    def argmax(x: qd.types.ndarray(), val: qd.types.ndarray(), idx: qd.types.ndarray()):
        qd.loop_config(block_dim=B)
        for g in range(x.shape[0] * B):
            row = g // B
            t = g % B
            sv = block.SharedArray((B // 32,), qd.f32)
            si = block.SharedArray((B // 32,), qd.i32)
            v = -1e30
            i = 2147483647
            for c in range(t, x.shape[1], B):
                if better(v, i, x[row, c], c):
                    v = x[row, c]
                    i = c
            for k in qd.static([16, 8, 4, 2, 1]):
                ov = subgroup.shuffle_xor(v, k)
                oi = subgroup.shuffle_xor(i, k)
                if better(v, i, ov, oi):
                    v, i = ov, oi
            if subgroup.elect():
                sv[t // 32] = v
                si[t // 32] = i
            block.sync()
            if t == 0:
                for w in range(1, B // 32):
                    if better(v, i, sv[w], si[w]):
                        v = sv[w]
                        i = si[w]
                val[row] = v
                idx[row] = i

    x = rng(6).integers(0, 8, (4, 150)).astype(np.float32)
    val, idx = np.zeros(4, np.float32), np.zeros(4, np.int32)
    argmax(x, val, idx)
    assert (idx == x.argmax(1)).all() and (val == x.max(1)).all()


def test_means_and_variances_merged_by_shuffles() -> None:
    B = 64

    @qd.func
    def merge(ma, m2a, na, mb, m2b, nb):
        n = na + nb
        d = mb - ma
        r = nb / qd.max(n, 1.0)
        return ma + d * r, m2a + m2b + d * d * na * r, n

    @qd.kernel
    def layernorm(
        x: qd.types.ndarray(), y: qd.types.ndarray(), gamma: qd.types.ndarray(), beta: qd.types.ndarray(), eps: float
    ):
        qd.loop_config(block_dim=B)
        for row, t in qd.ndrange(x.shape[0], B):
            sm = block.SharedArray((B // 32, 3), qd.f32)
            m, m2, n = 0.0, 0.0, 0.0
            for c in range(t, x.shape[1], B):
                n += 1.0
                d = x[row, c] - m
                m += d / n
                m2 += d * (x[row, c] - m)
            for k in qd.static((16, 8, 4, 2, 1)):
                om, om2, on = subgroup.shuffle_down(m, k), subgroup.shuffle_down(m2, k), subgroup.shuffle_down(n, k)
                m, m2, n = merge(m, m2, n, om, om2, on)
            if t % 32 == 0:
                sm[t // 32, 0], sm[t // 32, 1], sm[t // 32, 2] = m, m2, n
            block.sync()
            m, m2, n = merge(sm[0, 0], sm[0, 1], sm[0, 2], sm[1, 0], sm[1, 1], sm[1, 2])
            inv = qd.rsqrt(m2 / n + eps)
            for c in range(t, x.shape[1], B):
                y[row, c] = (x[row, c] - m) * inv * gamma[c] + beta[c]

    for cols in (100, 20):
        x = rng(cols).standard_normal((3, cols)).astype(np.float32) * 3 + 1
        ga, be = rng(1).random(cols).astype(np.float32), rng(2).random(cols).astype(np.float32)
        y = np.zeros_like(x)
        layernorm(x, y, ga, be, 1e-5)
        x64 = x.astype(float)
        want = (x64 - x64.mean(1, keepdims=True)) / np.sqrt(x64.var(1, keepdims=True) + 1e-5) * ga + be
        np.testing.assert_allclose(y, want, 1e-4, 1e-4)
