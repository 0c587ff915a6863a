"""Constant tables in kernels, on every target: entries in their types, indices that nothing asks for."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

FAR = np.array([0, 1, 2, 10**9, -(10**9), 1 << 45, -1, 2] * 9, np.int64)


@pytest.mark.parametrize("lanes", (None, 4, 8))
def test_indices_are_looked_up_only_under_their_condition(executor: TargetExecutor, lanes: int | None) -> None:
    qd.init(arch=executor.arch, offline_cache=False, verify=True, **executor.options)
    table = (1.5, 2.5, 3.5)

    @qd.kernel
    def run(at, by, out):
        qd.loop_config(vectorize=lanes)
        for i in range(len(out)):
            if 0 <= at[i] < 3:
                out[i] = qd.lookup(table, at[i], qd.f32) * by[i]

    out = np.zeros(len(FAR), np.float32)
    run(FAR, np.full(len(FAR), 2.0, np.float32), out)
    assert out.tolist() == [2 * table[at] if 0 <= at < 3 else 0 for at in FAR]


def test_an_index_that_does_not_change_is_looked_up_only_under_its_condition(executor: TargetExecutor) -> None:
    qd.init(arch=executor.arch, offline_cache=False, verify=True, **executor.options)
    table = (1, 2, 3)

    @qd.kernel
    def run(n, out):
        for i in range(len(out)):
            if n < 3:
                out[i] = qd.lookup(table, n, qd.i32)

    out = np.zeros(20, np.int32)
    run(1 << 45, out)
    assert not out.any()
    run(2, out)
    assert (out == 3).all()


def test_entries_are_converted_as_on_the_host(executor: TargetExecutor) -> None:
    qd.init(arch=executor.arch, offline_cache=False, verify=True, **executor.options)
    for table, dtype in (
        ((300, -1), qd.u8),
        ((1.9, 1e9, float("nan"), -7.5), qd.i8),
        ((2**64 - 1, 0.5), qd.f64),
        ((0, 2), qd.u1),
    ):
        kernel = _looking_up(table, dtype)
        for k in range(len(table)):
            assert kernel(k) == qd.lookup(table, k, dtype), (table[k], str(dtype))


def _looking_up(table, dtype):
    @qd.kernel
    def run(k):
        return qd.lookup(table, k, dtype)

    return run
