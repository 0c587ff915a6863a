"""What a GPU's driver does for us, and what is the same in NVIDIA's and AMD's: memory that is given back, modules by name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from quadrants.targets.llvm.device_timing import TimingDriver

if TYPE_CHECKING:
    from quadrants.targets.llvm.device_host import NativeLaunch

__all__ = ["DriverMemory", "DriverModule", "LaunchDriver", "Loaded", "place_of"]


def place_of(data: bytes | memoryview) -> int:
    """The address of bytes of the host, of which there is one at least."""
    return np.frombuffer(data, np.uint8).__array_interface__["data"][0]


class Loaded(Protocol):
    """A module in the driver's hands."""

    def kernel(self, name: str) -> Any:
        """One of its kernels."""
        ...

    def variable(self, name: str) -> int | None:
        """The address of one of its variables, None where there is none of that name."""
        ...


class LaunchDriver(TimingDriver, Protocol):
    """What a driver does for us. Launches run in order; memory has an `address`."""

    multiprocessors: int
    is_lost: bool
    """Whether an error was told after which nothing works any more in this process."""

    def allocate(self, size: int) -> Any:
        """Memory (device/interface.py), with its `address`. MemoryError where there is none."""
        ...

    def load(self, code: Any, /) -> Loaded:
        """Makes a module ready to run: the `code` of compiled tasks."""
        ...

    def allow_recursion(self) -> None:
        """Called before kernels are launched whose functions call themselves."""
        ...

    def allow_shared(self, kernel: Any, asked: int) -> None:
        """Called before a kernel is launched whose launches ask for so many bytes of shared memory."""
        ...

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Copies bytes of the host to an address, behind everything launched before."""
        ...

    def read_into(self, address: int, place: memoryview) -> None:
        """Waits for everything launched before, and copies bytes from an address to a place of the host, as many as that has."""
        ...

    def launch(self, kernel: Any, blocks: int, threads: int, parameters: bytes, asked: int = 0) -> None:
        """Launches a kernel whose one parameter are those bytes; it may return before the kernel is done. `asked`: the bytes of shared
        memory that each block has beside what the kernel declares."""
        ...

    def order(self, first: int, then: int) -> None:
        """What is launched to the stream `then` from now on waits for what the stream `first` has to do now."""
        ...

    def native_launch(self) -> NativeLaunch | None:
        """How machine code launches kernels, which are numbers then; None where that has to go through `launch`."""
        ...

    def error_of(self, code: int) -> Exception:
        """The exception for a result code of the driver's other than 0."""
        ...

    def synchronise(self, stream: int | None = None) -> None:
        """Waits for everything launched before (to a stream); an error where something went wrong there."""
        ...


class AddressDriver(Protocol):
    """A driver that knows memory by addresses and kernels by handles."""

    def write(self, address: int, data: bytes | memoryview) -> None:
        """Copies bytes to an address, behind everything launched before."""
        ...

    def read_into(self, address: int, place: memoryview) -> None:
        """Waits for everything launched before, and copies bytes from an address to a place of the host."""
        ...

    def release(self, address: int) -> None:
        """Gives an allocation back."""
        ...

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        ...

    def variable(self, module: Any, name: str) -> int | None:
        """The address of a variable of a module, None where it has none of that name."""
        ...


class DriverMemory:
    """An allocation; given back when nothing refers to it. While Python ends the driver's own modules may be gone, and ours,
    so the question is kept here; the process gives all of it back."""

    _is_ending = staticmethod(sys.is_finalizing)

    def __init__(self, driver: AddressDriver, address: int, size: int) -> None:
        self._driver = driver
        self.address, self.size = address, size

    def write(self, offset: int, data: bytes | memoryview) -> None:
        self._driver.write(self.address + offset, data)

    def read(self, offset: int, size: int) -> bytes:
        data = bytearray(size)
        self._driver.read_into(self.address + offset, memoryview(data))
        return bytes(data)

    def __del__(self) -> None:
        if not self._is_ending():
            self._driver.release(self.address)


class DriverModule:
    """A module in the driver's hands; it stays as long as the process."""

    def __init__(self, driver: AddressDriver, module: Any) -> None:
        self._driver, self._module = driver, module

    def kernel(self, name: str) -> Any:
        return self._driver.function(self._module, name)

    def variable(self, name: str) -> int | None:
        return self._driver.variable(self._module, name)
