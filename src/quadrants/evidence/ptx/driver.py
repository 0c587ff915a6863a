"""The interpreter as the CUDA target's driver: `with played(sm=80): qd.init(arch=qd.cuda)` runs kernels without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from quadrants.evidence.ptx.machine import Loaded, Machine
from quadrants.evidence.ptx.memory import Piece
from quadrants.targets.llvm.cuda import drivers
from quadrants.targets.llvm.cuda.device import device_of

__all__ = ["PlayedDriver", "played"]


class PlayedDriver:
    """A driver (targets/llvm/cuda/device.py) of a GPU that is played. `texts`: the modules that were loaded."""

    def __init__(self, sm: int = 80, multiprocessors: int = 2) -> None:
        self.sm = sm
        self.multiprocessors = multiprocessors
        self.machine = Machine()
        self.texts: list[str] = []
        self.device = device_of(self, sm)

    def allocate(self, size: int) -> Piece:
        return self.machine.memory.allocate(size)

    def load(self, ptx: str) -> _PlayedModule:
        self.texts.append(ptx)
        return _PlayedModule(Loaded(self.machine, ptx))

    def write(self, address: int, data: bytes) -> None:
        memory = self.machine.memory
        memory.check_range(address, len(data))
        memory.bytes[address : address + len(data)] = np.frombuffer(data, np.uint8)

    def launch(self, kernel: Any, blocks: int, threads: int, parameters: bytes) -> None:
        loaded, code = kernel
        self.machine.launch(loaded, code, blocks, threads, parameters)

    def synchronise(self) -> None:
        """Every launch is done when it returns."""


class _PlayedModule:
    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    def kernel(self, name: str) -> Any:
        return self._loaded, self._loaded.kernel(name)

    def variable(self, name: str) -> int | None:
        return self._loaded.variable(name)


@contextmanager
def played(sm: int = 80) -> Iterator[PlayedDriver]:
    """While it is open, the CUDA target's kernels run by the interpreter."""
    driver = PlayedDriver(sm)
    with drivers.using(driver):
        yield driver
