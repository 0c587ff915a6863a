"""The disk cache: bytes by key, safe under concurrent processes, damaged files and full disks.

An entry is one file, written under another name and renamed, with a header of magic, version, length and checksum over
key and content. Whatever is not exactly what was put is as good as absent: a truncated, damaged or foreign file is
ignored, and replaced by the next `put`. A folder that cannot be written costs time, never an error: entries are then
kept in memory. Files that are not the cache's own are never touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import struct
import threading
import time
from collections.abc import Callable, Iterable

from quadrants.digest import blake2b
from quadrants.runtime.fingerprint import compiler_fingerprint

__all__ = ["POLICIES", "DiskCache"]

POLICIES = ("lru", "fifo", "never", "version")

_MAGIC = b"qdcache1"
_HEADER = struct.Struct("<8s8sQ16s")  # magic, version, length of the content, checksum
_ENTRY, _OBJECT, _TEMPORARY = ".entry", ".object", ".temporary"
_KEY = re.compile(r"[A-Za-z0-9_-]{1,200}")
_TOUCH_AFTER = 60.0  # seconds: how old a last use must be for a new one to be noted
_ABANDONED_AFTER = 3600.0  # seconds: a temporary file of that age belongs to nobody
_SAMPLE = 256  # files of a folder that are looked at to tell its size, unless it is close to the limit
_CLOSE = 0.75  # from such a part of the limit on all files are looked at
_ENTRY_ALONE = (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST, errno.ENAMETOOLONG)  # nothing wrong with the folder


class DiskCache:
    """Bytes by key in one folder, shared by processes.

    `max_bytes` bounds what the files take; `policy` says what leaves a full folder: 'lru' the least recently used,
    'fifo' the oldest, 'version' what other versions of the compiler wrote, 'never' nothing; a cleaning makes room for
    the share `factor` of `max_bytes`. Without a directory everything is kept in memory. `notice`, if given, is called
    once with a line of text when the folder turns out not to be writable. Raises ValueError for an unknown policy or
    factor. Keys are hashes: letters, digits, '-' and '_'.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None,
        max_bytes: int = 100 << 20,
        policy: str = "lru",
        factor: float = 0.25,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        if policy not in POLICIES:
            raise ValueError(f"the policy of a cache is one of {', '.join(POLICIES)}, not {policy!r}")
        if not 0.0 <= factor <= 1.0:
            raise ValueError(f"the factor of a cache lies in 0..1, not at {factor!r}")
        self.directory = os.fspath(directory) if directory is not None else None
        self.max_bytes = max_bytes
        self.policy = policy
        self.factor = factor
        self.notice = notice
        self._writable = directory is not None
        self._memory: dict[str, bytes] = {}
        self._memory_bytes = 0
        self._disk_bytes: int | None = None  # what the files take as far as this process knows; None: not yet asked

    def get(self, key: str) -> bytes | None:
        """What was put under `key`, else None. Raises ValueError for what is no key."""
        return self._get(_file_name(key, _ENTRY))

    def put(self, key: str, payload: bytes) -> None:
        """Keep `payload` under `key`, in place of what was there. Raises ValueError for what is no key."""
        self._put(_file_name(key, _ENTRY), payload)

    def get_object(self, name: str) -> bytes | None:
        """The object of that name, else None. Objects are named by their content: kernels share them."""
        return self._get(_file_name(name, _OBJECT))

    def put_object(self, name: str, payload: bytes) -> None:
        """Keep an object; one that is there already is not written again."""
        file = _file_name(name, _OBJECT)
        if self._get(file) is None:
            self._put(file, payload)

    def clear(self) -> None:
        """Remove every entry and object, of this process and of all others that share the folder."""
        self._memory.clear()
        self._memory_bytes = 0
        for _, _, path in self._scan():
            _remove(path)
        self._disk_bytes = None

    def _get(self, file: str) -> bytes | None:
        if self.directory is None or file in self._memory:
            return self._memory.get(file)
        path = os.path.join(self.directory, file)
        try:
            content, used = _read(path)
        except OSError:
            return None
        payload = _checked(file, content)
        if payload is not None and self.policy == "lru" and time.time() - used > _TOUCH_AFTER:
            _touch(path)
        return payload

    def _put(self, file: str, payload: bytes) -> None:
        if self.directory is None or not self._writable or len(payload) + _HEADER.size > self.max_bytes:
            self._remember(file, payload)
            return
        header = _HEADER.pack(_MAGIC, _version(), len(payload), _checksum(file, payload))
        try:
            self._write(self.directory, file, header + payload)
        except OSError as error:
            self._remember(file, payload)
            if error.errno not in _ENTRY_ALONE:
                self._stop_writing(error)
            return
        if file in self._memory:
            self._forget(file)
        self._account(_HEADER.size + len(payload))

    def _write(self, directory: str, file: str, content: bytes) -> None:
        temporary = os.path.join(directory, f"{file}.{os.getpid()}-{threading.get_ident()}{_TEMPORARY}")
        try:
            try:
                _create(temporary, content)
            except FileNotFoundError:
                os.makedirs(directory, mode=0o700, exist_ok=True)
                _create(temporary, content)
            os.replace(temporary, os.path.join(directory, file))
        except OSError:
            _remove(temporary)
            raise

    def _stop_writing(self, error: OSError) -> None:
        if self._writable:
            self._writable = False
            if self.notice is not None:
                reason = error.strerror or str(error)
                self.notice(f"compiled code is kept in memory only: {self.directory} cannot be written ({reason})")

    def _remember(self, file: str, payload: bytes) -> None:
        """Keep in memory; beyond `max_bytes` the first kept go first, the last one always stays."""
        self._forget(file)
        self._memory[file] = payload
        self._memory_bytes += len(payload)
        while self._memory_bytes > self.max_bytes and len(self._memory) > 1:
            self._forget(next(iter(self._memory)))

    def _forget(self, file: str) -> None:
        self._memory_bytes -= len(self._memory.pop(file, b""))

    def _account(self, written: int) -> None:
        """Add what was written to what is known of the folder's size, and clean where that is too much."""
        if self.policy == "never":
            return
        if self._disk_bytes is None:
            self._disk_bytes = self._size()
        else:
            self._disk_bytes += written
        if self._disk_bytes > self.max_bytes:
            self._clean()

    def _size(self) -> int:
        """What the files take: of a folder with many files, unless that is close to the limit, an estimate from some of
        them, since looking at all would keep each process's first compile waiting."""
        entries = self._entries()
        every = max(len(entries) // _SAMPLE, 1)
        size = every * sum([size for _, size, _ in self._scan(entries[::every])])
        return (
            size if every == 1 or size < _CLOSE * self.max_bytes else sum([size for _, size, _ in self._scan(entries)])
        )

    def _clean(self) -> None:
        """Remove files by the policy until `factor` of the allowed size is free. Others may be cleaning, too."""
        files = sorted(self._scan())
        total = sum([size for _, size, _ in files])
        if total > self.max_bytes:
            target = self.max_bytes * (1.0 - self.factor)
            for _, size, path in files:
                if total <= target:
                    break
                if self.policy != "version" or _is_of_another_version(path):
                    _remove(path)
                    total -= size
        self._disk_bytes = total

    def _entries(self) -> list[os.DirEntry[str]]:
        if self.directory is not None:
            with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
                return list(entries)
        return []

    def _scan(self, entries: Iterable[os.DirEntry[str]] | None = None) -> list[tuple[int, int, str]]:
        """(time of last use or writing in ns, size, path) of the cache's files among the folder's entries, or some of
        them; removes abandoned temporary ones."""
        found: list[tuple[int, int, str]] = []
        for entry in self._entries() if entries is None else entries:
            self._look_at(entry, found)
        return found

    def _look_at(self, entry: os.DirEntry[str], found: list[tuple[int, int, str]]) -> None:
        own = entry.name.endswith((_ENTRY, _OBJECT))
        if not own and not entry.name.endswith(_TEMPORARY):
            return
        try:
            if not entry.is_file(follow_symlinks=False):
                return
            facts = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if own:
            found.append((facts.st_mtime_ns, facts.st_size, entry.path))
        elif time.time() - facts.st_mtime > _ABANDONED_AFTER:
            _remove(entry.path)


def _file_name(key: str, suffix: str) -> str:
    if _KEY.fullmatch(key) is None:
        raise ValueError(f"{key!r} is no key of the cache: letters, digits, '-' and '_' only, at most 200")
    return key + suffix


def _read(path: str) -> tuple[bytes, float]:
    """A file's content and the time of its last use or writing."""
    with open(path, "rb", buffering=0) as file:
        facts = os.fstat(file.fileno())
        return file.readall(), facts.st_mtime


def _create(path: str, content: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]


def _checked(file: str, content: bytes) -> bytes | None:
    """The payload of a file's content, None unless it is whole and was put under that name."""
    if len(content) < _HEADER.size:
        return None
    magic, _, length, checksum = _HEADER.unpack_from(content)
    payload = content[_HEADER.size :]
    if magic != _MAGIC or length != len(payload) or checksum != _checksum(file, payload):
        return None
    return payload


def _checksum(file: str, payload: bytes) -> bytes:
    digest = blake2b(file.encode(), digest_size=16)
    digest.update(payload)
    return digest.digest()


def _version() -> bytes:
    return bytes.fromhex(compiler_fingerprint())[:8]


def _is_of_another_version(path: str) -> bool:
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(_HEADER.size)
    except OSError:
        return False
    return len(head) < _HEADER.size or _HEADER.unpack(head)[:2] != (_MAGIC, _version())


def _touch(path: str) -> None:
    with contextlib.suppress(OSError):
        os.utime(path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
