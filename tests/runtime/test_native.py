"""The cache of the runtime's own machine code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from quadrants.runtime import native
from quadrants.runtime.loader import LoadedObject
from quadrants.runtime.native_text import Module


def load(calls: list[int], facts: str = "") -> LoadedObject:
    def build() -> str:
        calls.append(1)
        module = Module()
        f = module.function("seven", "i64")
        f.give(f.constant("i64", 7))
        return module.text()

    return native.load_part("sample", build, ("native_text",), facts)


@pytest.fixture
def cache(tmp_path: Path):
    previous = native._cache_directory
    native.use_cache(tmp_path / "deep" / "cache")
    yield tmp_path / "deep" / "cache"
    native.use_cache(previous)


def test_a_part_is_compiled_once(cache: Path) -> None:
    calls: list[int] = []
    assert "seven" in load(calls).symbols and "seven" in load(calls).symbols
    assert len(calls) == 1 and len(list(cache.iterdir())) == 1
    load(calls, facts="another layout")
    assert len(calls) == 2 and len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 5000])
def test_a_damaged_entry_is_replaced(cache: Path, damage: bytes) -> None:
    calls: list[int] = []
    load(calls)
    (entry,) = cache.iterdir()
    good = entry.read_bytes()
    entry.write_bytes(damage)
    load(calls)
    assert len(calls) == 2 and entry.read_bytes() == good


def test_a_directory_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    native.use_cache(tmp_path / "file" / "cache")
    try:
        calls: list[int] = []
        load(calls)
        load(calls)
        assert len(calls) == 2
    finally:
        native.use_cache(None)


@pytest.mark.slow
def test_a_warm_start_does_without_llvm(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from quadrants.runtime import native, threads;"
        f"native.use_cache(Path({str(tmp_path)!r})); dict(threads.symbols()); print('llvmlite' in sys.modules)"
    )
    said = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True) for _ in range(2)]
    assert [run.stdout.strip() for run in said] == ["True", "False"], said[0].stderr
