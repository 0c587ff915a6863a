"""The x86-64 target: what the host's processor can do, and lowered modules to objects for it."""

from __future__ import annotations

from functools import lru_cache

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.targets.artifact import Artifact
from quadrants.targets.capability import ATOMICS, IEEE, CapabilityRecord, Facts
from quadrants.targets.llvm import compiling, optimise
from quadrants.targets.llvm.compiling import DTYPES, LIMITS, Options
from quadrants.targets.llvm.emit import EmittedModule

__all__ = ["Options", "assembly", "build", "compile_module", "facts", "host_machine", "machine_of", "record"]

VERSION = "1"

_USUAL = Options()


@lru_cache(maxsize=1)
def host_machine() -> optimise.Machine:
    """The processor that this process runs on."""
    llvm = optimise.binding()
    return machine_of(llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


def machine_of(triple: str, processor: str, features: str = "") -> optimise.Machine:
    """A processor by LLVM's names for it and its features, with what LLVM does not know of its speed."""
    if _is_slow_at_gathers(processor):
        features = ",".join(filter(None, [features, "+prefer-no-gather", "+prefer-no-scatter"]))
    return optimise.Machine(triple, processor, features)


def _is_slow_at_gathers(processor: str) -> bool:
    """Whether gathers and scatters are microcode there, slower than an access a lane: AMD's."""
    return processor.startswith("znver")


@lru_cache(maxsize=8)
def record(machine: optimise.Machine | None = None) -> CapabilityRecord:
    """The capability record of a machine (the host)."""
    machine = machine or host_machine()
    features = set(machine.features.split(","))
    widest = 512 if "+avx512f" in features else 256 if "+avx2" in features else 128
    return CapabilityRecord(
        name="x64",
        version=f"x64-{VERSION}/{machine.processor}/{machine.features}",
        dtypes=DTYPES if "+f16c" in features else DTYPES - {"f16"},
        calling_convention="x86_regcallcc",  # C's returns the third float on the x87 stack
        lane_convention="fastcc",  # regcall's leaves no register free: LLVM gives up on some masks
        vector_bits=min(widest, 256),  # 512 is no faster on Zen 4 and slower on short rows
        maximum_vector_bits=widest,
        vector_registers=32 if widest == 512 else 16,
        fused_multiply_add="+fma" in features,
        calls_c=True,
        mask_registers={"+avx512f", "+avx512vl", "+avx512bw", "+avx512dq"} <= features,
        fast_gather=widest == 512 and not _is_slow_at_gathers(machine.processor),
        native_scatter=widest == 512 and not _is_slow_at_gathers(machine.processor),
    )


def facts() -> Facts:
    """What users are told of it."""
    return Facts(IEEE, ATOMICS, LIMITS, {**optimise.toolchain(), "processor": host_machine().processor})


def emit(module: Module, machine: optimise.Machine | None = None) -> EmittedModule:
    """The LLVM texts of a lowered module."""
    machine = machine or host_machine()
    return compiling.emit(module, machine, record(machine))


def build(module: Module, options: knobs.Options) -> Artifact:
    """A kernel as objects for the host."""
    return compile_module(module, Options(level=2 if options.opt_level else 0, verify=options.verify))


def compile_module(module: Module, options: Options = _USUAL) -> Artifact:
    """Compiles a module at stage 'lowered'. Raises QuadrantsInternalError for what such a module cannot contain."""
    machine = options.machine or host_machine()
    return compiling.compile_module(module, machine, record(machine), options.level, options.verify)


def assembly(artifact: Artifact, options: Options = _USUAL) -> str:
    """The assembly of an artifact's objects, made anew from its texts."""
    return compiling.assembly(artifact, options.machine or host_machine(), options.level)
