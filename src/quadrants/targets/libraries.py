"""Routines of libraries that do a kernel's whole task: which there are, where libraries are looked for, which one is used.

`ROUTINES` says which function does a kind of task for a scalar type; `PACKAGES` where a library may be, and how it tells on
how many threads it runs; `SPELLINGS` how builds of one library name its functions. A library is looked for when the first
kernel has such a task. What is chosen follows from options and files alone, never from timing: another routine rounds
in another way.
"""

from __future__ import annotations

import functools
import glob
import os
import sys
from collections.abc import Callable, Iterator

import numpy as np

from quadrants import knobs
from quadrants.errors import QuadrantsRuntimeError
from quadrants.ir.external import Routine, address_of
from quadrants.records import Record

__all__ = ["PACKAGES", "ROUTINES", "SPELLINGS", "Package", "Row", "Spelling", "finder", "identity"]


class Row(Record):
    """A function that does a task; `smallest` as in Routine."""

    symbol: str
    smallest: int


class Spelling(Record):
    """What stands around the names of functions, and the type of sizes."""

    prefix: str
    suffix: str
    integer: str


class Package(Record):
    """A library: names for the system's loader, or patterns of paths; `threads`: the function that tells how many it uses."""

    name: str
    places: tuple[str, ...]
    threads: str


# Measured on Sapphire Rapids against tiles, one thread: smaller products take the same time, larger ones 0.7 to 0.95 of it.
ROUTINES: dict[tuple[str, str], Row] = {
    ("product of matrices", "f32"): Row("cblas_sgemm", 256**3),
    ("product of matrices", "f64"): Row("cblas_dgemm", 256**3),
}
SPELLINGS = (
    Spelling("scipy_", "64_", "i64"),
    Spelling("", "64_", "i64"),
    Spelling("scipy_", "", "i32"),
    Spelling("", "", "i32"),
)
_SITE = os.path.dirname(os.path.dirname(np.__file__))
_OPENBLAS = "openblas_get_num_threads"
PACKAGES = (
    Package("OpenBLAS of NumPy", (f"{glob.escape(_SITE)}/numpy.libs/lib*openblas*.so*",), _OPENBLAS),
    Package("OpenBLAS of SciPy", (f"{glob.escape(_SITE)}/scipy.libs/lib*openblas*.so*",), _OPENBLAS),
    Package("OpenBLAS", (f"{glob.escape(sys.prefix)}/lib/libopenblas.so.0", "libopenblas.so.0"), _OPENBLAS),
    Package("MKL", (f"{glob.escape(sys.prefix)}/lib/libmkl_rt.so.2", "libmkl_rt.so.2"), "MKL_Get_Max_Threads"),
    Package("BLIS", ("libblis.so.4",), "bli_thread_get_num_threads"),
)


def finder(options: knobs.Options) -> Callable[[str, str], Routine | str]:
    """What finds the routine for a kind of task and a scalar type, or tells why there is none; for options that want one."""

    def find(task: str, scalar: str) -> Routine | str:
        row = ROUTINES.get((task, scalar))
        if row is None:
            return f"no library has a {task} of {scalar}"
        refused = _refused(options)
        return refused or _found(options.libraries, row.symbol, row.smallest)

    return find


def identity(options: knobs.Options) -> tuple[str, ...]:
    """What compiled code depends on of all this: the libraries that are found for these options."""
    find = finder(options)
    found = [find(task, scalar) for task, scalar in ROUTINES]
    return tuple([text if isinstance(text, str) else f"{text.symbol}@{text.library}" for text in found])


def _refused(options: knobs.Options) -> str:
    if options.deterministic:
        return "deterministic mode takes no library, which may round differently on another machine"
    if options.libraries == "auto" and options.cpu_max_num_threads > 1:
        return f"on {options.cpu_max_num_threads} threads a library's own would stand in the way of the program's"
    return ""


def _found(wanted: str, symbol: str, smallest: int) -> Routine | str:
    if wanted != "auto":
        routine = _in(Package(os.path.basename(wanted), (), ""), wanted, symbol, smallest)
        return routine or f"{wanted} is not there, or has no {symbol}"
    for package in PACKAGES:
        for place in _places(package):
            routine = _in(package, place, symbol, smallest)
            if routine is not None:
                return routine
    return f"there is none with {symbol}: {', '.join(package.name for package in PACKAGES)}"


def _places(package: Package) -> Iterator[str]:
    for place in package.places:
        if os.path.isabs(place):
            yield from sorted(glob.glob(place))
        else:
            yield place


def _in(package: Package, place: str, symbol: str, smallest: int) -> Routine | None:
    """The routine in the library at a path (that may have gone since it was loaded: then other processes lack it)."""
    if os.path.isabs(place) and not os.path.exists(place):
        return None
    for spelling in SPELLINGS:
        name = f"{spelling.prefix}{symbol}{spelling.suffix}"
        if _has(place, name):
            threads = f"{spelling.prefix}{package.threads}{spelling.suffix}" if package.threads else ""
            if threads and not _has(place, threads):
                threads = package.threads
                if not _has(place, threads):
                    return None
            return Routine(package.name, place, name, spelling.integer, threads, smallest)
    return None


@functools.lru_cache(maxsize=256)
def _has(place: str, symbol: str) -> bool:
    try:
        return address_of(place, symbol) != 0
    except QuadrantsRuntimeError:
        return False
