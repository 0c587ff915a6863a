"""The x86-64 target: what the host's processor can do, and lowered modules to objects for it."""

from __future__ import annotations

from functools import lru_cache

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.records import Record
from quadrants.targets import shared_objects
from quadrants.targets.artifact import Artifact
from quadrants.targets.capability import IEEE, CapabilityRecord, Facts
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.elf import defined_symbols, undefined_symbols
from quadrants.targets.llvm.emit import EmittedModule, EmittedObject, emit_module

__all__ = ["Options", "assembly", "build", "compile_module", "facts", "host_machine", "machine_of", "record"]

VERSION = "1"

_DTYPES = frozenset(["u1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"])


class Options(Record):
    """How to compile: LLVM's optimisation level (0 to 3), whether LLVM checks the text first, the machine (the host)."""

    level: int = 2
    verify: bool = False
    machine: optimise.Machine | None = None


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
        dtypes=_DTYPES if "+f16c" in features else _DTYPES - {"f16"},
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
    return Facts(IEEE, {}, {**optimise.toolchain(), "processor": host_machine().processor})


def emit(module: Module, machine: optimise.Machine | None = None) -> EmittedModule:
    """The LLVM texts of a lowered module."""
    machine = machine or host_machine()
    capabilities = record(machine)
    header = f'target datalayout = "{optimise.data_layout(machine)}"\ntarget triple = "{machine.triple}"\n'
    return emit_module(module, capabilities, header, f'"prefer-vector-width"="{capabilities.vector_bits}"')


def build(module: Module, options: knobs.Options) -> Artifact:
    """A kernel as objects for the host."""
    return compile_module(module, Options(level=2 if options.opt_level else 0, verify=options.verify))


def compile_module(module: Module, options: Options = _USUAL) -> Artifact:
    """Compiles a module at stage 'lowered'. Raises QuadrantsInternalError for what such a module cannot contain."""
    emitted = emit(module, options.machine)
    objects = _objects(emitted.objects, options)
    defined: set[str] = set()
    wanted: set[str] = set()
    for _, data in objects:
        defined.update(defined_symbols(data))
        wanted.update(undefined_symbols(data))
    return Artifact(
        objects=tuple(objects),
        entry=emitted.entry,
        externals=tuple(sorted(wanted - defined)),
        messages=emitted.messages,
        prints=emitted.prints,
        texts=tuple(part.text for part in emitted.objects),
    )


def _objects(parts: tuple[EmittedObject, ...], options: Options) -> list[tuple[str, bytes]]:
    """The objects of a kernel and of the functions that it reaches; those are compiled once for all kernels."""
    machine = options.machine or host_machine()
    surroundings = f"{options.level} {machine.triple} {machine.processor} {machine.features}"
    made: dict[str, bytes] = {}
    for part in parts:
        found = shared_objects.find(part.name, surroundings) if part.is_shared else None
        if found is not None:
            made[part.name] = found
    missing = [part for part in parts if part.name not in made]
    texts = [part.text for part in missing]
    for part, data in zip(missing, optimise.compile_texts(texts, machine, options.level, options.verify)):
        made[part.name] = data
        if part.is_shared:
            shared_objects.keep(part.name, surroundings, data)
    return [(part.name, made[part.name]) for part in parts]


def assembly(artifact: Artifact, options: Options = _USUAL) -> str:
    """The assembly of an artifact's objects, made anew from its texts."""
    machine = options.machine or host_machine()
    return "\n".join(optimise.assembly(text, machine, options.level) for text in artifact.texts)
