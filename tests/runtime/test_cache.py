"""The disk cache: damage is absence, processes share a folder, a folder that fails costs nothing but time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quadrants.runtime import cache as cache_module
from quadrants.runtime.cache import POLICIES, DiskCache

HEADER = 40


def entries(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in folder.iterdir() if path.suffix in (".entry", ".object")}


def test_entries_and_objects_last_and_are_apart(tmp_path: Path) -> None:
    first = DiskCache(tmp_path / "made" / "when" / "needed")
    first.put("key", b"a manifest")
    first.put_object("key", b"an object")
    first.put("empty", b"")
    second = DiskCache(tmp_path / "made" / "when" / "needed")
    assert second.get("key") == b"a manifest"
    assert second.get_object("key") == b"an object"
    assert second.get("empty") == b""
    assert second.get("other") is None
    second.put("key", b"replaced")
    assert first.get("key") == b"replaced"
    first.clear()
    assert second.get("key") is None


def test_an_object_is_written_once(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put_object("name", b"content")
    before = entries(tmp_path)["name"].stat().st_ino
    cache.put_object("name", b"content")
    assert entries(tmp_path)["name"].stat().st_ino == before


def test_without_a_directory_everything_is_in_memory() -> None:
    cache = DiskCache(None, max_bytes=10)
    cache.put("a", b"123456")
    cache.put("b", b"123456")
    assert (cache.get("a"), cache.get("b")) == (None, b"123456")
    cache.put("c", b"x" * 100)
    assert cache.get("c") == b"x" * 100


@pytest.mark.parametrize("length", [0, 1, HEADER - 1, HEADER, HEADER + 1, HEADER + 999])
def test_truncated_entries_are_absent_and_replaced(tmp_path: Path, length: int) -> None:
    cache = DiskCache(tmp_path)
    cache.put("key", b"x" * 1000)
    path = entries(tmp_path)["key"]
    path.write_bytes(path.read_bytes()[:length])
    assert cache.get("key") is None
    cache.put("key", b"new")
    assert cache.get("key") == b"new"


@pytest.mark.parametrize("position", [0, 7, 16, 20, 24, 39, HEADER, HEADER + 500, HEADER + 999])
def test_corrupted_entries_are_absent_and_replaced(tmp_path: Path, position: int) -> None:
    cache = DiskCache(tmp_path)
    cache.put_object("name", b"x" * 1000)
    path = entries(tmp_path)["name"]
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)
    assert cache.get_object("name") is None
    cache.put_object("name", b"new")
    assert cache.get_object("name") == b"new"


def test_foreign_files_are_absent(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.put("one", b"1")
    cache.put_object("one", b"2")
    (tmp_path / "text.entry").write_text("somebody else's file, longer than a header is, to be sure of it")
    (tmp_path / "renamed.entry").write_bytes((tmp_path / "one.entry").read_bytes())
    (tmp_path / "one.entry").write_bytes((tmp_path / "one.object").read_bytes())
    (tmp_path / "folder.entry").mkdir()
    (tmp_path / "longer.entry").write_bytes((tmp_path / "one.object").read_bytes() + b"more")
    for key in ("text", "renamed", "one", "folder", "longer"):
        assert cache.get(key) is None
    cache.put("folder", b"kept in memory: a folder is in the way")
    cache.put("next", b"on disk all the same")
    assert cache.get("folder") is not None and DiskCache(tmp_path).get("folder") is None
    assert DiskCache(tmp_path).get("next") == b"on disk all the same"


def test_other_files_of_the_folder_are_never_touched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"x" * 5000)
    cache = DiskCache(tmp_path, max_bytes=1000, factor=1.0)
    for k in range(20):
        cache.put(f"k{k}", b"x" * 100)
    cache.clear()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("key", ["", "../up", "a/b", "a.b", "a b", "ä", "x" * 201, "a\n"])
def test_what_is_no_key_is_refused(tmp_path: Path, key: str) -> None:
    cache = DiskCache(tmp_path)
    for use in (cache.get, cache.get_object, lambda name: cache.put(name, b"")):
        with pytest.raises(ValueError, match="no key of the cache"):
            use(key)


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lru, fifo, never, version"):
        DiskCache(tmp_path, policy="random")
    with pytest.raises(ValueError, match=r"0\.\.1"):
        DiskCache(tmp_path, factor=1.5)
    for policy in POLICIES:
        DiskCache(tmp_path, policy=policy)


def ages(folder: Path) -> None:
    """Make the files old enough for uses to be noted, in the order of their numbers."""
    for path in folder.iterdir():
        age = 1_000_000_000 + int(path.stem[1:])
        os.utime(path, (age, age))


def test_the_least_recently_used_leave(tmp_path: Path) -> None:
    size = HEADER + 60
    cache = DiskCache(tmp_path, max_bytes=10 * size, policy="lru", factor=0.5)
    for k in range(10):
        cache.put(f"k{k}", b"x" * 60)
    ages(tmp_path)
    assert cache.get("k0") is not None
    cache.put("k10", b"x" * 60)
    assert set(entries(tmp_path)) == {"k0", "k7", "k8", "k9", "k10"}


def test_the_oldest_leave(tmp_path: Path) -> None:
    size = HEADER + 60
    cache = DiskCache(tmp_path, max_bytes=10 * size, policy="fifo", factor=0.5)
    for k in range(10):
        cache.put(f"k{k}", b"x" * 60)
    ages(tmp_path)
    assert cache.get("k0") is not None
    cache.put("k10", b"x" * 60)
    assert set(entries(tmp_path)) == {"k6", "k7", "k8", "k9", "k10"}


def test_nothing_leaves(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, max_bytes=1000, policy="never")
    for k in range(30):
        cache.put(f"k{k}", b"x" * 60)
    assert len(entries(tmp_path)) == 30


def test_other_versions_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path, max_bytes=1000, policy="version", factor=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(cache_module, "compiler_fingerprint", lambda: "ab" * 16)
        for k in range(5):
            cache.put(f"old{k}", b"x" * 60)
    for k in range(8):
        cache.put(f"new{k}", b"x" * 60)
    assert set(entries(tmp_path)) == {f"new{k}" for k in range(8)}


def test_what_another_process_wrote_counts(tmp_path: Path) -> None:
    other = DiskCache(tmp_path, policy="never")
    for k in range(20):
        other.put(f"k{k}", b"x" * 60)
    DiskCache(tmp_path, max_bytes=1000).put("last", b"x")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 750


def test_large_folders_are_measured_by_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    look_at = DiskCache._look_at
    monkeypatch.setattr(
        DiskCache, "_look_at", lambda self, entry, found: looked.append("") or look_at(self, entry, found)
    )
    writer = DiskCache(tmp_path, policy="never")
    for number in range(1100):
        writer.put(f"entry{number}", b"x" * 100)
    size = (tmp_path / "entry0.entry").stat().st_size
    DiskCache(tmp_path, max_bytes=2000 * size).put("last", b"x")
    assert 256 <= len(looked) <= 512 and len(list(tmp_path.iterdir())) == 1101
    DiskCache(tmp_path, max_bytes=900 * size, factor=0.5).put("next", b"x")
    assert len(list(tmp_path.iterdir())) < 460


def test_abandoned_temporary_files_are_removed(tmp_path: Path) -> None:
    for name, age in (("crashed.temporary", 1_000_000_000), ("writing.temporary", None)):
        (tmp_path / name).write_bytes(b"x")
        if age is not None:
            os.utime(tmp_path / name, (age, age))
    DiskCache(tmp_path).put("key", b"")
    assert {path.name for path in tmp_path.iterdir()} == {"key.entry", "writing.temporary"}


def refuse(code: int) -> object:
    def create(path: str, content: bytes) -> None:
        raise OSError(code, os.strerror(code), path)

    return create


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT])
def test_a_folder_that_cannot_be_written_costs_one_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    notices: list[str] = []
    DiskCache(tmp_path).put("before", b"readable")
    monkeypatch.setattr(cache_module, "_create", refuse(code))
    cache = DiskCache(tmp_path, notice=notices.append)
    for k in range(3):
        cache.put(f"k{k}", bytes([k]))
        cache.put_object(f"k{k}", bytes([k + 100]))
    assert [cache.get(f"k{k}") for k in range(3)] == [b"\0", b"\1", b"\2"]
    assert cache.get_object("k2") == bytes([102])
    assert cache.get("before") == b"readable"
    assert len(notices) == 1 and str(tmp_path) in notices[0] and os.strerror(code) in notices[0]
    assert [path.name for path in tmp_path.iterdir()] == ["before.entry"]


def test_a_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere")
    cache = DiskCache(folder)
    cache.put("key", b"value")
    folder.chmod(0o700)
    assert cache.get("key") == b"value" and not entries(folder)


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    notices: list[str] = []
    cache = DiskCache(tmp_path / "file" / "cache", notice=notices.append)
    cache.put("key", b"value")
    assert cache.get("key") == b"value" and len(notices) == 1


def test_a_folder_that_vanishes_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    cache = DiskCache(folder)
    cache.put("a", b"1")
    (folder / "a.entry").unlink()
    folder.rmdir()
    assert cache.get("a") is None
    cache.put("b", b"2")
    assert DiskCache(folder).get("b") == b"2"


WORKER = """
import hashlib, random, sys
from quadrants.runtime.cache import DiskCache
folder, seed = sys.argv[1], int(sys.argv[2])
source = random.Random(seed)
cache = DiskCache(folder, max_bytes=60_000, policy="lru", factor=0.5)
hits = 0
for _ in range(600):
    key = f"k{source.randrange(40)}"
    found = cache.get(key)
    if found is not None:
        hits += 1
        assert found == hashlib.sha256(key.encode()).digest() * 100, "a torn or foreign entry"
    else:
        cache.put(key, hashlib.sha256(key.encode()).digest() * 100)
print(hits)
"""


@pytest.mark.slow
def test_two_processes_share_a_folder_that_both_clean(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    processes = [
        subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for seed in (1, 2)
    ]
    for process in processes:
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert int(output) > 0
    assert all(path.suffix == ".entry" for path in tmp_path.iterdir())


@pytest.mark.slow
def test_importing_it_does_without_llvm() -> None:
    program = "import sys, quadrants.runtime.cache; print('llvmlite' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "False"
