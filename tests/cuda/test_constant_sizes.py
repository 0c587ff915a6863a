"""Loops whose size constants say: a thread for each iteration, in blocks of just as many threads as that takes."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.ptx.driver import played
from quadrants.evidence.ptx.results import Result
from quadrants.targets.llvm import emit_threads
from quadrants.targets.llvm.emit_threads import threads_for

pytestmark = pytest.mark.slow


@pytest.fixture
def driver() -> Iterator[Any]:
    with played(80) as found:
        qd.init(arch=qd.cuda, verify=True, default_ip=qd.i32)
        yield found
        qd.reset()


def body_of(text: str) -> str:
    """The instructions of the only kernel."""
    (found,) = re.findall(r"^\.visible \.entry .*?^}", text, re.MULTILINE | re.DOTALL)
    return found


def has_backward_branch(body: str) -> bool:
    lines = body.splitlines()
    at = {line.strip()[:-1]: k for k, line in enumerate(lines) if re.match(r"\s*\$\w+:", line)}
    branches = [(k, found[1]) for k, line in enumerate(lines) if (found := re.search(r"bra(?:\.uni)?\s+(\$\w+)", line))]
    return any(at[label] <= k for k, label in branches)


def comparisons(body: str) -> int:
    return body.count("setp.")


def divisions(body: str) -> list[str]:
    return re.findall(r"\b(?:div|rem)\.\w+", body)


@pytest.mark.parametrize("size", [1, 31, 32, 64, 255, 256, 257, 5000])
def test_loops_of_constant_size(driver: Any, size: int) -> None:
    x = qd.field(qd.i64, shape=size)

    @qd.kernel
    def fill(a: qd.i64):
        qd.loop_config(serialize=False)
        for i in range(size):
            x[i] += a * i + 1

    fill(3)
    fill(2)
    assert (x.to_numpy() == 5 * np.arange(size) + 2).all()
    body = body_of(driver.texts[-1])
    threads = threads_for(size, 256)
    assert driver.launched[-2:] == [(-(-size // threads), threads)] * 2
    assert f".maxntid {threads}, 1, 1" in body
    assert not has_backward_branch(body) and not divisions(body)
    assert comparisons(body) == (size % threads != 0)
    assert "%ntid" not in body and "%nctaid" not in body
    assert ("%ctaid" in body) == (size > threads)


@pytest.mark.parametrize(
    ("shape", "bounds"),
    [((7, 9), ((-2, 5), (0, 9))), ((16, 16, 4), ((0, 16), (1, 17), (0, 4))), ((5, 1, 300), ((3, 8), (0, 1), (0, 300)))],
    ids=str,
)
def test_nests_of_constant_size(driver: Any, shape: tuple[int, ...], bounds: tuple[tuple[int, int], ...]) -> None:
    y = qd.field(qd.i64, shape=shape)
    lows = [low for low, _ in bounds]

    @qd.kernel
    def two():
        qd.loop_config(serialize=False)
        for i, j in qd.ndrange(*bounds):
            y[i - lows[0], j - lows[1]] += i + 1000 * j

    @qd.kernel
    def three():
        qd.loop_config(serialize=False)
        for i, j, k in qd.ndrange(*bounds):
            y[i - lows[0], j - lows[1], k - lows[2]] += i + 1000 * (j + 1000 * k)

    (two if len(shape) == 2 else three)()
    wanted = sum(1000**k * (at + low) for k, (at, low) in enumerate(zip(np.indices(shape), lows)))
    assert (y.to_numpy() == wanted).all()
    body, count = body_of(driver.texts[-1]), int(np.prod(shape))
    assert not has_backward_branch(body) and not divisions(body)
    assert comparisons(body) == (count % threads_for(count, 256) != 0)
    if shape == (16, 16, 4):
        assert re.search(r"\b(?:and|bfe)\.\w", body) and "mul.hi" not in body and "mul.wide" not in body


def test_large_loops_and_those_of_unknown_size_stay_loops(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emit_threads, "_MOST_FIXED", 5000)
    y = qd.field(qd.i32, shape=(1300, 4))

    @qd.kernel
    def large():
        qd.loop_config(serialize=False)
        for i, j in qd.ndrange((-5, 1295), 4):
            y[i + 5, j] += 4 * i + j

    @qd.kernel
    def unknown(n: qd.i32):
        for i, j in qd.ndrange(n, 4):
            y[i, j] -= 4 * i + j

    large()
    unknown(1300)
    assert (y.to_numpy() == -20).all()
    for text in driver.texts[-2:]:
        body = body_of(text)
        assert has_backward_branch(body) and ".maxntid 256, 1, 1" in body
        assert not divisions(body)  # also where only the innermost extent is known


def test_blocks_of_constant_loops_are_as_large_as_the_user_says(driver: Any) -> None:
    x = qd.field(qd.i32, shape=200)

    @qd.kernel
    def fill():
        qd.loop_config(block_dim=64, serialize=False)
        for i in range(200):
            x[i] = i

    fill()
    assert (x.to_numpy() == np.arange(200)).all()
    assert driver.launched[-1] == (4, 64) and ".maxntid 64, 1, 1" in driver.texts[-1]


def test_loops_without_an_iteration_are_not_launched(driver: Any) -> None:
    x = qd.field(qd.i32, shape=4)
    x.fill(1)
    x.to_numpy()
    before = len(driver.launched)

    @qd.kernel
    def nothing():
        for i in range(3, 1):
            x[i] = i

    nothing()
    assert (x.to_numpy() == 1).all() and len(driver.launched) == before


def test_short_loops_fill_a_warp(driver: Any) -> None:
    """Where nothing is carried, and iterations surely do not meet: one thread would take as long for each of them as all do."""
    x, y = qd.field(qd.i32, shape=64), qd.field(qd.i32, shape=(7, 9))

    @qd.kernel
    def alone():
        for i in range(64):
            x[i] = 3 * i

    @qd.kernel
    def nest():
        for i, j in qd.ndrange(7, 9):
            y[i, j] = 10 * i + j

    @qd.kernel
    def too_few():
        for i in range(31):
            x[i] += 1

    @qd.kernel
    def one_after_the_other():
        for i in range(1, 64):
            x[i] += x[i - 1]

    @qd.kernel
    def scattered():
        for i in range(63):
            x[y[0, 0] * i] = i

    @qd.kernel
    def carried() -> qd.i32:
        total = 0
        for i in range(64):
            total = 3 * total + x[i]
        return total

    numbers = 3 * np.arange(64)
    alone()
    nest()
    too_few()
    numbers[:31] += 1
    one_after_the_other()
    numbers = np.cumsum(numbers)
    assert (x.to_numpy() == numbers).all()
    assert (y.to_numpy() == 10 * np.arange(7)[:, None] + np.arange(9)).all()
    assert driver.launched[-4:] == [(1, 64), (1, 64), (1, 1), (1, 1)]
    scattered()
    assert x[0] == 62  # as in order
    numbers[0] = 62
    wanted = 0
    for number in numbers.astype(np.int32):
        wanted = (3 * wanted + int(number)) & 0xFFFFFFFF
    assert carried() & 0xFFFFFFFF == wanted
    assert driver.launched[-2:] == [(1, 1)] * 2


def test_the_player_refuses_blocks_larger_than_the_kernel_says(driver: Any) -> None:
    x = qd.field(qd.i32, shape=64)

    @qd.kernel
    def fill():
        qd.loop_config(serialize=False)
        for i in range(64):
            x[i] = 1

    fill()
    x.to_numpy()
    frame = (ctypes.c_char * 4096)()
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(frame))
    kernel = 0x700000 + 16 * len(driver.texts)
    codes = [
        driver.bindings.work_of(kernel, 1, threads, ctypes.addressof(parameters), 0)[0] for threads in (64, 65, 1024)
    ]
    assert codes == [Result.CUDA_SUCCESS, Result.CUDA_ERROR_INVALID_VALUE, Result.CUDA_ERROR_INVALID_VALUE]
