"""Launches on a GPU with arrays of the host: what of Python and of the driver a launch takes, and that the copies are right."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsTypeError
from quadrants.evidence.ptx.driver import PlayedDriver
from quadrants.runtime import launch

from .foreign import CudaArray
from .launching import OURS, number, python_calls, saxpy, warm

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not launch.is_native(), reason="no launcher of machine code here")]

UP, RUN, DOWN = "cuMemcpyHtoD", "cuLaunchKernel", "cuMemcpyDtoH"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each call that goes through all of Python."""
    found: list[int] = []
    original = type(saxpy)._slow_call

    def counted(self: Any, *arguments: Any) -> Any:
        found.append(1)
        return original(self, *arguments)

    monkeypatch.setattr(type(saxpy), "_slow_call", counted)
    return found


def copies(driver: PlayedDriver, slow: list[int], launch_once: Callable[[], Any]) -> list[str]:
    """What the driver is asked for by a launch that does not go through all of Python."""
    asked, before = len(slow), len(driver.bindings.calls)
    launch_once()
    assert len(slow) == asked
    return [name for name in driver.bindings.calls[before:] if name != "cuCtxSetCurrent"]


def numbered(shape: tuple[int, int], dtype: Any = np.int32) -> np.ndarray:
    i, j = np.indices(shape)
    return (10 * i + j).astype(dtype)


def test_what_a_launch_takes(driver: PlayedDriver, slow: list[int]) -> None:
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    warm(lambda: saxpy(y, 2.0, x))
    assert copies(driver, slow, lambda: saxpy(y, 3.0, x)) == [UP, UP, RUN, DOWN], "what is only read does not come back"
    assert y.tolist() == [9.0] * 64 and x.tolist() == [1.0] * 64
    assert len(python_calls(lambda: saxpy(y, 1.0, x), OURS)) <= 50
    assert copies(driver, slow, lambda: saxpy(x=x, a=1.0, y=y)) == [UP, UP, RUN, DOWN]
    assert copies(driver, slow, lambda: saxpy(np.zeros(3, np.float32), 1.0, x[:3])) == [UP, UP, RUN, DOWN]
    many = [qd.kernel(saxpy.function) for _ in range(8)]
    for kernel in many:  # other kernels on the GPU make it no dearer
        kernel(y, 0.0, x)
    assert len(python_calls(lambda: saxpy(y, 1.0, x), OURS)) <= 50


def test_dense_arrays_are_copied_in_place(
    driver: PlayedDriver, slow: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    square = np.asfortranarray(numbered((3, 5)))
    warm(lambda: saxpy(y, 0.0, x))
    warm(lambda: number(square, 0))
    places: list[tuple[int, int]] = []
    up, down = driver.bindings.cuMemcpyHtoD, driver.bindings.cuMemcpyDtoH
    monkeypatch.setattr(driver.bindings, "cuMemcpyHtoD", lambda *given: (places.append(given[1:]), up(*given))[1])
    monkeypatch.setattr(driver.bindings, "cuMemcpyDtoH", lambda *given: (places.append(given[::2]), down(*given))[1])
    saxpy(y, 1.0, x)
    number(square, 1)
    at = [(array.ctypes.data, array.nbytes) for array in (x, y, square)]
    assert sorted(places) == sorted([at[0], at[1], at[1], at[2], at[2]])
    assert (square == 2 * numbered((3, 5))).all()


@pytest.mark.parametrize(
    "of",
    [
        lambda base: base[::2, 1::2],
        lambda base: base[::-1, ::-1],
        lambda base: base.T,
        lambda base: base[:, 3:4],
        lambda base: base[2:3],
        lambda base: base[:0],
        lambda base: base[:, :0],
    ],
)
def test_views(driver: PlayedDriver, slow: list[int], of: Callable[[np.ndarray], np.ndarray]) -> None:
    base, expected = np.arange(48, dtype=np.int32).reshape(6, 8), np.arange(48, dtype=np.int32).reshape(6, 8)
    view = of(base)
    warm(lambda: number(view, 1))
    copies(driver, slow, lambda: number(view, 1))
    part = of(expected)
    part += 4 * numbered(part.shape)
    assert (base == expected).all()


def test_what_lies_between_elements_is_others(
    driver: PlayedDriver, slow: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may write there while the kernel runs."""
    base = np.zeros(16, np.float32)
    x = np.ones(8, np.float32)
    warm(lambda: saxpy(base[::2], 1.0, x))
    down = driver.bindings.cuMemcpyDtoH

    def meanwhile(*given: Any) -> Any:
        base[1::2] = 7.0
        return down(*given)

    monkeypatch.setattr(driver.bindings, "cuMemcpyDtoH", meanwhile)
    assert copies(driver, slow, lambda: saxpy(base[::2], 1.0, x)) == [UP, UP, RUN, DOWN]
    assert base.tolist() == [4.0, 7.0] * 8


def test_arrays_that_share_memory(driver: PlayedDriver, slow: list[int]) -> None:
    @qd.kernel
    def shift(a, b):
        for i in range(a.shape[0]):
            a[i] = b[i] + 1

    same, apart = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    for _ in range(3):
        shift(apart, same)
        shift(same, same)
    assert copies(driver, slow, lambda: shift(apart, same)) == [UP, UP, RUN, DOWN]
    assert copies(driver, slow, lambda: shift(same, same)) == [UP, RUN, DOWN], "given twice, it is one there"
    assert same.tolist() == [4, 5, 6, 7] and apart.tolist() == [4, 5, 6, 7]
    base = np.arange(8, dtype=np.int32)
    even, odd = base[::2], base[1::2]
    warm(lambda: shift(even, odd))
    assert copies(driver, slow, lambda: shift(even, odd)) == [UP, RUN, DOWN]
    assert base.tolist() == [2, 1, 4, 3, 6, 5, 8, 7]
    ahead, behind = base[1:], base[:-1]
    warm(lambda: shift(behind, ahead))
    assert copies(driver, slow, lambda: shift(behind, ahead))[-2:] == [RUN, DOWN]
    assert base.tolist()[-1] == 7 and shift._last.may_alias


def test_scalars_and_nothing(driver: PlayedDriver, slow: list[int]) -> None:
    @qd.kernel
    def count(total, x):
        for i in range(x.shape[0]):
            total[None] += x[i]

    total, x = np.array(0), np.arange(5)
    warm(lambda: count(total, x))
    copies(driver, slow, lambda: count(total, x))
    assert total == 40
    copies(driver, slow, lambda: count(total, x[:0]))
    assert total == 40


def test_arrays_that_are_read_only(driver: PlayedDriver, slow: list[int]) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    x.flags.writeable = False
    warm(lambda: saxpy(y, 1.0, x))
    assert copies(driver, slow, lambda: saxpy(y, 1.0, x)) == [UP, UP, RUN, DOWN]
    y.flags.writeable = False
    with pytest.raises(QuadrantsTypeError, match="read-only array 'y'"):
        saxpy(y, 1.0, x)
    assert y.tolist() == [4.0] * 4


def test_beside_arrays_of_the_gpu(driver: PlayedDriver, slow: list[int]) -> None:
    ours, x = qd.ndarray(qd.f32, 8), np.ones(8, np.float32)
    ours.fill(0.0)
    theirs = CudaArray(driver, np.zeros(8, np.float32))
    for y in (ours, theirs):
        warm(lambda y=y: saxpy(y, 1.0, x))
        assert copies(driver, slow, lambda y=y: saxpy(y, 1.0, x)) == [UP, RUN]
    assert ours.to_numpy().tolist() == theirs.values().tolist() == [4.0] * 8
    warm(lambda: saxpy(x, 1.0, ours))
    assert copies(driver, slow, lambda: saxpy(x, 1.0, ours)) == [UP, RUN, DOWN]
    assert x.tolist() == [17.0] * 8


def test_views_of_blocks(driver: PlayedDriver, slow: list[int]) -> None:
    """The host's view of a field's memory, which others have: the field itself then goes there, too."""
    ours, x = qd.ndarray(qd.f32, 8), np.ones(8, np.float32)
    view = ours.to_numpy(copy=False)
    warm(lambda: saxpy(view, 1.0, x))
    copies(driver, slow, lambda: saxpy(view, 1.0, x))
    assert ours[3] == 4.0
    saxpy(view, 1.0, ours)
    assert ours[3] == 8.0 and view[4] == 8.0


def test_captured_arrays(driver: PlayedDriver, slow: list[int]) -> None:
    table = np.arange(4.0)

    @qd.kernel
    def look(out, step: float):
        for i in range(out.shape[0]):
            out[i] = table[i] * step

    out = np.zeros(4)
    warm(lambda: look(out, 2.0))
    copies(driver, slow, lambda: look(out, 3.0))
    assert out.tolist() == [0.0, 3.0, 6.0, 9.0]
    table[1] = 5.0
    copies(driver, slow, lambda: look(out, 1.0))
    assert out.tolist() == [0.0, 5.0, 2.0, 3.0]


@dataclasses.dataclass
class State:
    x: Any
    y: Any


def test_members(driver: PlayedDriver, slow: list[int]) -> None:
    @qd.kernel
    def add(state):
        for i in range(state.x.shape[0]):
            state.y[i] += state.x[i]

    @qd.kernel
    def add_pair(pair):
        for i in range(pair[0].shape[0]):
            pair[1][i] += pair[0][i]

    state = State(np.ones(4), np.zeros(4))
    warm(lambda: add(state))
    assert copies(driver, slow, lambda: add(state)) == [UP, UP, RUN, DOWN]
    state.x = np.full(4, 10.0)
    copies(driver, slow, lambda: add(state))
    assert state.y.tolist() == [14.0] * 4
    warm(lambda: add_pair((state.x, state.y)))
    copies(driver, slow, lambda: add_pair((state.x, state.y)))
    assert state.y.tolist() == [54.0] * 4


def test_a_member_that_is_assigned_anew_while_it_is_copied(
    driver: PlayedDriver, slow: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver lets other threads run while it copies: what it copies to is there until the launch is over."""

    @qd.kernel
    def add(state):
        for i in range(state.x.shape[0]):
            state.y[i] += state.x[i]

    state = State(np.ones(4), np.zeros(4))
    warm(lambda: add(state))
    references: list[int] = []
    down = driver.bindings.cuMemcpyDtoH

    def meanwhile(*given: Any) -> Any:
        before, state.y = state.y, np.zeros(4)
        references.append(sys.getrefcount(before))
        return down(*given)

    monkeypatch.setattr(driver.bindings, "cuMemcpyDtoH", meanwhile)
    copies(driver, slow, lambda: add(state))
    assert references[0] > 2, "the launch holds it, too"
    assert state.y.tolist() == [0.0] * 4


def test_results(driver: PlayedDriver, slow: list[int]) -> None:
    @qd.kernel
    def total(x) -> float:
        s = 0.0
        for i in range(x.shape[0]):
            s += x[i]
        return s

    x = np.ones(100)
    warm(lambda: total(x))
    assert total(x) == 100.0
    x[3] = 5.0
    copies(driver, slow, lambda: total(x))
    assert total(x) == 104.0


@pytest.mark.parametrize("where", ["cuMemcpyHtoD", "cuMemcpyDtoH"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
def test_what_is_raised_while_it_copies(
    driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch, where: str, kind: type[BaseException]
) -> None:
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    warm(lambda: saxpy(y, 1.0, x))
    held = sys.getrefcount(x), sys.getrefcount(y)

    def stop(*_: Any) -> Any:
        raise kind

    with monkeypatch.context() as patched:
        patched.setattr(driver.bindings, where, stop)
        for _ in range(3):
            with pytest.raises((kind, RuntimeError)):
                saxpy(y, 1.0, x)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == held
    y[:] = 0.0
    saxpy(y, 1.0, x)
    assert y.tolist() == [1.0] * 8


def test_what_is_raised_beside_streams_of_others(driver: PlayedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is told as it is, although those streams wait for what was launched."""
    stream = driver.bindings.cuStreamCreate(1)[1]
    x, y = np.ones(8, np.float32), CudaArray(driver, np.zeros(8, np.float32), stream)
    warm(lambda: saxpy(y, 1.0, x))

    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(driver.bindings, "cuMemcpyHtoD", stop)
        with pytest.raises(KeyboardInterrupt):
            saxpy(y, 1.0, x)
        assert driver.bindings.calls[-1] == "cuStreamWaitEvent"
    saxpy(y, 1.0, x)
    assert y.values().tolist() == [4.0] * 8


def test_references_are_balanced(driver: PlayedDriver) -> None:
    state, x, y = State(np.ones(4), np.zeros(4)), np.ones(4, np.float32), np.zeros(4, np.float32)

    @qd.kernel
    def add(state):
        for i in range(state.x.shape[0]):
            state.y[i] += state.x[i]

    def calls() -> None:
        add(state)
        saxpy(y, 1.0, x)
        saxpy(y, 1.0, x[1:])

    objects = [state, state.x, state.y, x, y, add, saxpy]
    warm(calls)
    objects += [*add._installed, *saxpy._installed]
    before = [sys.getrefcount(item) for item in objects]
    left = driver.bindings.left
    for _ in range(20):
        calls()
    assert [sys.getrefcount(item) for item in objects] == before
    assert driver.bindings.left == left


def test_memory_that_is_not_there(driver: PlayedDriver) -> None:
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    warm(lambda: saxpy(y, 1.0, x))
    driver.bindings.left = 100
    with pytest.raises(MemoryError, match=r"no memory left(.|\n)*in kernel saxpy"):
        saxpy(np.zeros(2000, np.float32), 1.0, np.zeros(2000, np.float32))
    saxpy(y, 1.0, x)
    assert y.tolist() == [4.0] * 8
