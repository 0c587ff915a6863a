"""The choice of the target: order, QD_ARCH, and what each target says where it is not there, one by one."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.evidence.ptx.bindings import Bindings, Result
from quadrants.evidence.ptx.driver import PlayedDriver
from quadrants.knobs import Arch
from quadrants.targets import hosts, table
from quadrants.targets.llvm.amdgpu import drivers as amd_drivers
from quadrants.targets.llvm.amdgpu import hip, lld
from quadrants.targets.llvm.arm64 import tools
from quadrants.targets.llvm.cuda import drivers as cuda_drivers
from quadrants.targets.llvm.cuda import nvidia
from quadrants.targets.webgpu.device import CHOICES

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _without_options() -> Any:
    """What was found missing here is asked for anew behind each test."""
    yield
    for asked in (nvidia.missing, hip.missing, hip._library, tools._found, lld.find):
        asked.cache_clear()
    cuda_drivers.use(None)
    amd_drivers.use(None)
    qd.reset()


def _no_library(name: str) -> Any:
    raise OSError(name)


def no_driver_of_nvidia(patch: Patch) -> None:
    patch.setattr(ctypes, "CDLL", _no_library)


def no_cuda_bindings(patch: Patch) -> None:
    patch.setattr(ctypes, "CDLL", lambda name: None)
    patch.setattr(importlib.util, "find_spec", lambda name: None)


def a_driver_without_a_gpu(patch: Patch) -> None:
    class NoDevice(Bindings):
        def cuInit(self, flags: int) -> Any:
            return (Result.CUDA_ERROR_NO_DEVICE,)

    patch.setattr(nvidia, "missing", lambda: "")
    patch.setattr(nvidia, "_bindings", NoDevice)


def a_full_gpu_of_nvidia(patch: Patch) -> None:
    class Full(Bindings):
        def cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
            return (Result.CUDA_ERROR_OUT_OF_MEMORY, None)

    patch.setattr(nvidia, "missing", lambda: "")
    patch.setattr(nvidia, "_bindings", Full)


def an_old_gpu_of_nvidia(patch: Patch) -> None:
    cuda_drivers.use(PlayedDriver(sm=61))


def no_hip(patch: Patch) -> None:
    patch.setattr(ctypes, "CDLL", _no_library)


class _Hip:
    """HIP's library, as far as it is asked before a device is opened."""

    def __init__(self, count: int = 1, code: int = 0) -> None:
        self.count, self.code = count, code

    def hipGetDeviceCount(self, place: Any) -> int:
        place._obj.value = self.count
        return 0

    def hipSetDevice(self, number: int) -> int:
        return self.code

    hipGetErrorString = staticmethod(lambda code: b"it went wrong")


def no_gpu_of_amd(patch: Patch) -> None:
    patch.setattr(hip, "_library", lambda: _Hip(count=0))


def no_linker_for_amd(patch: Patch) -> None:
    patch.setattr(hip, "_library", lambda: _Hip())
    patch.setattr(shutil, "which", lambda name: None)
    patch.setattr(os, "access", lambda path, mode: False)
    lld.find.cache_clear()


def a_full_gpu_of_amd(patch: Patch) -> None:
    patch.setattr(hip, "_library", lambda: _Hip(code=2))
    patch.setattr(lld, "missing", lambda: "")


def a_broken_driver_of_amd(patch: Patch) -> None:
    patch.setattr(hip, "_library", lambda: _Hip(code=719))
    patch.setattr(lld, "missing", lambda: "")


def a_gpu_of_amd_that_no_code_is_made_for(patch: Patch) -> None:
    class Old:
        processor = "gfx803"
        device: Any = None

    amd_drivers.use(Old())


def on_an_unknown_system(patch: Patch) -> None:
    patch.setattr(knobs, "host_arch", lambda: Arch.x64)
    patch.setattr(hosts, "host", lambda: None)


def beside_another_processor(patch: Patch) -> None:
    patch.setitem(table.TARGETS, Arch.arm64, table._ARM64_BESIDE)


def no_linux(patch: Patch) -> None:
    beside_another_processor(patch)
    patch.setattr(sys, "platform", "win32")


def no_tools_for_arm64(patch: Patch) -> None:
    beside_another_processor(patch)
    patch.setattr(shutil, "which", lambda name: None)


def no_c_library_for_arm64(patch: Patch) -> None:
    beside_another_processor(patch)
    patch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    patch.setattr(tools, "_has_library", lambda compiler: False)


def another_processor(patch: Patch) -> None:
    patch.setattr(knobs, "host_arch", lambda: Arch.arm64)


class _Adapter:
    """What is asked of an adapter of wgpu before a device is opened."""

    def __init__(self, backend: str, kind: str = "DiscreteGPU", features: tuple[str, ...] = ()) -> None:
        self.info = {"backend_type": backend, "adapter_type": kind, "device": f"a {kind}"}
        self.features = features


class _Wgpu:
    """wgpu on a machine with these adapters."""

    def __init__(self, *adapters: _Adapter) -> None:
        self.gpu = self
        self.adapters = adapters

    def request_adapter_sync(self, power_preference: str) -> Any:
        if not self.adapters:
            raise RuntimeError("no adapter\nand more")
        return self.adapters[0]

    def enumerate_adapters_sync(self) -> Any:
        return self.adapters


def _with_wgpu(patch: Patch, *found: _Adapter) -> None:
    for choice in CHOICES.values():
        patch.setattr(choice, "_found", None)
    patch.setitem(sys.modules, "wgpu", _Wgpu(*found))
    patch.setattr(importlib.util, "find_spec", lambda name: name)


def no_wgpu(patch: Patch) -> None:
    _with_wgpu(patch)
    patch.setattr(importlib.util, "find_spec", lambda name: None)


def no_driver_for_wgpu(patch: Patch) -> None:
    _with_wgpu(patch)


def another_interface_only(patch: Patch) -> None:
    _with_wgpu(patch, _Adapter("OpenGL"))


def a_gpu_without_integers_of_64_bits(patch: Patch) -> None:
    _with_wgpu(patch, _Adapter("OpenGL"), _Adapter("Vulkan", "CPU", ("shader-int64",)), _Adapter("Vulkan"))


def no_macos(patch: Patch) -> None:
    patch.setattr(sys, "platform", "linux")


def macos_without_wgpu(patch: Patch) -> None:
    no_wgpu(patch)
    patch.setattr(sys, "platform", "darwin")


def macos_without_a_gpu(patch: Patch) -> None:
    _with_wgpu(patch)
    patch.setattr(sys, "platform", "darwin")


def windows_with_an_old_gpu(patch: Patch) -> None:
    _with_wgpu(patch, _Adapter("D3D12"))
    patch.setattr(sys, "platform", "win32")


LACKING: list[tuple[Arch, Callable[[Patch], None], str]] = [
    (
        Arch.cuda,
        no_driver_of_nvidia,
        "there is no driver of NVIDIA's on this machine (libcuda.so.1): install it, or use",
    ),
    (Arch.cuda, no_cuda_bindings, "the package cuda-bindings is missing: pip install quadrants[cuda]"),
    (Arch.cuda, a_driver_without_a_gpu, "the GPU's driver says in cuInit: CUDA_ERROR_NO_DEVICE (100)"),
    (Arch.cuda, a_full_gpu_of_nvidia, "the GPU has no memory left (cuDevicePrimaryCtxRetain)"),
    (Arch.cuda, an_old_gpu_of_nvidia, "the GPU is of sm_61: code is made for sm_75 and newer"),
    (Arch.amdgpu, no_hip, "HIP is not on this machine (libamdhip64.so): install ROCm, or use another target"),
    (Arch.amdgpu, no_gpu_of_amd, "HIP finds no GPU on this machine: use another target"),
    (Arch.amdgpu, no_linker_for_amd, "LLVM's linker ld.lld is not there: install ROCm, or the package lld"),
    (Arch.amdgpu, a_full_gpu_of_amd, "the GPU has no memory left (hipSetDevice)"),
    (Arch.amdgpu, a_broken_driver_of_amd, "the GPU's driver says in hipSetDevice: it went wrong (719)"),
    (Arch.amdgpu, a_gpu_of_amd_that_no_code_is_made_for, "no code is made for the GPU gfx803: only for gfx90a"),
    (Arch.arm64, no_linux, "Arm64 code is emulated on Linux only"),
    (
        Arch.arm64,
        no_tools_for_arm64,
        "there is no aarch64-linux-gnu-gcc and no aarch64-linux-gnu-ld and no qemu-aarch64",
    ),
    (Arch.arm64, no_c_library_for_arm64, "/usr/bin/aarch64-linux-gnu-gcc finds no C library: Debian's packages are"),
    (Arch.x64, another_processor, "this machine's processor is arm64"),
    (
        Arch.x64,
        on_an_unknown_system,
        "machine code runs in processes of linux on x64, linux on arm64, darwin on arm64 only",
    ),
    (Arch.vulkan, no_wgpu, "the package wgpu is not installed: pip install 'quadrants[gpu]'"),
    (Arch.vulkan, no_driver_for_wgpu, "no driver of Vulkan was found (no adapter)"),
    (Arch.vulkan, another_interface_only, "no driver of Vulkan was found"),
    (Arch.vulkan, a_gpu_without_integers_of_64_bits, "the GPU a DiscreteGPU has no integers of 64 bits (shader-int64)"),
    (Arch.metal, no_macos, "there is no Metal on this system: it is a part of macOS"),
    (Arch.metal, macos_without_wgpu, "the package wgpu is not installed: pip install 'quadrants[gpu]'"),
    (Arch.metal, macos_without_a_gpu, "no driver of Metal was found (no adapter)"),
    (Arch.d3d12, no_macos, "there is no D3D12 on this system: it is a part of Windows"),
    (Arch.d3d12, windows_with_an_old_gpu, "the GPU a DiscreteGPU has no integers of 64 bits (shader-int64)"),
    (Arch.python, lambda patch: None, "this version has no such target"),
]


@pytest.mark.parametrize(
    ("arch", "arrange", "told"), LACKING, ids=[f"{arch.name}-{arrange.__name__}" for arch, arrange, _ in LACKING]
)
def test_what_a_target_lacks(arch: Arch, arrange: Callable[[Patch], None], told: str, monkeypatch: Patch) -> None:
    """`qd.init` names it: as an error where there is no way out, as a warning where there is one; the list goes on."""
    for asked in (nvidia.missing, hip.missing, tools._found):
        asked.cache_clear()
    with monkeypatch.context() as patch:
        arrange(patch)
        assert table.missing(arch).startswith(told)
        with pytest.raises(RuntimeError) as caught:
            qd.init(arch=arch, enable_fallback=False)
        assert f"Arch=[{arch}] is not supported ({arch.name}: {told}" in str(caught.value)
        qd.init(arch=[arch, qd.reference], log_level="error")
        assert knobs.current.arch is Arch.reference


def test_every_target_that_may_be_lacking_is_among_them() -> None:
    always = {Arch.reference, Arch.simulated}
    assert {arch for arch, _, _ in LACKING} == {*Arch} - always


def test_a_list_takes_the_first_that_is_there(monkeypatch: Patch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(
        table, "missing", lambda arch: "" if arch in (Arch.amdgpu, knobs.host_arch()) else f"no {arch.name}"
    )
    monkeypatch.setattr(table, "find", lambda arch: table.importlib.import_module("quadrants.targets.reference"))
    qd.init(arch=qd.gpu)
    assert knobs.current.arch is Arch.amdgpu
    assert "falling back" not in capsys.readouterr().err
    qd.init(arch=[qd.cuda, qd.vulkan])
    assert knobs.current.arch is knobs.host_arch()
    told = capsys.readouterr().err
    instead = f"falling back to {knobs.host_arch()} (cuda: no cuda; vulkan: no vulkan)"
    assert f"Arch=[Arch.cuda, Arch.vulkan] is not supported, {instead}" in told
    with pytest.raises(RuntimeError, match=r"Arch=\[Arch.cuda, Arch.vulkan\] is not supported \(cuda: no cuda; vulkan"):
        qd.init(arch="cuda, vulkan", enable_fallback=False)
    qd.init(arch=["cuda", qd.amdgpu])
    assert knobs.current.arch is Arch.amdgpu


def test_what_is_no_target() -> None:
    number: Any = 3
    with pytest.raises(ValueError, match="'gpu9' is not a target; there are cpu, gpu, x64"):
        qd.init(arch="gpu9")
    with pytest.raises(ValueError, match="a target is expected, or a list"):
        qd.init(arch=[])
    with pytest.raises(
        TypeError, match=r"qd.init\(arch=3\): a target is expected, or a list .* not an object of type int"
    ):
        qd.init(arch=number)
    assert not knobs.current.initialised


def test_names_of_targets() -> None:
    assert knobs.archs_by_name("gpu, CPU") == (*qd.gpu, qd.cpu) and knobs.archs_by_name("x86_64") == (qd.x64,)
    qd.init(arch="Reference")
    assert knobs.current.arch is Arch.reference


@qd.kernel
def doubled(x: float) -> float:
    return 2.0 * x


def test_the_environment_wins_over_the_keyword(monkeypatch: Patch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("QD_ARCH", "simulated")
    qd.init(arch=qd.reference)
    assert knobs.current.arch is Arch.simulated
    monkeypatch.setenv("QD_ARCH", "python,reference")
    qd.init(arch=Arch.simulated)
    assert knobs.current.arch is Arch.reference and doubled(2.0) == 4.0
    monkeypatch.setenv("QD_ARCH", "python")
    capsys.readouterr()
    qd.init(arch=qd.reference)
    assert knobs.current.arch is table.default()
    assert "Arch=[Arch.python] is not supported, falling back to" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="python: this version has no such target"):
        qd.init(arch=qd.reference, enable_fallback=False)
    monkeypatch.setenv("QD_ARCH", "nothing")
    with pytest.raises(ValueError, match="environment variable QD_ARCH=nothing: 'nothing' is not a target"):
        qd.init()
    monkeypatch.delenv("QD_ARCH")


def test_the_environment_chooses_without_init(monkeypatch: Patch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("QD_ARCH", "python,simulated")
    qd.reset()
    assert doubled(3.0) == 6.0 and knobs.current.arch is Arch.simulated and not knobs.current.initialised
    monkeypatch.setenv("QD_ARCH", "python")
    qd.reset()
    capsys.readouterr()
    assert doubled(3.0) == 6.0 and knobs.current.arch is table.default()
    assert doubled(4.0) == 8.0
    assert capsys.readouterr().err.count("falling back to") == 1
    monkeypatch.delenv("QD_ARCH")
