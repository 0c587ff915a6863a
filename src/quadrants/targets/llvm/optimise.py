"""LLVM text to objects and assembly, through llvmlite. The only module of the LLVM targets that imports it, and only
when something is compiled: a start from the cache does without.

llvmlite holds one lock around LLVM: compile in processes, not in threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from quadrants.errors import QuadrantsInternalError
from quadrants.records import Record

__all__ = ["LARGE_FUNCTION", "Machine", "assembly", "compile_text"]

# From this many lines in one function on, the optimiser's loop passes cost more than they give.
LARGE_FUNCTION = 5000

_lock = threading.RLock()


class Machine(Record):
    """What code is generated for: LLVM's triple, processor and feature list."""

    triple: str
    processor: str
    features: str


def binding() -> Any:
    """llvmlite's binding with the targets initialised."""
    return _binding()


@lru_cache(maxsize=1)
def _binding() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # A child forked while another thread compiles would wait for that thread for ever.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
    return llvm


@lru_cache(maxsize=8)
def target_machine(machine: Machine, level: int) -> Any:
    """LLVM's target machine: position-independent code of the small code model, which any loader can place."""
    llvm = binding()
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.processor, features=machine.features, opt=level, reloc="pic", codemodel="small"
    )


def data_layout(machine: Machine) -> str:
    """The data layout that texts for a machine declare."""
    with _lock:
        return str(target_machine(machine, 2).target_data)


def _optimised(text: str, machine: Machine, level: int, verify: bool) -> Any:
    llvm = binding()
    try:
        module = llvm.parse_assembly(text)
        if verify:
            module.verify()
    except RuntimeError as error:
        raise QuadrantsInternalError(f"LLVM refuses the emitted text: {error}") from None
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.slp_vectorization = level >= 2
    tuning.loop_interleaving = tuning.loop_unrolling = level >= 2
    builder = llvm.create_pass_builder(target_machine(machine, min(level, 2)), tuning)
    builder.getModulePassManager().run(module, builder)
    return module


@contextmanager
def _our_options() -> Iterator[None]:
    """The LLVM options of ours, which are global to the process, in force only while we hold the lock.

    Loop strength reduction takes most of the time of code generation, and its code is no faster here: the emitter's
    addresses are affine in the counters already.
    """
    llvm = binding()
    with _lock:
        llvm.set_option("", "-disable-lsr=true")
        try:
            yield
        finally:
            llvm.set_option("", "-disable-lsr=false")


def level_for(instructions: int, wanted: int) -> int:
    """The optimisation level for a module whose longest function has so many instructions."""
    return min(wanted, 1) if instructions > LARGE_FUNCTION else wanted


def compile_text(text: str, machine: Machine, level: int, verify: bool = False) -> bytes:
    """The relocatable object of an LLVM module's text.

    Raises QuadrantsInternalError if LLVM refuses the text: that is the emitter's fault, never the user's."""
    with _our_options():
        module = _optimised(text, machine, level, verify)
        return target_machine(machine, min(level, 2)).emit_object(module)


def assembly(text: str, machine: Machine, level: int) -> str:
    """The assembly of an LLVM module's text."""
    with _our_options():
        module = _optimised(text, machine, level, False)
        return target_machine(machine, min(level, 2)).emit_assembly(module)
