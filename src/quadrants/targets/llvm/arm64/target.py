"""The Arm64 target: what the processor can do, and lowered modules to objects with NEON for it.

Kernels run in the caller's process where that is one of an Arm64; elsewhere `beside` runs them in an emulated one.
"""

from __future__ import annotations

from functools import lru_cache

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.knobs import Arch
from quadrants.targets import hosts
from quadrants.targets.artifact import Artifact
from quadrants.targets.capability import ATOMICS, IEEE, CapabilityRecord, Facts
from quadrants.targets.llvm import compiling, optimise
from quadrants.targets.llvm.compiling import DTYPES, LIMITS, Options
from quadrants.targets.llvm.emit import EmittedModule

__all__ = ["Options", "assembly", "build", "compile_module", "emit", "facts", "machine_of", "record", "usual_machine"]

VERSION = "1"

_USUAL = Options()


def machine_of(processor: str, features: str = "", triple: str = hosts.LINUX_ARM64.triple) -> optimise.Machine:
    """A processor by LLVM's name for it: generic (the base of the architecture, with NEON), apple-m1, neoverse-v1, …

    The triple's system decides how functions of C are called, and whether a register (x18) is the system's. Which loops run in
    vectors is not left to LLVM 22: two of its models of costs differ there, which it takes for a reason to end the process
    (maxima of converted bytes were such loops). Vectors are NEON's: of SVE, whose length is the processor's, LLVM makes no use
    in loops with a number of lanes, and remarks on it for each."""
    return optimise.Machine(triple, processor, ",".join(filter(None, [features, "-sve"])), decides_on_vectors=False)


@lru_cache(maxsize=1)
def usual_machine() -> optimise.Machine:
    """The processor that kernels run on: the host's, where that is an Arm64, else the base of the architecture."""
    host = hosts.host()
    if host is None or host.arch is not Arch.arm64:
        return machine_of("generic")
    llvm = optimise.binding()
    return machine_of(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), host.triple)


@lru_cache(maxsize=8)
def record(machine: optimise.Machine | None = None) -> CapabilityRecord:
    """The capability record of a machine (the one that kernels run on)."""
    machine = machine or usual_machine()
    return CapabilityRecord(
        name="arm64",
        version=f"arm64-{VERSION}/{machine.triple}/{machine.processor}/{machine.features}",
        dtypes=DTYPES,
        vector_bits=128,
        maximum_vector_bits=128,
        vector_registers=32,
        vector_constraint="w",
        marked_vectors=not machine.decides_on_vectors,
        fused_multiply_add=True,
        calls_c=True,
    )


def facts() -> Facts:
    """What users are told of it."""
    return Facts(IEEE, ATOMICS, LIMITS, {**optimise.toolchain(), "processor": usual_machine().processor})


def emit(module: Module, machine: optimise.Machine | None = None) -> EmittedModule:
    """The LLVM texts of a lowered module."""
    machine = machine or usual_machine()
    return compiling.emit(module, machine, record(machine))


def build(module: Module, options: knobs.Options) -> Artifact:
    """A kernel as objects for the host."""
    return compile_module(module, Options(level=2 if options.opt_level else 0, verify=options.verify))


def compile_module(module: Module, options: Options = _USUAL) -> Artifact:
    """Compiles a module at stage 'lowered'. Raises QuadrantsInternalError for what such a module cannot contain."""
    machine = options.machine or usual_machine()
    return compiling.compile_module(module, machine, record(machine), options.level, options.verify)


def assembly(artifact: Artifact, options: Options = _USUAL) -> str:
    """The assembly of an artifact's objects, made anew from its texts."""
    return compiling.assembly(artifact, options.machine or usual_machine(), options.level)
