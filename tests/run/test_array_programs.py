"""Programs over plain arrays, as users of NumPy and Numba write them: without types, with the arrays that they have."""

from __future__ import annotations

import codecs
import re
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _started(executor: TargetExecutor) -> None:
    executor.initialise(qd)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape)


# Multigrid: functions that loop over grids of three sizes.


def smooth(u, f, h, sweeps):
    n = u.shape[0]
    for _ in range(sweeps):
        for colour in range(2):
            for i in range(1, n - 1):
                for j in range(1, n - 1):
                    if (i + j) % 2 == colour:
                        u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + h * h * f[i, j])


def residual(u, f, r, h):
    n = u.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            r[i, j] = f[i, j] + (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j]) / (h * h)


def coarsened(fine, coarse):
    m = coarse.shape[0]
    for i in range(1, m - 1):
        for j in range(1, m - 1):
            total = 0.0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    total += fine[2 * i + a, 2 * j + b] * (2 - abs(a)) * (2 - abs(b))
            coarse[i, j] = total / 16


def refined(coarse, fine):
    n = fine.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            a, b = i // 2, j // 2
            if i % 2 == 0 and j % 2 == 0:
                fine[i, j] += coarse[a, b]
            elif i % 2 == 0:
                fine[i, j] += 0.5 * (coarse[a, b] + coarse[a, b + 1])
            elif j % 2 == 0:
                fine[i, j] += 0.5 * (coarse[a, b] + coarse[a + 1, b])
            else:
                fine[i, j] += 0.25 * (coarse[a, b] + coarse[a + 1, b] + coarse[a, b + 1] + coarse[a + 1, b + 1])


def v_cycle(u0, f0, r0, u1, f1, r1, u2, f2, h):
    smooth(u0, f0, h, 2)
    residual(u0, f0, r0, h)
    coarsened(r0, f1)
    u1.fill(0)
    smooth(u1, f1, 2 * h, 2)
    residual(u1, f1, r1, 2 * h)
    coarsened(r1, f2)
    u2.fill(0)
    smooth(u2, f2, 4 * h, 20)
    refined(u2, u1)
    smooth(u1, f1, 2 * h, 2)
    refined(u1, u0)
    smooth(u0, f0, h, 2)


def test_a_v_cycle_of_multigrid(executor: TargetExecutor) -> None:
    sizes = (17, 17, 17, 9, 9, 9, 5, 5)
    ours = [np.zeros((n, n)) for n in sizes]
    ours[1] = random(17, 17)
    plain = [grid.copy() for grid in ours]
    kernel = qd.kernel(v_cycle)
    for _ in range(2):
        kernel(*ours, 1 / 16)
        v_cycle(*plain, 1 / 16)
    for found, expected in zip(ours, plain):
        np.testing.assert_allclose(found, expected, 1e-9, 1e-12)
    assert abs(ours[2]).max() < 0.5


# Depth first search with stacks of bits.


def ways(full, columns):
    """In how many ways queens can stand in the rows that are left, the first one in `columns`."""
    free, taken, left, right = [qd.Vector([0] * 12) for _ in range(4)]
    taken[0], left[0], right[0] = columns, columns << 1, columns >> 1
    free[0] = full & ~(columns | left[0] | right[0])
    depth, found = 0, 0
    while depth >= 0:
        if taken[depth] == full:
            found += 1
            depth -= 1
            continue
        if free[depth] == 0:
            depth -= 1
            continue
        bit = free[depth] & -free[depth]
        free[depth] = free[depth] ^ bit
        above = depth
        depth += 1
        taken[depth] = taken[above] | bit
        left[depth] = (left[above] | bit) << 1
        right[depth] = (right[above] | bit) >> 1
        free[depth] = full & ~(taken[depth] | left[depth] | right[depth])
    return found


def test_queens() -> None:
    @qd.kernel
    def count(n, out):
        for first in range(n):
            out[first] = ways((1 << n) - 1, 1 << first)

    for n, expected in ((1, 1), (6, 4), (7, 40)):
        out = np.zeros(n, np.int64)
        count(n, out)
        assert out.sum() == expected


# Bytes.


def test_words_letters_and_ciphers_of_bytes() -> None:
    small, capital = ord("a"), ord("A")

    @qd.kernel
    def read(text, counts, out):
        words = 0
        inside = False
        for i in range(len(text)):
            letter = small <= (text[i] | 32) <= small + 25
            if letter and not inside:
                words += 1
            inside = letter
        for c in text:
            counts[c] += 1
        for i, c in enumerate(text):
            if small <= c <= small + 25:
                out[i] = (c - small + 13) % 26 + small
            elif capital <= c <= capital + 25:
                out[i] = (c - capital + 13) % 26 + capital
            else:
                out[i] = c
        return words

    text = b"The quick brown Fox, jumps over 13 lazy dogs; then it sleeps... zzz!"
    letters = np.frombuffer(text, np.uint8)
    counts, out = np.zeros(256, np.int32), np.zeros_like(letters)
    assert read(letters, counts, out) == len(re.findall(rb"[A-Za-z]+", text))
    assert (counts == np.bincount(letters, minlength=256)).all()
    assert out.tobytes().decode() == codecs.encode(text.decode(), "rot13")


def test_hashes_and_reversed_bits() -> None:
    @qd.kernel
    def hashed(x, out, ones, zeros, backwards):
        for i in range(len(x)):
            h = qd.u64(0xCBF29CE484222325)
            v = x[i]
            for k in range(8):
                h ^= (v >> (8 * k)) & 0xFF
                h *= 0x100000001B3
            h ^= h >> 33
            out[i] = h
            ones[i] = qd.math.popcnt(v)
            zeros[i] = qd.math.clz(v)
            r = qd.u64(0)
            for k in range(64):
                if v & (1 << k):
                    r |= 1 << (63 - k)
            backwards[i] = r

    x = np.array([0, 1, 2**63, 2**64 - 1, 0x123456789ABCDEF0, 12345], np.uint64)
    out, backwards = np.zeros_like(x), np.zeros_like(x)
    ones, zeros = np.zeros(len(x), np.int32), np.zeros(len(x), np.int32)
    hashed(x, out, ones, zeros, backwards)
    for i, v in enumerate(x.tolist()):
        h = 0xCBF29CE484222325
        for k in range(8):
            h = ((h ^ (v >> (8 * k)) & 0xFF) * 0x100000001B3) % 2**64
        assert out[i] == h ^ h >> 33
        assert (ones[i], zeros[i]) == (v.bit_count(), 64 - v.bit_length())
        assert backwards[i] == int(f"{v:064b}"[::-1], 2)


# A queue, and rows of an array that tuples are written to.


def test_filling_an_area() -> None:
    @qd.kernel
    def flood(grid, y, x, new, queue):
        height, width = grid.shape
        old = grid[y, x]
        if old == new:
            return 0
        head, tail = 0, 1
        queue[0] = (y, x)
        grid[y, x] = new
        while head < tail:
            row, column = queue[head]
            head += 1
            for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                i, j = row + dy, column + dx
                if 0 <= i < height and 0 <= j < width and grid[i, j] == old:
                    grid[i, j] = new
                    queue[tail] = (i, j)
                    tail += 1
        return tail

    grid = (random(11, 14) < 0.35).astype(np.int32)
    grid[5, 5] = 0
    expected, waiting, count = grid.copy(), [(5, 5)], 0
    while waiting:
        i, j = waiting.pop()
        if 0 <= i < 11 and 0 <= j < 14 and expected[i, j] == 0:
            expected[i, j] = 7
            count += 1
            waiting += [(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)]
    queue = np.zeros((200, 2), np.int32)
    assert flood(grid, 5, 5, 7, queue) == count
    assert (grid == expected).all()
    assert flood(grid, 5, 5, 7, queue) == 0


# A small machine: a loop that branches on data until it halts.


def test_a_stack_machine() -> None:
    push, add, multiply, twice, less, jump, halt = range(7)

    def run(code, stack):
        counter, top, steps = 0, 0, 0
        while True:
            steps += 1
            op = code[counter]
            counter += 1
            if op == push:
                stack[top] = code[counter]
                top += 1
                counter += 1
            elif op == add or op == multiply:
                top -= 1
                a, b = stack[top - 1], stack[top]
                stack[top - 1] = a + b if op == add else a * b
            elif op == twice:
                stack[top] = stack[top - 1]
                top += 1
            elif op == less:
                stack[top - 1] = stack[top - 1] < code[counter]
                counter += 1
            elif op == jump:
                top -= 1
                counter = code[counter] if stack[top] else counter + 1
            else:
                break
        return steps, top, stack[top - 1]

    code = np.array([push, 3, push, 2, multiply, twice, less, 500, jump, 2, halt])
    plain, ours = np.zeros(8, np.int64), np.zeros(8, np.int64)
    assert qd.kernel(run)(code, ours) == run(code, plain)
    assert (ours == plain).all()


# Sorting in order, in place: what iterations leave to the next is certain.


def merged(x, spare):
    n = len(x)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j >= high or x[i] <= x[j]):
                    spare[k] = x[i]
                    i += 1
                else:
                    spare[k] = x[j]
                    j += 1
        for k in range(n):
            x[k] = spare[k]
        width *= 2


@pytest.mark.parametrize("n", [1, 2, 7, 64, 101])
def test_merging(n: int) -> None:
    x: Any = np.random.default_rng(n).integers(0, 50, n)
    expected = np.sort(x)
    qd.kernel(merged)(x, np.zeros_like(x))
    assert (x == expected).all()
