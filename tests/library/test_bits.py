"""`fns` against its definition, written down the slow way."""

from __future__ import annotations

from typing import Any

import numpy as np

import quadrants as qd
from quadrants.library import bits

NONE = 0xFFFFFFFF


def expected(mask: int, base: int, offset: int) -> int:
    found = [position for position in range(32) if mask >> position & 1]
    if offset == 0:
        return base if base in found else NONE
    if base > 31:
        return NONE
    beyond = [p for p in found if p >= base] if offset > 0 else [p for p in reversed(found) if p <= base]
    return beyond[abs(offset) - 1] if abs(offset) <= len(beyond) else NONE


def cases() -> np.ndarray:
    source = np.random.default_rng(0)
    masks = np.concatenate([[0, 1, NONE, 0x80000000, 0b10110], source.integers(0, 2**32, 10)])
    offsets = (-33, -32, -5, -2, -1, 0, 1, 2, 3, 7, 32, 33)
    bases = (0, 1, 4, 15, 30, 31, 32, 40, NONE)
    return np.array([(mask, base, offset) for mask in masks for base in bases for offset in offsets], np.int64)


def test_ordinary_python() -> None:
    for mask, base, offset in cases()[::7].tolist():
        assert bits.fns(mask, base, offset) == expected(mask, base, offset), (hex(mask), base, offset)


def test_kernels(arch: Any) -> None:
    qd.init(arch=arch, wraparound=False)
    masks, bases = (cases()[:, k].astype(np.uint32) for k in (0, 1))
    offsets, results = cases()[:, 2].astype(np.int32), np.zeros(len(cases()), np.uint32)

    @qd.kernel
    def run(masks, bases, offsets, results):
        for i in range(len(masks)):
            results[i] = qd.math.fns(masks[i], bases[i], offsets[i])

    run(masks, bases, offsets, results)
    wanted = [expected(*case) for case in cases().tolist()]
    np.testing.assert_array_equal(results, np.array(wanted, np.uint32))
