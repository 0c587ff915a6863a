"""Masks of lanes in machine code, on processors with registers for them and without."""

from __future__ import annotations

import re

import pytest

from quadrants import knobs
from quadrants.ir.text import parse_module
from quadrants.passes import vectorise
from quadrants.passes.context import PassContext
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.x64 import target

TRIPLE = "x86_64-unknown-linux-gnu"
HASWELL = target.machine_of(TRIPLE, "haswell", "+avx2,+fma")
ZEN3 = target.machine_of(TRIPLE, "znver3", "+avx2,+fma")
SERVER = target.machine_of(TRIPLE, "icelake-server", "+avx2,+fma,+avx512f,+avx512bw,+avx512dq,+avx512vl")

# Iterations leave one by one, one of the conditions being the same for all.
ESCAPE = """quadrants-ir 1
stage lowered
kernel @escape(%x: array<f32, 1, C>, %n: i64, %most: i64) {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %2 = constant 2.0 : f32
  parallel for %i in %0 .. %n {
    %b = load %x[%i] : f32
    %k.2, %s = while carry (%k = %0, %v = %b) : i64, f32 {
      %c = lt %v, %2 : u1
      %d = lt %k, %most : u1
      %e = bit_and %c, %d : u1
      yield %e
    } do (%k.1, %v.1) {
      %w = mul %v.1, %v.1 : f32
      %p = lt %w, %b : u1
      %q = if %p : f32 {
        %r = add %w, %b : f32
        yield %r
      } else {
        %t = sub %w, %b : f32
        yield %t
      }
      %l = add %k.1, %1 : i64
      yield %l, %q
    }
    store %s, %x[%i]
  }
}
"""


def code(machine: optimise.Machine, lanes: int, text: str = ESCAPE) -> str:
    module = parse_module(text)
    vectorise.run(module, PassContext(knobs.Options(lanes=lanes)))
    options = target.Options(machine=machine)
    return target.assembly(target.compile_module(module, options), options)


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("machine", [HASWELL, ZEN3], ids=lambda machine: machine.processor)
def test_masks_are_neither_packed_nor_unpacked(machine: optimise.Machine, lanes: int) -> None:
    assembly = code(machine, lanes)
    assert re.search(r"vblendvps\s[^\n]*%ymm", assembly)
    assert re.search(r"v(test|movmsk)ps\s[^\n]*%ymm", assembly)
    assert not re.findall(r"\s(vpack\w+|vpmov[sz]x\w+)\s", assembly)


def test_mask_registers_are_used_where_there_are_some() -> None:
    assert target.record(SERVER).mask_registers
    assert not target.record(ZEN3).mask_registers
    assert re.search(r"%k[1-7]", code(SERVER, 8))


# What some lanes write to private memory.
BLEND = """quadrants-ir 1
stage lowered
kernel @blend(%x: array<f32, 1, C>, %n: i64) {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %2 = constant 2.0 : f32
  %9 = constant 9 : i64
  parallel for %i in %0 .. %n {
    %m = slot matrix<f32, 9>
    store %2, %m[%0]
    %b = load %x[%i] : f32
    for %k in %1 .. %9 {
      %j = sub %k, %1 : i64
      %o = load %m[%j] : f32
      %p = mul %o, %b : f32
      store %2, %m[%k]
      %c = lt %p, %b : u1
      if %c {
        store %p, %m[%k]
      }
    }
    %s = for %k.1 in %0 .. %9 carry (%t = %2) : f32 {
      %u = load %m[%k.1] : f32
      %v = mul %t, %u : f32
      yield %v
    }
    store %s, %x[%i]
  }
}
"""


@pytest.mark.parametrize("machine", [HASWELL, ZEN3, SERVER], ids=lambda machine: machine.processor)
def test_private_memory_is_written_whole(machine: optimise.Machine) -> None:
    assembly = code(machine, 8, BLEND)
    assert re.search(r"vblend(v|m)ps\s[^\n]*%ymm", assembly)
    assert not re.findall(r"vmaskmovps\s.*\)$|,\s[^,]*\(.*\)\s\{%k\d\}$", assembly, re.MULTILINE)
