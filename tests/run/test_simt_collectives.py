"""What `qd.simt` writes in the language itself: segments, sorting, ranks, the older names of warps."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsSyntaxError, QuadrantsTypeError
from quadrants.evidence.programs import TargetExecutor

pytestmark = pytest.mark.slow

block, subgroup, warp = qd.simt.block, qd.simt.subgroup, qd.simt.warp


@pytest.fixture(autouse=True)
def _started(executor: TargetExecutor) -> None:
    start(executor)


def start(executor: TargetExecutor, **options: Any) -> None:
    qd.init(arch=knobs.arch_by_name(executor.arch), verify=True, default_ip=qd.i32, **executor.options, **options)


def integers(count: int, low: int = -3, high: int = 4) -> np.ndarray:
    return np.random.default_rng(count).integers(low, high, count).astype(np.int32)


def segment_totals(
    x: np.ndarray, heads: np.ndarray, there: np.ndarray, size: int, combine: Callable[[Any, Any], Any]
) -> np.ndarray:
    """What a reduction of segments gives each member that is there, one by one."""
    found = np.zeros_like(x)
    segments: list[list[int]] = []
    for member in range(len(x)):
        if member % size == 0 or heads[member]:
            segments.append([])
        if there[member]:
            segments[-1].append(member)
    for members in filter(None, segments):
        found[members] = functools.reduce(combine, x[members])
    return found


def test_reductions_of_segments() -> None:
    @qd.kernel
    def reduce(x, heads, out):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            out[0, i] = subgroup.segmented_reduce_add(x[i], heads[i])
            out[1, i] = subgroup.segmented_reduce_min_tiled(x[i], heads[i], 3)
            out[2, i] = subgroup.segmented_reduce_xor(x[i], heads[i] != 0)
            out[3, i] = subgroup.segmented_reduce_mul_tiled(x[i], heads[i], 1)
            if heads[i] == 0:
                out[4, i] = subgroup.segmented_reduce_max(x[i], x[i] > 0)

    x, heads = integers(100), integers(101, 0, 5)[:100] // 4
    out = np.zeros((5, 100), np.int32)
    reduce(x, heads, out)
    everyone = np.ones(100, bool)
    assert (out[0] == segment_totals(x, heads, everyone, 32, np.add)).all()
    assert (out[1] == segment_totals(x, heads, everyone, 8, np.minimum)).all()
    assert (out[2] == segment_totals(x, heads, everyone, 32, np.bitwise_xor)).all()
    assert (out[3] == segment_totals(x, heads, everyone, 2, np.multiply)).all()
    assert (out[4] == segment_totals(x, (x > 0) & (heads == 0), heads == 0, 32, np.maximum)).all()


def test_sums_of_segments_in_the_members_order() -> None:
    @qd.kernel
    def sums(x, out):
        qd.loop_config(block_dim=32)
        for i in range(len(x)):
            out[i] = subgroup.segmented_reduce_add(x[i], i % 5 == 0)

    x = np.random.default_rng(2).standard_normal(64).astype(np.float32)
    out = np.zeros(64, np.float32)
    sums(x, out)
    assert (out == segment_totals(x, np.arange(64) % 5 == 0, np.ones(64, bool), 32, np.add)).all()


def test_parts_of_a_subgroup_are_sorted() -> None:
    @qd.kernel
    def sort(keys, values):
        qd.loop_config(block_dim=64)
        for i in range(len(keys)):
            keys[i], values[i] = subgroup.bitonic_sort_kv_tiled(keys[i], values[i], 2)

    keys, values = np.random.default_rng(9).permutation(128).astype(np.int32), np.arange(128, dtype=np.int32)
    given = keys.copy()
    sort(keys, values)
    assert (keys == np.sort(given.reshape(-1, 4), axis=1).ravel()).all() and (given[values] == keys).all()


@pytest.mark.parametrize("size", [32, 64])
def test_ranks_of_digits(executor: TargetExecutor, size: int) -> None:
    start(executor, subgroup_size=size)

    @qd.kernel
    def rank(digits, out):
        qd.loop_config(block_dim=128)
        for i in range(len(digits)):
            out[i] = block.radix_rank_match_atomic_or(digits[i], 128, 4)

    digits = integers(300, 0, 16)
    out = np.zeros(300, np.int32)
    rank(digits, out)
    for first in range(0, 300, 128):
        order = np.argsort(digits[first : first + 128], kind="stable")
        assert (out[first : first + 128][order] == np.arange(len(order))).all()


def test_members_that_match() -> None:
    @qd.kernel
    def match(x, out):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            out[0, i] = warp.match_any(0xFFFFFFFF, x[i])
            out[1, i] = warp.match_all(0xFFFFFFFF, x[i] // 8)
            out[2, i] = warp.unique(0x0000FFFF, x[i])
            out[3, i] = warp.all_nonzero(0x000000FF, x[i])
            out[4, i] = warp.any_nonzero(0x0000FF00, x[i])
            out[5, i] = warp.active_mask()
            if x[i] > 0:
                out[6, i] = warp.match_all(warp.active_mask(), x[i])

    x = np.concatenate([integers(64), np.full(20, 3, np.int32)])
    out = np.zeros((7, 84), np.int64)
    match(x, out)

    def bits(team: np.ndarray) -> int:
        return sum(1 << member for member in range(len(team)) if team[member])

    for first in (0, 32, 64):
        team, found = x[first : first + 32], out[:, first : first + 32]
        assert found[0].tolist() == [bits(team == value) for value in team]
        assert (found[1] == (bits(team == team) if len(set(team // 8)) == 1 else 0)).all()
        assert (found[2] == ((team[:16] != 0).all() or (team[:16] == 0).all())).all()
        assert (found[3] == (team[:8] != 0).all()).all() and (found[4] == (team[8:16] != 0).any()).all()
        assert (found[5] == bits(team == team)).all()
        alike = bits(team > 0) if len(set(team[team > 0])) == 1 else 0
        assert (found[6][team > 0] == alike).all()


def test_older_names_say_so_at_the_line() -> None:
    @qd.kernel
    def older(x):
        qd.loop_config(block_dim=32)
        for i in range(len(x)):
            subgroup.memory_barrier()
            subgroup.barrier()
            x[i] = subgroup.ballot_full_subgroup(x[i] > 2)

    x = np.arange(4, dtype=np.int32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        older(x)
    assert x.tolist() == [8] * 4
    first = test_older_names_say_so_at_the_line.__code__.co_firstlineno
    found = [(str(warning.message), warning.category, warning.lineno - first) for warning in caught]
    assert found == [
        ("qd.simt.subgroup.memory_barrier is an older name of qd.simt.subgroup.mem_fence", DeprecationWarning, 5),
        ("qd.simt.subgroup.barrier is an older name of qd.simt.subgroup.sync", DeprecationWarning, 6),
        ("qd.simt.subgroup.ballot_full_subgroup is an older name of qd.simt.subgroup.ballot", DeprecationWarning, 7),
    ]
    assert {warning.filename for warning in caught} == {__file__}


def test_mistakes_are_told_where_functions_of_ours_are_called() -> None:
    @qd.kernel
    def too_large(x):
        for i in range(len(x)):
            x[i] = subgroup.segmented_reduce_add_tiled(x[i], False, 6)  # here

    with pytest.raises(QuadrantsTypeError, match="no part of a subgroup") as error:
        too_large(np.zeros(3, np.int32))
    text = str(error.value)
    assert "# here" in text and "found:    2 ** 6 threads" in text and "in segmented_reduce_add_tiled" in text
    assert error.value.location is not None and error.value.location.file == __file__

    @qd.func
    def larger(a, b):
        return max(a, b)

    @qd.kernel
    def parted(x):
        qd.loop_config(block_dim=32)
        for i in range(len(x)):
            if x[i] > 0:
                x[i] = block.reduce(x[i], 32, larger, qd.i32)  # here

    with pytest.raises(QuadrantsSyntaxError, match="not all threads of a block come here") as error:
        parted(np.zeros(3, np.int32))
    assert "# here" in str(error.value) and "if x[i] > 0:" in str(error.value)
    assert qd.simt.subgroup.group_size() == 32 and qd.simt.subgroup.log2_group_size() == 5


def test_vectors_are_shuffled_whole() -> None:
    @qd.kernel
    def reverse(x, out):
        qd.loop_config(block_dim=32)
        for i in range(32):
            v = qd.Vector([x[i], 2.0 * x[i], -x[i]])
            w = subgroup.shuffle(v, 31 - i) + subgroup.broadcast_first(v) + subgroup.shuffle_up(v, 1)
            for k in qd.static(range(3)):
                out[i, k] = w[k]

    x = integers(32).astype(np.float32)
    out = np.zeros((32, 3), np.float32)
    reverse(x, out)
    v = np.stack([x, 2 * x, -x], 1)
    assert (out == v[::-1] + v[0] + np.concatenate([v[:1], v[:-1]])).all()


def test_vectors_and_matrices_are_combined_by_their_elements() -> None:
    @qd.kernel
    def combine(x: qd.types.ndarray(qd.types.vector(3, qd.i32), ndim=1), y: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(x.shape[0]):
            total = block.reduce_add(x[i], 64, qd.f32)
            before = block.exclusive_max(x[i], 64)
            least = subgroup.reduce_all_min(x[i])
            upto = subgroup.inclusive_add_tiled(x[i], 2)
            square = subgroup.reduce_add(x[i].outer_product(x[i]))
            odd = qd.Vector([0, 0, 0])
            if x[i][0] % 2 == 1:
                odd = subgroup.reduce_or(x[i])
            for k in qd.static(range(3)):
                y[0, i, k], y[1, i, k], y[2, i, k] = total[k], before[k], least[k]
                y[3, i, k], y[4, i, k], y[5, i, k] = upto[k], square[k, 2], odd[k]

    values = np.random.default_rng(3).integers(0, 50, (96, 3)).astype(np.int32)
    x = qd.ndarray(qd.types.vector(3, qd.i32), 96)
    x.from_numpy(values)
    y = np.zeros((6, 96, 3), np.float32)
    combine(x, y)
    for first in range(0, 96, 32):
        team, found = values[first : first + 32], y[:, first : first + 32]
        whole = values[first // 64 * 64 : first // 64 * 64 + 64]
        before = np.maximum.accumulate(np.vstack([np.full((1, 3), np.iinfo(np.int32).min), whole]))[:-1]
        assert (found[0] == whole.sum(0)).all()
        assert (found[1] == before[first % 64 :][:32].astype(np.float32)).all()
        assert (found[2] == team.min(0)).all()
        assert (found[3] == team.reshape(8, 4, 3).cumsum(1).reshape(32, 3)).all()
        assert (found[4] == (team.T @ team)[:, 2]).all()
        odd = team[:, 0] % 2 == 1
        assert (found[5] == np.where(odd[:, None], np.bitwise_or.reduce(team[odd], 0), 0)).all()
