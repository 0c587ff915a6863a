"""Elementary functions in kernels of every target, level and width: arguments of all sizes, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.slow


def waves(a, b, out):
    for i in range(len(out)):
        x = a[i]
        out[i] = np.sin(x) + np.exp(-x * x) * np.arctan2(b[i], x) if b[i] > 0 else np.cos(x) ** 2 - np.log(1 + x * x)


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize(("arch", "lanes"), (("reference", 0), ("cpu", 0), ("cpu", 1), ("cpu", 4), ("cpu", 16)))
def test_waves(arch: str, lanes: int, dtype: Any) -> None:
    qd.init(arch=getattr(qd, arch), lanes=lanes)
    kernel = qd.kernel(waves)
    a = np.concatenate([np.linspace(-5, 5, 37), [0.0, 1e-30, 3e5, -1e9, 1e15, 1e30]]).astype(dtype)
    b = np.where(np.arange(a.size) % 3, 1.5, -2.0).astype(dtype)
    out = np.empty_like(a)
    kernel(a, b, out)
    with np.errstate(all="ignore"):
        first = np.sin(a) + np.exp(-a * a) * np.arctan2(b, a)
        second = np.cos(a) ** 2 - np.log(1 + a * a)
    np.testing.assert_allclose(out, np.where(b > 0, first, second), rtol=20 * np.finfo(dtype).eps, atol=1e-6)
