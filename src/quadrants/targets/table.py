"""The targets by the names that users give them. A new target is a folder and a row here; see `Target` for what its
module offers. Modules are imported when their target is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol, cast

from quadrants import knobs
from quadrants.knobs import Arch
from quadrants.records import Record, replace
from quadrants.targets import hosts

if TYPE_CHECKING:
    from quadrants.ir.nodes import Module
    from quadrants.targets.artifact import Artifact
    from quadrants.targets.capability import CapabilityRecord, Facts

__all__ = [
    "TARGETS",
    "Interpreted",
    "KeepingTarget",
    "Row",
    "Target",
    "default",
    "find",
    "keeping",
    "missing",
    "row",
    "supported",
]


class Interpreted(Protocol):
    """A kernel that runs without being loaded: `run` takes one value a parameter and gives the results. Where there is
    machine code all the same, `artifact` has it, and of the part that the host does of a device's kernel `host_code()`
    (targets/device/host.py), if there is any."""

    def run(self, arguments: list[Any], /) -> tuple[Any, ...]: ...


class Target(Protocol):
    """What a target's module offers. Targets that make machine code also offer `assembly(artifact) -> str`."""

    def record(self) -> CapabilityRecord:
        """What the target can do on this machine: the passes ask it."""
        ...

    def build(self, module: Module, options: knobs.Options) -> Artifact | Interpreted:
        """A module of stage `lowered` as objects for the loader, or as something that runs it."""
        ...

    def facts(self) -> Facts:
        """What users are told of it beside the record."""
        ...

    # Targets whose device's memory other packages may share also offer `shared_device()` (targets/device/views.py).


class KeepingTarget(Target, Protocol):
    """A target whose row says `keeps_tasks`."""

    def surroundings(self) -> str:
        """What the code that is kept depends on."""
        ...

    def restored(self, text: Any, code: Any, /) -> Any:
        """The host's code again, of what was kept of it and of the device's; None where it cannot run here."""
        ...


class Row(Record):
    """One target.

    what: what it is, and how: how the tests show that it is right, for documents (Markdown).
    module: the full name of its module; member: the name of the object there that is the target ('' for the module itself).
    host: the processors whose processes can run its code (None: all). Any other target may have `missing()`, which says why it cannot be
    used on this machine ('' where it can); driver: the full name of another module that has it, where the target's own is dear
    to import.
    machine_code: whether `build` gives an Artifact, whose objects the disk cache keeps. keeps_tasks: whether it keeps the host's
    code and the device's; such a target is a `KeepingTarget`.
    checked: how the target is shown to be right by the tests of this project: 'executed' on what it is for, 'emulated' by
    software in its place, 'simulated': executed in part, on other software that has no more than it has, 'assembled'
    without being run, or '' (not at all).
    """

    module: str
    what: str
    how: str
    member: str = ""
    host: Arch | None = None
    machine_code: bool = True
    keeps_tasks: bool = False
    driver: str = ""
    checked: str = "executed"


_ARM64 = Row(
    "quadrants.targets.llvm.arm64.target",
    "the same for Arm64, NEON lanes, threads; on another host in an emulated process beside ours",
    "executed by an emulator (`qemu-user`): the run tests, also in the process of an emulated Python for Arm64",
    host=Arch.arm64,
    checked="emulated",
)
_ARM64_BESIDE = replace(
    _ARM64,
    module="quadrants.targets.llvm.arm64.beside",
    host=None,
    machine_code=False,
    driver="quadrants.targets.llvm.arm64.tools",
)

TARGETS: dict[Arch, Row] = {
    Arch.x64: Row(
        "quadrants.targets.llvm.x64.target",
        "machine code for x86-64, vector lanes, threads",
        "executed: the whole test suite; the run tests with 1, 8 and 16 lanes forced, too",
        host=Arch.x64,
    ),
    Arch.arm64: _ARM64 if knobs.host_arch() is Arch.arm64 else _ARM64_BESIDE,
    Arch.cuda: Row(
        "quadrants.targets.llvm.cuda.target",
        "PTX for NVIDIA's GPUs, launched through `cuda-bindings` (`pip install 'quadrants[cuda]'`)",
        "the PTX is executed by an interpreter of ours: the run tests. No GPU has run it yet",
        machine_code=False,
        keeps_tasks=True,
        driver="quadrants.targets.llvm.cuda.drivers",
        checked="emulated",
    ),
    Arch.amdgpu: Row(
        "quadrants.targets.llvm.amdgpu.target",
        "code objects for AMD's GPUs, launched through HIP (ROCm)",
        "assembled and linked only: every kernel of the run tests. Nothing has executed it",
        machine_code=False,
        driver="quadrants.targets.llvm.amdgpu.drivers",
        checked="assembled",
    ),
    Arch.reference: Row(
        "quadrants.targets.reference",
        "the interpreter: what the others must compute",
        "executed: the whole test suite",
        machine_code=False,
    ),
    Arch.vulkan: Row(
        "quadrants.targets.webgpu.target",
        "WGSL through `wgpu` (`pip install 'quadrants[gpu]'`) on any driver of Vulkan",
        "executed on Mesa's software driver: the run tests",
        member="VULKAN",
        machine_code=False,
        checked="emulated",
    ),
    Arch.metal: Row(
        "quadrants.targets.webgpu.target",
        "the same on macOS, where `wgpu` makes Metal's code of WGSL",
        "its shaders are executed by Mesa's software driver of Vulkan, without f64: the run tests of other types. No Metal has "
        "compiled them, no GPU has run them",
        member="METAL",
        machine_code=False,
        checked="simulated",
    ),
    Arch.d3d12: Row(
        "quadrants.targets.webgpu.target",
        "the same on Windows, where `wgpu` makes D3D12's code of WGSL",
        "as for `metal`. No D3D12 has compiled them, no GPU has run them",
        member="D3D12",
        machine_code=False,
        checked="simulated",
    ),
    Arch.simulated: Row(
        "quadrants.targets.simulated",
        "a host that launches tasks on memory apart from its own, played by the interpreter",
        "executed: the run tests",
        machine_code=False,
    ),
}


def supported() -> frozenset[Arch]:
    """The targets that run on this machine."""
    return frozenset(arch for arch in TARGETS if not missing(arch))


def missing(arch: Arch) -> str:
    """Why a target cannot be used on this machine; '' where it can."""
    found = TARGETS.get(arch)
    if found is None:
        return "this version has no such target"
    if found.host not in (None, knobs.host_arch()):
        return f"this machine's processor is {knobs.host_arch().name}"
    if found.host is not None and hosts.host() is None:
        return f"machine code runs in processes of {', '.join(map(str, hosts.HOSTS))} only"
    if found.driver:
        return importlib.import_module(found.driver).missing()
    if found.host is not None:
        return ""  # without importing the code generator, which a warm start has no use for
    return getattr(find(arch), "missing", str)()


def default() -> Arch:
    """The target of programs that ask for none: the host's processor, else the reference."""
    host = knobs.host_arch()
    return host if not missing(host) else Arch.reference


def row(arch: Arch | None) -> Row:
    """The row of a target (None: the default one)."""
    return TARGETS[default() if arch is None else arch]


def keeping(arch: Arch | None) -> KeepingTarget | None:
    """The target where it keeps kernels with the device's code, else None."""
    return cast(KeepingTarget, find(arch)) if row(arch).keeps_tasks else None


def find(arch: Arch | None) -> Target:
    """The module, or the object, of a target (None: the default one)."""
    found = row(arch)
    module = importlib.import_module(found.module)
    return cast(Target, getattr(module, found.member) if found.member else module)
