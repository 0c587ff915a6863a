"""Elements reached by index, put in order in front of a loop: the same results, whatever the index array holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs

pytestmark = pytest.mark.slow

CELLS, COUNT = 11, 160
ARCHS = pytest.mark.parametrize("arch", [knobs.Arch.reference, None], ids=["reference", "host"])


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = knobs.current.arch, knobs.current.verify, knobs.current.debug
    yield
    knobs.current.arch, knobs.current.verify, knobs.current.debug = before
    knobs.current.disable_passes = ()


def cells(dead: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions; an index array in the order of cells, with `dead` entries at its end; where cells begin."""
    generator = np.random.default_rng(4)
    pos = generator.random((COUNT, 3)).astype(np.float32)
    cell = (pos[:, 0] * CELLS).astype(np.int32)
    cell[cell == 7] = 6
    order = np.argsort(cell, kind="stable").astype(np.int32)
    order = np.concatenate([order, generator.choice([-(2**31), 2**31 - 1, COUNT, 10**6], dead).astype(np.int32)])
    return pos, order, np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=CELLS))]).astype(np.int32)


def density(pos, order, first, out):
    for i in range(out.shape[0]):
        p = pos[i]
        c = qd.cast(p[0] * CELLS, qd.i32)
        s = 0.0
        for d in range(max(c - 1, 0), min(c + 2, CELLS)):
            for k in range(first[d], first[d + 1]):
                r = p - pos[order[k]]
                q = 0.05 - r.dot(r)
                if q > 0:
                    s += q * q * q
        out[i] = s


def totals(pos, order, first, out):
    for c in range(CELLS):
        total = 0.0
        for k in range(first[c], first[c + 1]):
            i = order[k]
            for d in range(max(c - 1, 0), min(c + 2, CELLS)):
                for m in range(first[d], first[d + 1]):
                    j = order[m]
                    if i != j:
                        total += abs(pos[j][0] - pos[i][0])
        out[c] = total


def all_pairs(pos, order, first, out):
    energy = 0.0
    for i in range(len(out)):
        for k in range(100):
            energy += pos[order[k]].dot(pos[i])
    out[0] = energy


def fields(arch: knobs.Arch | None, *arrays: np.ndarray) -> list[Any]:
    knobs.current.arch, knobs.current.verify = arch, True
    made = []
    for array in arrays:
        vectors = array.ndim == 2
        field = qd.Vector.field(3, qd.f32, len(array)) if vectors else qd.field(array.dtype.type, array.shape)
        field.from_numpy(array)
        made.append(field)
    return made


@ARCHS
@pytest.mark.parametrize("function", [density, totals, all_pairs], ids=lambda function: function.__name__)
def test_results_are_the_same(function: Any, arch: knobs.Arch | None) -> None:
    pos, order, first = cells(dead=9)
    made = fields(arch, pos, order, first, np.zeros(COUNT, np.float32))
    kernel = qd.kernel(function)
    kernel(*made)
    assert "arrays gathered once: 1" in kernel.report()
    found = made[-1].to_numpy()
    expected = fields(knobs.Arch.reference, pos, order, first, np.zeros(COUNT, np.float32))
    knobs.current.debug = True  # as it is written
    qd.kernel(function)(*expected)
    assert np.allclose(found, expected[-1].to_numpy(), rtol=1e-5)


@ARCHS
@pytest.mark.parametrize("broken", [False, True])
def test_iterations_in_the_order_of_the_index(arch: knobs.Arch | None, broken: bool) -> None:
    """Each once, also where the index array is no permutation of them."""
    pos, order, first = cells(dead=0)
    if broken:
        order[17] = order[16]
        order[20] = -5
    found = []
    for lanes in (None, 1):
        made = fields(arch, pos, order, first, np.zeros(COUNT, np.float32))
        if broken:
            made[2].from_numpy(np.minimum(first, 20))
        kernel = qd.kernel(density)
        knobs.current.disable_passes = ("gather_once",) if lanes else ()
        kernel(*made)
        assert ("iterations in the order of the index" in kernel.report()) is not bool(lanes)
        found.append(made[-1].to_numpy())
    assert np.allclose(*found, rtol=1e-5)


@ARCHS
def test_short_loops_run_as_they_are(arch: knobs.Arch | None) -> None:
    pos, order, first = cells(dead=9000)
    made = fields(arch, pos, order, first, np.zeros(20, np.float32))
    qd.kernel(density)(*made)
    whole = fields(arch, pos, order[:COUNT], first, np.zeros(COUNT, np.float32))
    qd.kernel(density)(*whole)
    assert np.allclose(made[-1].to_numpy(), whole[-1].to_numpy()[:20], rtol=1e-5)


def moving(pos, order, first, out):
    for i in range(out.shape[0]):
        s = 0.0
        for d in range(3):
            for k in range(first[d], first[d + 1]):
                s += pos[order[k]][0]
        pos[i][1] = s


def rows(pos, order, first, out):
    for i in range(CELLS):
        s = 0.0
        for k in range(first[i], first[i + 1]):
            s += pos[order[k]][0]
        out[i] = s


def corners(pos, order, first, out):
    for i in range(CELLS):
        s = 0.0
        for q in range(first[i], first[i + 1]):
            face = order[q] // 4
            for c in range(3):
                s += pos[order[3 * face + c]][0]
        out[i] = s


@pytest.mark.parametrize("function", [moving, rows, corners], ids=lambda function: function.__name__)
def test_what_changes_or_is_seen_once_stays(function: Any) -> None:
    made = fields(knobs.Arch.reference, *cells(dead=0), np.zeros(COUNT, np.float32))
    kernel = qd.kernel(function)
    kernel(*made)
    assert "gathered" not in kernel.report()


def test_inner_loops_load_vectors() -> None:
    pos, order, first = cells(dead=0)
    made = fields(None, pos, order, first, np.zeros(COUNT, np.float32))
    kernel = qd.kernel(density)
    kernel(*made)
    report, ir = kernel.report(), kernel.ir()
    assert "pos put in the order of the index" in report
    assert "lanes within an iteration" in report
    assert ir.count("lane_load %gathered") == 3
    fast = ir[ir.index("gathered = (") : ir.index("} else {")]
    assert "%order" not in fast
