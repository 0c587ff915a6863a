"""Types that a target lacks are refused with the user's line, before anything is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.records import replace
from quadrants.targets import table
from quadrants.targets.llvm.x64 import target


def halve(x):
    for i in range(len(x)):
        y = qd.cast(x[i], qd.f16)
        x[i] = y * 0.5


def narrow(x: qd.types.ndarray(dtype=qd.f16, ndim=1)):
    for i in x:
        x[i] = 0.0


@pytest.fixture(autouse=True)
def without_half(monkeypatch: pytest.MonkeyPatch) -> None:
    record = replace(target.record(), dtypes=target.record().dtypes - {"f16"})
    monkeypatch.setattr(target, "record", lambda machine=None: record)
    assert table.find(None) is target


def test_the_line_that_makes_the_value_is_named() -> None:
    with pytest.raises(QuadrantsUnsupportedError) as caught:
        qd.kernel(halve)(np.ones(4, np.float32))
    text = str(caught.value)
    cast = halve.__code__.co_firstlineno + 2
    assert f"test_refusals.py:{cast}:13: the target x64 has no f16 on this machine\n" in text
    assert "\n    y = qd.cast(x[i], qd.f16)\n" in text
    assert "expected: one of u1, i8" in text and "help: use another type, or another target" in text


def test_parameters_are_refused_at_the_kernel() -> None:
    line = narrow.__code__.co_firstlineno
    with pytest.raises(QuadrantsUnsupportedError, match=rf"test_refusals.py:{line}:\d+: the target x64 has no f16"):
        qd.kernel(narrow)(np.ones(4, np.float16))


def test_other_types_run() -> None:
    x = np.ones(4, np.float64)
    qd.kernel(quarter)(x)
    assert x.tolist() == [0.25] * 4


def quarter(x):
    for i in range(len(x)):
        x[i] *= 0.25
