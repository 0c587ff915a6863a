"""Devices that lack something, played by the simulated one: fallbacks give what the reference gives, the rest is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.evidence.conformance import elementwise
from quadrants.evidence.programs import FieldOf, Program, TargetExecutor, disagreement
from quadrants.ir.types import ScalarType, f16, f32, i64
from quadrants.records import replace
from quadrants.targets import simulated
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.simulated.profiles import PLAIN, PROFILES

pytestmark = pytest.mark.slow


@pytest.fixture(params=sorted(PROFILES))
def profile(request: pytest.FixtureRequest) -> Iterator[CapabilityRecord]:
    """A device's record, in force."""
    with simulated.playing(PROFILES[request.param]):
        yield PROFILES[request.param]


def halved(x):
    for i in range(len(x)):
        x[i] = x[i] * 0.5 + 0.25


def test_arrays_of_f64_are_refused_with_the_line(profile: CapabilityRecord) -> None:
    qd.init(arch="simulated")
    x = np.ones(3)
    with pytest.raises(QuadrantsUnsupportedError, match=rf"the target {profile.name} has no f64") as caught:
        qd.kernel(halved)(x)
    assert f"test_lowered_records.py:{halved.__code__.co_firstlineno}:" in str(caught.value)
    assert (x == 1).all()


def test_weak_floats_are_the_widest_that_there_are(
    profile: CapabilityRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    qd.init(arch="simulated", default_fp=qd.f64)
    assert f"the target {profile.name} has no f64" in "".join(capsys.readouterr())

    @qd.kernel
    def third():
        return 1 / 3

    assert third() == float(np.float32(1) / np.float32(3))
    x = np.ones(3, np.float32)
    qd.kernel(halved)(x)
    assert (x == 0.75).all()


def running_sums(x: FieldOf, n: qd.i32):
    total = qd.f32(0.0)
    for i in range(n):
        total += x[i] * 0.5
    for i in range(n):
        x[i] += total
    return total


def test_programs_run_without_f64(profile: CapabilityRecord) -> None:
    values = FieldOf("f32", np.arange(37, dtype=np.float32))
    item = Program("running_sums", running_sums, (values, 37), None, {}, "", ("i32", "f32"), 1e-6)
    assert disagreement(item, TargetExecutor("simulated", "simulated")) is None


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("div", f32),
        ("mod", f32),
        ("exp", f32),
        ("log", f16),
        ("sin", f32),
        ("pow", f32),
        ("tan", f16),
        ("sqrt", f32),
        ("floordiv", i64),
    ],
    ids=str,
)
def test_operations_run_without_f64(profile: CapabilityRecord, name: str, scalar: ScalarType) -> None:
    qd.init(arch="simulated", default_fp=qd.f32, default_ip=qd.i64)
    elementwise.check_operation(name, scalar, 0)


@pytest.mark.parametrize("lacking", ["i64", "f16", "bf16", "u8", "f32"])
def test_a_type_that_is_lacking_is_refused(lacking: str) -> None:
    with simulated.playing(replace(PLAIN, name="less", dtypes=PLAIN.dtypes - {lacking})):
        qd.init(arch="simulated", default_ip=qd.i32)
        array = qd.ndarray(getattr(qd, lacking), 3)
        with pytest.raises(QuadrantsUnsupportedError, match=f"the target less has no {lacking}"):
            qd.kernel(copied)(array)


def copied(a):
    for i in range(len(a)):
        a[i] = a[i]
