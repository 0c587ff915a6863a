"""Every operation on every dtype through kernels of every target, against the oracle's meaning of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.evidence.conformance import elementwise
from quadrants.evidence.emulation import emulation
from quadrants.ir.ops import OPS
from quadrants.ir.types import ScalarType, bf16, scalar_types
from quadrants.targets import table

pytestmark = pytest.mark.slow

NUMPY_TYPES = tuple(scalar for scalar in scalar_types if scalar is not bf16)
CASES = [(name, scalar) for name, scalar in elementwise.OPERATIONS if scalar is not bf16]


def seeds(count: int, *what: object) -> list[int]:
    """The same seeds in every run, others for each case."""
    return [zlib.crc32(f"{what} {k}".encode()) for k in range(count)]


@pytest.fixture(scope="module", params=("reference", "cpu", "vulkan", "cuda"))
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    """A target, initialised once for all operations."""
    wanted = knobs.arch_by_name(request.param)
    with emulation(wanted):
        if reason := table.missing(wanted):
            pytest.skip(reason)
        qd.init(arch=request.param, default_ip=qd.i64, default_fp=qd.f64)
        yield request.param
        qd.reset()


def test_every_elementwise_row_has_a_kernel() -> None:
    rows = {name for name, row in OPS.items() if row.elementwise}
    assert rows - elementwise.INTERNAL == set(elementwise.KERNELS)


@pytest.mark.parametrize(("name", "scalar"), CASES, ids=str)
def test_operation(arch: str, name: str, scalar: ScalarType) -> None:
    for seed in seeds(5, name, scalar):
        elementwise.check_operation(name, scalar, seed)


@pytest.mark.parametrize("target", NUMPY_TYPES, ids=str)
@pytest.mark.parametrize("source", NUMPY_TYPES, ids=str)
def test_conversion_by_store(arch: str, source: ScalarType, target: ScalarType) -> None:
    for seed in seeds(3, source, target):
        elementwise.check_conversion(source, target, seed)


@pytest.mark.parametrize("name", ["add", "mul", "div", "sqrt", "min", "lt", "exp"])
def test_bfloat_through_fields(arch: str, name: str) -> None:
    for seed in seeds(3, name):
        elementwise.check_operation(name, bf16, seed)


@pytest.mark.parametrize("scalar", elementwise.FLOATS, ids=str)
def test_nothing_of_floats_is_assumed_away(arch: str, scalar: ScalarType) -> None:
    elementwise.check_identities(scalar)
