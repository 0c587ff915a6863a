"""Updates that meet: by one operation where the adapter has it, by loops of compare and exchange where it lacks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.targets import table
from quadrants.targets.webgpu.adapters import find_adapter
from quadrants.targets.webgpu.device import CHOICES, WebDevice, open_device
from quadrants.targets.webgpu.tasks import Tasks

pytestmark = [pytest.mark.slow]

OPTIONAL = ("shader-float32-atomic", "shader-int64-atomic-all-ops", "subgroup")


class _Lacking:
    """The machine's adapter without some of its features."""

    def __init__(self, adapter: Any, lacking: frozenset[str]) -> None:
        self._adapter = adapter
        self.features = frozenset(adapter.features) - lacking

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)


@pytest.fixture(params=["", *OPTIONAL[:1], "all"])
def texts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[str], str]]:
    """The shaders that kernels are made of, and what the adapter lacks."""
    if reason := table.missing(knobs.Arch.vulkan):
        pytest.skip(reason)
    lacking = frozenset(OPTIONAL[:1] + OPTIONAL[2:] if request.param == "all" else [request.param])
    found: list[str] = []
    prepare = WebDevice.prepare

    def noted(self: WebDevice, *arguments: Any) -> Tasks:
        tasks = prepare(self, *arguments)
        found.extend(tasks.texts)
        return tasks

    monkeypatch.setattr(WebDevice, "prepare", noted)
    device = open_device({}, "Vulkan", _Lacking(find_adapter("Vulkan"), lacking))
    with CHOICES["Vulkan"].using(device):
        qd.init(arch=qd.vulkan, offline_cache=False, enable_fallback=False, log_level="error")
        yield found, request.param
        qd.reset()


@pytest.mark.parametrize("name", ["i32", "u32", "i64", "u64", "f32", "f64", "u8", "f16"])
def test_every_update_counts_once(texts: tuple[list[str], str], name: str) -> None:
    dtype = getattr(qd, name)

    @qd.kernel
    def all_of_them(places, sums, least, largest, bits):
        for i in range(places.shape[0]):
            k = places[i]
            sums[k] += 1
            qd.atomic_min(least[k], qd.cast(i % 50, dtype))
            qd.atomic_max(largest[k], qd.cast(i % 50, dtype))
            qd.atomic_or(bits[k], 1 << (i % 30))

    places = np.random.default_rng(6).integers(0, 5, 3000).astype(np.int32)
    arrays = [qd.ndarray(dtype, shape=(5,)) for _ in range(3)]
    for array, start in zip(arrays, (0, 100, 0)):
        array.fill(start)
    bits = np.zeros(5, np.int32)
    all_of_them(places, *arrays, bits)
    counts = np.bincount(places, minlength=5)
    expected = counts % 256 if name == "u8" else counts
    assert (arrays[0].to_numpy() == expected).all()
    for k in range(5):
        mine = np.flatnonzero(places == k)
        assert arrays[1].to_numpy()[k] == (mine % 50).min() and arrays[2].to_numpy()[k] == (mine % 50).max()
        assert bits[k] == np.bitwise_or.reduce(1 << (mine % 30))


def test_sums_of_f32_are_one_operation_where_the_adapter_has_it(texts: tuple[list[str], str]) -> None:
    found, lacking = texts

    @qd.kernel
    def scatter(places, sums):
        for i in range(places.shape[0]):
            sums[places[i]] += 0.5

    sums = qd.ndarray(qd.f32, shape=(100_000,))
    sums.fill(0)
    places = np.random.default_rng(7).integers(0, 100_000, 5000).astype(np.int32)
    scatter(places, sums)
    assert (sums.to_numpy() == 0.5 * np.bincount(places, minlength=100_000)).all()
    text = "".join(found)
    assert ("array<atomic<f32>>" in text) == (not lacking)
    assert not lacking or "atomicCompareExchangeWeak" in text
    assert table.find(qd.cfg.arch).record().float_atomics == (frozenset() if lacking else {"f32"})
