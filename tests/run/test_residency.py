"""Fields and ndarrays on devices: copied when one side needs what the other has, and not before."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import quadrants as qd
from quadrants.blocks import Traffic
from quadrants.evidence.programs import TargetExecutor
from quadrants.targets import table

from .conftest import ON_DEVICES

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("executor", ON_DEVICES, indirect=True)]


def _copies() -> tuple[int, int]:
    return Traffic.to_device, Traffic.to_host


@pytest.fixture
def device(executor: TargetExecutor) -> TargetExecutor:
    qd.init(arch=executor.arch, offline_cache=False, **executor.options)
    assert table.find(qd.cfg.arch).record().launches
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


def test_kernels_share_the_copy(device: TargetExecutor) -> None:
    x = qd.field(qd.f32, shape=(8,))

    @qd.kernel
    def more():
        for i in x:
            x[i] += 1.0

    @qd.kernel
    def twice():
        for i in x:
            x[i] *= 2.0

    before = _copies()
    for _ in range(3):
        more()
        twice()
    assert _copies() == (before[0] + 1, before[1])
    assert (x.to_numpy() == 14).all()


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


def test_threads_launch_and_look_at_once(device: TargetExecutor) -> None:
    x = qd.field(qd.i32, shape=(8,))
    y = qd.field(qd.i32, shape=(8,))
    is_done = threading.Event()

    @qd.kernel
    def one():
        for i in range(8):
            x[i] += 1

    @qd.kernel
    def two():
        for i in range(8):
            y[i] += 2

    def look() -> None:
        while not is_done.is_set():
            x[0]

    def launch() -> None:
        for _ in range(500):
            two()

    one()
    two()
    others = [threading.Thread(target=look), threading.Thread(target=launch)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for other in others:
            other.start()
        for _ in range(500):
            one()
    finally:
        sys.setswitchinterval(interval)
        is_done.set()
        for other in others:
            other.join()
    assert (x.to_numpy() == 501).all() and (y.to_numpy() == 1002).all()
