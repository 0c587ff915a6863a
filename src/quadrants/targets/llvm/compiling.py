"""Lowered modules to objects for one machine: what the targets share whose kernels run on a processor of a host."""

from __future__ import annotations

from quadrants.ir.nodes import Module
from quadrants.ir.threads import MOST_THREADS
from quadrants.knobs import MOST_LANES
from quadrants.records import Record
from quadrants.targets import shared_objects
from quadrants.targets.artifact import Artifact
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.elf import defined_symbols, undefined_symbols
from quadrants.targets.llvm.emit import EmittedModule, EmittedObject, emit_module

__all__ = ["DTYPES", "LIMITS", "Options", "assembly", "compile_module", "emit"]

DTYPES = frozenset(["u1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"])
"""The scalar types that LLVM computes with on every processor."""
LIMITS = {"lanes of a loop": MOST_LANES, "threads of a block": MOST_THREADS}
"""What kernels on processors of hosts cannot go beyond."""


class Options(Record):
    """How to compile: LLVM's optimisation level (0 to 3), whether LLVM checks the text first, the machine (None: the one
    that kernels run on)."""

    level: int = 2
    verify: bool = False
    machine: optimise.Machine | None = None


def emit(module: Module, machine: optimise.Machine, capabilities: CapabilityRecord) -> EmittedModule:
    """The LLVM texts of a lowered module."""
    return emit_module(
        module, capabilities, optimise.header(machine), f'"prefer-vector-width"="{capabilities.vector_bits}"'
    )


def compile_module(
    module: Module, machine: optimise.Machine, capabilities: CapabilityRecord, level: int, verify: bool
) -> Artifact:
    """Compiles a module at stage 'lowered'. Raises QuadrantsInternalError for what such a module cannot contain."""
    emitted = emit(module, machine, capabilities)
    objects = _objects(emitted.objects, machine, level, verify)
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


def _objects(
    parts: tuple[EmittedObject, ...], machine: optimise.Machine, level: int, verify: bool
) -> list[tuple[str, bytes]]:
    """The objects of a kernel and of the functions that it reaches; those are compiled once for all kernels."""
    surroundings = f"{level} {machine.triple} {machine.processor} {machine.features} {machine.decides_on_vectors}"
    made: dict[str, bytes] = {}
    for part in parts:
        found = shared_objects.find(part.name, surroundings) if part.is_shared else None
        if found is not None:
            made[part.name] = found
    missing = [part for part in parts if part.name not in made]
    texts = [part.text for part in missing]
    for part, data in zip(missing, optimise.compile_texts(texts, machine, level, verify)):
        made[part.name] = data
        if part.is_shared:
            shared_objects.keep(part.name, surroundings, data)
    return [(part.name, made[part.name]) for part in parts]


def assembly(artifact: Artifact, machine: optimise.Machine, level: int) -> str:
    """The assembly of an artifact's objects, made anew from its texts."""
    return "\n".join(optimise.assembly(text, machine, level) for text in artifact.texts)
