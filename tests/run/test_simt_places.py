"""What all threads of a block share, in the ways that users write where they are: barriers may stand under it."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsSyntaxError, QuadrantsTypeError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("widths_of_init")]
block = qd.simt.block


@pytest.mark.parametrize("size", [1, 6, 12, 24, 36])
def test_a_block_is_some_of_the_last_axes(size: int) -> None:
    """Of 4 x 3 x 2 x 6: blocks of a part of the last axis, of all of it, and of more, whole or not."""

    @qd.kernel
    def swap(x, y):
        qd.loop_config(block_dim=size)
        for a, b, c, d in qd.ndrange(4, 3, 2, 6):
            t = block.thread_idx()
            shared = block.SharedArray(size, qd.i32)
            shared[t] = ((a * 3 + b) * 2 + c) * 6 + d
            block.sync()
            y[a, b, c, d] = shared[size - 1 - t]
            x[a, b, c, d] = t

    places, found = np.zeros((4, 3, 2, 6), np.int32), np.zeros((4, 3, 2, 6), np.int32)
    swap(places, found)
    flat = np.arange(144)
    assert (places.ravel() == flat % size).all()
    assert (found.ravel() == flat.reshape(-1, size)[:, ::-1].ravel()).all()


def test_counters_over_the_axes_of_a_block_are_its_own() -> None:
    """`a` and `b` are the block's place in the grid; a block of 12 is 2 x 6 threads."""

    @qd.kernel
    def sums(x, y):
        qd.loop_config(block_dim=12)
        for a, b, c, d in qd.ndrange(4, 3, 2, 6):
            shared = block.SharedArray((2, 6), qd.i32)
            shared[c, d] = x[a, b, c, d]
            if a == b:
                continue
            if a > 0 and b != 1:
                block.sync()
                total = 0
                for k in range(6):
                    total += shared[1 - c, k]
                y[a, b, c, d] = total
            for _ in range(b):
                block.sync()
                y[a, b, c, d] += 1

    x = np.random.default_rng(1).integers(0, 99, (4, 3, 2, 6)).astype(np.int32)
    y = np.zeros_like(x)
    sums(x, y)
    a, b, c, d = np.indices(x.shape)
    met = (a != b) & (a > 0) & (b != 1)
    assert (y == np.where(met, x.sum(3)[a, b, 1 - c], 0) + np.where(a != b, b, 0)).all()


def test_shifts_masks_steps_and_differences_of_numbers() -> None:
    @qd.kernel
    def places(y):
        qd.loop_config(block_dim=64)
        for i in range(200):
            t = i & 63
            number = i >> 6
            if number > 0:
                block.sync()
                y[0, i] = number
            if i // 8 // 8 > 1:
                block.sync()
                y[1, i] = t
            base = i - t
            for k in range(base, min(base + 64, 130), 32):
                block.sync()
                y[2, i] += k
            if (block.global_thread_idx() >> 2 >> 4) == 1:
                block.sync()
                y[3, i] = base
            if i - block.thread_idx() == 64 and i >> 7 == 0:
                block.sync()
                y[4, i] = i // 16 % 12  # twelve parts of 16 in three blocks

    y = np.zeros((5, 200), np.int32)
    places(y)
    i = np.arange(200)
    base = i // 64 * 64
    assert (y[0] == i // 64).all() and (y[1] == np.where(i // 64 > 1, i % 64, 0)).all()
    assert (y[2] == [sum(range(b, min(b + 64, 130), 32)) for b in base]).all()
    assert (y[3] == np.where(i // 64 == 1, base, 0)).all()
    assert (y[4] == np.where(i // 64 == 1, i // 16 % 12, 0)).all()


@pytest.mark.parametrize("shift", [5, 0, 6, 31, 40])
def test_numbers_that_differ_in_a_block(shift: int) -> None:
    @qd.kernel
    def parted(x):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            if i >> shift == 0:
                block.sync()
                x[i] = 1

    x = np.zeros(70, np.int32)
    if shift < 6:
        with pytest.raises(
            QuadrantsSyntaxError, match=r"not all threads of a block come here[\s\S]*if i >> shift == 0"
        ):
            parted(x)
    else:
        parted(x)
        assert x.all() or shift == 6 and (x == (np.arange(70) < 64)).all()


def test_counters_that_differ_in_a_block() -> None:
    @qd.kernel
    def parted(x):
        qd.loop_config(block_dim=32)
        for a, b, c in qd.ndrange(3, 4, 4):
            if a == 0:
                block.sync()
                x[a, b, c] = 1

    with pytest.raises(QuadrantsSyntaxError, match=r"not all threads of a block come here[\s\S]*if a == 0"):
        parted(np.zeros((3, 4, 4)))


def test_types_of_vectors_are_made_where_they_are_used() -> None:
    @qd.kernel
    def turn(x, y):
        qd.loop_config(block_dim=8)
        for i in range(len(x)):
            t = block.thread_idx()
            pairs = block.SharedArray(8, qd.types.vector(2, qd.i64))
            squares = block.SharedArray((8,), qd.types.matrix(n=2, m=2, dtype=float))
            pairs[t] = qd.Vector([i, -i])
            squares[t] = qd.Matrix([[x[i], 0], [1, 2 * x[i]]])
            block.sync()
            wide = qd.types.vector(3, qd.f32)(7 - t)
            y[i] = pairs[7 - t][1] + squares[t // 2].trace() + wide.sum()

    x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    turn(x, y)
    i = np.arange(16)
    assert (y == -(i // 8 * 8 + 7 - i % 8) + 3 * x[i // 8 * 8 + i % 8 // 2] + 3 * (7 - i % 8)).all()


def test_mistakes_in_types_of_vectors() -> None:
    @qd.kernel
    def unknown(x, n: int):
        for i in range(len(x)):
            x[i] = qd.types.vector(n, qd.f32)(1).sum()

    with pytest.raises(QuadrantsTypeError, match="must be known at compile time"):
        unknown(np.zeros(3, np.float32), 3)

    @qd.kernel
    def negative(x):
        for i in range(len(x)):
            x[i] = qd.types.vector(-1, qd.f32)(1).sum()

    with pytest.raises(QuadrantsTypeError, match="the length of a vector must be a positive int") as found:
        negative(np.zeros(3, np.float32))
    assert "qd.types.vector(-1, qd.f32)" in str(found.value) and "lang/types.py" not in str(found.value)
