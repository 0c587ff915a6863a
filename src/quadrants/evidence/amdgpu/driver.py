"""The AMDGPU target without a GPU: `with assembled("gfx942") as driver: qd.init(arch=qd.amdgpu)`.

Every kernel's tasks are compiled and linked for the processor, and what they take is noted; then the interpreter runs them. So
results say nothing of AMD's code: what is shown is that there is code, of which kind, and that the host's part fits it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.targets.device.interface import Runnable
from quadrants.targets.device.tasks import Task
from quadrants.targets.llvm.amdgpu import drivers
from quadrants.targets.llvm.amdgpu.compile import Compiled, compile_tasks
from quadrants.targets.llvm.amdgpu.metadata import Usage
from quadrants.targets.simulated import device as simulated

__all__ = ["AssemblingDriver", "assembled", "unexplained_spills"]

# From so many registers on a kernel may be said to have all that there are: 256 of a thread, some 100 of a wave.
_MOST_VECTORS, _MOST_SCALARS = 248, 96


class AssemblingDriver:
    """A driver (targets/llvm/amdgpu/device.py) of a GPU that is not there. `made`: the kernels that were compiled."""

    def __init__(self, processor: str) -> None:
        self.processor = processor
        self.made: list[Compiled] = []
        self.device = _Device(self)


class _Device:
    patience = 0

    def __init__(self, driver: AssemblingDriver) -> None:
        self._driver = driver
        self._simulated = simulated()
        self.allocate, self.measure = self._simulated.allocate, self._simulated.measure
        self.staging = self._simulated.staging

    def prepare(self, module: Module, tasks: Sequence[Task], options: knobs.Options) -> Runnable:
        level = 2 if options.opt_level else 0
        self._driver.made.append(compile_tasks(module, tasks, self._driver.processor, level, options.verify))
        return self._simulated.prepare(module, tasks, options)

    def host_code(self, module: Module, tasks: Sequence[Task], prepared: Any, options: knobs.Options) -> None:
        """What the interpreter runs is launched by it."""


@contextmanager
def assembled(processor: str) -> Iterator[AssemblingDriver]:
    """While it is open, the AMDGPU target's kernels are compiled for that processor, and run by the interpreter."""
    driver = AssemblingDriver(processor)
    with drivers.using(driver):
        yield driver


def unexplained_spills(made: Sequence[Compiled]) -> list[Usage]:
    """The kernels with spills that had registers left: those that hold more than there are have a reason to spill."""
    return [
        kernel
        for compiled in made
        for kernel in compiled.usage
        if (kernel.vgpr_spills and kernel.vgprs < _MOST_VECTORS)
        or (kernel.sgpr_spills and kernel.sgprs < _MOST_SCALARS)
    ]
