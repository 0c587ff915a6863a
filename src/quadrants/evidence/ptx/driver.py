"""The interpreter as the CUDA target's driver: `with played(sm=80): qd.init(arch=qd.cuda)` runs kernels without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quadrants.evidence.ptx.bindings import Bindings
from quadrants.evidence.ptx.library import bindings_of
from quadrants.evidence.ptx.machine import Machine
from quadrants.targets.llvm.cuda import drivers
from quadrants.targets.llvm.cuda.nvidia import NvidiaDriver
from quadrants.targets.llvm.graph_order import Reach, reach_of

__all__ = ["PlayedDriver", "played"]


class PlayedDriver(NvidiaDriver):
    """NVIDIA's driver as the target calls it, over functions that are played. `texts`: the modules that were loaded; `shared`: the bytes of
    shared memory that a block may ask for, where that is not what NVIDIA says of the processor. Its warpgroups are not asked whether they multiply, unless `asks`: they do, and texts and launches are the program's alone."""

    def __init__(self, sm: int = 80, memory: int = 1 << 28, asks: bool = False, shared: int | None = None) -> None:
        self.bindings = Bindings(sm, memory, shared)
        super().__init__(bindings_of(self.bindings))
        if not asks:
            self._warpgroups = True

    def watch(self) -> None:
        """From now on a launch that reaches more memory than its tasks say (graph_order.py) is a fault."""
        self.bindings.reach_of = self._reach_of

    def _reach_of(self, kernel: int, frame: bytes) -> Reach | None:
        for tasks in self.device.ready:
            accesses = tasks.graph.accesses.get(kernel) if tasks.graph is not None else None
            if accesses is not None:
                return reach_of(accesses, frame)
        return None

    @property
    def texts(self) -> list[str]:
        return self.bindings.texts

    @property
    def launched(self) -> list[tuple[int, int]]:
        """The blocks, and the threads of each, of every launch that has run."""
        return self.bindings.launched

    @property
    def machine(self) -> Machine:
        return self.bindings.machine


@contextmanager
def played(sm: int = 80) -> Iterator[PlayedDriver]:
    """While it is open, the CUDA target's kernels run by the interpreter."""
    driver = PlayedDriver(sm)
    with drivers.using(driver):
        yield driver
