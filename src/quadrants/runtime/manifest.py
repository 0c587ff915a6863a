"""Manifests on disk: for each key a short list of compiled forms, the last used first, and the objects they name.

A manifest is plain data, written by `marshal`: it is read by the Python that wrote it only, since the key covers the
version of Python, of this package, of LLVM's binding and of NumPy, and the processor.
"""

from __future__ import annotations

import functools
import marshal
import os
import platform
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.digest import hex_digest
from quadrants.runtime import native
from quadrants.runtime.cache import DiskCache
from quadrants.runtime.fingerprint import compiler_fingerprint

__all__ = ["cache_counters", "count", "disk", "keep", "load_object", "manifests", "surroundings", "tune"]

# How many compiled forms of one kernel, for one set of argument types, are kept: they differ in captured values.
FORMS = 16
_COUNTERS = {"hits": 0, "misses": 0, "stores": 0, "not cacheable": 0}
_opened: tuple[Any, DiskCache | None] | None = None


def cache_counters() -> dict[str, int]:
    """How often a kernel's form was found on disk, was not there, was stored, or could not be kept; since the start."""
    return dict(_COUNTERS)


def count(name: str) -> None:
    """Adds to one of the counters."""
    _COUNTERS[name] += 1


def disk() -> DiskCache | None:
    """The cache that the options in force ask for; None where they ask for none. The runtime's own machine code is kept
    in the same folder."""
    global _opened
    state = knobs.current
    wanted = (
        state.offline_cache,
        state.offline_cache_file_path,
        state.offline_cache_max_size_of_files,
        state.offline_cache_cleaning_policy,
        state.offline_cache_cleaning_factor,
    )
    if _opened is None or _opened[0] != wanted:
        _opened = wanted, DiskCache(*wanted[1:]) if wanted[0] else None
        native.use_cache(wanted[1] if wanted[0] else None)
    return _opened[1]


@functools.cache
def surroundings() -> str:
    """A hash of all that compiled code depends on besides the program: this package, Python, LLVM's binding, NumPy, the
    processor."""
    binding = native.version_file()
    with open(binding, "rb") as file:
        version = file.read()
    return hex_digest(compiler_fingerprint(), version.decode(errors="replace"), np.__version__, _processor())


def _processor() -> str:
    """What tells processors apart, without asking LLVM: Linux's description of the first one."""
    wanted = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer", "CPU part")
    try:
        file = os.open("/proc/cpuinfo", os.O_RDONLY)
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.version()}"
    try:
        text = os.read(file, 16384).decode(errors="replace")  # the first processors only
    finally:
        os.close(file)
    first = text.partition("\n\n")[0].splitlines()
    return "\n".join(line for line in first if line.partition(":")[0].strip() in wanted)


def manifests(cache: DiskCache, key: str) -> list[dict[str, Any]]:
    """The forms kept under a key; none where the entry is missing or cannot be read."""
    payload = cache.get(key)
    if payload is None:
        return []
    try:
        return marshal.loads(payload)
    except (ValueError, EOFError, TypeError):
        return []


def keep(cache: DiskCache, key: str, manifest: dict[str, Any], objects: dict[str, bytes]) -> None:
    """Adds a form to those under a key, in place of the oldest one, and its objects by the hashes of their content."""
    for digest, content in objects.items():
        cache.put_object(digest, content)
    known = [other for other in manifests(cache, key) if _identity(other) != _identity(manifest)]
    cache.put(key, marshal.dumps([manifest, *known][:FORMS]))
    count("stores")


def tune(cache: DiskCache, key: str, manifest: dict[str, Any], tuned: dict[Any, Any]) -> None:
    """Adds what was found out by timing to a form that is kept; nothing where it is there no longer."""
    known = manifests(cache, key)
    for other in known:
        if _identity(other) == _identity(manifest):
            other["tuned"] = {**other.get("tuned", {}), **tuned}
            cache.put(key, marshal.dumps(known))


def _identity(manifest: dict[str, Any]) -> Any:
    """What two forms of one kernel differ in: what they depend on, and the sizes that they were compiled for."""
    program = manifest["program"]
    return manifest["dependencies"], program["frame"], program["static_shapes"]


def load_object(cache: DiskCache, digest: str) -> bytes | None:
    """The object of that hash, None if it has gone."""
    return cache.get_object(digest)
