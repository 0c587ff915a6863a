"""What launches cost, in calls of `wgpu`, and when they are handed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from tests.watching import watched

import quadrants as qd
from quadrants.targets.webgpu import encoding
from quadrants.targets.webgpu.device import WebDevice

from .conftest import Opened

pytestmark = [pytest.mark.slow]


@pytest.fixture
def device(opened: Opened) -> WebDevice:
    return opened({})


def _ran(launches: Callable[[], object]) -> Counter[str]:
    """The public functions of `wgpu` that are called, those that it calls itself and properties left out."""
    found: Counter[str] = Counter()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        caller = frame.f_back
        name = frame.f_code.co_name
        if event != "call" or name.startswith("_") or name in ("queue", "limits", "size"):
            return
        if caller and "/wgpu/" in frame.f_code.co_filename and "/wgpu/" not in caller.f_code.co_filename:
            found[name] += 1

    watched(launches, watch)
    return +found


@qd.kernel
def _grow(x, by):
    for i in range(x.shape[0]):
        x[i] += by


@qd.kernel
def _shrink(x, y, by):
    for i in range(x.shape[0]):
        x[i] -= by * y[i]
    for i in range(x.shape[0]):
        y[i] = x[x.shape[0] - 1 - i]


def test_a_launch_waits_to_be_handed_over(device: WebDevice) -> None:
    x = qd.ndarray(qd.f32, shape=(1000,))
    x.fill(0.0)
    _grow(x, 1.0)
    qd.sync()
    assert not _ran(lambda: [_grow(x, float(k)) for k in range(30)]), "no call of wgpu before the host looks"
    assert x[7] == 1.0 + sum(range(30))


@pytest.mark.parametrize("is_direct", [False, True], ids=["methods", "library"])
def test_launches_that_follow_one_another_share_what_they_can(device: WebDevice, is_direct: bool) -> None:
    """One pass and one submission for all; the pipeline is set anew where another one comes, and no method of `wgpu` is called for
    a launch."""
    if not is_direct:
        device.launches.encode = encoding.encode
    else:
        assert device.launches.encode is not encoding.encode
    x, y = (qd.ndarray(qd.f32, shape=(1000,)) for _ in range(2))
    for array in (x, y):
        array.fill(1.0)
    _grow(x, 1.0)
    _shrink(x, y, 1.0)
    qd.sync()

    def run() -> None:
        for _ in range(20):
            _grow(x, 2.0)
        for _ in range(10):
            _shrink(x, y, 0.5)
        qd.sync()

    calls = _ran(run)
    expected = np.ones(1000, np.float32), np.ones(1000, np.float32)
    each = {"set_pipeline": 21, "set_bind_group": 40, "dispatch_workgroups": 40}
    assert calls == {
        **({} if is_direct else each),
        "write_buffer": 1,
        "create_command_encoder": 1,
        "begin_compute_pass": 1,
        "end": 1,
        "finish": 1,
        "submit": 1,
        "read_buffer": 1,
    }
    found = x.to_numpy(), y.to_numpy()
    a, b = expected
    for number in (1, 10):  # as `_grow` and `_shrink` above: the first round by ones
        a += np.float32(1.0 if number == 1 else 2.0 * 20)
        for _ in range(number):
            a -= np.float32(1.0 if number == 1 else 0.5) * b
            b[:] = a[::-1]
    assert (found[0] == a).all() and (found[1] == b).all()


def test_many_launches_do_not_wait_for_ever(device: WebDevice) -> None:
    x = qd.ndarray(qd.f32, shape=(1000,))
    x.fill(0.0)
    _grow(x, 1.0)
    qd.sync()
    calls = _ran(lambda: [_grow(x, 1.0) for _ in range(200)])
    assert calls["submit"] == 3
    assert calls["create_bind_group"] == calls["read_buffer"] == 0
    assert x[999] == 201.0


def test_qd_sync_waits_once(device: WebDevice) -> None:
    x = qd.ndarray(qd.f32, shape=(1000,))
    x.fill(0.0)
    _grow(x, 1.0)
    assert _ran(qd.sync)["submit"] == 1
    assert not _ran(qd.sync)


def test_memory_that_is_freed_while_launches_wait_is_not_handed_out_before(device: WebDevice) -> None:
    """Whoever gets the piece next stands behind what waits."""
    kept = qd.ndarray(qd.f32, shape=(1000,))
    kept.fill(1.0)
    for k in range(5):
        passing = qd.ndarray(qd.f32, shape=(1000,))
        passing.fill(float(k))
        _shrink(kept, passing, 1.0)
        del passing
    expected = 1.0
    for k in range(5):
        expected -= k
    assert (kept.to_numpy() == expected).all()
