"""LLVM's linker: AMD's drivers load shared objects, and LLVM itself makes relocatable ones."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache

from quadrants.errors import QuadrantsInternalError, QuadrantsUnsupportedError

__all__ = ["find", "link", "missing"]

_OLDEST = 15
_ROCM = ("/opt/rocm/llvm/bin/ld.lld", "/opt/rocm/lib/llvm/bin/ld.lld")


@lru_cache(maxsize=1)
def find() -> str:
    """The path of the linker: of PATH or of ROCm; '' where there is none."""
    names = ["ld.lld", *[f"ld.lld-{version}" for version in range(30, _OLDEST - 1, -1)]]
    known = [*_ROCM, *sorted(glob.glob("/opt/rocm-*/llvm/bin/ld.lld"), reverse=True)]
    found = [shutil.which(name) for name in names] + [path if os.access(path, os.X_OK) else None for path in known]
    return next((path for path in found if path), "")


def missing() -> str:
    """What there is not that it takes to link; '' where nothing is missing."""
    return "" if find() else "LLVM's linker ld.lld is not there: install ROCm, or the package lld"


def link(relocatable: bytes) -> bytes:
    """The code object of a relocatable one. QuadrantsInternalError for a symbol that nothing defines."""
    if not find():
        raise QuadrantsUnsupportedError(f"kernels cannot be linked for AMD's GPUs: {missing()}")
    with tempfile.TemporaryDirectory(prefix="quadrants-") as folder:
        source, made = os.path.join(folder, "kernel.o"), os.path.join(folder, "kernel.hsaco")
        with open(source, "wb") as file:
            file.write(relocatable)
        command = [find(), "-shared", "--no-undefined", source, "-o", made]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            raise QuadrantsInternalError(f"the linker refuses a kernel's object: {done.stderr.strip()[:2000]}")
        with open(made, "rb") as file:
            return file.read()
