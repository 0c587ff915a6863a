"""Mistakes of those who write blocks of threads as in other languages: the line marked `# here`, the reason, the way out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsCompilationError, QuadrantsSyntaxError, QuadrantsTypeError

block, grid, subgroup = qd.simt.block, qd.simt.grid, qd.simt.subgroup


@dataclass
class Particle:
    place: qd.f32
    mass: qd.f32


def return_in_a_thread(x, n):
    """the threads of blocks cannot return from the kernel
    `continue` ends one thread"""
    for i in range(64):
        if i >= n:
            return  # here
        block.sync()
        x[i] = 1


def threads_in_an_inner_loop(x, n):
    """block_dim is for loops at a kernel's top level
    for b in range(2):
    this loop's iterations are the threads
    for b, t in qd.ndrange(blocks, 64)"""
    for b in range(2):
        qd.loop_config(block_dim=32)
        for t in range(32):  # here
            s = block.SharedArray((32,), qd.f32)
            s[t] = x[b * 32 + t]
            block.sync()
            x[b * 32 + t] = s[31 - t]


def block_of_two_sizes(x, n):
    """block_dim takes no such value
    (8, 8)
    of 8 x 8 it is 64, in front of qd.ndrange(…, 8, 8)"""
    qd.loop_config(block_dim=(8, 8))  # here
    for i in range(64):
        x[i] = block.thread_idx()


def block_of_a_size_known_later(x, n):
    """loop_config takes values known at compile time
    block_dim: a number
    a parameter annotated with qd.template()"""
    qd.loop_config(block_dim=n)  # here
    for i in range(64):
        x[i] = block.thread_idx()


def shared_array_of_a_size_known_later(x, n):
    """this size must be known at compile time
    a parameter annotated with qd.template()"""
    for i in range(64):
        s = block.SharedArray((n,), qd.f32)  # here
        s[0] = x[i]


def shared_array_of_objects(x, n):
    """a shared array has numbers, vectors or matrices as elements
    objects of Particle
    make a shared array for each of its members"""
    for i in range(64):
        s = block.SharedArray((8,), Particle)  # here
        s[0].mass = x[i]


def brackets_of_c(x, n):
    """1 indices into an array of f32 with 2 axes left
    `a[i, j]`"""
    for i in range(64):
        s = block.SharedArray((8, 8), qd.f32)
        s[i // 8][i % 8] = x[i]  # here


def shared_array_in_front_of_the_loop(x, n):
    """a shared array is for loops at a kernel's top level"""
    s = block.SharedArray((8,), qd.f32)  # here
    for i in range(64):
        s[i % 8] = x[i]


def barrier_between_loops(x, n):
    """a barrier is for loops at a kernel's top level"""
    for i in range(64):
        x[i] = 1
    block.sync()  # here


def block_loop_under_a_condition(x, n):
    """a barrier is for loops at a kernel's top level
    what is around its loop comes into the loop, or around the launch of the kernel"""
    if n > 3:
        for i in range(64):
            block.sync()  # here
            x[i] = 1


def size_that_is_divided(x, n):
    """sizes are integers
    16.0
    `//`"""
    for i in range(64):
        s = block.SharedArray(32 / 2, qd.f32)  # here
        s[0] = x[i]


def sums_of_truths(x, n):
    """threads combine numbers
    subgroup.ballot"""
    for i in range(64):
        x[i] = subgroup.reduce_add(x[i] > 3)  # here


def barrier_of_cuda(x, n):
    """qd.simt.block has no 'syncthreads': qd.simt.block.sync()"""
    for i in range(64):
        x[i] = 1
        block.syncthreads()  # here


def barrier_of_all_blocks(x, n):
    """qd.simt.grid has no 'sync': blocks do not wait for one another: end the loop here"""
    for i in range(64):
        x[i] = 1
        grid.sync()  # here


def number_of_a_block(x, n):
    """qd.simt.block has no 'block_idx': a block's number is the iteration's, divided by the block's size"""
    for i in range(64):
        x[block.block_idx()] = 1  # here


MISTAKES = [
    return_in_a_thread,
    threads_in_an_inner_loop,
    block_of_two_sizes,
    block_of_a_size_known_later,
    shared_array_of_a_size_known_later,
    shared_array_of_objects,
    brackets_of_c,
    shared_array_in_front_of_the_loop,
    barrier_between_loops,
    block_loop_under_a_condition,
    size_that_is_divided,
    sums_of_truths,
    barrier_of_cuda,
    barrier_of_all_blocks,
    number_of_a_block,
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake(mistake: Callable[..., Any]) -> None:
    lines, first = inspect.getsourcelines(mistake)
    line = first + next(at for at, text in enumerate(lines) if text.rstrip().endswith("# here"))
    with pytest.raises((QuadrantsSyntaxError, QuadrantsTypeError, IndexError)) as found:
        qd.kernel(mistake)(np.zeros(64, np.float32), 64)
    assert isinstance(found.value, QuadrantsCompilationError)
    message = str(found.value)
    expected = [text.strip() for text in (mistake.__doc__ or "").splitlines()]
    assert message.splitlines()[0].startswith(f"{__file__}:{line}:")
    assert all(text in message for text in expected), message


def test_names_that_mean_nothing_are_only_lacking() -> None:
    with pytest.raises(AttributeError, match=r"qd\.simt\.subgroup has no 'nonsense'$"):
        _ = subgroup.nonsense
    assert not hasattr(block, "__wrapped__")


@pytest.mark.parametrize("arch", ["reference", "x64"])
def test_shared_and_own_memory_have_their_names(arch: str) -> None:
    """A thread's own vector lies among those of all threads where they run in turn: the first number is the thread's."""
    qd.init(arch=arch, debug=True, log_level=qd.ERROR)

    @qd.kernel
    def beyond(x, shift: int, own: int):
        qd.loop_config(block_dim=8)
        for i in range(16):
            mine = qd.Vector([0, 1, 2])
            mine[own] = i
            shared = block.SharedArray((8, 2), qd.f32)
            shared[i % 8 + shift, 1] = x[i]
            block.sync()
            x[i] = shared[7 - i % 8, 1] + mine[own]

    x = np.zeros(16, np.float32)
    with pytest.raises(
        qd.QuadrantsAssertionError, match=r"shared\[8, 1\] is out of range: the shape of shared is \(8, 2\)"
    ):
        beyond(x, 1, 0)
    with pytest.raises(
        qd.QuadrantsAssertionError, match=r"mine\[(\d, )?5\] is out of range: the shape of mine is \((8, )?3"
    ):
        beyond(x, 0, 5)
    qd.reset()
