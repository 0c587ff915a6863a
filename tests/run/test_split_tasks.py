"""Loops that are split for a device's compiler: programs mean the same in pieces of a few operations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.modules import written

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.evidence.conformance.parts import CASES, Case
from quadrants.passes import split_tasks
from quadrants.records import replace
from quadrants.targets import simulated, table
from quadrants.targets.simulated.profiles import PLAIN

SMALL = replace(PLAIN, name="small", task_operations=4)
SOME = CASES["programs"](0)[::9] + CASES["fuzz"](30)


def long_polynomial(x, y):
    for i, j in qd.ndrange(x.shape[0], x.shape[1]):
        a = x[i, j]
        if a < 0:
            continue
        b = a * a + 1
        c = b * a + 2
        d = c * b + a if c > 3 else c - b
        e = d * c + b
        y[i, j] = e * d + c


def _launched(text: str) -> int:
    return text.count("parallel for")


@pytest.mark.parametrize("shape", [(5, 7), (1, 200), (200, 1), (3, 100), (0, 4), (4, 0)], ids=str)
def test_a_loop_is_split_piece_by_piece(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Few iterations at a time, and many of them in one row: what goes from part to part lies in its own place."""
    monkeypatch.setattr(split_tasks, "_ITERATIONS", 64)
    x = np.random.default_rng(1).integers(-3, 9, shape)
    expected = np.zeros_like(x)
    long_polynomial(x, expected)
    with simulated.playing(SMALL):
        qd.init(arch="simulated", default_ip=qd.i64)
        kernel = qd.kernel(long_polynomial)
        y = np.zeros_like(x)
        kernel(x, y)
    assert (y == expected).all()
    assert _launched(str(kernel.ir())) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("case", SOME, ids=lambda case: case.name)
def test_programs_mean_the_same(case: Case) -> None:
    with simulated.playing(SMALL):
        try:
            case.run("simulated")
        except QuadrantsUnsupportedError as error:
            if "by reference" not in str(error) and "cannot call the C function" not in str(error):
                raise


def test_code_in_order_is_split() -> None:
    with simulated.playing(SMALL):
        qd.init(arch="simulated")

        @qd.kernel
        def walk(x):
            a = x[0]
            pair = qd.Vector([a, a + 1])
            for i in range(3):
                pair[i % 2] += x[i]
            b = pair[0] * pair[1] + a
            c = b * b - a * a
            x[1] = c * b + a
            d = x[2] * c + b
            x[2] = d - b * a
            for i in range(3):
                x[i] += d
            return c

        x, expected = np.arange(3.0) + 1, np.arange(3.0) + 1
        a, pair = 1.0, [3.0, 5.0]
        pair = [1.0 + 1 + 3, 2.0 + 2]
        b = pair[0] * pair[1] + a
        c = b * b - a * a
        d = 3 * c + b
        expected = np.array([1, c * b + a, d - b * a]) + d
        assert walk(x) == c
        assert (x == expected).all()
        assert str(walk.ir()).count("serial = True") >= 4


@pytest.mark.slow
def test_a_loop_that_cannot_be_split_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated.playing(SMALL):
        qd.init(arch="simulated")

        @qd.kernel
        def walk(x):
            for i in range(x.shape[0]):
                a = x[i]
                while a < 100.0:
                    a = a * a + 1
                    a = a * 1.5 - x[i]
                    a = a * 2.5 + x[i]
                    a = a * 3.5 + x[i] * x[i]
                    a = a * 3.5 - x[i] * x[i]
                    a += abs(a) + 1
                x[i] = a

        walk(np.ones(3, np.float32))
    assert "this code is large for the device's compiler" in "".join(capsys.readouterr())


@pytest.mark.slow
def test_a_large_kernel_compiles_on_vulkan(tmp_path: Path) -> None:
    if reason := table.missing(knobs.Arch.vulkan):
        pytest.skip(reason)
    lines = ["import quadrants as qd", "def program(x, y):", "    for i in range(x.shape[0]):", "        a = x[i]"]
    for k in range(600):
        lines.append(f"        a = a * 0.5 + y[(i + {k}) % 7] * {k % 13}.0")
    module = written(tmp_path / "large.py", "\n".join([*lines, "        x[i] = a", ""]))
    x, y = np.arange(8.0), np.arange(7.0)
    expected = x.copy()
    module.program(expected, y)
    qd.init(arch=qd.vulkan, offline_cache=False)
    kernel = qd.kernel(module.program)
    kernel(x, y)
    assert np.allclose(x, expected, rtol=1e-12)
    assert _launched(str(kernel.ir())) >= 5
