"""NVIDIA's assembler on PTX: whether it takes it, and what its code needs. It comes with the package nvidia-cuda-nvcc."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from quadrants.evidence.ptx.parse import parse

__all__ = ["AssemblerError", "Usage", "assemble", "assembler", "unexplained_spills"]


class AssemblerError(Exception):
    """What `ptxas` says against a text."""


@dataclass(frozen=True)
class Usage:
    """What one kernel or function needs: registers (0 for functions), bytes of stack, of spills, of shared memory."""

    name: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


@lru_cache(maxsize=1)
def assembler() -> str | None:
    """The path of `ptxas`, None where there is none."""
    for root in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for found in sorted(Path(root).glob("nvidia/cu*/bin/ptxas"), reverse=True):
            return str(found)
    return shutil.which("ptxas")


def assemble(text: str, sm: int, level: int = 3) -> list[Usage]:
    """Assembles a module, for the processor alone (`sm_90a`) where it says so; gives what its kernels and functions need.
    AssemblerError where it is refused, or made other code of: where the assembler waits for products of warpgroups by itself."""
    program = assembler()
    if program is None:
        raise AssemblerError("there is no ptxas here: pip install nvidia-cuda-nvcc")
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(text)
        file.flush()
        own = "a" if re.search(rf"^\.target sm_{sm}a\b", text, re.MULTILINE) else ""
        command = [program, f"-arch=sm_{sm}{own}", f"-O{level}", "-v", file.name, "-o", "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise AssemblerError(done.stderr[:2000])
    changed = [line for line in done.stderr.splitlines() if "wgmma" in line and re.search(r"\(C\d+\)", line)]
    if changed:
        raise AssemblerError("\n".join(changed)[:2000])
    return _usages(done.stderr)


def unexplained_spills(text: str, usages: list[Usage]) -> list[Usage]:
    """Kernels that keep registers in memory although they call nothing: around a call, and in functions that are called, the
    convention of calls asks for it."""
    functions = parse(text).functions
    plain = {
        name
        for name, function in functions.items()
        if function.is_entry and all(op.words[0] != "call" for block in function.blocks for op in block.body)
    }
    return [usage for usage in usages if usage.name in plain and (usage.spill_stores or usage.spill_loads)]


_PROPERTIES = re.compile(
    r"Function properties for (?P<name>\S+)\s*\n\s*(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads(?:\s*\nptxas info\s*: Used (?P<registers>\d+) registers(?P<rest>[^\n]*))?"
)


def _usages(told: str) -> list[Usage]:
    found = []
    for match in _PROPERTIES.finditer(told):
        shared = re.search(r"(\d+) bytes smem", match["rest"] or "")
        registers, stack, stores, loads = (int(match[name] or 0) for name in ("registers", "stack", "stores", "loads"))
        found.append(Usage(match["name"], registers, stack, stores, loads, int(shared[1]) if shared else 0))
    return found
