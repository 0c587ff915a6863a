"""C++ baselines: compiles a workload's `native.cpp` once a change and calls it through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC", "-std=c++17")


def compiled(source: Path) -> ctypes.CDLL:
    """The shared library of one C++ file, kept under $BENCH_HOME by the hash of its text and flags."""
    key = hashlib.sha256(source.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    home = Path(os.environ.get("BENCH_HOME", Path.home() / ".cache" / "quadrants-bench"))
    library = home / "native" / f"{source.parent.name}.{key}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        partial = library.with_suffix(f".{os.getpid()}")
        subprocess.run(["g++", *FLAGS, str(source), "-o", str(partial)], check=True)
        partial.rename(library)
    return ctypes.CDLL(str(library))


def argument(value: Any) -> Any:
    """NumPy arrays by pointer, integers as int64_t, floats as float."""
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int64(value)


def bind(program: str, name: str, *values: Any, result: Any = None) -> Callable[[], Any]:
    """A call without arguments of the C function `name` in the file native.cpp beside `program`."""
    function = getattr(compiled(Path(program).parent / "native.cpp"), name)
    function.restype = result
    arguments = [argument(value) for value in values]

    def call(_alive: tuple[Any, ...] = values) -> Any:
        return function(*arguments)

    return call
