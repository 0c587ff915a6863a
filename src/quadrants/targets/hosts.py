"""The machines and systems whose processes run our code, and all that differs between them, in one table.

Light to import: asked at the start of every process, before anything is compiled.
"""

from __future__ import annotations

import platform
import sys
from functools import lru_cache

from quadrants.knobs import Arch
from quadrants.records import Record

__all__ = ["APPLE", "HOSTS", "LINUX_ARM64", "LINUX_X64", "Host", "host"]


class Host(Record):
    """One kind of machine with one system.

    arch: the target whose code it runs; machines: `platform.machine()`'s names for it; system: Python's name of the system.
    triple, processor: LLVM's words for what the runtime's own code is made for; code_level: the level of its code generator
    for that. Objects are of ELF's kind everywhere, since
    the loader is ours; the triple's system decides how functions are called and which registers are the system's.
    libraries: files that hold C's mathematics and the compiler's support, beside what the process has anyway.
    flush: the function that makes instruction fetches see new code, '' where they do by themselves; flush_takes_end: its second
    argument is where the code ends, else how many bytes it has.
    pause: what a spinning thread does between two looks: LLVM's function for it and its numbers.
    counts_cycles: whether programs may read a counter of about the processor's pace; else the system's counter of a fixed
    pace is scaled.
    futex: the number of the system call that parks threads on a word; -1: they park on a condition of pthreads.
    detached, replace_mask, monotonic, faults: the system's numbers for a thread that nobody joins, for setting a mask of
    signals, for the clock that never goes back, and for the signals of a thread's own mistakes.
    """

    arch: Arch
    machines: tuple[str, ...]
    system: str
    triple: str
    processor: str
    code_level: int
    libraries: tuple[str, ...]
    flush: str
    flush_takes_end: bool
    pause: tuple[str, tuple[int, ...]]
    counts_cycles: bool
    futex: int
    detached: int
    replace_mask: int
    monotonic: int
    faults: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.system} on {self.arch.name}"


LINUX_X64 = Host(
    arch=Arch.x64,
    machines=("x86_64", "AMD64"),
    system="linux",
    triple="x86_64-unknown-linux-gnu",
    processor="x86-64",
    code_level=0,
    libraries=("libm.so.6", "libgcc_s.so.1"),
    flush="",
    flush_takes_end=False,
    pause=("llvm.x86.sse2.pause", ()),
    counts_cycles=True,
    futex=202,
    detached=1,
    replace_mask=2,
    monotonic=1,
    faults=(4, 7, 8, 11),
)

# Arm64's `yield` does nothing on most processors; a barrier takes about as long as x86-64's pause.
_BARRIER = ("llvm.aarch64.isb", (15,))

LINUX_ARM64 = Host(
    arch=Arch.arm64,
    machines=("aarch64", "arm64"),
    system="linux",
    triple="aarch64-unknown-linux-gnu",
    processor="generic",
    code_level=1,  # at 0 LLVM 22 has another code generator, of more and slower code
    libraries=("libm.so.6", "libgcc_s.so.1"),
    flush="__clear_cache",
    flush_takes_end=True,
    pause=_BARRIER,
    counts_cycles=False,
    futex=98,
    detached=1,
    replace_mask=2,
    monotonic=1,
    faults=(4, 7, 8, 11),
)

# Linux' futex has no documented counterpart there.
APPLE = Host(
    arch=Arch.arm64,
    machines=("arm64",),
    system="darwin",
    triple="arm64-apple-macosx-elf",
    processor="apple-m1",
    code_level=1,
    libraries=(),
    flush="sys_icache_invalidate",
    flush_takes_end=False,
    pause=_BARRIER,
    counts_cycles=False,
    futex=-1,
    detached=2,
    replace_mask=3,
    monotonic=6,
    faults=(4, 8, 10, 11),
)

HOSTS = (LINUX_X64, LINUX_ARM64, APPLE)


@lru_cache(maxsize=1)
def host() -> Host | None:
    """The row of this process's machine; None where no row fits."""
    machine = platform.machine()
    if sys.maxsize < 1 << 32:  # a process of 32 bits
        return None
    return next((row for row in HOSTS if row.system == sys.platform and machine in row.machines), None)
