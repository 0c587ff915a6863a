"""Kernels for devices as they are kept: the host's objects, and behind them what the driver loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadrants.knobs import Arch
from quadrants.runtime import native
from quadrants.targets import table
from quadrants.targets.device.interface import HostCode, HostText

if TYPE_CHECKING:
    from quadrants.program import Program

__all__ = ["kept", "restore"]

_CODE = "device code"
_Objects = list[tuple[str, bytes]]


def kept(code: HostCode) -> tuple[HostText, dict[str, Any]]:
    """The objects of a kernel, and what else has to be known of its tasks; messages and prints are the program's."""
    tasks = code.tasks.code
    content = tasks.code.encode() if isinstance(tasks.code, str) else tasks.code
    facts = {"symbols": list(tasks.symbols), "arrays": tasks.arrays, "is_text": isinstance(tasks.code, str)}
    facts["title"], facts["is_recursive"] = tasks.title, tasks.is_recursive
    facts["asked"] = list(tasks.asked)
    facts["accesses"] = [list(map(list, accesses)) for accesses in tasks.accesses]
    return HostText((*code.objects, (_CODE, content)), code.entry, code.externals), facts


def restore(
    program: Program, arch: Arch | None, facts: dict[str, Any], objects: _Objects, entry: str, externals: list[str]
) -> bool:
    """Gives a program the code that was kept; False where it cannot run as machine code here."""
    from quadrants.targets.llvm.device_tasks import TaskCode

    if not native.available():
        return False
    *host, (_, content) = objects
    code = TaskCode(
        content.decode() if facts["is_text"] else content,
        tuple(facts["symbols"]),
        program.messages,
        program.prints,
        facts["arrays"],
        facts["title"],
        tuple([tuple(map(tuple, accesses)) for accesses in facts["accesses"]]),
        tuple(facts["asked"]),
        facts["is_recursive"],
    )
    target = table.keeping(arch)
    assert target is not None
    made = target.restored(HostText(tuple(host), entry, tuple(externals)), code)
    if made is not None:
        program.load_host_code(made)
    return made is not None
