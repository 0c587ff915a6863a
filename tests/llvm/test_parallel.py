"""Parallel loops as machine code: tasks, captures, reductions, scatters, and what their assembly must look like."""

from __future__ import annotations

import re

import numpy as np
import pytest

from quadrants.runtime import threads

pytestmark = pytest.mark.slow


@pytest.fixture(params=[1, 3])
def thread_count(request):
    threads.set_count(request.param)
    yield request.param
    threads.set_count(None)


SAXPY = """
kernel @saxpy(%y: array<f32, 1, C>, %a: f32, %x: array<f32, 1, C>) {
  %0 = constant 0 : i64
  %n = dim %y, 0
  parallel for %i in %0 .. %n {cost = 50} {
    %1 = load %x[%i]
    %2 = mul %a, %1 {contract = True}
    %3 = load %y[%i]
    %4 = add %2, %3
    store %4, %y[%i]
  }
}
"""


def test_saxpy(agrees, thread_count) -> None:
    rng = np.random.default_rng(0)
    for n in (0, 1, 7, 5_003):
        x, y = rng.normal(size=(2, n)).astype(np.float32)
        agrees(SAXPY, y, 0.5, x)
    strided = SAXPY.replace("C>", "A>")
    agrees(strided, np.ones((9, 2), np.float32)[:, 1], 2, np.arange(18, dtype=np.float32)[::-2])


JACOBI = """
kernel @jacobi(%out: array<f32, 2, C>, %in: array<f32, 2, C>) {
  %1 = constant 1 : i64
  %n0 = dim %in, 0
  %m0 = dim %in, 1
  %n = sub %n0, %1
  %m = sub %m0, %1
  %quarter = constant 0.25 : f32
  parallel for %i, %j in %1 .. %n, %1 .. %m {cost = 100} {
    %up = sub %i, %1
    %down = add %i, %1
    %left = sub %j, %1
    %right = add %j, %1
    %a = load %in[%up, %j]
    %b = load %in[%down, %j]
    %c = load %in[%i, %left]
    %d = load %in[%i, %right]
    %e = add %a, %b
    %f = add %c, %d
    %g = add %e, %f
    %h = mul %g, %quarter
    store %h, %out[%i, %j]
  }
}
"""
STENCIL = """
kernel @stencil(%out: array<f32, 3, C>, %in: array<f32, 3, C>, %low: i64) {
  %1 = constant 1 : i64
  %n0 = dim %in, 0
  %m0 = dim %in, 1
  %l0 = dim %in, 2
  %n = sub %n0, %1
  %m = sub %m0, %1
  %l = sub %l0, %1
  parallel for %i, %j, %k in %1 .. %n, %low .. %m, %1 .. %l {cost = 100} {
    %a = sub %i, %1
    %b = add %i, %1
    %c = sub %j, %1
    %d = add %j, %1
    %e = sub %k, %1
    %f = add %k, %1
    %v0 = load %in[%a, %j, %k]
    %v1 = load %in[%b, %j, %k]
    %v2 = load %in[%i, %c, %k]
    %v3 = load %in[%i, %d, %k]
    %v4 = load %in[%i, %j, %e]
    %v5 = load %in[%i, %j, %f]
    %s1 = add %v0, %v1
    %s2 = add %v2, %v3
    %s3 = add %v4, %v5
    %s4 = add %s1, %s2
    %s5 = add %s4, %s3
    store %s5, %out[%i, %j, %k]
  }
}
"""


def test_stencils(agrees, thread_count) -> None:
    rng = np.random.default_rng(0)
    for shape in ((40, 70), (3, 3), (2, 9)):
        agrees(JACOBI, np.zeros(shape, np.float32), rng.normal(size=shape).astype(np.float32))
        agrees(JACOBI.replace("C>", "A>"), *rng.normal(size=(2, *shape[::-1])).astype(np.float32).transpose(0, 2, 1))
    for shape in ((9, 8, 70), (3, 3, 3), (5, 2, 9)):
        for low in (1, 2):
            agrees(STENCIL, np.zeros(shape, np.float32), rng.normal(size=shape).astype(np.float32), low)


FOUR = """
kernel @four(%out: array<i64, 4, C>, %s: i64) {
  %0 = constant 0 : i64
  %a = dim %out, 0
  %b = dim %out, 1
  %c = dim %out, 2
  %d = dim %out, 3
  parallel for %i, %j, %k, %l in %0 .. %a, %0 .. %b, %s .. %c, %0 .. %d {cost = 5000} {
    %t = mul %i, %s
    %u = add %t, %j
    %v = mul %u, %s
    %w = add %v, %k
    %x = mul %w, %s
    %y = add %x, %l
    store %y, %out[%i, %j, %k, %l]
  }
}
"""


def test_four_dimensions(agrees, thread_count) -> None:
    agrees(FOUR, np.zeros((3, 4, 17, 6), np.int64), 10)
    agrees(FOUR, np.zeros((3, 4, 10, 6), np.int64), 10)
    agrees(FOUR, np.zeros((3, 0, 15, 6), np.int64), 10)


CAPTURES = """
kernel @k(%x: array<f64, 1, C>, %n: i32, %h: f16) -> f64 {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %2 = constant 2 : i64
  %s = slot matrix<f64, 2>
  %f = cast %n : f64
  %g = cast %h : f64
  store %f, %s[%0]
  store %g, %s[%1]
  %positive = gt %f, %g
  %b = cast %h : bf16
  %count = dim %x, 0
  for %round in %0 .. %2 {
    %add = cast %round : f64
    parallel for %i in %round .. %count {cost = 1000} {
      %r = bit_and %i, %1
      %v = load %s[%r]
      %w = select %positive, %v, %add
      %c = cast %b : f64
      %y = add %w, %c
      %old = load %x[%i]
      %z = add %old, %y
      %zz = add %z, %add
      store %zz, %x[%i]
    }
  }
  %last = load %x[%1]
  return %last
}
"""


def test_captures(agrees, thread_count) -> None:
    agrees(CAPTURES, np.arange(50, dtype=np.float64), 5, 0.25)
    agrees(CAPTURES, np.arange(50, dtype=np.float64), -5, 0.25)


def reduction(dtype: str, kind: str, rank: int = 1, chunk: int = 8) -> str:
    combine = f"%c = {kind} %a, %v" + (" {reassociate = True}" if dtype[0] == "f" and kind in ("add", "mul") else "")
    counters = ("%i", "%i, %j", "%i, %j, %k")[rank - 1]
    ranges = ", ".join(f"%0 .. %n{axis}" for axis in range(rank))
    sizes = "\n".join(f"  %n{axis} = dim %x, {axis}" for axis in range(rank))
    return f"""
kernel @k(%x: array<{dtype}, {rank}, C>, %start: {dtype}) -> {dtype} {{
  %0 = constant 0 : i64
{sizes}
  %s = parallel for {counters} in {ranges} carry (%a = %start) {{chunk = {chunk}, reductions = ("{kind}",)}} : {dtype} {{
    %v = load %x[{counters}]
    {combine}
    yield %c
  }}
  return %s
}}
"""


@pytest.mark.parametrize("dtype", ["i32", "u8", "i64", "f16", "bf16", "f32", "f64", "u1"])
def test_reductions(agrees, thread_count, dtype: str) -> None:
    rng = np.random.default_rng(0)
    kinds = ["bit_and", "bit_or", "bit_xor"] if dtype[0] in "iu" else []
    kinds += ["add", "mul", "min", "max"] if dtype != "u1" else []
    for kind in kinds:
        for rank, shape in ((1, (1003,)), (1, (0,)), (2, (19, 13)), (3, (5, 7, 9))):
            x = rng.integers(1, 3, shape)
            values = {"u1": x > 1, "bf16": np.full(shape, 0x3F80, np.uint16)}.get(dtype)
            if values is None:
                values = x.astype({"i": f"i{int(dtype[1:]) // 8}", "u": "u1", "f": f"f{int(dtype[1:]) // 8}"}[dtype[0]])
            if kind == "mul" and dtype == "f16":
                values[:] = 1
            rtol = {"f16": 2e-3, "bf16": 0.02}.get(dtype, 1e-6)
            agrees(reduction(dtype, kind, rank), values, 1, rtol=rtol)


def test_f32_sums_are_precise(compiled, thread_count) -> None:
    x = np.random.default_rng(0).random(3_000_001, dtype=np.float32)
    kernel = compiled(reduction("f32", "add", chunk=8192))
    (total,) = kernel(x, 0)
    exact = x.astype(np.float64).sum()
    assert abs(total - exact) < 1e-7 * exact + np.spacing(np.float32(exact)) / 2
    assert kernel(x, 0)[0] == total


SCATTER = """
kernel @k(%h: array<{dtype}, 1, C>, %index: array<i64, 1, C>, %w: array<{dtype}, 1, C>) {
  %0 = constant 0 : i64
  %n = dim %index, 0
  parallel for %i in %0 .. %n {cost = 50, scatter = True} {
    %b = load %index[%i]
    %v = load %w[%i]
    %old = update add %v, %h[%b]
  }
}
"""


@pytest.mark.parametrize("dtype, kind", [("f32", "f4"), ("f64", "f8"), ("i32", "i4"), ("u64", "u8"), ("u8", "u1")])
def test_scatters(agrees, thread_count, dtype: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    for bins in (16, 100_000):
        index = rng.integers(0, bins, 4_000)
        weights = rng.integers(0, 2, 4_000).astype(kind)
        agrees(SCATTER.replace("{dtype}", dtype), np.zeros(bins, kind), index, weights)


def test_scatters_are_told_apart(compiled) -> None:
    text = SCATTER.replace("{dtype}", "f32")
    assert "qd_parallel_scatter" in compiled(text).artifact.externals
    touched = text.replace("%v = load %w[%i]", "%v = load %h[%i]")
    used = text.replace("%old = update add %v, %h[%b]", "%old = update add %v, %h[%b]\n    store %old, %w[%i]")
    for other in (touched, used, text.replace("update add", "update max"), text.replace(", scatter = True", "")):
        assert "qd_parallel_for" in compiled(other).artifact.externals


# Assembly.


def functions(assembly: str) -> dict[str, str]:
    """The lines of each function of an assembly."""
    found = re.findall(r"^([^.\s]\S*):\n(.*?)^\.Lfunc_end", assembly, re.M | re.S)
    return dict(found)


def task_of(kernel) -> str:
    (body,) = [body for name, body in functions(kernel.assembly()).items() if name.startswith("task")]
    return body


def loop_bodies(body: str) -> str:
    """What stands between a label and a jump back to it."""
    lines = body.splitlines()
    at = {line[:-1]: k for k, line in enumerate(lines) if line.endswith(":")}
    inside = set()
    for k, line in enumerate(lines):
        found = re.match(r"\s+j\w+\s+(\S+)", line)
        if found and at.get(found[1], k) < k:
            inside.update(range(at[found[1]], k))
    return "\n".join(lines[k] for k in sorted(inside))


def test_saxpy_is_packed(compiled) -> None:
    body = task_of(compiled(SAXPY))
    assert re.search(r"vfm\w+ps\s.*%[yz]mm", body)
    assert "idiv" not in body


def test_stencils_are_packed_and_do_not_divide(compiled) -> None:
    for text in (JACOBI, STENCIL):
        body = task_of(compiled(text))
        assert re.search(r"vaddps\s.*%[yz]mm", body)
        assert not re.search(r"div[qlw]?\s", loop_bodies(body))


def test_reductions_are_packed_and_free_of_atomics(compiled) -> None:
    for kind, instruction in (("add", "vaddps"), ("min", "vminps"), ("max", "vmaxps")):
        kernel = compiled(reduction("f32", kind, chunk=8192))
        assert re.search(instruction + r"\s.*%[yz]mm", task_of(kernel)), kind
        assert not re.search(r"\block\b|xchg", kernel.assembly())


def test_serial_code_needs_no_atomics(compiled) -> None:
    text = """
    kernel @k(%x: array<i32, 1, C>, %v: i32) {
      %0 = constant 0 : i64
      %old = update add %v, %x[%0]
    }"""
    assert "lock" not in compiled(text).assembly()
    assert "lock" in compiled(SCATTER.replace("{dtype}", "i32")).assembly()
