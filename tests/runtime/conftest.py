"""Tasks in machine code for the tests of the native runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

from quadrants.runtime import native, threads
from quadrants.runtime.loader import Library
from quadrants.runtime.native_text import Module
from quadrants.runtime.threads_parking import cycles

if not native.available():
    collect_ignore_glob = ["*.py"]


def _increment_tasks() -> str:
    """Tasks over a frame { ptr data; i64 shape[1]; i64 strides[1]; ptr targets } of the shapes that loops have."""
    module = Module()
    f = module.function("add_one", "void", "ptr frame", "ptr captures", "i64 begin", "i64 end")
    frame, _, begin, end = f.parameters
    data = f.load("ptr", frame)
    with f.count(end, start=begin) as index:
        f.store("i64", f.load("i64", data, index * 8) + 1, data, index * 8)
    f.give()

    f = module.function("note_chunk", "void", "ptr frame", "ptr captures", "i64 begin", "i64 end")
    frame, captures, begin, end = f.parameters
    chunk = f.load("i64", captures)
    place = begin // chunk * 16
    f.store("i64", begin, f.load("ptr", frame), place)
    f.store("i64", end, f.load("ptr", frame), place + 8)
    f.give()

    f = module.function("note_length", "void", "ptr frame", "ptr captures", "i64 begin", "i64 end")
    frame, _, begin, end = f.parameters
    f.store("i64", end - begin, f.load("ptr", frame), begin * 8)
    f.give()

    f = module.function("nest", "void", "ptr frame", "ptr captures", "i64 begin", "i64 end")
    frame, captures, begin, end = f.parameters
    with f.count(end, start=begin) as index:
        inner = f.stack_bytes(f.constant("i64", 8))
        f.store("ptr", f.offset(f.load("ptr", frame), index * 800), inner)
        f.call("qd_parallel_for", "void", f.external("add_one"), inner, captures, 100, 0, 100_000,
               types="ptr,ptr,ptr,i64,i64,i64")  # fmt: skip
    f.give()

    f = module.function("spin", "void", "ptr frame", "ptr captures", "i64 begin", "i64 end")
    _, captures, begin, end = f.parameters
    with f.count(end, start=begin):
        start = cycles(f)
        with f.loop():
            f.leave_if((cycles(f) - start) > f.load("i64", captures))
    f.give()

    f = module.function("spin_and_add_one", "void", "ptr frame", "ptr captures", "i64 begin", "i64 end")
    for name in ("spin", "add_one"):
        f.call(name, "void", *f.parameters, types="ptr,ptr,i64,i64")
    f.give()
    return module.text()


def _scatter_tasks(element: str, size: int) -> str:
    """`array[target[i]] += 1` in both forms; the frame is { array descriptor of rank 1; ptr targets }."""
    module = Module()
    for name in ("plain", "atomic"):
        f = module.function(name, "void", "ptr frame", "ptr captures", "i64 begin", "i64 end")
        frame, _, begin, end = f.parameters
        data, targets = f.load("ptr", frame), f.load("ptr", frame, 24)
        one = f.constant(element, 1.0 if element in ("float", "double") else 1)
        with f.count(end, start=begin) as index:
            place = f.offset(data, f.load("i64", targets, index * 8) * size)
            if name == "plain":
                f.store(element, f.load(element, place) + one, place)
            else:
                f.update("fadd" if element in ("float", "double") else "add", element, place, one, "monotonic")
        f.give()
    return module.text()


@pytest.fixture(scope="session")
def tasks() -> dict[str, int]:
    return dict(Library(threads.symbols()).load(native.compile_text(_increment_tasks())).symbols)


@pytest.fixture(scope="session")
def scatter_tasks() -> dict[str, dict[str, int]]:
    found = {}
    for element, size in (("float", 4), ("double", 8), ("i32", 4), ("i64", 8)):
        found[element] = dict(Library().load(native.compile_text(_scatter_tasks(element, size))).symbols)
    return found


@pytest.fixture(scope="session")
def parallel_for() -> Any:
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    prototype = ctypes.PYFUNCTYPE(None, pointer, pointer, pointer, integer, integer, integer)
    return prototype(threads.symbols()["qd_parallel_for"])


@pytest.fixture
def four_threads() -> Iterator[None]:
    threads.set_count(4)
    yield
    threads.set_count(None)
