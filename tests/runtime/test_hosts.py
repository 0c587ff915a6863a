"""The runtime's own code for every host of the table: what can be shown of machines that are not at hand."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
import time
from typing import Any

import numpy as np
import pytest

from quadrants.records import replace
from quadrants.runtime import (
    launch,
    launch_native,
    launch_probe,
    native,
    native_text,
    threads_native,
    threads_scatter,
    threads_services,
)
from quadrants.runtime.loader import Library, LoadedObject
from quadrants.runtime.relocations import MACHINES
from quadrants.runtime.threads_state import POOL, PoolState
from quadrants.targets import hosts
from quadrants.targets.hosts import APPLE, HOSTS, LINUX_ARM64, Host

from .test_threads import HEAVY, run

_OURS = re.compile(r"qd_|Py|_Py")
_APPLES = {  # functions of Apple's C library, by its manual
    "aligned_alloc", "clock_gettime", "free", "memcpy", "memset", "pthread_attr_destroy", "pthread_attr_init",
    "pthread_attr_setdetachstate", "pthread_attr_setstacksize", "pthread_cond_init", "pthread_cond_signal",
    "pthread_cond_wait", "pthread_create", "pthread_mutex_init", "pthread_mutex_lock", "pthread_mutex_unlock",
    "pthread_self", "pthread_sigmask", "realloc", "sigdelset", "sigfillset",
}  # fmt: skip


@pytest.mark.parametrize(
    ("system", "machine", "row"),
    [
        ("linux", "x86_64", hosts.LINUX_X64),
        ("linux", "aarch64", LINUX_ARM64),
        ("darwin", "arm64", APPLE),
        ("darwin", "x86_64", None),
        ("win32", "AMD64", None),
        ("linux", "riscv64", None),
    ],
)
def test_the_row_of_a_machine(system: str, machine: str, row: Host | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert hosts.host.__wrapped__() is row


def texts(host: Host) -> dict[str, str]:
    """The parts of the runtime as LLVM texts for a host."""
    found: dict[str, str] = {}
    for name, builders in (
        ("threads", (threads_native.build, threads_services.build)),
        ("scatter", (threads_scatter.build,)),
        ("launch", (_build_launcher,)),
    ):
        module = native_text.Module(host)
        for build in builders:
            build(module)
        found[name] = module.text()
    return found


def _build_launcher(module: native_text.Module) -> None:
    facts = launch_probe.facts()
    assert facts is not None
    launch_native.build(module, facts)


@pytest.mark.parametrize("host", HOSTS, ids=str)
def test_the_runtime_loads(host: Host) -> None:
    """What it wants is there, and the loader knows all relocations."""
    library = Library(dict.fromkeys(["qd_numpy_array", *launch.METHOD_NAMES], 8), MACHINES[host.arch])
    for name, text in texts(host).items():
        assert library.load(native.compile_text(text, name == "launch", host)).symbols, name


def test_the_register_that_is_apples_is_left_alone() -> None:
    """x18; on Linux it is one as any other."""
    wanted = re.compile(r"\b[xw]18\b")
    assert not any(wanted.search(assembly(text, APPLE)) for text in texts(APPLE).values())
    assert any(wanted.search(assembly(text, LINUX_ARM64)) for text in texts(LINUX_ARM64).values())


def assembly(text: str, host: Host) -> str:
    """The code that `native.compile_text` makes an object of, to be read."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.processor, opt=host.code_level, reloc="pic", codemodel="small"
    )
    return machine.emit_assembly(llvm.parse_assembly(text))


def test_apple_has_all_that_the_runtime_calls() -> None:
    """No function of Linux alone."""
    for text in texts(APPLE).values():
        declared = re.findall(r"^declare \S+ @([\w.]+)\(", text, re.MULTILINE)
        wanted = {name for name in declared if not _OURS.match(name) and not name.startswith("llvm.")}
        assert wanted and wanted <= _APPLES


def test_variadic_functions_get_their_arguments_where_the_system_looks() -> None:
    """On the stack for Apple, in registers for Linux."""
    call = (
        'target triple = "{}"\ndeclare i32 @printf(ptr, ...)\ndefine i32 @f(ptr %text, i64 %n) nounwind {{\n'
        "  %r = call i32 (ptr, ...) @printf(ptr %text, i64 %n)\n  ret i32 %r\n}}"
    )
    on_stack = r"str\s+x1, \[sp\]"
    assert re.search(on_stack, assembly(call.format(APPLE.triple), APPLE))
    assert not re.search(on_stack, assembly(call.format(LINUX_ARM64.triple), LINUX_ARM64))


class Pool:
    """A pool of its own, beside the process's, that parks as a host does."""

    def __init__(self, host: Host) -> None:
        self.loaded: LoadedObject = Library().load(native.compile_text(texts(host)["threads"], host=host))
        ctypes.PYFUNCTYPE(None)(self.loaded.address("qd_prepare"))()
        self.state = PoolState.from_address(self.loaded.address(POOL))
        self.state.thread_count = 4
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        prototype = ctypes.PYFUNCTYPE(None, pointer, pointer, pointer, integer, integer, integer)
        self.parallel_for: Any = prototype(self.loaded.address("qd_parallel_for"))


@pytest.fixture(scope="module", params=["on the word", "on a condition"])
def pool(request: pytest.FixtureRequest) -> Pool:
    host = hosts.host()
    assert host is not None
    return Pool(host if request.param == "on the word" else replace(host, futex=-1))


def test_parked_workers_come_when_they_are_called(pool: Pool, tasks: dict[str, int]) -> None:
    array, cycles = np.zeros(1000, np.int64), ctypes.c_int64(30_000)
    for k in range(100):
        run(pool.parallel_for, tasks["add_one"], array, 1000, 0, HEAVY)
        if k % 5 == 0:
            time.sleep(0.001)  # longer than they spin
            pool.parallel_for(tasks["spin"], 0, ctypes.addressof(cycles), 100, 0, 10_000)
    assert (array == 100).all()
    assert pool.state.started == 3 and pool.state.seats_taken > 0 and pool.state.wakes > 0
    deadline = time.monotonic() + 20
    while pool.state.sleepers != 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert pool.state.sleepers == 3


@pytest.mark.slow
def test_who_waits_for_a_long_task_is_woken(pool: Pool, tasks: dict[str, int]) -> None:
    """The caller's own share is done long before a worker's."""
    pool.state.thread_count = 2
    cycles, parked = ctypes.c_int64(20_000_000), 0
    for _ in range(20):
        pool.parallel_for(tasks["spin"], 0, ctypes.addressof(cycles), 3, 1, HEAVY)
        parked += pool.state.waiting
    pool.state.thread_count = 4
    assert parked > 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_free_locks(pool: Pool, tasks: dict[str, int]) -> None:
    array = np.zeros(1000, np.int64)
    run(pool.parallel_for, tasks["add_one"], array, 1000, 0, HEAVY)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ctypes.PYFUNCTYPE(None)(pool.loaded.address("qd_fork_child"))()
            run(pool.parallel_for, tasks["add_one"], array, 1000, 0, HEAVY)
            status = 0 if pool.state.started == 3 and (array == 2).all() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
