"""PTX in the hands of the driver's assembler, and what it says against it."""

from __future__ import annotations

import re
from typing import Any

from quadrants.errors import QuadrantsRuntimeError

__all__ = ["assemble", "refused"]

_LOG_BYTES = 1 << 14
_MOST_LINES = 12
_TOO_NEW = 222  # CUDA_ERROR_UNSUPPORTED_PTX_VERSION
_PLACE = re.compile(r"line (\d+)")


def assemble(cuda: Any, ptx: str) -> tuple[Any, Any, str]:
    """The driver's code and module for a text, and what its assembler says of errors; `cuda`: the module `cuda.bindings.driver`."""
    log, option = bytearray(_LOG_BYTES), cuda.CUjit_option
    options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    code, module = cuda.cuModuleLoadDataEx(ptx.encode() + b"\0", len(options), options, [log, len(log)])
    return code, module, bytes(log).partition(b"\0")[0].decode(errors="replace").strip()


def refused(code: int, told: str, log: str, ptx: str) -> QuadrantsRuntimeError:
    """The error for a text that the driver does not take: with its assembler's words, and the lines that these name."""
    parts = [told]
    if code == _TOO_NEW:
        version = re.search(r"^\.version (\S+)", ptx, re.MULTILINE)
        parts.append(f"the driver is older than PTX {version[1] if version else ''}: install a newer one")
    parts += [f"its assembler says: {line}" for line in log.splitlines()[:_MOST_LINES]]
    lines = ptx.splitlines()
    for number in sorted({int(found) for found in _PLACE.findall(log)})[:_MOST_LINES]:
        if 0 < number <= len(lines):
            parts.append(f"line {number} of the PTX: {lines[number - 1].strip()}")
    return QuadrantsRuntimeError("\n  ".join(parts))
