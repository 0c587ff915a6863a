"""LLVM text to objects and assembly, through llvmlite. The only module of the LLVM targets that imports it, and only
when something is compiled: a start from the cache does without.

Modules are compiled side by side: each has an LLVM context and a target machine of its own, which LLVM asks of threads.
llvmlite holds one lock around every call; the two long ones, optimising and generating code, are made without it.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from quadrants import knobs
from quadrants.errors import QuadrantsInternalError
from quadrants.records import Record

__all__ = ["Machine", "assembly", "compile_text", "compile_texts", "effort", "header", "longest_function", "toolchain"]

# From this many lines in one function on, the optimiser's loop passes cost more than they give.
_LARGE_FUNCTION = 5000

# Up to this many lines LLVM looks for vectors in straight code: its time grows faster than the code, and no workload
# of ours gains (lanes and loops in vectors do better); short functions keep it.
_STRAIGHT_VECTORS = 200

# A module of fewer characters is compiled sooner than a thread for it starts.
_WORTH_A_THREAD = 8000

_lock = threading.RLock()


class Machine(Record):
    """What code is generated for: LLVM's triple, processor and feature list; whether LLVM decides by itself which loops run
    in vectors, or takes those alone that are marked. `has_vectors`: whether there are any (a GPU's
    threads have none)."""

    triple: str
    processor: str
    features: str
    decides_on_vectors: bool = True
    has_vectors: bool = True


def binding() -> Any:
    """llvmlite's binding with the targets initialised."""
    return _binding()


def toolchain() -> dict[str, str]:
    """The versions of what makes the code."""
    from importlib.metadata import version

    return {"llvmlite": version("llvmlite"), "LLVM": ".".join(map(str, binding().llvm_version_info))}


@lru_cache(maxsize=1)
def _binding() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # A child forked while another thread compiles would wait for that thread for ever.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
    return llvm


def _new_target_machine(machine: Machine, level: int) -> Any:
    """LLVM's target machine: position-independent code of the small code model, which any loader can place."""
    llvm = binding()
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.processor, features=machine.features, opt=level, reloc="pic", codemodel="small"
    )


target_machine = lru_cache(maxsize=8)(_new_target_machine)
"""The target machine in use under our lock; threads beside have others."""


def data_layout(machine: Machine) -> str:
    """The data layout that texts for a machine declare."""
    with _lock:
        return str(target_machine(machine, 2).target_data)


def header(machine: Machine) -> str:
    """The lines that texts for a machine begin with."""
    return f'target datalayout = "{data_layout(machine)}"\ntarget triple = "{machine.triple}"\n'


def longest_function(text: str) -> int:
    """The lines of the longest function in a module's text."""
    return max([part.partition("\n}")[0].count("\n") for part in text.split("\ndefine ")[1:]], default=0)


def effort(text: str, level: int) -> tuple[int, bool]:
    """The optimisation level for a module, of the one that is wanted, and whether to look for vectors in straight code."""
    lines = longest_function(text)
    if lines > _LARGE_FUNCTION:
        level = min(level, 1)
    return level, level >= 2 and lines <= _STRAIGHT_VECTORS


def _unlocked(name: str) -> Any:
    """A function of llvmlite's library without the lock that llvmlite holds around it, where it has one."""
    function = getattr(binding().ffi.lib, name)
    return getattr(function, "_cfn", function)


def _optimised(text: str, machine: Machine, level: int, verify: bool, target: Any) -> Any:
    llvm = binding()
    level, straight = effort(text, level)
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        if verify:
            module.verify()
    except RuntimeError as error:
        raise QuadrantsInternalError(f"LLVM refuses the emitted text: {error}") from None
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_unrolling = level >= 2
    tuning.loop_interleaving = level >= 2 and machine.has_vectors
    tuning.loop_vectorization = level >= 2 and machine.decides_on_vectors  # False: only where it is told to
    tuning.slp_vectorization = straight and machine.has_vectors
    builder = llvm.create_pass_builder(target, tuning)
    _unlocked("LLVMPY_RunNewModulePassManager")(builder.getModulePassManager(), module, builder)
    return module


@contextmanager
def _our_options(*more: str) -> Iterator[None]:
    """The LLVM options of ours, which are global to the process, in force only while we hold the lock.

    Loop strength reduction takes most of the time of code generation, and its code is no faster here: the emitter's
    addresses are affine in the counters already.
    """
    llvm = binding()
    with _lock:
        for option in ("disable-lsr", *more):
            llvm.set_option("", f"-{option}=true")
        try:
            yield
        finally:
            for option in ("disable-lsr", *more):
                llvm.set_option("", f"-{option}=false")


def _emitted(module: Any, target: Any) -> bytes:
    ffi = binding().ffi
    with ffi.OutputString() as problem:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(target, module, 1, problem)
        if not buffer:
            raise QuadrantsInternalError(f"LLVM makes no object: {problem}")
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _code_level(text: str, level: int) -> int:
    return min(effort(text, level)[0], 2)


def compile_text(text: str, machine: Machine, level: int, verify: bool = False) -> bytes:
    """The relocatable object of an LLVM module's text.

    Raises QuadrantsInternalError if LLVM refuses the text: that is the emitter's fault, never the user's."""
    return compile_texts([text], machine, level, verify)[0]


def compile_texts(texts: Sequence[str], machine: Machine, level: int, verify: bool = False) -> list[bytes]:
    """The objects of modules' texts, each as `compile_text` makes it, on as many threads as pay."""
    made: dict[int, bytes] = {}
    problems: list[BaseException] = []
    waiting = deque(sorted(range(len(texts)), key=lambda k: -len(texts[k])))  # long ones first

    def work(find_target: Callable[[Machine, int], Any]) -> None:
        try:
            while not problems:
                try:
                    k = waiting.popleft()
                except IndexError:  # no text is left
                    return
                target = find_target(machine, _code_level(texts[k], level))
                made[k] = _emitted(_optimised(texts[k], machine, level, verify, target), target)
        except BaseException as error:  # told by the thread that waits for all
            problems.append(error)

    with _our_options():
        beside = [threading.Thread(target=work, args=(_new_target_machine,)) for _ in range(_threads_beside(texts))]
        for thread in beside:
            thread.start()
        work(target_machine)
        for thread in beside:
            _wait_for(thread, problems)
    if problems:
        raise problems[0]
    return [made[k] for k in range(len(texts))]


def _wait_for(thread: threading.Thread, problems: list[BaseException]) -> None:
    """Waits, whatever signals come: LLVM's options are put back when no thread compiles any more."""
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as interruption:  # raised when all are done
            problems.append(interruption)


def _threads_beside(texts: Sequence[str]) -> int:
    """How many threads help the one that asks."""
    long = sum(len(text) >= _WORTH_A_THREAD for text in texts)
    return max(min(long, knobs.hardware_threads()) - 1, 0)


def assembly(text: str, machine: Machine, level: int, verify: bool = False, ordered_later: bool = False) -> str:
    """The assembly of an LLVM module's text. `ordered_later`: for an assembler that orders instructions itself; none are moved
    towards the branches that use them then, away from what shuffles gave them, whose registers would be kept until there."""
    with _our_options(*["disable-machine-sink"] * ordered_later):
        target = target_machine(machine, _code_level(text, level))
        return target.emit_assembly(_optimised(text, machine, level, verify, target))
