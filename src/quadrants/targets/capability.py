"""What a target can do. Passes ask the record; nothing outside a target's own folder asks for a target's name."""

from __future__ import annotations

from quadrants.ir.types import ScalarType
from quadrants.records import Record

__all__ = ["IEEE", "CapabilityRecord", "Facts"]


class CapabilityRecord(Record):
    """The properties of one target as the passes and the emitters see it.

    name: the target's folder name; version: a text that differs whenever code for one may not run on the other
    (processor, features, code generator), so it is part of every cache key.
    dtypes: names of the scalar types that values and arrays may have.
    float_atomics: names of the float types whose atomic addition is one instruction (others loop on compare-exchange).
    vector_bits: width of the vectors to aim at; maximum_vector_bits: the widest that the machine has; 0 means none.
    vector_registers: how many vectors registers hold; vector_constraint: LLVM's letter for one of them in inline assembly.
    calling_convention: LLVM's word for how functions are called ('' is C's); it decides how many values registers carry.
    lane_convention: the same for functions that take or give lanes.
    functions_take_buffers: whether calls can pass arrays; without it functions are copied per set of arrays.
    fast_gather: whether a hardware gather beats scalar loads; native_scatter: whether scatters are one instruction.
    marked_vectors: whether the code generator makes vectors of those loops alone that are marked (passes/mark_vectors.py).
    mask_registers: whether truth values of lanes have registers of their own; else they are vectors of numbers.
    fused_multiply_add: whether `fma` is one instruction, rounded once.
    threads: whether parallel loops run on the threads of a pool in the caller's process.
    launches: whether the host launches parallel loops on a device with memory of its own (passes/offload.py).
    subgroup_sizes: sizes of a subgroup in hardware (() where lanes are the compiler's).
    calls_c: whether kernels can call functions of C in the caller's process.
    functions: rows of the op table, elementary functions of floats, that the target computes itself; others are written
    out in arithmetic (passes/expand_functions.py).
    exact_remainder: whether the remainder of floats that the code generator offers is exact; else it is written out.
    block_threads: the most threads of a block that run at once, share memory and wait for one another (`ir/threads.py`); 0
    where blocks are taken apart.
    shared_memory_bytes: memory shared by one block of a GPU's threads; 0 on CPUs.
    """

    name: str
    version: str
    dtypes: frozenset[str]
    pointer_bits: int = 64
    vector_bits: int = 0
    maximum_vector_bits: int = 0
    vector_registers: int = 16
    vector_constraint: str = "x"
    float_atomics: frozenset[str] = frozenset()
    calling_convention: str = ""
    lane_convention: str = ""
    functions_take_buffers: bool = True
    fast_gather: bool = False
    native_scatter: bool = False
    marked_vectors: bool = False
    mask_registers: bool = False
    fused_multiply_add: bool = True
    threads: bool = True
    launches: bool = False
    subgroup_sizes: tuple[int, ...] = ()
    exact_remainder: bool = True
    block_threads: int = 0
    shared_memory_bytes: int = 0
    calls_c: bool = False
    functions: frozenset[str] = frozenset()

    def lanes(self, scalar: ScalarType) -> int:
        """How many values of a type one preferred vector holds; at least 1."""
        return max(self.vector_bits // (8 * scalar.bytes), 1)

    def has_dtype(self, scalar: ScalarType) -> bool:
        return scalar.name in self.dtypes


class Facts(Record):
    """What users are told of a target, and no pass asks: texts and numbers by name.

    floats: what becomes of `contraction`, `NaN`, `signed zeros`, `denormals` and `elementary functions`, as far as it is
    promised; limits: what a kernel cannot go beyond; toolchain: the versions of what makes and runs the code.
    """

    floats: dict[str, str]
    limits: dict[str, int]
    toolchain: dict[str, str]


IEEE = {
    "contraction": "a product that only feeds a sum is rounded with it, where that is one instruction",
    "NaN": "kept",
    "signed zeros": "kept",
    "denormals": "kept",
    "elementary functions": "at most 2 units in the last place off in f32, 3 in f64",
}
"""Floats where the hardware is IEEE's and the code generator leaves them alone."""
