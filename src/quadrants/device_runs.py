"""Programs whose host's part is machine code that launches tasks on a device: runs that Python prepares.

Such a run brings the arrays to the device, fills in the frame with where they are there, and lets the launcher know those
that stay there: later calls with them are launched by machine code alone (`lang/bindings.py`).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quadrants.blocks import busy
from quadrants.errors import QuadrantsAssertionError
from quadrants.frontend import protocol
from quadrants.frontend.arguments import Argument, as_numpy
from quadrants.frontend.guards import LiveNumber
from quadrants.ir.types import ArrayType
from quadrants.runtime import launch
from quadrants.targets.device.failures import NOTED, noted
from quadrants.targets.device.interface import DeviceArray, HostCode
from quadrants.targets.device.placing import Placement
from quadrants.targets.device.timing import measured
from quadrants.targets.device.views import DeviceView, driver_stream

if TYPE_CHECKING:
    from quadrants.program import Program

__all__ = ["DeviceRuns", "without_memory"]


class DeviceRuns:
    """How one program runs on a device."""

    def __init__(self, program: Program, code: HostCode) -> None:
        self.code = code
        self._program = program
        frame = program.frame
        first = len(frame.parameters) - len(program.captured)
        self._captured = [
            (frame.parameters[k], frame.parameter_types[k], source)
            for k, source in enumerate(program.captured, first)
            if not isinstance(source, LiveNumber)
        ]

    def run(self, values: list[tuple[Argument, Any]]) -> Any:
        """Runs the program on (leaf, Python object) pairs; gives the kernel's result."""
        try:
            return self._run(values)
        except MemoryError as error:
            raise without_memory(error, self._program.name) from None

    def _run(self, values: list[tuple[Argument, Any]]) -> Any:
        program = self._program
        frame = program.filled(values)
        arrays: list[tuple[int, Any, bool]] = []
        types: list[ArrayType] = []
        for k, ((_, value), type_) in enumerate(zip(values, program.frame.parameter_types)):
            if type(type_) is ArrayType:
                arrays.append((program.frame.parameters[k], value, ("argument", k) in program.written))
                types.append(type_)
        for offset, type_, source in self._captured:
            assert type(type_) is ArrayType
            arrays.append((offset, source, ("array", id(source)) in program.written))
            types.append(type_)
        with busy():
            views = [as_numpy(value) for _, value, _ in arrays]
            device = self.code.device
            placement = Placement(device, views, device.staging)
            placed = placement.placed(types)
            for (offset, _, _), array in zip(arrays, placed):
                words = _descriptor(array)
                frame[offset : offset + len(words)] = words
            try:
                self._launch(frame)
                self._let_owners_wait(views)
            finally:
                placement.take_back([k for k, (_, _, written) in enumerate(arrays) if written])
            for k, (_, value, _) in enumerate(arrays):
                block = placement.block(k)
                if block is not None and protocol.is_storage(value):
                    block.admit(value, _descriptor(placed[k]))
        return program.unpack(frame)

    def run_copied(self, binding: launch.Binding, frame: int, held: Sequence[Any]) -> None:
        """A launch of the launcher's with arrays of the host, which have to be copied there and back: all arguments fit, and those are in
        `held`, at the addresses of the host in the frame. Nothing of the kernel prints or checks (`lang/bindings.py`)."""
        try:
            with busy():
                device = self.code.device
                placement = Placement(device, [held[k] for k in binding.copied], device.staging)
                for offset, (memory, first) in zip(binding.places_of_copied, placement.places):
                    ctypes.c_uint64.from_address(frame + offset).value = memory.address + first
                try:
                    if launch.run(binding, frame):
                        raise self.error()
                finally:
                    placement.take_back(binding.written_copied)
        except MemoryError as error:
            raise without_memory(error, self._program.name) from None

    def _launch(self, frame: bytearray) -> None:
        self.code.tasks.get_ready()
        with measured(self.code.device):
            status = launch.call(self._program.binding_for_calls(), frame)
        if status:
            raise self.error()
        try:
            self.code.tasks.finish()
        except QuadrantsAssertionError as error:
            raise self._program.failed_check(error) from None

    def _let_owners_wait(self, views: list[Any]) -> None:
        """What the owners of arrays launch from now on waits for the kernel."""
        driver = self.code.device.driver
        for stream in {view.stream for view in views if isinstance(view, DeviceView) and view.stream is not None}:
            driver.order(driver.stream, driver_stream(stream))

    def order_of_streams(self) -> launch.Order:
        """How the launcher has our stream and those of arrays' owners wait for one another."""
        code = self.code
        order = code.device.driver.native_launch().order()
        return launch.Order(**vars(order), failed=code.symbols["qd_device_failed"], noted=NOTED)

    def error(self) -> BaseException:
        """What the entry has noted."""
        error = noted()
        if isinstance(error, QuadrantsAssertionError):
            return self._program.failed_check(error)
        return error


def without_memory(error: MemoryError, kernel: str) -> MemoryError:
    """The error of a device that has no memory left, with the kernel's name."""
    return MemoryError(f"{error}\n  in kernel {kernel}")


def _descriptor(array: DeviceArray) -> bytes:
    words = (array.memory.address + array.offset, *array.shape, *array.strides)
    return struct.pack(f"<Q{len(words) - 1}q", *words)
