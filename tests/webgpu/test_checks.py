"""Checks in shaders: what one costs, and that programs full of them are compiled and run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.run import test_arrays, test_augmented_order, test_functions, test_vectors

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsBoundsError
from quadrants.evidence.programs import Program, TargetExecutor, disagreement
from quadrants.targets import table

from .conftest import Opened

pytestmark = [pytest.mark.slow]

PROGRAMS: list[Program] = [
    *test_arrays.PROGRAMS,
    *test_augmented_order.PROGRAMS,
    *test_functions.PROGRAMS,
    *test_vectors.PROGRAMS,
]
FULL_OF_CHECKS = ("four_by_four", "three_by_three", "every_operator", "rows_as_matrices", "updates_of_every_kind")


def _debug() -> None:
    qd.init(arch=qd.vulkan, debug=True, offline_cache=False, enable_fallback=False, log_level="error")


@pytest.mark.parametrize("name", FULL_OF_CHECKS)
def test_programs_full_of_checks(name: str) -> None:
    """Some of them ended the process within Mesa's driver when each check was a place that a function is left at."""
    if reason := table.missing(knobs.Arch.vulkan):
        pytest.skip(reason)
    (item,) = [item for item in PROGRAMS if item.name == name]
    executor = TargetExecutor("vulkan", "vulkan", debug=True, enable_fallback=False)
    assert not disagreement(item, executor)


def test_what_failed_is_told_in_one_place(texts: list[str]) -> None:
    """A check is a condition and some notes. Atomic operations, which take drivers long, stand once in a shader; an
    invocation leaves where it would write, not at each check."""
    _debug()

    @qd.func
    def ratio(a, b):
        return (a * a * a) // b + a // (b + 1) + b // (a + 1) + a * b * b * b

    @qd.kernel
    def ratios(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(x.shape[0]):
            first = ratio(x[i], y[i])
            x[i] = first + ratio(y[i], y[i] + x[i])

    x, y = np.arange(1, 9), np.arange(2, 10)
    expected = x.copy(), y.copy()
    ratios(x, y)
    plain_ratio: Any = ratio.__wrapped__
    for i in range(8):
        expected[0][i] = plain_ratio(expected[0][i], y[i]) + plain_ratio(y[i], y[i] + expected[0][i])
    assert (x == expected[0]).all()
    (text,) = texts
    checks = text.count("failed = true;")
    assert checks > 10
    assert text.count("atomicExchange(&status[0]") == 1
    assert text.count("atomicStore(&status") <= 2 + 2 * 4
    assert text.count("if (failed) {") < checks / 3


def test_the_first_failed_check_of_a_thread_is_told(opened: Opened) -> None:
    """The others are of numbers that it has made."""
    opened({})
    _debug()

    @qd.kernel
    def chain(x: qd.types.ndarray(), k: qd.i32, d: qd.i32):
        for i in range(1):
            a = x[i + k]
            b = 7 // d
            assert a + b == 0, "never"
            x[0] = a

    x = np.zeros(4, np.int32)
    with pytest.raises(QuadrantsBoundsError, match=r"x\[9\] is out of range: the shape of x is \(4,\)"):
        chain(x, 9, 0)
    with pytest.raises(qd.QuadrantsAssertionError, match="division"):
        chain(x, 1, 0)
    with pytest.raises(qd.QuadrantsAssertionError, match="never"):
        chain(x, 1, 2)
    assert (x == 0).all()
    x[1] = -3
    chain(x, 1, 2)
    assert x[0] == -3


def test_threads_do_nothing_behind_a_failed_check(opened: Opened) -> None:
    """Neither in later iterations nor in functions, loops and branches."""
    opened({})
    _debug()

    @qd.func
    def put(x, i, v):
        x[i] = v

    @qd.kernel
    def loops(x: qd.types.ndarray(), y: qd.types.ndarray(), limit: qd.i32):
        qd.loop_config(serialize=True)
        for i in range(x.shape[0]):
            if i > 1:
                k = 0
                while k < 5:
                    assert i * 10 + k != limit, "the limit"
                    k += 1
                y[i] = k
            put(x, i, i + 1)

    x, y = np.zeros(6, np.int32), np.zeros(6, np.int32)
    with pytest.raises(qd.QuadrantsAssertionError, match="the limit"):
        loops(x, y, 43)
    assert x.tolist() == [1, 2, 3, 4, 0, 0] and y.tolist() == [0, 0, 5, 5, 0, 0]


def test_functions_are_not_called_and_nothing_is_printed_behind_a_failed_check(
    opened: Opened, capsys: pytest.CaptureFixture[str]
) -> None:
    opened({})
    _debug()

    @qd.func
    def put(x, i, v):
        x[i] = v

    @qd.kernel
    def calls(x: qd.types.ndarray(), y: qd.types.ndarray(), k: qd.i32):
        for i in range(1):
            a = x[i + k]
            put(y, i, a)

    @qd.kernel
    def prints(x: qd.types.ndarray(), k: qd.i32):
        for i in range(1):
            a = x[i + k]
            print("seen", a)

    x, y = np.arange(1, 5, dtype=np.int32), np.full(2, -1, np.int32)
    for launch in (lambda k: calls(x, y, k), lambda k: prints(x, k)):
        with pytest.raises(QuadrantsBoundsError, match=r"x\[4\] is out of range"):
            launch(4)
    assert y.tolist() == [-1, -1] and "seen" not in capsys.readouterr().out
    calls(x, y, 3)
    prints(x, 3)
    assert y.tolist() == [4, -1] and capsys.readouterr().out == "seen 4\n"


def test_a_check_tells_as_many_values_as_there_is_room_for(opened: Opened) -> None:
    """The words behind them are the prints'."""
    opened({})
    _debug()

    @qd.kernel
    def told(x: qd.types.ndarray(dtype=qd.i32, ndim=1)):
        for i in range(1):
            print(x[i])
            assert x[0] > 0, (
                f"{x[0]} {x[1]} {x[2]} {x[3]} {x[4]} {x[5]} {x[6]} {x[7]} {x[8]} {x[9]} {x[10]} {x[11]} {x[12]} {x[13]} {x[14]}"
                f" {x[15]} {x[16]} {x[17]} {x[18]} {x[19]} {x[20]} {x[21]} {x[22]} {x[23]} {x[24]} {x[25]} {x[26]} {x[27]}"
                f" {x[28]} {x[29]} {x[30]} {x[31]}"
            )

    with pytest.raises(qd.QuadrantsAssertionError, match=" ".join(map(str, range(32)))):
        told(np.arange(32, dtype=np.int32))


_MANY = 100


@qd.func
def _scattered(x, index, i):
    for k in qd.static(range(_MANY)):
        x[index[k]] = i


@qd.kernel
def _in_a_function(x, index):
    for i in range(1):
        _scattered(x, index, i)
        _scattered(x, index, i + 1)


@qd.kernel
def _in_a_block(x, index):
    qd.loop_config(block_dim=8)
    for i in range(1):
        qd.simt.block.sync()
        for k in qd.static(range(_MANY)):
            x[index[k]] = i + 1
        qd.simt.block.sync()
        x[0] += 1


@pytest.mark.parametrize("kernel", [_in_a_function, _in_a_block], ids=["function", "block"])
def test_code_that_is_left_at_many_places(opened: Opened, kernel: Any) -> None:
    """Mesa's driver makes nests of such places where it sees that code runs once, and the nest ends the process."""
    opened({})
    _debug()
    x, index = np.zeros(_MANY, np.int32), np.arange(_MANY)
    kernel(x, index)
    assert (x[1:] == 1).all() and x[0] == (2 if kernel is _in_a_block else 1)
    index[70] = _MANY
    x[:] = 0
    with pytest.raises(QuadrantsBoundsError, match=rf"x\[{_MANY}\] is out of range"):
        kernel(x, index)
    assert x.sum() == (70 if kernel is _in_a_block else 0), "the thread has ended there"
