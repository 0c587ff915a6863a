"""The process beside that runs Arm64 code: started when it is first needed, one for each process of ours, kept alive.

`process.c` is its program, compiled with the C compiler of the machine, and says how the two speak. Kernels run on
copies of their arrays. What a kernel breaks, an endless recursion for one, breaks that process and no other; the next
kernel gets a new one.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import tempfile
import threading
from collections.abc import Sequence

from quadrants.errors import QuadrantsInternalError, QuadrantsRuntimeError
from quadrants.ir import streams
from quadrants.records import MutableRecord, Record, fresh
from quadrants.targets.llvm.arm64.tools import tools

__all__ = ["Answer", "Job", "Library", "run"]

_SOURCE = os.path.join(os.path.dirname(__file__), "process.c")
_LOAD, _RUN = 1, 2
_DONE, _REFUSED, _PRINT, _FAIL, _RANDOM = range(5)

_lock = threading.RLock()
_process: _Process | None = None


class Job(Record):
    """One run of a kernel: its threads, its frame, `pieces`: contents of memory, and whether they are wanted back; `patches`:
    (place in the frame, piece, place in the piece) of each address."""

    threads: int
    frame: bytes | bytearray
    pieces: Sequence[tuple[bytes, bool]]
    patches: Sequence[tuple[int, int, int]]


class Answer(MutableRecord):
    """What a run gave: the entry's status, the frame, the pieces of memory that were wanted back, what it printed
    (records) and the first failed check (its message's id and values)."""

    status: int = 0
    frame: bytes = b""
    contents: list[bytes] = fresh(list[bytes])
    prints: bytes = b""
    failure: tuple[int, list[int]] | None = None


class _Refused(MemoryError):
    """The process says that it has no room. It has answered in full, and lives on."""


class Library:
    """A kernel's objects, linked into a library of the system's kind, which processes load when they first run it."""

    def __init__(self, objects: Sequence[tuple[str, bytes]], entry: str) -> None:
        self.entry = entry
        self._objects = objects

    def address_in(self, process: _Process) -> int:
        """The entry's address."""
        found = process.entries.get(self)
        if found is None:
            with tempfile.TemporaryDirectory(prefix="quadrants-arm64-", ignore_cleanup_errors=True) as folder:
                found = process.entries[self] = process.load(self._file(folder), self.entry)
        return found

    def _file(self, folder: str) -> str:
        name = os.path.join(folder, self.entry[-24:])
        paths = []
        for k, (_, data) in enumerate(self._objects):
            paths.append(f"{name}.{k}.o")
            with open(paths[-1], "wb") as file:
                file.write(data)
        command = [tools().linker, "-shared", "-Bsymbolic", "-z", "now", "-o", f"{name}.so", *paths]
        linked = subprocess.run(command, capture_output=True, text=True, check=False)
        if linked.returncode:
            raise QuadrantsInternalError(f"the linker refuses the objects of {self.entry}: {linked.stderr}")
        return f"{name}.so"


class _Process:
    """The process and its pipe."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.entries: dict[Library, int] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="quadrants-arm64-", ignore_cleanup_errors=True)
        program = os.path.join(self._folder.name, "process")
        command = [tools().compiler, "-O2", "-rdynamic", "-o", program, _SOURCE, "-lpthread", "-ldl"]
        compiled = subprocess.run([*command, "-Wl,--no-as-needed", "-lm"], capture_output=True, text=True, check=False)
        if compiled.returncode:
            raise QuadrantsRuntimeError(f"the program that runs Arm64 code cannot be compiled: {compiled.stderr}")
        self._child = subprocess.Popen(
            [*tools().emulator, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._child.stdin is not None and self._child.stdout is not None
        self._input, self._output = self._child.stdin, self._child.stdout

    def load(self, path: str, symbol: str) -> int:
        """Loads a library; gives the address of one of its symbols."""
        self._send(_words(_LOAD), _text(path), _text(symbol))
        if self._word() != _DONE:
            raise QuadrantsInternalError(f"a kernel's library cannot be loaded: {self._reason()}")
        self._folder.cleanup()  # it runs: its file has been read
        return self._word()

    def run(self, entry: int, job: Job) -> Answer:
        """Runs an entry; see `run` below."""
        sizes = [word for content, wanted in job.pieces for word in (len(content), int(wanted))]
        self._send(
            _words(_RUN, entry, job.threads, len(job.frame)),
            job.frame,
            _words(len(job.pieces), *sizes),
            *[content for content, _ in job.pieces],
            _words(len(job.patches), *[word for patch in job.patches for word in patch]),
        )
        answer = Answer()
        while (kind := self._word()) != _DONE:
            if kind == _PRINT:
                answer.prints += self._bytes(self._word())
            elif kind == _FAIL:
                message, count = self._word(), self._word()
                answer.failure = message, [self._word() for _ in range(count)]
            elif kind == _RANDOM:
                self._send(struct.pack("<Q", streams.next_bits()))
            else:
                raise _Refused(self._reason())
        answer.status = self._word()
        answer.frame = self._bytes(len(job.frame))
        answer.contents = [self._bytes(len(content)) if wanted else content for content, wanted in job.pieces]
        return answer

    def end(self) -> None:
        """Ends it, whatever it does."""
        if self.owner == os.getpid():
            self._child.kill()
            self._child.wait()
            self._folder.cleanup()

    def _send(self, *parts: bytes | bytearray) -> None:
        try:
            for part in parts:
                self._input.write(part)
            self._input.flush()
        except OSError:
            raise self._ended() from None

    def _bytes(self, size: int) -> bytes:
        found = self._output.read(size)
        if len(found) < size:
            raise self._ended()
        return found

    def _word(self) -> int:
        return struct.unpack("<q", self._bytes(8))[0]

    def _reason(self) -> str:
        return self._bytes(self._word()).decode()

    def _ended(self) -> QuadrantsRuntimeError:
        status = self._child.wait()
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return QuadrantsRuntimeError(f"the process that runs Arm64 code ended with {how}")


def run(library: Library, job: Job) -> Answer:
    """Runs a kernel. MemoryError where the process has no room; QuadrantsRuntimeError if it ends meanwhile: then, and where
    the run is interrupted, by a lack of memory on our side, too, the next run gets a new one."""
    global _process
    with _lock:
        if _process is None or _process.owner != os.getpid():
            _process = _Process()
        try:
            return _process.run(library.address_in(_process), job)
        except _Refused:
            raise
        except BaseException:  # an interrupt, too: half an answer is left in the pipe
            _process.end()
            _process = None
            raise


def _words(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}q", *words)


def _text(text: str) -> bytes:
    data = text.encode()
    return _words(len(data)) + data


def _forked() -> None:
    """The lock may have been held by a thread that the child does not have."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forked)
