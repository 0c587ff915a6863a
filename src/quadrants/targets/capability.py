"""What a target can do. Passes ask the record; nothing outside a target's own folder asks for a target's name."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from quadrants.ir.types import ScalarType
from quadrants.records import Field, Record

__all__ = ["ATOMICS", "IEEE", "CapabilityRecord", "Facts"]


def _needed(doc: str) -> Any:
    return Field(None, doc)


def _field(default: Any, doc: str) -> Any:
    return Field(lambda: default, doc)


class CapabilityRecord(Record):
    """The properties of one target as the passes and the emitters see it: each field says what it means."""

    name: str = _needed("the target's folder name")
    version: str = _needed(
        "a text that differs whenever code for one may not run on the other (processor, features, code generator), so it is "
        "part of every cache key"
    )
    dtypes: frozenset[str] = _needed("names of the scalar types that values and arrays may have")
    vector_bits: int = _field(0, "width of the vectors to aim at; 0: there are none")
    maximum_vector_bits: int = _field(0, "the widest vectors that the machine has")
    vector_registers: int = _field(16, "how many vectors registers hold")
    vector_constraint: str = _field("x", "LLVM's letter for a vector's register in inline assembly")
    float_atomics: frozenset[str] = _field(
        frozenset(),
        "names of the float types whose atomic addition is one instruction; others loop on compare and exchange",
    )
    calling_convention: str = _field(
        "", "LLVM's word for how functions are called ('' is C's): it decides how many values registers carry"
    )
    lane_convention: str = _field("", "the same for functions that take or give lanes")
    fast_gather: bool = _field(False, "whether a gather of the hardware beats loads one by one")
    native_scatter: bool = _field(False, "whether scatters are one instruction")
    marked_vectors: bool = _field(
        False, "whether the code generator makes vectors of those loops alone that are marked (passes/mark_vectors.py)"
    )
    mask_registers: bool = _field(
        False, "whether truth values of lanes have registers of their own; else they are vectors of numbers"
    )
    fused_multiply_add: bool = _field(True, "whether `fma` is one instruction, rounded once")
    threads: bool = _field(True, "whether parallel loops run on the threads of a pool in the caller's process")
    launches: bool = _field(
        False, "whether the host launches parallel loops on a device with memory of its own (passes/offload.py)"
    )
    subgroup_sizes: tuple[int, ...] = _field((), "sizes of a subgroup in hardware; none where lanes are the compiler's")
    exact_remainder: bool = _field(
        True, "whether the remainder of floats that the code generator offers is exact; else it is written out"
    )
    block_threads: int = _field(
        0,
        "the most threads of a block that run at once, share memory and wait for one another (ir/threads.py); 0 where blocks "
        "are taken apart",
    )
    team_barriers: bool = _field(
        True, "whether some threads of a subgroup can wait for one another, and see then what they wrote"
    )
    block_fences: bool = _field(True, "whether a thread's fence orders its memory for its block, without a barrier")
    asynchronous_copies: bool = _field(
        False,
        "whether threads copy from memory to that of their block while they compute, and whether teams of 32 load small matrices "
        "from it",
    )
    tensor_products: frozenset[str] = _field(
        frozenset(),
        "types of factors (f16, bf16, tf32: f32 that is rounded) of which 32 threads multiply small matrices in one instruction",
    )
    shared_products: Container[str] = _field(
        frozenset(),
        "types of factors of which 128 threads multiply matrices where they lie in shared memory (ir/shared_fragments.py); a GPU may be "
        "asked when one is looked for, so only where one would be used",
    )
    task_operations: int = _field(
        0, "how large a task may be before its compiler takes long (passes/split_tasks.py); 0 for any size"
    )
    finds_races: bool = _field(
        False,
        "whether debug mode sees every access to memory and finds races; the threads of blocks meet as they do there",
    )
    shared_memory_bytes: int = _field(0, "memory that one block of a GPU's threads shares; 0 on CPUs")
    calls_c: bool = _field(False, "whether kernels can call functions of C in the caller's process")
    functions: frozenset[str] = _field(
        frozenset(),
        "rows of the op table, elementary functions of floats, that the target computes itself; others are written out in "
        "arithmetic (passes/expand_functions.py)",
    )

    def lanes(self, scalar: ScalarType) -> int:
        """How many values of a type one preferred vector holds; at least 1."""
        return max(self.vector_bits // (8 * scalar.bytes), 1)

    def has_dtype(self, scalar: ScalarType) -> bool:
        return scalar.name in self.dtypes


class Facts(Record):
    """What users are told of a target, and no pass asks: texts and numbers by name."""

    floats: dict[str, str] = _needed(
        "what becomes of contraction, NaN, signed zeros, denormals and elementary functions, as far as it is promised"
    )
    atomics: dict[str, str] = _needed("how updates of integers and of floats that meet are done")
    limits: dict[str, int] = _needed("what a kernel cannot go beyond")
    toolchain: dict[str, str] = _needed("the versions of what makes and runs the code")


IEEE = {
    "contraction": "a product that only feeds a sum is rounded with it, where that is one instruction",
    "NaN": "kept",
    "signed zeros": "kept",
    "denormals": "kept",
    "elementary functions": "at most 2 units in the last place off in f32, 3 in f64",
}
"""Floats where the hardware is IEEE's and the code generator leaves them alone."""

ATOMICS = {
    "integers": "instructions, of 8 to 64 bits",
    "sums of floats": "loops of compare and exchange",
    "extremes and products of floats": "loops of compare and exchange",
}
"""Updates that meet on processors of hosts."""
