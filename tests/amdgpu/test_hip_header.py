"""The calls of HIP compared with its header, and what its library says on a machine without a GPU."""

from __future__ import annotations

import ctypes
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quadrants.targets.llvm.amdgpu import hip, hip_calls

HEADERS = [Path(folder) for folder in ("/opt/rocm/include", "/usr/include")]
INCLUDE = next((folder for folder in HEADERS if (folder / "hip" / "hip_runtime_api.h").exists()), None)
needs_header = pytest.mark.skipif(
    INCLUDE is None or not shutil.which("cc"), reason="HIP's header or a C compiler is not here"
)
WIDTHS = {ctypes.c_void_p: 8, ctypes.c_char_p: 8, ctypes.c_size_t: 8, ctypes.c_uint: 4, ctypes.c_int: 4}


def test_every_function_that_is_called_has_its_parameters() -> None:
    called = set(re.findall(r"(?:\"|_hip\.|library\.)(hip[A-Z]\w+)", inspect.getsource(hip)))
    functions = called - set(hip_calls.CONSTANTS)
    assert functions and functions <= set(hip_calls.PARAMETERS), functions - set(hip_calls.PARAMETERS)


def compiled(lines: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    source = folder / "check.c"
    source.write_text("\n".join(["#define __HIP_PLATFORM_AMD__ 1", "#include <hip/hip_runtime_api.h>", *lines]) + "\n")
    command = ["cc", f"-I{INCLUDE}", "-c", "-Werror", str(source), "-o", os.devnull]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_header
def test_numbers_are_the_headers(tmp_path: Path) -> None:
    checks = [f'_Static_assert({name} == {number}, "{name}");' for name, number in hip_calls.CONSTANTS.items()]
    done = compiled(checks, tmp_path)
    assert done.returncode == 0, done.stderr
    assert compiled(['_Static_assert(hipErrorOutOfMemory == 3, "");'], tmp_path).returncode != 0


@needs_header
def test_parameters_are_the_headers(tmp_path: Path) -> None:
    """By number, width, and whether they are pointers."""
    told = subprocess.run(
        ["cc", "-E", "-P", "-xc", "-D__HIP_PLATFORM_AMD__=1", f"-I{INCLUDE}", f"{INCLUDE}/hip/hip_runtime_api.h"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", re.sub(r"\s+", " ", told))
    found = dict(re.findall(r"\b(hip[A-Z]\w+)\(([^()]*)\);", text))
    checks: list[str] = []
    for name, ours in hip_calls.PARAMETERS.items():
        if name not in found and name in hip_calls.PROPERTIES:
            continue  # one of the two names is of another version
        theirs = [re.sub(r"(?<=[\s*])\w+$", "", part.strip()).strip() for part in found[name].split(",")]
        assert len(theirs) == len(ours), name
        for mine, type_ in zip(ours, theirs):
            checks.append(f'_Static_assert(sizeof({type_}) == {WIDTHS[mine]}, "{name}");')
            value = f"({type_})0 == (void *)0" if mine in (ctypes.c_void_p, ctypes.c_char_p) else f"({type_})1 == 1"
            checks.append(f"int {name}_{len(checks)}(void) {{ return {value}; }}")
    done = compiled(checks, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_library_is_told_its_functions() -> None:
    """What is no pointer, or too many, does not reach C."""
    library = ctypes.CDLL(None)

    class Named:
        hipFree, hipGetErrorString = library.free, library.strerror

    hip_calls.declare(Named)
    with pytest.raises(ctypes.ArgumentError):
        Named.hipFree("gfx942".split())
    assert Named.hipGetErrorString(2) == b"No such file or directory"


def has_hip() -> bool:
    try:
        ctypes.CDLL("libamdhip64.so.5")
    except OSError:
        return False
    return not Path("/dev/kfd").exists()


@pytest.mark.slow
@pytest.mark.skipif(not has_hip(), reason="HIP's library is not here, or there is a GPU")
def test_the_real_library_without_a_gpu() -> None:
    program = (
        "from quadrants.targets.llvm.amdgpu import hip\n"
        "print(hip.missing())\n"
        "try: hip.open_driver()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
        "import quadrants as qd\n"
        "qd.init(arch=qd.amdgpu)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    first, second = done.stdout.splitlines()[:2]
    assert first == "HIP finds no GPU on this machine: use another target", done.stderr
    assert re.match(r"QuadrantsRuntimeError the GPU's driver says in hipSetDevice: .+ \(\d+\)", second)
    assert "HIP finds no GPU on this machine" in done.stderr + done.stdout
