"""The calls of NVIDIA's driver through its binary interface: NVIDIA's own package cuda-bindings and our machine code call a library
that is compiled against NVIDIA's own header, and that the played GPU stands behind (evidence/ptx/library.py)."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quadrants.errors import QuadrantsRuntimeError
from quadrants.evidence.ptx import library
from quadrants.targets.device import dlpack
from quadrants.targets.llvm.cuda import assembling, graphs, loops, nvidia, streams

ROOT = Path(__file__).parents[2]
ENVIRONMENT = Path(sys.prefix)
VERSIONS = [ENVIRONMENT / "cuda12", ENVIRONMENT / "cuda13"]
SOURCES = [Path(str(module.__file__)) for module in (nvidia, assembling, streams, graphs, loops)]
LIBRARY = (Path(library.__file__).parent / "libcuda.c").read_text()


def called() -> set[str]:
    """The functions of the driver that the target's files name."""
    return {name for path in SOURCES for name in re.findall(r"(?:_cuda|cuda)\.(cu[A-Z]\w+)", path.read_text())}


def test_every_function_that_is_called_is_in_the_library() -> None:
    answered = set(re.findall(r"^CUresult CUDAAPI (cu\w+)\(", LIBRARY, re.MULTILINE))
    found = set(re.findall(r"ENTRY\((cu\w+),", LIBRARY))
    assert (
        called()
        and called() - {"cuGraphInstantiate", "cuGraphAddNode_v2"} <= found | {"cuGraphAddNode"}
        and called() <= answered | {"cuGraphAddNode"}
    )
    assert {"cuCtxSetCurrent", "cuLaunchKernel", "cuGraphLaunch"} <= set(nvidia._CALLED)
    assert {name.removesuffix("_v2") for name in nvidia._CALLED} <= answered


def wheels(folder: Path) -> Path:
    if reason := library.lacking(folder):
        pytest.skip(reason)
    return folder


def declared(include: Path) -> dict[str, list[str]]:
    """The parameters' types in NVIDIA's header, by exported symbol."""
    told = subprocess.run(
        ["cc", "-E", "-P", "-xc", str(include / "cuda.h")], capture_output=True, text=True, check=True
    )
    text = re.sub(r"\s+", " ", told.stdout)
    found = re.findall(r"CUresult (cu\w+)\(([^()]*)\);", text)
    return {name: [re.sub(r"\b\w+$", "", part).strip() for part in given.split(",")] for name, given in found}


MEMBERS = ["func", *[f"{kind}Dim{axis}" for kind in ("grid", "block") for axis in "XYZ"], "sharedMemBytes"]
MEMBERS += ["kernelParams", "extra", "kern", "ctx"]


def node_checks() -> list[str]:
    """The structure that machine code fills for a node, member by member."""
    (types,) = re.findall(r"%node_parameters = type \{ ([^}]*) \}", nvidia._LAUNCH_GRAPH)
    widths = [{"ptr": 8, "i32": 4}[type_] for type_ in types.split(", ")]
    checks, offset = ["#include <stddef.h>"], 0
    for name, width in zip(MEMBERS, widths, strict=True):
        offset = -(-offset // width) * width
        member = f"CUDA_KERNEL_NODE_PARAMS, {name}"
        checks.append(f'_Static_assert(offsetof({member}) == {offset}, "{name}");')
        checks.append(f'_Static_assert(sizeof(((CUDA_KERNEL_NODE_PARAMS *)0)->{name}) == {width}, "{name}");')
        offset += width
    return [*checks, f'_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == {offset}, "a node");']


ORDERED = [("cuCtxSetCurrent", "ptr"), ("cuEventRecord", "ptr, ptr"), ("cuStreamWaitEvent", "ptr, ptr, i32")]
"""What the launcher calls by address (runtime/launch_native.py)."""


@pytest.mark.slow
@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_machine_code_calls_what_the_header_declares(folder: Path, tmp_path: Path) -> None:
    """By name, number, kind and width of parameters."""
    include = library.header(wheels(folder))
    assert include is not None
    wanted = declared(include)
    declarations = re.findall(r"declare i32 @(cu\w+)\(([^)]*)\)", nvidia._LAUNCH + nvidia._LAUNCH_GRAPH)
    declarations += ORDERED
    assert {name for name, _ in declarations} == set(nvidia._CALLED)
    checks = ['#include "cuda.h"']
    for name, parameters in declarations:
        ours = parameters.split(", ")
        assert name in wanted and len(ours) == len(wanted[name]), name
        for type_, theirs in zip(ours, wanted[name]):
            assert type_ in ("ptr", "i32", "i64")
            kind = f"({theirs})0 == NULL" if type_ == "ptr" else f"({theirs})1 == 1"
            checks.append(f'_Static_assert(sizeof({theirs}) == {4 if type_ == "i32" else 8}, "{name}");')
            checks.append(f"int {name}_{len(checks)}(void) {{ return {kind}; }}")
    checks += node_checks()
    source = tmp_path / "check.c"
    source.write_text("\n".join(checks) + "\n")
    options = ["-c", "-Wall", "-Wno-missing-prototypes", "-Werror", f"-I{include}", "-o", os.devnull]
    subprocess.run(["cc", *options, str(source)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_a_wrong_number_or_prototype_is_not_compiled(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    include = library.header(wheels(folder))
    assert include is not None
    assert library.build(include, tmp_path).exists()
    monkeypatch.setitem(library.CONSTANTS, "CUDA_ERROR_NOT_FOUND", 501)
    with pytest.raises(subprocess.CalledProcessError) as found:
        library.build(include, tmp_path)
    assert b"CUDA_ERROR_NOT_FOUND" in found.value.stderr
    monkeypatch.undo()
    wrong = tmp_path / "wrong.c"
    wrong.write_text(
        LIBRARY.replace(
            "cuStreamCreate(CUstream *stream, unsigned int flags)", "cuStreamCreate(CUstream *stream, int flags)"
        )
    )
    monkeypatch.setattr(library, "_SOURCE", wrong)
    with pytest.raises(subprocess.CalledProcessError) as found:
        library.build(include, tmp_path)
    assert b"conflicting types" in found.value.stderr


@pytest.mark.slow
def test_codes_after_which_nothing_works_are_those_of_the_header() -> None:
    include = library.header(wheels(VERSIONS[-1]))
    assert include is not None
    text = (include / "cuda.h").read_text()
    text = text[text.index("typedef enum cudaError_enum") : text.index("} CUresult;")]
    codes = re.findall(r"/\*\*((?:(?!\*/).)*)\*/\s*CUDA_ERROR_\w+\s*=\s*(\d+)", text, re.DOTALL)
    lost = re.compile(r"must be terminated|cannot be used anymore|current to the calling thread has been destroyed")
    assert {int(number) for words, number in codes if lost.search(re.sub(r"[\s*]+", " ", words))} == set(nvidia._STICKY)


def dlpack_header() -> Path | None:
    """DLPack's header, as torch has it."""
    found = importlib.util.find_spec("torch")
    header = Path(str(found.origin)).parent / "include" / "ATen" / "dlpack.h" if found is not None else None
    return header if header is not None and header.exists() else None


@pytest.mark.slow
@pytest.mark.skipif(
    dlpack_header() is None or not shutil.which("cc"), reason="torch's headers or a C compiler are not here"
)
def test_dlpacks_structures_are_those_of_its_header(tmp_path: Path) -> None:
    names: dict[Any, tuple[str, dict[str, str]]] = {
        dlpack._Tensor: (
            "DLTensor",
            {
                **{
                    "data": "data",
                    "device_kind": "device.device_type",
                    "device_number": "device.device_id",
                    "rank": "ndim",
                },
                **{"code": "dtype.code", "bits": "dtype.bits", "lanes": "dtype.lanes", "byte_offset": "byte_offset"},
                **{"shape": "shape", "strides": "strides"},
            },
        ),
        dlpack._Managed: ("DLManagedTensor", {"tensor": "dl_tensor", "context": "manager_ctx", "deleter": "deleter"}),
        dlpack._Versioned: (
            "DLManagedTensorVersioned",
            {
                **{"major": "version.major", "minor": "version.minor", "context": "manager_ctx", "deleter": "deleter"},
                **{"flags": "flags", "tensor": "dl_tensor"},
            },
        ),
    }
    checks = [f'#include "{dlpack_header()}"', "#include <stddef.h>"]
    for ours, (theirs, members) in names.items():
        assert set(members) == {field[0] for field in ours._fields_}
        checks.append(f'_Static_assert(sizeof({theirs}) == {ctypes.sizeof(ours)}, "{theirs}");')
        for name, member in members.items():
            place = getattr(ours, name)
            checks.append(f'_Static_assert(offsetof({theirs}, {member}) == {place.offset}, "{theirs}.{name}");')
            checks.append(f'_Static_assert(sizeof((({theirs} *)0)->{member}) == {place.size}, "{theirs}.{name}");')
    numbers = {
        "kDLCPU": dlpack.CPU,
        "kDLCUDA": dlpack.CUDA,
        "kDLBfloat": 4,
        "DLPACK_FLAG_BITMASK_READ_ONLY": dlpack._READ_ONLY,
    }
    numbers.update({"kDLInt": dlpack._CODES["i"], "kDLUInt": dlpack._CODES["u"], "kDLFloat": dlpack._CODES["f"]})
    numbers["kDLBool"] = dlpack._CODES["b"]
    checks += [f'_Static_assert({name} == {number}, "{name}");' for name, number in numbers.items()]
    source = tmp_path / "dlpack.c"
    source.write_text("\n".join(checks) + "\n")
    subprocess.run(["cc", "-c", "-Werror", str(source), "-o", os.devnull], check=True)


FILES = [
    "streams",
    "graphs",
    "graph_loops",
    "launches",
    "foreign_launches",
    "sharing",
    "profiler",
    "host_code",
    "asked_memory",
    "warm_start",
]
BY_THE_OTHER_DOOR = "names_nodes_otherwise"
"""A test that gives the package another form than it has."""
RUN = ["tests/run/test_streams_and_graphs.py", "tests/run/test_recursion.py", "tests/run/test_first_minutes.py"]


def run(folder: Path, *arguments: str, **variables: str) -> str:
    environment = {**os.environ, "QD_TEST_CUDA_WHEELS": str(folder), **variables}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_the_hosts_part_works_through_nvidias_own_package(folder: Path) -> None:
    told = run(wheels(folder), *[f"tests/cuda/test_{name}.py" for name in FILES], "-k", f"not {BY_THE_OTHER_DOOR}")
    assert "passed" in told


@pytest.mark.slow
@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_programs_run_through_nvidias_own_package(folder: Path) -> None:
    assert "passed" in run(wheels(folder), *RUN, "-k", "cuda")


def test_default_streams_of_each_threads_own_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy in one of them waits for launches to the default stream of all threads, and not for those to streams of ours."""
    monkeypatch.setenv("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "1")
    with pytest.raises(QuadrantsRuntimeError, match="PER_THREAD_DEFAULT_STREAM is set: .*; unset it"):
        nvidia.open_driver()
