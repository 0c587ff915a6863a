"""Every target at every optimisation level."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import nullcontext

import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.evidence import emulation
from quadrants.evidence.amdgpu.driver import unexplained_spills
from quadrants.evidence.conformance.suite import COMPILED
from quadrants.evidence.programs import TargetExecutor
from quadrants.evidence.ptx import assemble as ptx
from quadrants.targets import simulated, table
from quadrants.targets.simulated.profiles import APART as APART_RECORD

EXECUTORS = [
    TargetExecutor(f"{arch}-O{level}", arch, opt_level=level)
    for arch in ("reference", "simulated", "vulkan", "cuda", "arm64", "x64")
    for level in (0, 1)
]
EXECUTORS += [
    TargetExecutor("amdgpu-O1", "amdgpu"),
    TargetExecutor("metal-O1", "metal"),
]

# The host with its iterations in so many lanes wherever that is possible at all, whatever the model thinks of it.
HOST = knobs.host_arch().name
EXECUTORS += [TargetExecutor(f"{HOST}-lanes{lanes}", HOST, lanes=lanes) for lanes in (1, 8, 16)]

# A device that runs one thread of a block at a time: block loops are taken apart for it, as they are for CPUs.
APART = TargetExecutor("simulated-apart", "simulated")
EXECUTORS.append(APART)

# Devices with memory of their own, played or emulated.
DEVICES = ("simulated", "vulkan", "metal", "d3d12", "cuda", "amdgpu")

# The GPUs that are played: CUDA's code is executed by our interpreter, AMD's is made and linked (evidence/emulation.py).
SM = int(os.environ.get("QD_TEST_CUDA_SM", emulation.SM))
PROCESSOR = os.environ.get("QD_TEST_AMD_PROCESSOR", emulation.PROCESSOR)

# What targets may refuse, and nothing else: by the words of the error.
CALLS_OF_C = "cannot call the C function"
RECURSION = "functions that call themselves"
SHADERS = (CALLS_OF_C, RECURSION, "WGSL has no fence")
REFUSALS: dict[str, tuple[str, ...]] = {
    "simulated": (CALLS_OF_C,),
    "cuda": (CALLS_OF_C,),
    "amdgpu": (CALLS_OF_C, RECURSION),
    "arm64": (CALLS_OF_C,),
    "vulkan": SHADERS,
    "metal": (*SHADERS, "the target metal has no f64"),
}


def marks(executor: TargetExecutor) -> list[pytest.MarkDecorator]:
    """The fast tests run optimised code on the host; unoptimised code, forced lanes and other targets are slow, the reference, too:
    among the fast tests it runs those of meanings (tests/semantics/)."""
    return [] if executor.name == f"{HOST}-O1" else [pytest.mark.slow]


PARAMETERS = [pytest.param(executor, marks=marks(executor), id=executor.name) for executor in EXECUTORS]
ON_DEVICES = [pytest.param(executor, id=executor.name) for executor in EXECUTORS if executor.arch in DEVICES]
"""For files of tests that ask for memory of a device's own: `pytest.mark.parametrize("executor", ON_DEVICES, indirect=True)`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every executor, where a file does not choose some itself; where slow tests are left out, theirs are not even made: they are four
    of five tests, and each worker would throw them away."""
    chosen = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "executor" in metafunc.fixturenames and "executor" not in chosen:
        fast_only = metafunc.config.option.markexpr == "not slow"
        wanted = [parameter for parameter in PARAMETERS if not (fast_only and parameter.marks)]
        metafunc.parametrize("executor", wanted, indirect=True)


@pytest.fixture
def executor(request: pytest.FixtureRequest) -> Iterator[TargetExecutor]:
    """One target at one level; CUDA's optimised code goes through NVIDIA's assembler, where that is at hand."""
    arch = knobs.arch_by_name(request.param.arch)
    apart = simulated.playing(APART_RECORD) if request.param is APART else nullcontext()
    with emulation.emulation(arch, always=True, sm=SM, processor=PROCESSOR) as driver, apart:
        if reason := table.missing(arch):
            pytest.skip(reason)
        yield request.param
        if request.param.arch == "amdgpu":
            assert not unexplained_spills(driver.made)
            request.node.user_properties.append((COMPILED, sum(len(made.symbols) for made in driver.made)))
    if request.param.name == "cuda-O1" and ptx.assembler():
        for text in driver.texts:
            assert not ptx.unexplained_spills(text, ptx.assemble(text, driver.sm)), "registers do not suffice"


@pytest.fixture
def widths_of_init(executor: TargetExecutor) -> None:
    """Each executor's target with the widths that `qd.init` gives by itself, for tests that call kernels as programs do."""
    executor.initialise(qd, ("i32", "f32"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """What a target is known to refuse is no failure there: the reason is shown with the skipped test. Any other refusal is."""
    try:
        return (yield)
    except QuadrantsUnsupportedError as error:
        found = getattr(item, "funcargs", {}).get("executor")
        if found is not None and any(words in str(error) for words in REFUSALS.get(found.arch, ())):
            pytest.skip(f"refused on {found.arch}: {str(error).splitlines()[0]}")
        raise


@pytest.fixture(autouse=True)
def _without_options() -> Iterator[None]:
    """Options of one test do not reach the next."""
    yield
    qd.reset()
