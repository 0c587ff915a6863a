"""How a launch's numbers and arrays get into its frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants.ir.nodes import Function
from quadrants.ir.types import ScalarType, array_type, scalar_types
from quadrants.targets.frame import frame_layout, memory_bytes
from quadrants.targets.webgpu.tasks import packing

_NUMBERS = (0, 1, -1, 100, 2.5, -0.0, float("inf"), float("nan"), 1e-42, 65504, 1 << 62)


@pytest.mark.parametrize("type_", scalar_types, ids=str)
def test_numbers_lie_as_in_every_frame(type_: ScalarType) -> None:
    types = (array_type(type_, 2), type_, type_)
    layout = frame_layout(Function("f", types, (), "kernel"))
    form, made = packing(types)
    for value in _values(type_):
        held = memory_bytes(type_, value)
        words = [value if of is None else memory_bytes(of, value) for of in made[1:]]
        data = form.pack(7, 1, 2, 3, 4, *words)
        assert len(data) == 4 + layout.size
        assert np.frombuffer(data[4:44], np.int64).tolist() == [7, 1, 2, 3, 4]
        for offset in layout.parameters[1:]:
            assert data[4 + offset : 4 + offset + len(held)] == held


def _values(type_: ScalarType) -> list[Any]:
    if type_.bits == 1:
        return [np.bool_(False), np.bool_(True)]
    if type_.is_float:
        kind: Any = np.float64 if type_.bits == 64 else np.float32
        return [kind(value) for value in _NUMBERS if abs(value) < 1e5 or not np.isfinite(value)]
    return [np.dtype(type_.name.replace("i", "int").replace("u", "uint")).type(value) for value in (0, 1, 100, 127)]
