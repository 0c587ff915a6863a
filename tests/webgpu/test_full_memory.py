"""A GPU without memory left is told of, and goes on where there is some again."""

from __future__ import annotations

from typing import Any

import pytest

import quadrants as qd
from quadrants.targets.webgpu.device import WebDevice

pytestmark = pytest.mark.slow


@qd.kernel
def numbered(x: qd.types.ndarray()):
    for i in range(x.shape[0]):
        x[i] = i


def test_a_full_memory_is_told(small: WebDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> Any:
        raise small.wgpu.GPUOutOfMemoryError("Not enough memory left.\nand more")

    x = qd.ndarray(qd.i32, 3 << 18)
    with monkeypatch.context() as patch:
        patch.setattr(small.device, "create_buffer", full)
        with pytest.raises(
            MemoryError, match=r"the device has no memory for \d+ more bytes \(Not enough memory left\.\)"
        ):
            numbered(x)
    numbered(x)
    assert x[0] == 0 and x[(3 << 18) - 1] == (3 << 18) - 1
