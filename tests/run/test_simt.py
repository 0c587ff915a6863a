"""Block loops: barriers, shared arrays, subgroups, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsSyntaxError, QuadrantsTypeError, QuadrantsUnsupportedError
from quadrants.evidence.programs import TargetExecutor
from quadrants.targets import table

pytestmark = pytest.mark.slow

block, subgroup, warp = qd.simt.block, qd.simt.subgroup, qd.simt.warp


@pytest.fixture(autouse=True)
def _started(executor: TargetExecutor) -> None:
    start(executor)


def start(executor: TargetExecutor, **options: Any) -> None:
    qd.init(arch=knobs.arch_by_name(executor.arch), verify=True, default_ip=qd.i32, **executor.options, **options)


def floats(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(-50, 50, count).astype(np.float32)


def blocks_of(x: np.ndarray, size: int) -> list[np.ndarray]:
    return [x[first : first + size] for first in range(0, len(x), size)]


@pytest.mark.parametrize("count", [0, 1, 64, 200])
def test_tree_reduction_in_shared_memory(count: int) -> None:
    @qd.kernel
    def sums(x, y):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            t = block.thread_idx()
            shared = block.SharedArray((64,), qd.f32)
            shared[t] = x[i]
            block.sync()
            d = 32
            while d > 0:
                if t < d and i + d < len(x):
                    shared[t] += shared[t + d]
                block.sync()
                d //= 2
            if t == 0:
                y[i // 64] = shared[0]

    x, y = floats(count), np.zeros(4, np.float32)
    sums(x, y)
    assert y.tolist() == [part.sum() for part in blocks_of(x, 64)] + [0.0] * (4 - -(-count // 64))


def test_transpose_through_shared_memory() -> None:
    @qd.kernel
    def transpose(x, y):
        qd.loop_config(block_dim=64)
        for b, t in qd.ndrange((x.shape[0] // 8) * (x.shape[1] // 8), 64):
            tile = block.SharedArray((8, 9), qd.f32)
            row, column = b // (x.shape[1] // 8) * 8, b % (x.shape[1] // 8) * 8
            tile[t // 8, t % 8] = x[row + t // 8, column + t % 8]
            block.sync()
            y[column + t // 8, row + t % 8] = tile[t % 8, t // 8]

    x = floats(16 * 24).reshape(16, 24)
    y = np.zeros((24, 16), np.float32)
    transpose(x, y)
    assert (y == x.T).all()


def test_stencil_staged_in_shared_memory() -> None:
    @qd.kernel
    def smooth(x, y, steps: int):
        qd.loop_config(block_dim=32)
        for i in range(len(x)):
            t = i % 32
            shared = block.SharedArray((34,), qd.f32)
            for _ in range(steps):
                shared[t + 1] = x[i]
                if t == 0:
                    shared[0] = x[max(i - 1, 0)]
                if t == 31 or i == len(x) - 1:
                    shared[t + 2] = x[min(i + 1, len(x) - 1)]
                block.sync()
                y[i] = shared[t] + shared[t + 1] + shared[t + 2]
                block.sync()

    x, y = floats(100), np.zeros(100, np.float32)
    smooth(x, y, 2)
    padded = np.concatenate([x[:1], x, x[-1:]])
    assert (y == padded[:-2] + padded[1:-1] + padded[2:]).all()


def test_histogram_in_shared_memory() -> None:
    @qd.kernel
    def histogram(x, bins):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            t = block.thread_idx()
            local = block.SharedArray((16,), qd.i32)
            if t < 16:
                local[t] = 0
            block.sync()
            local[x[i]] += 1
            block.sync()
            if t < 16:
                bins[t] += local[t]

    x = np.random.default_rng(5).integers(0, 16, 256).astype(np.int32)
    bins = np.zeros(16, np.int32)
    histogram(x, bins)
    assert (bins == np.bincount(x, minlength=16)).all()


def test_bitonic_sort_by_shuffles() -> None:
    @qd.func
    def stage(value, partner, up):
        other = subgroup.shuffle_xor(value, partner)
        lower = subgroup.invocation_id() & partner == 0
        return min(value, other) if lower == up else max(value, other)

    @qd.kernel
    def sort(x):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            value = x[i]
            size = 2
            while size <= 32:
                partner = size // 2
                while partner > 0:
                    value = stage(value, partner, subgroup.invocation_id() & size == 0)
                    partner //= 2
                size *= 2
            x[i] = value

    x = floats(256)
    expected = np.sort(x.reshape(-1, 32), axis=1).ravel()
    sort(x)
    assert (x == expected).all()


def test_compaction_by_ballot() -> None:
    @qd.kernel
    def compact(x, y, counts):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            keeps = x[i] > 0
            votes = subgroup.ballot(keeps)
            place = qd.math.popcnt(votes & subgroup.lanemask_lt())
            if keeps:
                y[i // 32 * 32 + place] = x[i]
            if subgroup.elect():
                counts[i // 32] = qd.math.popcnt(votes)

    x, y, counts = floats(150), np.zeros(150, np.float32), np.zeros(5, np.int32)
    compact(x, y, counts)
    for k, part in enumerate(blocks_of(x, 32)):
        kept = part[part > 0]
        assert counts[k] == len(kept)
        assert (y[32 * k : 32 * k + len(kept)] == kept).all()


def test_sums_and_prefixes_of_blocks_and_subgroups() -> None:
    @qd.kernel
    def combine(x, out):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            v = x[i]
            out[0, i] = block.reduce_add(v, 64, qd.f32)
            out[1, i] = block.inclusive_add(v, 64, qd.f32)
            out[2, i] = block.exclusive_max(v, 64, qd.f32)
            out[3, i] = subgroup.reduce_all_min(v)
            out[4, i] = subgroup.exclusive_add(v)
            out[5, i] = subgroup.inclusive_add_tiled(v, 3)
            out[6, i] = block.sync_count_nonzero(v > 0) + block.sync_any_nonzero(v > 100)
            out[7, i] = subgroup.shuffle_up(v, 1) + subgroup.broadcast(v, 3)

    x = floats(128 + 20)
    out = np.zeros((8, len(x)), np.float32)
    combine(x, out)
    for k, part in enumerate(blocks_of(x, 64)):
        found = out[:, 64 * k : 64 * k + 64]
        before = np.concatenate([[-np.inf], np.maximum.accumulate(part)[:-1]])
        assert (found[0] == part.sum()).all()
        assert (found[1] == np.cumsum(part)).all()
        assert (found[2] == before).all()
        assert (found[6] == (part > 0).sum()).all()
        for first in range(0, len(part), 32):
            team, own = part[first : first + 32], found[:, first : first + 32]
            assert (own[3] == team.min()).all()
            assert (own[4] == np.cumsum(team) - team).all()
            assert (own[7] == np.concatenate([team[:1], team[:-1]]) + team[3]).all()
        for first in range(0, len(part), 8):
            assert (found[5, first : first + 8] == np.cumsum(part[first : first + 8])).all()


def halves(values: np.ndarray) -> np.float32:
    """What threads' values come to, in the order that `ir/threads.py` says."""
    size = 1 << (len(values) - 1).bit_length()
    if size == 1:
        return values[0]
    lower, upper = values[: size // 2], values[size // 2 :]
    return halves(lower) + halves(upper) if len(upper) else halves(lower)


def test_sums_of_floats_have_the_same_bits_on_every_target() -> None:
    @qd.kernel
    def sums(x, out):
        qd.loop_config(block_dim=96)
        for i in range(len(x)):
            out[0, i] = block.reduce_add(x[i], 96, qd.f32)
            out[1, i] = subgroup.reduce_add(x[i])
            out[2, i] = block.inclusive_add(x[i], 96, qd.f32)
            if i % 3 > 0:
                out[3, i] = subgroup.reduce_add(x[i])

    x = np.random.default_rng(1).normal(size=230).astype(np.float32) * np.float32(1e3)
    out = np.zeros((4, 230), np.float32)
    sums(x, out)
    for first in range(0, 230, 96):
        part = x[first : first + 96]
        own = out[:, first : first + len(part)]
        assert (own[0] == halves(part)).all() and own[2, -1] == halves(part)
        for low in range(0, len(part), 32):
            team = part[low : low + 32]
            assert (own[1, low : low + 32] == halves(team)).all()
            kept = np.arange(first + low, first + low + len(team)) % 3 > 0
            found = own[3, low : low + 32][kept]
            assert (found == found[0]).all() and np.isclose(found[0], team[kept].sum(dtype=np.float64), rtol=1e-4)


def test_vectors_and_narrow_numbers_go_from_thread_to_thread() -> None:
    triple = qd.types.vector(3, qd.f32)
    large = qd.types.matrix(6, 6, qd.f64)

    @qd.kernel
    def turn(x: qd.types.ndarray(), out: qd.types.ndarray(), small: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            v = triple(x[i], 2 * x[i], -1)
            w = subgroup.shuffle_xor(v, 1)
            m = large(0.0)
            for j, k in qd.ndrange(6, 6):
                m[j, k] = x[i] * (j + 6 * k)
            n = subgroup.shuffle_xor(m, 2)
            out[0, i] = w[0] + w[1]
            out[1, i] = n[3, i % 6]
            out[2, i] = subgroup.shuffle_xor(qd.i64(x[i]) * 2**33, 1) // 2**33
            small[i] = subgroup.shuffle_xor(qd.u8(i), 1) + qd.u8(subgroup.shuffle_xor(x[i] > 0, 1))

    x = floats(128)
    out, small = np.zeros((3, 128)), np.zeros(128, np.uint8)
    turn(x, out, small)
    near, far, i = x[np.arange(128) ^ 1], x[np.arange(128) ^ 2], np.arange(128)
    assert (out[0] == 3 * near).all() and (out[1] == far * (3 + 6 * (i % 6))).all() and (out[2] == near).all()
    assert (small == (i ^ 1) + (near > 0)).all()


def test_functions_that_combine() -> None:
    @qd.func
    def furthest(a, b):
        return a if abs(a) >= abs(b) else b

    @qd.kernel
    def combine(x, out):
        qd.loop_config(block_dim=32)
        for i in range(len(x)):
            out[0, i] = block.reduce(x[i], 32, furthest, qd.f32)
            out[1, i] = block.inclusive_scan(x[i], 32, furthest, qd.f32)
            out[2, i] = block.exclusive_scan(x[i], 32, furthest, 0, qd.f32)

    x = floats(75)
    out = np.zeros((3, 75), np.float32)
    combine(x, out)
    for k, part in enumerate(blocks_of(x, 32)):
        inclusive = [part[: n + 1][np.argmax(np.abs(part[: n + 1]))] for n in range(len(part))]
        found = out[:, 32 * k : 32 * k + 32]
        assert (found[0] == inclusive[-1]).all()
        assert found[1].tolist() == inclusive and found[2].tolist() == [0, *inclusive[:-1]]


def test_members_of_a_subgroup_under_a_condition() -> None:
    @qd.kernel
    def sums(x, out):
        qd.loop_config(block_dim=128)
        for i in range(len(x)):
            t = block.thread_idx()
            partial = block.SharedArray((4,), qd.f32)
            if t < 4:
                partial[t] = 0
            block.sync()
            total = subgroup.reduce_add(x[i])
            if subgroup.elect():
                partial[t // 32] = total
            block.sync()
            if t < 4:
                whole = subgroup.inclusive_add(partial[t])
                partial[t] = subgroup.shuffle(whole, 3)
            block.sync()
            out[0, i] = partial[t % 4]
            if x[i] > 0:
                out[1, i] = subgroup.exclusive_add(1)
            else:
                out[1, i] = -qd.math.popcnt(subgroup.ballot(x[i] < 0))

    x = floats(300)
    out = np.zeros((2, 300), np.float32)
    sums(x, out)
    for k, part in enumerate(blocks_of(x, 128)):
        assert (out[0, 128 * k : 128 * k + len(part)] == part.sum()).all()
        for first in range(0, len(part), 32):
            team = part[first : first + 32]
            own = out[1, 128 * k + first : 128 * k + first + len(team)]
            assert (own == np.where(team > 0, np.cumsum(team > 0) - 1, -(team < 0).sum())).all()


def test_debug_mode_checks_no_sums_of_members_that_are_not_there(executor: TargetExecutor) -> None:
    start(executor, debug=True, subgroup_size=64)

    @qd.kernel
    def sums(x: qd.types.ndarray(), out: qd.types.ndarray()):
        qd.loop_config(block_dim=128)
        for i in range(len(x)):
            if x[i] > 0:
                out[i] = subgroup.reduce_add(x[i]) + subgroup.inclusive_add(x[i])

    x = np.where(np.arange(200) % 8 == 5, np.arange(200), 0).astype(np.int32)
    out = np.zeros(200, np.int32)
    sums(x, out)
    for first in range(0, 200, 64):
        team = x[first : first + 64]
        assert (out[first : first + 64] == np.where(team > 0, team.sum() + np.cumsum(team), 0)).all()


def test_a_subgroup_a_row() -> None:
    @qd.kernel
    def sums(x, out):
        qd.loop_config(block_dim=64)
        for i in range(128):
            row, member = i // 32, i % 32
            while row < x.shape[0]:
                total = qd.f32(0)
                for k in range(member, x.shape[1], 32):
                    total += x[row, k]
                total = subgroup.reduce_add(total)
                if subgroup.elect():
                    out[0, row] = total
                row += 4
            for r in range(i // 32, x.shape[0]):
                first = subgroup.broadcast_first(x[r, 0] + member)
                if member == 0:
                    out[1 + i // 32, r] = first

    x = floats(7 * 50).reshape(7, 50)
    out = np.zeros((5, 7), np.float32)
    sums(x, out)
    assert (out[0] == x.sum(1)).all()
    for k in range(4):
        assert (out[1 + k] == np.where(np.arange(7) >= k, x[:, 0], 0)).all()


def test_pairs_are_sorted_in_a_subgroup(executor: TargetExecutor) -> None:
    start(executor, subgroup_size=16)

    @qd.kernel
    def sort(keys, values, votes):
        qd.loop_config(block_dim=32)
        for i in range(len(keys)):
            keys[i], values[i] = subgroup.bitonic_sort_kv(keys[i], values[i])
            subgroup.sync()
            votes[i] = subgroup.ballot_first_n(keys[i] > 0, 9)

    keys = np.random.default_rng(3).permutation(64).astype(np.float32) - 32
    values, votes, given = np.arange(64, dtype=np.int32), np.zeros(64, np.uint32), keys.copy()
    sort(keys, values, votes)
    assert (keys == np.sort(given.reshape(-1, 16), axis=1).ravel()).all() and (given[values] == keys).all()
    for first in range(0, 64, 16):
        assert votes[first] == sum(1 << k for k in range(9) if keys[first + k] > 0)


def test_the_first_member_is_the_first_that_is_there() -> None:
    @qd.kernel
    def firsts(x, out):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            out[0, i] = subgroup.elect()
            out[1, i] = subgroup.broadcast_first(x[i])
            if i % 32 >= 3 + i // 32:
                out[2, i] = subgroup.elect()
                out[3, i] = subgroup.broadcast_first(x[i])
                out[4, i] = subgroup.all_equal(x[i])
                out[5, i] = subgroup.all_equal(x[i] // 100)

    x = np.arange(90, dtype=np.int32)
    out = np.full((6, 90), -1, np.int32)
    firsts(x, out)
    member, team = x % 32, x // 32
    first = 3 + team
    there = member >= first
    wanted = [member == first, team * 32 + first, np.zeros(90), np.ones(90)]
    assert (out[0] == (member == 0)).all() and (out[1] == team * 32).all()
    for row, values in zip(out[2:], wanted):
        assert (row == np.where(there, values, -1)).all()


@pytest.mark.parametrize("size", [8, 16, 64])
def test_who_is_there(executor: TargetExecutor, size: int) -> None:
    start(executor, subgroup_size=size)

    @qd.kernel
    def masks(x, out):
        qd.loop_config(block_dim=96)
        for i in range(len(x)):
            out[0, i] = subgroup.ballot(True)
            if x[i] > 0:
                out[1, i] = warp.active_mask()
                out[2, i] = subgroup.elect()

    x = np.random.default_rng(size).integers(0, 2, 250).astype(np.int32)
    out = np.zeros((3, 250), np.uint64)
    masks(x, out)
    for start_of_block in range(0, 250, 96):
        for first in range(start_of_block, min(start_of_block + 96, 250), size):
            team = x[first : min(first + size, start_of_block + 96)]
            bits = sum(1 << k for k in np.nonzero(team)[0].tolist())
            for k, there in enumerate(team.tolist()):
                assert out[0, first + k] == (1 << len(team)) - 1
                assert out[1, first + k] == bits * there
                assert out[2, first + k] == (there and bits & -bits == 1 << k)


def test_votes() -> None:
    @qd.kernel
    def votes(x, out):
        qd.loop_config(block_dim=32)
        for i in range(len(x)):
            out[0, i] = subgroup.any_true(x[i] > 0)
            out[1, i] = subgroup.all_true(x[i] > 0)
            out[2, i] = subgroup.all_equal(x[i])
            out[3, i] = warp.any_nonzero(0xFFFFFFFF, x[i])
            out[4, i] = warp.shfl_down_i32(0xFFFFFFFF, x[i], 2)
            out[5, i] = subgroup.group_size() + block.global_thread_idx()

    x = np.zeros(96, np.int32)
    x[40], x[64:] = 7, 5
    out = np.zeros((6, 96), np.int32)
    votes(x, out)
    assert [row[::32].tolist() for row in out[:4]] == [[0, 1, 1], [0, 0, 1], [1, 0, 1], [0, 1, 1]]
    assert out[4, 38] == 7 and out[4, 62] == x[62] and (out[5] == 32 + np.arange(96)).all()


def test_numbers_of_threads_wrap_in_narrow_types() -> None:
    @qd.kernel
    def narrow(out):
        qd.loop_config(block_dim=32)
        for i in range(600):
            block.sync()
            out[0, i] = qd.cast(i, qd.u8) // 32
            out[1, i] = qd.cast(qd.i8(i), qd.i32) // 64
            out[2, i] = qd.cast(qd.u8(i), qd.i32) % 512
            out[3, i] = qd.cast(i, qd.u32) // 64 + qd.cast(i, qd.i64) % 128

    out, i = np.zeros((4, 600), np.int32), np.arange(600)
    narrow(out)
    assert (out[0] == i.astype(np.uint8) // 32).all() and (out[1] == i.astype(np.int8) // 64).all()
    assert (out[2] == i % 256).all() and (out[3] == i // 64 + i % 128).all()


def test_functions_that_meet() -> None:
    @qd.func
    def neighbours(shared, value, t, n):
        shared[t] = value
        block.sync()
        if n == 0:
            return value
        total = shared[t]
        for k in range(1, 3):
            total += shared[(t + k) % n]
        block.sync()
        return total

    @qd.kernel
    def run(x, y):
        qd.loop_config(block_dim=16)
        for i in range(len(x)):
            shared = block.SharedArray(16, qd.f32)
            value = x[i]
            for _ in range(2):
                value = neighbours(shared, value, block.thread_idx(), 16)
            y[i] = value

    x, y = floats(64), np.zeros(64, np.float32)
    run(x, y)
    expected = x.reshape(-1, 16)
    for _ in range(2):
        expected = expected + np.roll(expected, -1, 1) + np.roll(expected, -2, 1)
    assert (y == expected.ravel()).all()


def test_blocks_that_go_on_early_and_values_of_their_own() -> None:
    triple = qd.types.vector(3, qd.f32)

    @qd.kernel
    def run(x, y, items: int):
        qd.loop_config(block_dim=32)
        for i in range(items * 64):
            item = i // 64
            if item % 2 == 1:
                continue
            t = i % 64
            v = qd.Vector([x[i], x[i] * 2.0, 1.0])
            own = qd.Vector([0, 0, 0, 0])
            own[t % 4] = t
            shared = block.SharedArray((32,), triple)
            shared[t % 32] = v
            block.sync()
            w = shared[31 - t % 32]
            block.sync()
            y[i] = w.dot(v) + own[t % 4]

    x, y = floats(256), np.full(256, -1, np.float32)
    run(x, y, 4)
    u = x.reshape(-1, 32)[:, ::-1].ravel()
    expected = u * x * 5 + 1 + np.arange(256) % 64
    expected[np.arange(256) // 64 % 2 == 1] = -1
    assert (y == expected).all()


@pytest.mark.parametrize("size", [8, 16, 64])
def test_subgroups_of_other_sizes(executor: TargetExecutor, size: int) -> None:
    start(executor, subgroup_size=size)

    @qd.kernel
    def sums(x, y):
        qd.loop_config(block_dim=128)
        for i in range(len(x)):
            y[i] = subgroup.reduce_add(x[i])

    x, y = floats(150), np.zeros(150, np.float32)
    sums(x, y)
    assert y.tolist() == np.concatenate([np.full(len(p), p.sum()) for p in blocks_of(x, size)]).tolist()


def line_of(error: Any, text: str) -> bool:
    return any(text in line for line in str(error.value).splitlines())


def test_meetings_that_not_all_come_to() -> None:
    @qd.kernel
    def parted(x):
        for i in range(len(x)):
            if x[i] > 0:
                block.sync()

    with pytest.raises(QuadrantsSyntaxError, match="not all threads of a block come here") as error:
        parted(floats(64))
    assert line_of(error, "block.sync()") and line_of(error, "if x[i] > 0:")

    @qd.kernel
    def left(x):
        for i in range(len(x)):
            if x[i] > 0:
                continue
            block.sync()

    with pytest.raises(QuadrantsSyntaxError, match="would leave here while others wait"):
        left(floats(64))

    @qd.kernel
    def looped(x):
        for i in range(len(x)):
            for _ in range(i):
                x[i] += block.reduce_add(x[i], 128)

    with pytest.raises(QuadrantsSyntaxError, match="the loop around it differs"):
        looped(floats(64))


def runs_threads_at_once(executor: TargetExecutor) -> bool:
    return table.find(knobs.arch_by_name(executor.arch)).record().block_threads > 0


def test_what_block_loops_refuse(executor: TargetExecutor) -> None:
    @qd.kernel
    def outside(x):
        block.sync()

    with pytest.raises(QuadrantsSyntaxError, match="loops at a kernel's top level"):
        outside(floats(3))

    @qd.kernel
    def carried(x):
        total = qd.f32(0)
        for i in range(len(x)):
            block.sync()
            total += x[i]
        return total

    with pytest.raises(QuadrantsSyntaxError, match="carry no values on: `total`"):
        carried(floats(3))

    @qd.kernel
    def other_size(x):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            x[i] = block.reduce_add(x[i], 128, qd.f32)

    with pytest.raises(QuadrantsSyntaxError, match="the block has 64 threads, not 128"):
        other_size(floats(3))

    @qd.kernel
    def too_many(x):
        qd.loop_config(block_dim=2048)
        for i in range(len(x)):
            block.sync()

    with pytest.raises(QuadrantsSyntaxError, match="at most 1024 threads"):
        too_many(floats(3))

    @qd.kernel
    def large_part(x):
        for i in range(len(x)):
            x[i] = subgroup.reduce_add_tiled(x[i], 6)

    with pytest.raises(QuadrantsTypeError, match="no part of a subgroup"):
        large_part(floats(3))

    @qd.kernel
    def much_memory(x):
        qd.loop_config(block_dim=1024)
        for i in range(len(x)):
            own = qd.Vector([0] * 1100, qd.i64)  # of 1024 threads 9 MB
            own[i % 1100] = 1
            block.sync()
            x[i] = own[(i + 1) % 1100]

    if runs_threads_at_once(executor):
        x = np.ones(20, np.float32)
        much_memory(x)
        assert not x.any()
    else:
        with pytest.raises(QuadrantsUnsupportedError, match="needs too much memory"):
            much_memory(floats(3))

    with pytest.raises(QuadrantsSyntaxError, match="works in the loops of kernels only"):
        block.sync()


def test_members_of_a_subgroup_wait_for_one_another() -> None:
    """A barrier of the subgroup's, which not all threads of the block come to: their memory is in order behind it."""

    @qd.kernel
    def turned(x, y):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            shared = block.SharedArray((64,), qd.i32)
            t = block.thread_idx()
            if t < 32:
                for k in range(3):
                    shared[t] = x[i] + k
                    subgroup.sync()
                    y[i] = y[i] + shared[31 - t]
                    subgroup.sync()
            else:
                shared[t] = 2 * x[i]
                subgroup.sync()
                y[i] = shared[t ^ 1]

    x, y = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    turned(x, y)
    rows = x.reshape(2, 64)
    assert (y.reshape(2, 64)[:, :32] == 3 * rows[:, 31::-1] + 3).all()
    assert (y.reshape(2, 64)[:, 32:] == 2 * rows[:, np.arange(32, 64) ^ 1]).all()


def test_those_who_are_there_wait_for_one_another() -> None:
    """Some members of a subgroup: each third one, and those who are still in a loop."""

    @qd.kernel
    def passed(x, y):
        qd.loop_config(block_dim=64)
        for i in range(len(x)):
            shared = block.SharedArray((64,), qd.i32)
            t = block.thread_idx()
            shared[t] = -1
            block.sync()
            if t % 3 == 0:
                shared[t] = x[i]
                subgroup.sync()
                if t % 32 >= 3:
                    y[i] = shared[t - 3]
            block.sync()
            k = t % 32
            while k < 32:
                shared[t] = k
                subgroup.sync()
                if t % 32 > 0 and k < 31:
                    y[i] += shared[t // 32 * 32]
                subgroup.sync()
                k += 8

    x, y = np.arange(100, 196, dtype=np.int32), np.zeros(96, np.int32)
    passed(x, y)
    expected = np.zeros(96, np.int32)
    for block_of in (range(64), range(64, 96)):
        for i in block_of:
            t = i - block_of[0]
            if t % 3 == 0 and t % 32 >= 3:
                expected[i] = x[i - 3]
            held, k = 0, t % 32
            while k < 32:
                if t % 32 > 0 and k < 31:
                    expected[i] += held
                held, k = held + 8, k + 8
    assert (y == expected).all()


def test_loops_within_a_loop_that_members_leave_one_by_one(executor: TargetExecutor) -> None:
    """Its counter is the same for those who are in it, and so is what it says of loops within."""
    start(executor, subgroup_size=64)

    @qd.kernel
    def sums(y: qd.types.ndarray(), p: qd.i32):
        qd.loop_config(block_dim=33)
        for i in range(66):
            t = qd.i32(block.thread_idx())
            a, b = qd.i32(4), p & (i // 33)
            for k in range(t % 4):
                for _ in range(k % 4):
                    b = qd.i32(-4)
                    a = subgroup.reduce_add(a)
                a = subgroup.shuffle_xor(a if b <= 3 else k, 1) + 1
            for k in range(t % 3, 3):
                for _ in range(k):
                    b += subgroup.reduce_add(1)
            y[0, i] = a
            y[1, i] = b

    y = np.zeros((2, 66), np.int32)
    sums(y, 53)
    for first in (0, 33):
        a, b = [4] * 33, [53 & (first // 33)] * 33
        for k in range(3):
            there = [t for t in range(33) if k < t % 4]
            for _ in range(k):
                total = sum(a[t] for t in there)
                for t in there:
                    a[t], b[t] = total, -4
            given = [a[t] if b[t] <= 3 else k for t in range(33)]
            for t in there:
                a[t] = given[t ^ 1 if t ^ 1 in there else t] + 1
        rounds = [list(range(t % 3, 3)) for t in range(33)]
        for number in range(3):
            there = [t for t in range(33) if number < len(rounds[t])]
            for turn in range(3):
                members = [t for t in there if turn < rounds[t][number]]
                for t in members:
                    b[t] += len(members)
        assert y[0, first : first + 33].tolist() == a and y[1, first : first + 33].tolist() == b
