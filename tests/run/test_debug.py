"""Debug mode checks what is computed, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd


@pytest.mark.parametrize("arch", ["reference", "x64"])
def test_what_is_not_computed_is_not_checked(arch: str) -> None:
    qd.init(arch=arch, debug=True, default_ip=qd.i64)

    @qd.kernel
    def lazy(n: int, d: int, a: qd.types.ndarray()) -> bool:
        x = n // d if d != 0 else n
        y = d != 0 and n // d > 1
        z = d == 0 or n // d > 1
        i = a.shape[0]
        w = a[i] if i < a.shape[0] else 0
        t = (a[i], 1) if i < a.shape[0] else (0, 0)
        for k in range(a.shape[0]):
            if a[k] != 0:
                a[k] = n // a[k]
        return (x == n and not y and z) and w == 0 and t[0] == 0

    a = np.array([0, 2, 0, 4], np.int64)
    assert lazy(8, 0, a)
    assert a.tolist() == [0, 4, 0, 2]


@pytest.mark.parametrize("arch", ["reference", "x64"])
def test_chain_of_comparisons_computes_nothing_behind_one_that_fails(arch: str) -> None:
    qd.init(arch=arch, debug=True, default_ip=qd.i64)

    @qd.kernel
    def chained(n: int, d: int, a: qd.types.ndarray()) -> int:
        found = 0
        if a.shape[0] > n < a[n]:
            found += 1
        if 0 < d <= n // d < 10:
            found += 10
        return found

    a = np.array([0, 2, 0, 4], np.int64)
    assert [chained(n, d, a) for n, d in ((1, 1), (4, 0), (3, 0), (40, 4))] == [11, 0, 1, 0]
