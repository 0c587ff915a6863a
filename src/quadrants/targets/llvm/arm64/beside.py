"""The Arm64 target on hosts of another processor: its code runs in a process beside ours, which is emulated (`process`)."""

from __future__ import annotations

from functools import lru_cache

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.records import replace
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.llvm.arm64 import target
from quadrants.targets.llvm.arm64.program import Program
from quadrants.targets.llvm.arm64.target import assembly, facts

__all__ = ["assembly", "build", "facts", "record"]


@lru_cache(maxsize=1)
def record() -> CapabilityRecord:
    """What the processor can do, in a process where the caller's functions of C are not."""
    return replace(target.record(), calls_c=False)


def build(module: Module, options: knobs.Options) -> Program:
    """A kernel, ready to run."""
    return Program(module, target.build(module, options), options)
