"""What plain loops become on AMD's GPUs, where blocks of threads share memory: instructions, and LDS. None of it is executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.amdgpu.driver import AssemblingDriver, assembled, unexplained_spills
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.amdgpu import compile, lld
from quadrants.targets.llvm.amdgpu.metadata import usage

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(lld.missing()), reason=lld.missing())]


@pytest.fixture(params=compile.PROCESSORS)
def driver(request: pytest.FixtureRequest) -> Iterator[AssemblingDriver]:
    """The target on one processor."""
    with assembled(request.param) as found:
        qd.init(arch=qd.amdgpu, default_ip=qd.i64, default_fp=qd.f64)
        yield found
        qd.reset()


def total(x):
    s = x.dtype(0)
    for i in range(x.shape[0]):
        s += x[i]
    return s


def product(a, b, c):
    for i, j in qd.ndrange(c.shape[0], c.shape[1]):
        s = a.dtype(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


def rows(a, x, y):
    for i in range(a.shape[0]):
        s = a.dtype(0)
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
        y[i] = s


def histogram(x, counts):
    for i in range(len(x)):
        counts[x[i]] += 1


SQUARE = np.ones((64, 64), np.float32)
READS = ("ds_read", "ds_load")  # by generation
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[tuple[str, ...], ...], int]] = {
    "sum": (total, (np.ones(1000, np.float32),), (("ds_bpermute",), ("s_barrier",), READS), 64),
    "product": (product, (SQUARE, SQUARE, SQUARE.copy()), (READS, ("s_barrier",)), 8704),
    "rows": (rows, (SQUARE, np.ones(64, np.float32), np.ones(64, np.float32)), (("ds_bpermute",),), 0),
    "histogram": (histogram, (np.zeros(4000, np.int64), np.zeros(16, np.int32)), (("ds_add",), ("s_barrier",)), 16384),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_share_memory(driver: AssemblingDriver, name: str) -> None:
    function, arguments, wanted, shared = PROGRAMS[name]
    qd.kernel(function)(*arguments)
    (made,) = driver.made
    text = optimise.assembly(made.text, compile.machine_of(driver.processor), 2)
    found = set(re.findall(r"^\s+([a-z]\w+)\s", text, re.MULTILINE))
    for stems in wanted:
        assert any(word.startswith(stems) for word in found), stems
    kernels = usage(made.code)
    groups = 256 // (64 if name == "sum" and kernels[0].wave == 64 else 32)
    assert max(kernel.shared_bytes for kernel in kernels) == (8 * groups if name == "sum" else shared)
    assert not unexplained_spills(driver.made)
