"""Functions that take and give lanes: more vectors than there are registers, wider than those are, masks, for processors
of several kinds. What the host can run is run and compared with the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from quadrants.ir.interpret import interpret
from quadrants.ir.text import parse_module
from quadrants.ir.verify import verify
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.x64 import target

from .conftest import Compiled

pytestmark = pytest.mark.slow

TRIPLE = target.host_machine().triple
OLD = optimise.Machine(TRIPLE, "x86-64", "")
HASWELL = target.machine_of(TRIPLE, "haswell", "+avx2,+fma")
SERVER = target.machine_of(TRIPLE, "icelake-server", "+avx2,+fma,+avx512f,+avx512bw,+avx512dq,+avx512vl")
MACHINES = {"sse2": (OLD, "sse2"), "avx2": (HASWELL, "avx2"), "avx512": (SERVER, "avx512vl")}


def program(count: int, lanes: int) -> str:
    """A kernel that passes `count` vectors of floats, one of doubles, of integers and a mask, and gets as many back."""
    wide, mask = f"lanes<f32, {lanes}>", f"lanes<u1, {lanes}>"
    parameters = ", ".join([f"%p{k}: {wide}" for k in range(count)])
    lines = [
        f"function @f(%a: array<f32, 1, C>, %i: i64, {parameters}, %d: lanes<f64, {lanes}>, %n: lanes<i64, {lanes}>, "
        f"%m: {mask}) -> {', '.join([wide] * count)}, lanes<f64, {lanes}>, lanes<i64, {lanes}>, {mask} {{",
        f"  %own = lane_load %a, %i, %m {{steps = (1,)}} : {wide}",
    ]
    lines += [f"  %r{k} = add %p{k}, %{'own' if k == 0 else f'p{k - 1}'} : {wide}" for k in range(count)]
    lines += [
        f"  %e = add %d, %d : lanes<f64, {lanes}>",
        f"  %o = mul %n, %n : lanes<i64, {lanes}>",
        f"  %q = lt %p0, %p{count - 1} : {mask}",
        f"  %s = bit_and %q, %m : {mask}",
        f"  return {', '.join([f'%r{k}' for k in range(count)])}, %e, %o, %s",
        "}",
        "kernel @k(%a: array<f32, 1, C>, %out: array<f32, 1, C>, %more: array<f64, 1, C>) {",
        "  %0 = constant 0 : i64",
        f"  %on = constant True : {mask}",
    ]
    for k in range(count):
        lines += [
            f"  %at{k} = constant {k * lanes} : i64",
            f"  %v{k} = lane_load %a, %at{k}, %on {{steps = (1,)}} : {wide}",
        ]
    results = ", ".join([f"%w{k}" for k in range(count)])
    types = ", ".join([wide] * count + [f"lanes<f64, {lanes}>", f"lanes<i64, {lanes}>", mask])
    lines += [
        f"  %d = cast %v0 {{type = lanes<f64, {lanes}>}} : lanes<f64, {lanes}>",
        f"  %n = lane_index {{type = lanes<i64, {lanes}>}} : lanes<i64, {lanes}>",
        f"  %half = constant 0.5 : {wide}",
        f"  %m = lt %v0, %half : {mask}",
        f"  {results}, %e, %o, %s = call @f(%a, %at1, {', '.join([f'%v{k}' for k in range(count)])}, %d, %n, %m) : {types}",
    ]
    lines += [f"  lane_store %w{k}, %out, %at{k}, %on {{steps = (1,)}}" for k in range(count)]
    lines += [
        f"  %c = cast %o {{type = lanes<f64, {lanes}>}} : lanes<f64, {lanes}>",
        f"  %t = add %e, %c : lanes<f64, {lanes}>",
        "  lane_store %t, %more, %0, %s {steps = (1,)}",
        "  return",
        "}",
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("count", [3, 9, 27])
def test_lanes_by_value(name: str, lanes: int, count: int) -> None:
    machine, feature = MACHINES[name]
    module = parse_module(f"quadrants-ir 1\nstage lowered\n{program(count, lanes)}")
    verify(module)
    compiled = Compiled(module, machine=machine)
    if feature != "sse2" and f"+{feature}" not in target.host_machine().features.split(","):
        return
    rng = np.random.default_rng(count + lanes)
    a = rng.random(count * lanes, np.float32)
    expected = [a, np.zeros_like(a), np.zeros(lanes)]
    interpret(module, expected)
    found = [a, np.zeros_like(a), np.zeros(lanes)]
    compiled(*found)
    assert compiled.code == 0
    assert np.array_equal(found[1], expected[1]) and np.array_equal(found[2], expected[2])
