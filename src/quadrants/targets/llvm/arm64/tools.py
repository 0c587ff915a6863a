"""What runs Arm64 code on a machine with another processor: a C compiler and a linker for it, and an emulator.

Light to import: asked whether the target can be used, before anything is compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import lru_cache

from quadrants.records import Record

__all__ = ["Tools", "missing", "tools"]

_PREFIX = "aarch64-linux-gnu-"
_EMULATORS = ("qemu-aarch64", "qemu-aarch64-static")
_LOADER = "ld-linux-aarch64.so.1"
_PACKAGES = "Debian's packages are qemu-user, gcc-aarch64-linux-gnu and libc6-dev-arm64-cross"


class Tools(Record):
    """Paths of programs; `emulator`: how the command begins that runs a program."""

    compiler: str
    linker: str
    emulator: tuple[str, ...]


def missing() -> str:
    """Why Arm64 code cannot be emulated here; '' where it can."""
    return _found()[1]


def tools() -> Tools:
    """The tools of a machine where nothing is missing."""
    found = _found()[0]
    assert found is not None
    return found


@lru_cache(maxsize=1)
def _found() -> tuple[Tools | None, str]:
    if sys.platform != "linux":
        return None, "Arm64 code is emulated on Linux only"
    compiler, linker = shutil.which(_PREFIX + "gcc"), shutil.which(_PREFIX + "ld")
    emulator = next(filter(None, map(shutil.which, _EMULATORS)), None)
    names = (f"{_PREFIX}gcc", f"{_PREFIX}ld", _EMULATORS[0])
    absent = [name for name, path in zip(names, (compiler, linker, emulator)) if path is None]
    if absent or compiler is None or linker is None or emulator is None:
        return None, f"there is no {' and no '.join(absent)} on this machine: {_PACKAGES}"
    if not _has_library(compiler):
        return None, f"{compiler} finds no C library: {_PACKAGES}"
    return Tools(compiler, linker, (emulator, "-L", _root(compiler))), ""


def _file(compiler: str, name: str) -> str:
    """Where a compiler's library is; the bare name where it has none."""
    asked = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def _has_library(compiler: str) -> bool:
    return os.path.isabs(_file(compiler, "libc.so"))


def _root(compiler: str) -> str:
    """The folder that has the `lib` of the emulated machine."""
    return os.path.dirname(os.path.dirname(os.path.realpath(_file(compiler, _LOADER))))
