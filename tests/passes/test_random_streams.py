"""Random numbers as programs see them: what they depend on, and what not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.ir import streams
from quadrants.knobs import Arch
from quadrants.runtime import native, threads
from quadrants.targets import table

pytestmark = pytest.mark.slow

ARCHS = [arch for arch in (Arch.reference, qd.cpu) if not table.missing(arch)]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    qd.reset()


@qd.kernel
def fill(x):
    for i in range(len(x)):
        x[i] = qd.random()


@qd.kernel
def fill_rows(x):
    for i, j in qd.ndrange(x.shape[0], x.shape[1]):
        x[i, j] = qd.random()


def numbers(count: int, **options: Any) -> np.ndarray:
    qd.init(log_level="error", **options)
    x = np.zeros(count, np.float32)
    fill(x)
    return x


@pytest.mark.parametrize("arch", ARCHS, ids=str)
def test_seeds_repeat_and_differ(arch: Arch) -> None:
    first, again, other = (numbers(20, arch=arch, random_seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)
    default, zero = numbers(20, arch=arch), numbers(20, arch=arch, random_seed=0)
    np.testing.assert_array_equal(default, zero)


@pytest.mark.parametrize("arch", ARCHS, ids=str)
def test_launches_differ(arch: Arch) -> None:
    qd.init(arch=arch, log_level="error")
    a, b = np.zeros(20), np.zeros(20)
    fill(a)
    fill(b)
    assert len({*a, *b}) == 40


def helper(depth):
    if depth > 2:
        return qd.random() + 10.0
    if depth <= 0:
        return qd.random()
    return helper(depth - 1) + 1.0


@qd.kernel
def everywhere(x, before, after):
    before[0] = qd.random()
    for _step in range(3):
        for i in range(len(x)):
            x[i] += qd.random()
            if x[i] > 0.5:
                x[i] += helper(i % 4)
            tries = 0
            while qd.random() < 0.5 and tries < 10:
                tries += 1
            x[i] += tries
    for i in range(1, len(x)):
        x[i] += x[i - 1] * qd.random()
    after[0] = qd.random()


@pytest.mark.skipif(len(ARCHS) < 2, reason="one target only")
@pytest.mark.parametrize("level", [0, 1])
def test_targets_and_levels_give_the_same_numbers(level: int) -> None:
    found = []
    for arch, chosen in ((Arch.reference, 1), (qd.cpu, level)):
        qd.init(arch=arch, opt_level=chosen, random_seed=5, log_level="error", default_fp=qd.f64)
        x, before, after = np.zeros(37), np.zeros(1), np.zeros(1)
        everywhere(x, before, after)
        found.append(np.concatenate([x, before, after]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


@pytest.mark.skipif(not native.available(), reason="no native runtime on this machine")
def test_threads_do_not_matter() -> None:
    found = []
    for count in (1, 2, 7):
        found.append(numbers(300_000, arch=qd.cpu, cpu_max_num_threads=count))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.skipif(not native.available(), reason="no native runtime on this machine")
def test_uniform_and_independent() -> None:
    """Moments, neighbours and buckets of 10**6 numbers, within five standard deviations."""
    count = 1_000_000
    x = numbers(count, arch=qd.cpu).astype(np.float64)
    assert x.min() >= 0.0 and x.max() < 1.0
    centred = x - 0.5
    assert abs(centred.mean()) < 5 * np.sqrt(1 / 12 / count)
    assert abs(np.mean(centred**2) - 1 / 12) < 5 * np.sqrt(1 / 180 / count)
    for lag in (1, 2, 64, 1000):
        assert abs(np.mean(centred[lag:] * centred[:-lag])) < 5 / 12 / np.sqrt(count)
    buckets = np.bincount((x * 1000).astype(np.int64), minlength=1000)
    assert abs(((buckets - 1000.0) ** 2).sum() / 1000.0 - 999) < 5 * np.sqrt(2 * 999)
    rows = np.zeros((1000, 1000))
    fill_rows(rows)
    correlation = np.corrcoef(rows)
    assert np.abs(correlation - np.eye(1000)).max() < 6.5 / np.sqrt(1000)


@pytest.mark.parametrize("arch", ARCHS, ids=str)
@pytest.mark.parametrize("name", ["u1", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64"])
def test_every_type(arch: Arch, name: str) -> None:
    qd.init(arch=arch, log_level="error")
    dtype = getattr(qd, name)
    x = np.zeros(400, dtype.numpy)

    @qd.kernel
    def run(x):
        for i in range(len(x)):
            x[i] = qd.random(dtype)

    run(x)
    wide = x.astype(np.float64)
    if dtype.is_float:
        assert wide.min() >= 0.0 and wide.max() < 1.0 and abs(wide.mean() - 0.5) < 0.1
    else:
        low, high = float(dtype.minimum), float(dtype.maximum)
        spread = (wide - low) / (high - low)
        assert spread.min() <= 0.05 and spread.max() >= 0.95 and abs(spread.mean() - 0.5) < 0.1


@pytest.mark.parametrize("arch", ARCHS, ids=str)
def test_normal_numbers(arch: Arch) -> None:
    qd.init(arch=arch, log_level="error", default_fp=qd.f64)
    x = np.zeros(4000)

    @qd.kernel
    def run(x):
        for i in range(len(x)):
            x[i] = qd.randn()

    run(x)
    assert np.isfinite(x).all() and abs(x.mean()) < 0.1 and abs(x.std() - 1) < 0.1 and abs((x**4).mean() - 3) < 0.7


def test_the_stream_is_splitmix64() -> None:
    """The numbers that the generator's authors publish for seed 1234567."""
    state, found = 1234567, []
    for _ in range(3):
        state = (state + streams.STEP) % 2**64
        found.append(streams.hash_bits(state))
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.skipif(not native.available(), reason="no native runtime on this machine")
def test_the_native_stream_is_the_interpreter_s() -> None:
    import ctypes

    threads.seed_random(-3)
    draw = ctypes.CFUNCTYPE(ctypes.c_uint64)(threads.symbols()["qd_random"])
    assert [draw() for _ in range(5)] == [streams.next_bits() for _ in range(5)]
