"""Every target at every optimisation level."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.evidence.amdgpu.driver import assembled, unexplained_spills
from quadrants.evidence.programs import TargetExecutor
from quadrants.evidence.ptx import assemble as ptx
from quadrants.evidence.ptx.driver import played
from quadrants.targets import table
from quadrants.targets.llvm.amdgpu import lld

EXECUTORS = [
    TargetExecutor(f"{arch}-O{level}", arch, opt_level=level)
    for arch in ("reference", "simulated", "vulkan", "cuda", "arm64", "x64")
    for level in (0, 1)
]
EXECUTORS.append(TargetExecutor("amdgpu-O1", "amdgpu"))


# Devices, played or emulated, and Arm64.
DEVICES = ("simulated", "vulkan", "cuda", "arm64", "amdgpu")

# Code for AMD's GPUs is made for one processor, and linked; results are the interpreter's (evidence/amdgpu).
AMD_PROCESSOR = os.environ.get("QD_TEST_AMD_PROCESSOR", "gfx942")

# What devices may refuse, and nothing else: by the words of the error.
REFUSALS = ("functions that call themselves", "cannot call the C function")


def marks(executor: TargetExecutor) -> list[pytest.MarkDecorator]:
    """The fast tests run optimised code on the reference and the host; unoptimised code and other targets are slow."""
    return [pytest.mark.slow] if executor.arch in DEVICES or executor.name.endswith("O0") else []


def missing(arch: str) -> str:
    """What a target lacks on this machine; asked when its first test runs, since the answer may need a driver. CUDA's code is
    executed by our interpreter, AMD's needs a linker."""
    if arch == "amdgpu":
        return lld.missing()
    return "" if arch == "cuda" else table.missing(knobs.arch_by_name(arch))


PARAMETERS = [pytest.param(executor, marks=marks(executor), id=executor.name) for executor in EXECUTORS]


@pytest.fixture(params=PARAMETERS)
def executor(request: pytest.FixtureRequest) -> Iterator[TargetExecutor]:
    """One target at one level; CUDA's optimised code goes through NVIDIA's assembler, where that is at hand."""
    if reason := missing(request.param.arch):
        pytest.skip(reason)
    with _driver(request.param.arch) as driver:
        yield request.param
        if request.param.arch == "amdgpu":
            assert not unexplained_spills(driver.made)
    if request.param.name == "cuda-O1" and ptx.assembler():
        for text in driver.texts:
            assert not ptx.unexplained_spills(text, ptx.assemble(text, driver.sm)), "registers do not suffice"


def _driver(arch: str) -> AbstractContextManager[Any]:
    """The drivers of GPUs that are not there."""
    if arch == "cuda":
        return played(int(os.environ.get("QD_TEST_CUDA_SM", "80")))
    return assembled(AMD_PROCESSOR) if arch == "amdgpu" else nullcontext()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """What a device is known to refuse is no failure there: the reason is shown with the skipped test. Any other refusal is."""
    try:
        return (yield)
    except QuadrantsUnsupportedError as error:
        found = getattr(item, "funcargs", {}).get("executor")
        if found is not None and found.arch in DEVICES and any(words in str(error) for words in REFUSALS):
            pytest.skip(f"refused on {found.arch}: {str(error).splitlines()[0]}")
        raise


@pytest.fixture(autouse=True)
def _without_options() -> Iterator[None]:
    """Options of one test do not reach the next."""
    yield
    qd.reset()
