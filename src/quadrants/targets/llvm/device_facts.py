"""What users are told of GPUs whose code LLVM makes."""

from __future__ import annotations

from quadrants.ir.threads import MOST_THREADS
from quadrants.targets.capability import IEEE, CapabilityRecord, Facts
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.emit_threads import BLOCK

__all__ = ["facts_of"]


def facts_of(record: CapabilityRecord, tools: dict[str, str]) -> Facts:
    """The facts of a GPU with that record; `tools`: what makes and runs its code, beside LLVM."""
    sums = ", ".join(sorted(record.float_atomics))
    atomics = {
        "integers": "instructions, of 32 and 64 bits; narrower ones on their word",
        "sums of floats": f"instructions for {sums}, else loops of compare and exchange",
        "extremes and products of floats": "loops of compare and exchange",
    }
    limits = {"threads of a block": MOST_THREADS, "threads of a block that is launched for a plain loop": BLOCK}
    return Facts(IEEE, atomics, limits, {**optimise.toolchain(), **tools})
