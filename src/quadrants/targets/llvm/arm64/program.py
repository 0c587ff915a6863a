"""A kernel's machine code as something that runs it: arrays go to the process beside and come back."""

from __future__ import annotations

import struct
import sys
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.ir.nodes import Module
from quadrants.ir.types import ArrayType, MatrixType, Type, scalar_of
from quadrants.targets.artifact import Artifact, decode_prints
from quadrants.targets.device.failures import failed
from quadrants.targets.device.interface import DeviceArray
from quadrants.targets.device.placing import Placement, written_parameters
from quadrants.targets.frame import frame_layout, from_memory, memory_bytes
from quadrants.targets.llvm.arm64 import process

__all__ = ["Program"]


class _Memory:
    """A piece of memory as it goes to the process, and as it came back."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.content = bytes(size)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Law: once, and what lies in front of the offset is nobody's."""
        assert offset + len(data) == self.size
        self.content = bytes(offset) + data

    def read(self, offset: int, size: int) -> bytes:
        return self.content[offset : offset + size]

    def read_into(self, offset: int, place: memoryview) -> None:
        place[:] = self.content[offset : offset + len(place)]


class _Room:
    """Memory for one run: pieces in the order in which they were asked for."""

    def __init__(self) -> None:
        self.pieces: list[_Memory] = []

    def allocate(self, size: int) -> _Memory:
        self.pieces.append(_Memory(size))
        return self.pieces[-1]


class Program:
    """A kernel ready to run: `run` takes what the interpreter takes and gives what it gives."""

    def __init__(self, module: Module, artifact: Artifact, options: knobs.Options) -> None:
        self.artifact = artifact
        self._options = options
        self._frame = frame_layout(module.kernel)
        self._library = process.Library(artifact.objects, artifact.entry)
        places = zip(self._frame.parameter_types, self._frame.parameters)
        self._arrays = [(k, type_, offset) for k, (type_, offset) in enumerate(places) if type(type_) is ArrayType]
        lowered = [k for k, value in enumerate(module.kernel.parameters) if type(value.type) is ArrayType]
        written = written_parameters(module)
        self._written = [at for at, k in enumerate(lowered) if k in written]

    def run(self, arguments: list[Any]) -> tuple[Any, ...]:
        """Runs the kernel once."""
        room = _Room()
        placement = Placement(room, [arguments[k] for k, _, _ in self._arrays], room, keeps_blocks=False)
        placed = placement.placed([type_ for _, type_, _ in self._arrays])
        numbers = {id(piece): k for k, piece in enumerate(room.pieces)}
        frame = self._filled(arguments, placed)
        patches = [
            (offset, numbers[id(array.memory)], array.offset)
            for array, (_, _, offset) in zip(placed, self._arrays)
            if id(array.memory) in numbers
        ]
        wanted = {id(placed[at].memory) for at in self._written}
        pieces = [(piece.content, id(piece) in wanted) for piece in room.pieces]
        answer = process.run(self._library, process.Job(self._options.cpu_max_num_threads, frame, pieces, patches))
        for piece, content in zip(room.pieces, answer.contents):
            piece.content = content
        placement.take_back(self._written)
        self._tell(answer)
        results = zip(self._frame.result_types, self._frame.results)
        return tuple([_result(answer.frame, offset, type_) for type_, offset in results])

    def _filled(self, arguments: list[Any], placed: list[DeviceArray]) -> bytearray:
        """The frame, but for the addresses of arrays."""
        frame = bytearray(self._frame.size)
        for value, type_, offset in zip(arguments, self._frame.parameter_types, self._frame.parameters):
            if type(type_) is not ArrayType:
                data = memory_bytes(scalar_of(type_), np.asarray(value))
                frame[offset : offset + len(data)] = data
        for array, (_, _, offset) in zip(placed, self._arrays):
            words = (*array.shape, *array.strides)
            struct.pack_into(f"<{len(words)}q", frame, offset + 8, *words)
        return frame

    def _tell(self, answer: process.Answer) -> None:
        """Prints what the kernel printed; raises what a check found."""
        if answer.prints:
            sys.stdout.write("".join(decode_prints(answer.prints, self.artifact.prints)))
        if answer.status:
            number, words = answer.failure or (0, [])
            raise failed(self.artifact.messages[number], words)


def _result(frame: bytes, offset: int, type_: Type) -> Any:
    if type(type_) is MatrixType:
        return from_memory(type_.scalar, frame, offset, type_.count).reshape(type_.shape)
    return from_memory(scalar_of(type_), frame, offset, 1)[0]
