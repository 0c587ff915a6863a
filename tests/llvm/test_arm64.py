"""Arm64's surface: record, assembly, the process that runs its code."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsRuntimeError
from quadrants.ir.text import parse_module
from quadrants.ir.types import f32, f64
from quadrants.passes import mark_vectors
from quadrants.passes.context import PassContext
from quadrants.runtime.loader import Library
from quadrants.runtime.relocations import ARM64
from quadrants.targets import hosts, table
from quadrants.targets.llvm.arm64 import beside, process, target

from .test_x64 import SUM

_MISSING = table.missing(knobs.Arch.arm64)
emulated = [pytest.mark.slow, pytest.mark.skipif(bool(_MISSING), reason=_MISSING)]


def test_record() -> None:
    record = target.record()
    assert record.name == "arm64" and record.lanes(f32) == 4 and record.lanes(f64) == 2
    assert not record.mask_registers and not record.fast_gather and record.calls_c
    assert not beside.record().calls_c
    assert target.record(target.machine_of("apple-m1")).version != record.version


@pytest.mark.parametrize("processor", ["generic", "apple-m1", "neoverse-v1"])
def test_objects_for_other_processors(processor: str) -> None:
    options = target.Options(machine=target.machine_of(processor))
    artifact = target.compile_module(parse_module(SUM), options)
    assert artifact.externals == ("qd_allocate", "qd_fail", "qd_parallel_for", "qd_release")
    assert artifact.objects[-1][1][18:20] == (183).to_bytes(2, "little")  # ELF's number of the machine
    assert re.search(r"\bf?madd\b|fmla", target.assembly(artifact, options))


LANES = """quadrants-ir 1
stage lowered
kernel @saxpy(%y: array<f32, 1, C>, %a: f32, %x: array<f32, 1, C>) {
  %0 = constant 0 : i64
  %n = dim %x, 0
  %on = constant True : lanes<u1, 4>
  %s = broadcast %a {type = lanes<f32, 4>} : lanes<f32, 4>
  %x4 = lane_load %x, %0, %on {steps = (1,)} : lanes<f32, 4>
  %y4 = lane_load %y, %0, %on {steps = (1,)} : lanes<f32, 4>
  %p = mul %s, %x4 {contract = True} : lanes<f32, 4>
  %r = add %p, %y4 {contract = True} : lanes<f32, 4>
  lane_store %r, %y, %0, %on {steps = (1,)}
  return
}
"""


def test_lanes_are_registers_of_neon() -> None:
    assembly = target.assembly(target.compile_module(parse_module(LANES)))
    assert re.search(r"fmla\s+v\d+\.4s", assembly)


LOOPS = """quadrants-ir 1
stage lowered
kernel @saxpy(%y: array<f32, 1, C>, %a: f32, %x: array<f32, 1, C>, %n: i64) {
  %0 = constant 0 : i64
  parallel for %i in %0 .. %n {
    %v = load %x[%i]
    %w = load %y[%i]
    %p = mul %a, %v {contract = True}
    %s = add %p, %w {contract = True}
    store %s, %y[%i]
  }
  return
}
"""

BYTES = """quadrants-ir 1
stage lowered
kernel @largest(%x: array<u8, 1, C>, %n: i64) -> f32 {
  %0 = constant 0 : i64
  %f = constant 0.0 : f32
  %m = parallel for %i in %0 .. %n carry (%a = %f) {chunk = 512, reductions = ("max",)} : f32 {
    %b = load %x[%i] : u8
    %c = cast %b : f32
    %d = max %a, %c
    yield %d
  }
  return %m
}
"""


@pytest.mark.parametrize("processor", ["generic", "apple-m1", "neoverse-v1", "neoverse-v2"])
def test_marked_loops_run_in_registers_of_neon(processor: str, capfd: Any) -> None:
    """On processors with SVE, too, and LLVM has nothing to remark there."""
    options = target.Options(machine=target.machine_of(processor))
    for text, instruction in ((LOOPS, r"fmla\s+v\d+\.4s"), (BYTES, r"fmaxnm\s+v\d+\.4s")):
        module = parse_module(text)
        mark_vectors.run(module, PassContext(record=target.record(options.machine)))
        assert re.search(instruction, target.assembly(target.compile_module(module, options), options))
    assert capfd.readouterr().err == ""


def test_loops_that_are_not_marked_are_left_alone() -> None:
    """LLVM's models of costs differ on such a loop, and it ends the process where it decides by itself."""
    assert not re.search(r"\.4s", target.assembly(target.compile_module(parse_module(BYTES))))


def wide(count: int) -> str:
    """A kernel that needs more numbers at once than there are registers."""
    names = [f"%a{k}" for k in range(count)]
    lines = [f"  %s{k + 1} = add %{'s' if k else 'a'}{k}, {name}" for k, name in enumerate(names[1:])]
    last = f"%s{count - 1}"
    lines += [f"  %x{k} = bit_xor {name}, {last}" for k, name in enumerate(names)]
    lines += [f"  %p{k + 1} = mul %{'p' if k else 'x'}{k}, %x{k + 1}" for k in range(count - 1)]
    parameters = ", ".join(f"{name}: i64" for name in names)
    body = "\n".join(lines)
    return f"quadrants-ir 1\nstage lowered\nkernel @wide({parameters}) -> i64 {{\n{body}\n  return %p{count - 1}\n}}\n"


def test_the_register_that_is_apples_is_left_alone() -> None:
    """x18; on Linux it is one as any other. Objects are ELF's for both, and the loader knows what is in them."""
    found = {}
    for triple in (hosts.APPLE.triple, hosts.LINUX_ARM64.triple):
        options = target.Options(machine=target.machine_of("apple-m1", triple=triple))
        for text in (wide(40), SUM, LANES, LOOPS):
            artifact = target.compile_module(parse_module(text), options)
            library = Library(dict.fromkeys(artifact.externals, 1 << 20), ARM64)
            assert artifact.entry in library.load(artifact.objects[-1][1]).symbols
            uses = re.search(r"\b[xw]18\b", target.assembly(artifact, options)) is not None
            found[triple] = found.get(triple, False) or uses
    assert found == {hosts.APPLE.triple: False, hosts.LINUX_ARM64.triple: True}


@pytest.fixture
def arm64() -> Any:
    """A program for Arm64."""
    yield qd.init(arch="arm64", default_ip=qd.i64, default_fp=qd.f64, log_level=qd.ERROR)
    qd.reset()


class TestExecuted:
    """Kernels in the process beside."""

    pytestmark = emulated

    def test_prints_checks_and_random_numbers(self, arm64: Any, capfd: Any) -> None:
        @qd.kernel
        def k(x, n):
            for i in range(1):
                print("n is", n)
            assert n < 3, f"n is {n}"
            x[0] = qd.random()

        x = np.zeros(2)
        k(x, 2)
        assert 0 < x[0] < 1
        assert "n is 2" in capfd.readouterr().out

    def test_results_are_those_of_any_number_of_threads(self) -> None:
        @qd.kernel
        def k(x, y, counts):
            for i in range(len(x)):
                y[i] = x[i] * 2
            for i in range(len(x)):
                counts[i % 7] += 1
            total = 0.0
            for i in range(len(x)):
                total += x[i]
            return total

        x = np.random.default_rng(0).random(200_003)
        found = []
        for threads in (1, 4):
            qd.init(arch="arm64", default_ip=qd.i64, default_fp=qd.f64, cpu_max_num_threads=threads, log_level=qd.ERROR)
            y, counts = np.zeros_like(x), np.zeros(7, np.int64)
            found.append(k(x, y, counts))
            assert (y == 2 * x).all() and counts.sum() == len(x)
        qd.reset()
        assert found[0] == found[1] and abs(found[0] - x.sum()) < 1e-6

    def test_long_sums_are_accurate(self, arm64: Any) -> None:
        """As everywhere, though vectors are shorter: right to 1e-6 even if all numbers are equal."""

        @qd.kernel
        def total(x):
            s = qd.f32(0)
            for i in range(len(x)):
                s += x[i]
            return s

        count = 1 << 22
        assert total(np.full(count, 0.1, np.float32)) == pytest.approx(count * float(np.float32(0.1)), rel=1e-6)

    def test_a_broken_process_is_told_and_replaced(self, arm64: Any) -> None:
        def down(n):
            return 1 + down(n + 1) * (n % 3) if n >= 0 else 0

        @qd.kernel
        def broken(x):
            x[0] = down(x[0])

        @qd.kernel
        def whole(x):
            for i in range(len(x)):
                x[i] += 1

        x = np.zeros(3, np.int64)
        whole(x)
        with pytest.raises(QuadrantsRuntimeError, match="the process that runs Arm64 code ended with SIGSEGV"):
            broken(x)
        whole(x)
        assert x.tolist() == [2, 2, 2]

    def test_overlapping_views_overlap_there_too(self, arm64: Any) -> None:
        @qd.kernel
        def shift(a, b):
            qd.loop_config(serialize=True)
            for i in range(len(a)):
                a[i] = b[i] + 1

        x = np.arange(50.0)
        expected = x.copy()
        for i in range(49):
            expected[1 + i] = expected[i] + 1
        shift(x[1:], x[:-1])
        assert (x == expected).all()
        x = np.arange(20.0)
        shift(x[9::-1], x[10:])
        assert (x[:10] == np.arange(20.0)[10:][::-1] + 1).all()

    def test_an_answer_that_is_cut_short_is_not_taken_for_the_next_one(
        self, arm64: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @qd.kernel
        def grow(x):
            for i in range(len(x)):
                x[i] += 1

        def without_memory(_: Any, size: int) -> bytes:
            raise MemoryError

        x = np.zeros(3, np.int64)
        grow(x)
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(process._Process, "_bytes", without_memory)
            grow(x)
        x[:] = 10
        grow(x)
        assert x.tolist() == [11, 11, 11]

    def test_a_forked_child_has_a_process_of_its_own(self, arm64: Any) -> None:
        @qd.kernel
        def double(x):
            for i in range(len(x)):
                x[i] *= 2

        x = np.ones(4)
        double(x)
        child = os.fork()
        if child == 0:
            double(x)
            os._exit(0 if (x == 4).all() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        double(x)
        assert (x == 4).all()
