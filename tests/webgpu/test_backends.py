"""Metal and D3D12: the target of Vulkan by another interface, on a driver of Vulkan that has no more than they have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.evidence import emulation
from quadrants.evidence.borrowed import LIMITS
from quadrants.knobs import Arch
from quadrants.targets import table
from quadrants.targets.webgpu.device import WebDevice

pytestmark = pytest.mark.slow


@pytest.fixture(params=[Arch.metal, Arch.d3d12], ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[WebDevice]:
    if reason := emulation.missing(request.param):
        pytest.skip(reason)
    with emulation.emulation(request.param, always=True) as found:
        qd.init(arch=request.param, enable_fallback=False)
        yield found
        qd.reset()


@qd.kernel
def waves(x: qd.types.ndarray(), total: qd.types.ndarray()):
    for i in range(x.shape[0]):
        x[i] = qd.sin(0.5 * x[i]) + 1 / 3
    for i in range(x.shape[0]):
        total[0] += x[i]


def test_the_same_code_runs_without_f64(device: WebDevice) -> None:
    x, total = np.linspace(0, 9, 1000, dtype=np.float32), np.zeros(1, np.float32)
    expected = np.sin(0.5 * x.astype(np.float64)) + 1 / 3
    waves(x, total)
    assert np.allclose(x, expected, rtol=1e-6, atol=3e-7) and np.isclose(total[0], expected.sum(), rtol=1e-6)
    assert device.device.limits["max-storage-buffers-per-shader-stage"] == 8 == min(LIMITS.values())


@dataclass(frozen=True)
class Spring:
    stiffness: float
    rest: float


gain = 0.5


def test_pythons_floats_are_f32_where_there_is_no_f64(device: WebDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def mixed(x, number, vector, pair, spring):
        for i in range(x.shape[0]):
            x[i] = x[i] * number + vector[1] * pair[0] + spring.stiffness * (gain - spring.rest)
        return number

    for _ in range(12):  # from the tenth on the host's part is machine code
        monkeypatch.setitem(globals(), "gain", gain + 1.0)  # which is a parameter from the second value on
        x = np.arange(5, dtype=np.float32)
        got = mixed(x, 0.1, qd.Vector([1.0, 0.3]), (0.7, 2), Spring(3.0, 0.25))
        assert np.allclose(x, np.arange(5) * 0.1 + 0.3 * 0.7 + 3.0 * (gain - 0.25), rtol=1e-6)
        assert got == np.float32(0.1)
    assert mixed.result_types() == ["f32"]


def test_f64_is_refused_with_the_line(device: WebDevice) -> None:
    name = qd.cfg.arch.name
    with pytest.raises(
        QuadrantsUnsupportedError, match=rf"test_backends.py:\d+:\d+: the target {name} has no f64 on this machine"
    ) as caught:
        waves(np.ones(3), np.zeros(1))
    assert "found:    `x`: array<f64, 1, C>" in str(caught.value) and "x.astype(np.float32)" in str(caught.value)
    assert not table.find(qd.cfg.arch).record().has_dtype(qd.f64)
    assert name in table.find(qd.cfg.arch).record().version.lower()


def test_debug_mode_checks_powers_without_f64(device: WebDevice) -> None:
    qd.init(
        arch=qd.cfg.arch, debug=True, offline_cache=False, enable_fallback=False, default_ip=qd.i32, log_level="error"
    )

    @qd.kernel
    def raised(base: qd.types.ndarray(), exponent: qd.types.ndarray()):
        for i in range(base.shape[0]):
            base[i] = base[i] ** exponent[i]

    for dtype in (np.int32, np.int64):
        bits = np.iinfo(dtype).bits
        fitting = [
            (3, 3),
            (-1, 2**24 + 1),
            (2, bits - 2),
            (-2, bits - 1),
            (0, 0),
            (46340, 2),
            (1290, 3),
            (-1290, 3),
            (7, 1),
        ]
        bases, exponents = (np.array(column, dtype) for column in zip(*fitting))
        expected = [base**exponent for base, exponent in fitting]
        raised(bases, exponents)
        assert bases.tolist() == expected
        for base, exponent in ((2, bits - 1), (10, bits), (3, 41), (1 << bits // 2, 2), (-(1 << bits // 2), 3)):
            with pytest.raises(qd.QuadrantsAssertionError, match=rf"{base} \*\* {exponent} overflows i{bits}"):
                raised(np.array([base], dtype), np.array([exponent], dtype))
