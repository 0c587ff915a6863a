"""What machine code the common shapes of loops become on given processors, whatever processor the tests run on."""

from __future__ import annotations

import re

import pytest

from quadrants.ir.text import parse_module
from quadrants.targets.llvm.x64 import target

TRIPLE = "x86_64-unknown-linux-gnu"
HASWELL = target.machine_of(TRIPLE, "haswell", "+avx2,+fma")
ZEN = target.machine_of(TRIPLE, "znver4", "+avx2,+fma,+avx512f,+avx512bw,+avx512dq,+avx512vl")
SERVER = target.machine_of(TRIPLE, "icelake-server", "+avx2,+fma,+avx512f,+avx512bw,+avx512dq,+avx512vl")

# Particles read nodes of a grid: three loads of consecutive words at an index that is data.
GATHER = """quadrants-ir 1
stage lowered
kernel @gather(%to: array<f32, 1, C>, %grid: array<f32, 2, 3, C>, %at: array<i64, 1, C>) {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %2 = constant 2 : i64
  %n = dim %to, 0
  parallel for %i in %0 .. %n {
    %k = load %at[%i]
    %x = load %grid[%k, %0]
    %y = load %grid[%k, %1]
    %z = load %grid[%k, %2]
    %a = mul %x, %y
    %b = add %a, %z
    store %b, %to[%i]
    yield
  }
  return
}
"""
# Lanes whose elements are nine apart, or where data says.
APART = """quadrants-ir 1
stage lowered
kernel @apart(%m: array<f32, 3, 3, 3, C>, %at: array<i64, 1, C>) {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %on = constant True : lanes<u1, 8>
  %a = lane_load %m, %0, %1, %1, %on {steps = (1, 0, 0)} : lanes<f32, 8>
  %k = lane_load %at, %0, %on {steps = (1,)} : lanes<i64, 8>
  %less = constant 0.5 : lanes<f32, 8>
  %some = lt %a, %less : lanes<u1, 8>
  %b = lane_load %m, %k, %0, %1, %some {steps = (0, 0, 0)} : lanes<f32, 8>
  lane_store %b, %m, %0, %1, %0, %some {steps = (1, 0, 0)}
  lane_store %a, %m, %k, %0, %0, %on {steps = (0, 0, 0)}
  return
}
"""
CAST = """quadrants-ir 1
stage lowered
kernel @cast(%to: array<TYPE, 1, C>, %from: array<f32, 1, C>) {
  %0 = constant 0 : i64
  %n = dim %to, 0
  parallel for %i in %0 .. %n {
    %v = load %from[%i]
    %w = cast %v : TYPE
    store %w, %to[%i]
    yield
  }
  return
}
"""


def code(text: str, machine: object) -> str:
    """The assembly of the task of a module's loop."""
    options = target.Options(machine=machine)
    artifact = target.compile_module(parse_module(text), options)
    return target.assembly(artifact, options)


def count(instruction: str, assembly: str) -> int:
    return len(re.findall(rf"^\s+{instruction}\s", assembly, re.MULTILINE))


def test_no_hardware_gathers_where_they_are_slow() -> None:
    assert count("vp?gather[dq][a-z]+", code(GATHER, ZEN)) == 0
    record = target.record(ZEN)
    assert not record.fast_gather and not record.native_scatter
    assert target.record(SERVER).fast_gather and target.record(SERVER).native_scatter


def test_lanes_apart_are_one_instruction_where_that_is_fast() -> None:
    assembly = code(APART, SERVER)
    assert count("vgather[dq]ps", assembly) >= 2
    assert count("vscatter[dq]ps", assembly) >= 2
    for machine in (ZEN, HASWELL):
        assembly = code(APART, machine)
        assert count("vp?gather[dq][a-z]+", assembly) == count("vp?scatter[dq][a-z]+", assembly) == 0


@pytest.mark.parametrize(("type_", "converts"), [("i32", "vcvttps2dq"), ("u8", "vcvttps2(dq|udq)")])
@pytest.mark.parametrize("machine", [HASWELL, ZEN, SERVER], ids=lambda machine: machine.processor)
def test_saturating_casts_are_vector_code(type_: str, converts: str, machine: object) -> None:
    assembly = code(CAST.replace("TYPE", type_), machine)
    assert count(converts, assembly) >= 1
    assert re.search(rf"{converts}\s+[^\n]*%[yz]mm", assembly)
