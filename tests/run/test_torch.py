"""Tensors of torch on the CPU as arguments, in place: any strides, any type that kernels have."""

from __future__ import annotations

from typing import Any

import pytest

import quadrants as qd
from quadrants.evidence.programs import TargetExecutor

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _started(executor: TargetExecutor) -> None:
    executor.initialise(qd, ("i64", "f32"))


def test_a_layer_of_tensors_with_strides() -> None:
    @qd.kernel
    def layer(x, w, b, y):
        for i in range(x.shape[0]):
            for o in range(w.shape[0]):
                total = b[o]
                for k in range(x.shape[1]):
                    total += x[i, k] * w[o, k]
                y[i, o] = max(total, 0)

    torch.manual_seed(1)
    x, w, b = torch.randn(5, 7), torch.randn(7, 3).T, torch.randn(3)
    y = torch.zeros(3, 10)[:, ::2].T
    layer(x, w, b, y)
    torch.testing.assert_close(y, torch.relu(x @ w.T + b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "uint8", "int16"])
def test_tensors_of_narrow_types(name: str) -> None:
    """bf16 is none of NumPy's types."""

    @qd.kernel
    def scale(x, y, k):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = qd.cast(x[i, j], qd.f32) * k + 1

    dtype = getattr(torch, name)
    x = (torch.arange(24) * 1.37).reshape(4, 6).to(dtype)
    y = torch.zeros(8, 6, dtype=dtype)
    for _ in range(2):
        scale(x.T, y[::2].T, 2.0)
    assert torch.equal(y[::2], (x.float() * 2 + 1).to(dtype)) and not y[1::2].any()


def test_captured_tensors() -> None:
    table = (torch.arange(5) * 0.3).bfloat16()

    @qd.kernel
    def read(i) -> qd.f32:
        return qd.cast(table[i], qd.f32) * 2

    assert read(3) == float(table[3]) * 2
    table[3] = 8
    assert read(3) == 16
