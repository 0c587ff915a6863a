"""Fields and ndarrays on devices: copied when one side needs what the other has, and not before."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd
from quadrants.blocks import Traffic
from quadrants.evidence.programs import TargetExecutor


def _copies() -> tuple[int, int]:
    return Traffic.to_device, Traffic.to_host


@pytest.fixture
def device(executor: TargetExecutor) -> TargetExecutor:
    if executor.arch not in ("simulated", "vulkan", "amdgpu"):
        pytest.skip("no device has memory of its own here")
    qd.init(arch=executor.arch, offline_cache=False, **executor.options)
    return executor


@pytest.mark.parametrize("kind", ["field", "ndarray"])
def test_nothing_is_copied_until_the_host_asks(device: TargetExecutor, kind: str) -> None:
    x = getattr(qd, kind)(qd.f32, shape=(100,))
    y = getattr(qd, kind)(qd.f32, shape=(100,))
    x.from_numpy(np.arange(100, dtype=np.float32))

    @qd.kernel
    def step(a: qd.template(), b: qd.template()):
        for i in range(100):
            b[i] += 2.0 * a[i]

    before = _copies()
    for _ in range(5):
        step(x, y)
    assert _copies() == (before[0] + 2, before[1])
    assert y[3] == 30.0 and _copies()[1] == before[1] + 1
    assert (y.to_numpy() == 10 * np.arange(100)).all()
    assert _copies()[1] == before[1] + 1, "the host had it already"
    y[3] = 0.0
    step(x, y)
    assert y[3] == 6.0 and y[4] == 48.0
    assert _copies() == (before[0] + 3, before[1] + 2)


def test_views_that_others_keep(device: TargetExecutor) -> None:
    x = qd.ndarray(qd.i32, shape=(10,))
    view = x.to_numpy(copy=False)

    @qd.kernel
    def add(a: qd.types.ndarray()):
        for i in range(10):
            a[i] += i

    view[:] = 1
    add(x)
    assert (view == 1 + np.arange(10)).all()
    view[2] = 50
    add(x)
    assert view[2] == 52 and view[3] == 7


def test_elements_of_vectors_are_views(device: TargetExecutor) -> None:
    x = qd.Vector.field(3, qd.f64, shape=(4,))

    @qd.kernel
    def grow():
        for i in range(4):
            x[i] = x[i] * 2.0 + 1.0

    grow()
    element = x[1]
    grow()
    assert element[0] == 3.0
    element[0] = 10.0
    grow()
    assert x[1][0] == 21.0 and x[2][0] == 7.0


def test_components_and_copies(device: TargetExecutor) -> None:
    x = qd.Vector.field(2, qd.f32, shape=(5,))
    total = qd.field(qd.f32, shape=())

    @qd.kernel
    def fill():
        for i in range(5):
            x[i] = [i, 2 * i]
            total[None] += x[i][1]

    fill()
    assert total[None] == 20.0
    first = x.get_scalar_field(0)
    assert first[3] == 3.0
    other = qd.Vector.field(2, qd.f32, shape=(5,))
    other.copy_from(x)
    assert other.to_numpy()[4].tolist() == [4.0, 8.0]
    x.fill(1.0)
    fill()
    assert x.to_numpy()[2].tolist() == [2.0, 4.0]
