"""Dependences that are certain: distances, directions, remainders, conditions on the counter, and calls; and what looks
like one but is not."""

from __future__ import annotations

import pytest
from tests.passes_parallel.programs import classify

from quadrants.ir.nodes import walk
from quadrants.ir.text import parse_module
from quadrants.ir.verify import verify
from quadrants.passes import parallelise
from quadrants.passes.context import PassContext

# `STORE` writes a[%f], `LOAD` reads a[%g]; bounds and indices are filled in.
LOOP = """
%low = constant LOW : i64
%cut = constant CUT : i64
%high = sub %n, %cut
for %i in %low .. %high {
  %df = constant DF : i64
  %dg = constant DG : i64
  %f = add %i, %df
  %g = add %i, %dg
  %v = load %READ[%g]
  WRITE
}"""
WRITES = {
    "store": "store %v, %a[%f]",
    "add": "%old = update add %v, %a[%f]",
    "min": "%old = update min %v, %a[%f]",
    "mul": "%old = update mul %v, %a[%f]",
}


def loop(low: int, cut: int, stored: int, loaded: int, write: str, read: str = "a") -> str:
    text = LOOP.replace("LOW", str(low)).replace("CUT", str(cut)).replace("DF", str(stored))
    return text.replace("DG", str(loaded)).replace("WRITE", WRITES[write]).replace("READ", read)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    "low, cut, stored, loaded",
    [(5, 5, 3, 0), (0, 1, 1, 0), (3, 0, 0, -3), (20, 20, 20, -20), (0, 9, 0, 9), (7, 7, -7, 7), (0, 1000, 1000, 0)],
)
def test_distances(low: int, cut: int, stored: int, loaded: int, write: str) -> None:
    assert classify(loop(low, cut, stored, loaded, write))[0] == "s"
    assert classify(loop(low, cut, loaded, loaded, write))[0] == "p"
    assert classify(loop(low, cut, stored, loaded, write, read="b"))[0] == "p"


CERTAIN = {
    "a first iteration that is not known": """
for %i in %k .. %n {
  %j = add %i, %o1
  %v = load %a[%i]
  store %v, %a[%j]
}""",
    "a condition on the counter": """
for %i in %o0 .. %n {
  %q = gt %i, %o3
  if %q {
    %j = sub %i, %o2
    %v = load %a[%j]
    store %v, %a[%i]
  }
}""",
    "continue on the counter": """
for %i in %o0 .. %n {
  %q = lt %i, %o3
  if %q {
    continue
  } else {
    yield
  }
  %j = sub %i, %o2
  %v = load %a[%j]
  store %v, %a[%i]
}""",
    "one element stored by pairs of iterations": """
for %i in %o0 .. %n {
  %j = floordiv %i, %o2
  store %x, %a[%j]
}""",
    "every fourth element": """
for %i in %o0 .. %n {
  %j = mod %i, %o4
  store %x, %a[%j]
}""",
    "the nearest of two": """
for %i in %o0 .. %n {
  %j = sub %i, %o1
  %g = max %j, %o0
  %v = load %a[%g]
  store %v, %a[%i]
}""",
    "stored whatever the condition": """
for %i in %o0 .. %n {
  %v = load %b[%i]
  %q = gt %v, %x
  if %q {
    store %v, %a[%o0]
  } else {
    store %x, %a[%o0]
  }
}""",
    "strides that meet": """
for %i in %o0 .. %n {
  %e = mul %i, %o2
  %f = mul %i, %o3
  %v = load %a[%e]
  store %v, %a[%f]
}""",
    "an element far behind": """
for %i in %o0 .. %n {
  %v = load %a[%o1000]
  store %v, %a[%i]
}""",
    "a diagonal of an inner loop": """
for %i in %o0 .. %n {
  for %j in %o0 .. %m {
    %s = add %i, %j
    %v = load %b[%j]
    store %v, %a[%s]
  }
}""",
    "a triangle read where it is written": """
for %i in %o0 .. %h {
  for %j in %o0 .. %i {
    %v = load %c[%j, %j]
    store %v, %c[%i, %j]
  }
  store %x, %c[%i, %i]
}""",
    "the cell above on the left": """
for %i, %j in %o1 .. %h, %o1 .. %w {
  %k1 = sub %i, %o1
  %l1 = sub %j, %o1
  %v = load %c[%k1, %l1]
  store %v, %c[%i, %j]
}""",
    "an index of a row laid out by hand": """
for %i in %o1 .. %n {
  for %j in %o0 .. %o4 {
    %i1 = sub %i, %o1
    %r = mul %i, %o4
    %r1 = mul %i1, %o4
    %e = add %r, %j
    %f = add %r1, %j
    %v = load %a[%f]
    store %v, %a[%e]
  }
}""",
    "neighbours that swap where data say so": """
for %i in %o1 .. %n {
  %j = sub %i, %o1
  %u = load %a[%j]
  %v = load %a[%i]
  %q = gt %u, %v
  if %q {
    store %v, %a[%j]
    store %u, %a[%i]
  }
}""",
    "an update where data say so of what the next one reads": """
for %i in %o1 .. %n {
  %j = sub %i, %o1
  %u = load %a[%j]
  %q = gt %u, %x
  if %q {
    %old = update add %u, %a[%i]
  }
}""",
    "a load where data say so of what the last one stored": """
for %i in %o1 .. %n {
  %u = load %b[%i]
  %q = gt %u, %x
  %s = if %q : f32 {
    %j = sub %i, %o1
    %v = load %a[%j]
    yield %v
  } else {
    yield %u
  }
  store %s, %a[%i]
}""",
}
OPEN = {
    "a flag that some iterations raise": """
for %i in %o0 .. %n {
  %v = load %b[%i]
  %q = gt %v, %x
  if %q {
    store %x, %a[%o0]
  }
}""",
    "even elements that data choose, from odd ones": """
for %i in %o0 .. %n {
  %t = mod %i, %o2
  %e = eq %t, %o0
  if %e {
    %j = add %i, %o1
    %v = load %a[%j]
    %q = gt %v, %x
    if %q {
      store %v, %a[%i]
    }
  }
}""",
    "branches of branches that store one element": """
for %i in %o0 .. %n {
  %v = load %b[%i]
  %u = load %a[%o10]
  %q = gt %v, %x
  %r = lt %v, %f0
  if %q {
    if %r {
      store %v, %d[%o0, %o0]
    }
  } else {
    if %r {
      store %x, %d[%o0, %o0]
    }
  }
}""",
    "a condition on the data": """
for %i in %o1 .. %n {
  %u = load %b[%i]
  %q = gt %u, %x
  if %q {
    %j = sub %i, %o1
    %v = load %a[%j]
    store %v, %a[%i]
  }
}""",
    "a condition that keeps them apart": """
for %i in %o0 .. %n {
  %t = mod %i, %o2
  %q = eq %t, %o0
  if %q {
    %j = add %i, %o1
    %v = load %a[%j]
    store %v, %a[%i]
  }
}""",
    "a condition on a parameter": """
for %i in %o1 .. %n {
  %q = gt %k, %o0
  if %q {
    %j = sub %i, %o1
    %v = load %a[%j]
    store %v, %a[%i]
  }
}""",
    "branches that store different elements": """
for %i in %o0 .. %n {
  %v = load %b[%i]
  %q = gt %v, %x
  if %q {
    store %v, %a[%o0]
  } else {
    store %x, %a[%o1]
  }
}""",
    "a distance by a size": """
for %i in %o0 .. %n {
  %j = add %i, %w
  %v = load %a[%j]
  store %v, %a[%i]
}""",
    "strides of a parameter": """
for %i in %o0 .. %n {
  %j = mul %i, %k
  store %x, %a[%j]
}""",
    "remainders apart": """
for %i in %o0 .. %n {
  %e = mul %i, %o4
  %f = add %e, %o2
  %v = load %a[%f]
  store %v, %a[%e]
}""",
}


@pytest.mark.parametrize("name", CERTAIN)
def test_certain(name: str) -> None:
    found, context = classify(CERTAIN[name])
    assert found[0] == "s"
    assert context.notices


@pytest.mark.parametrize("name", OPEN)
def test_open(name: str) -> None:
    found, context = classify(OPEN[name])
    assert found[0] == "p"
    assert not context.notices


CALLS = """quadrants-ir 1
kernel @k(%a: array<f32, 1, C>, %b: array<f32, 1, C>, %k: i64, %x: f32) {
  %o0 = constant 0 : i64
  %o1 = constant 1 : i64
  %n = dim %a, 0
  for %i in %o1 .. %n {
    %p = sub %i, %o1
    %v = call @inner(%ARRAY, %INDEX, %x) : f32
    store %v, %a[%i]
  }
}

function @inner(%array: array<f32, 1, C>, %first: i64, %x: f32) -> f32 {
  %o0 = constant 0 : i64
  %o4 = constant 4 : i64
  %s = for %j in %o0 .. %o4 carry (%t = %x) : f32 {
    %e = EXPRESSION
    %v = load %array[%e]
    %u = add %t, %v
    yield %u
  }
  return %s
}
"""


@pytest.mark.parametrize(
    "array, index, expression, expected",
    [
        ("a", "p", "add %first, %j", "s"),
        ("b", "p", "add %first, %j", "p"),
        ("a", "o0", "add %first, %j", "s"),
        ("a", "k", "add %first, %j", "p"),
        ("a", "p", "mul %first, %j", "s"),
    ],
)
def test_through_calls(array: str, index: str, expression: str, expected: str) -> None:
    text = CALLS.replace("ARRAY", array).replace("INDEX", index).replace("EXPRESSION", expression)
    module = parse_module(text)
    verify(module)
    parallelise.run(module, PassContext())
    verify(module)
    outer = next(op for op in walk(module.kernel.body) if op.kind == "for")
    assert ("p" if outer.attribute("parallel") else "s") == expected


def test_loops_of_functions_prove_independence() -> None:
    rows = """quadrants-ir 1
kernel @k(%c: array<f32, 2, C>, %x: f32) {
  %o0 = constant 0 : i64
  %h = dim %c, 0
  %always = ge %h, %o0
  if %always {
    for %i in %o0 .. %h {
      call @fill(%c, %i, %x)
    }
  }
}

function @fill(%array: array<f32, 2, C>, %row: i64, %x: f32) {
  %o0 = constant 0 : i64
  %o1 = constant 1 : i64
  %w = dim %array, 1
  for %j in %o1 .. %w {
    %l = sub %j, %o1
    %v = load %array[%row, %l]
    store %v, %array[%row, %j]
  }
  return
}
"""
    module = parse_module(rows)
    verify(module)
    parallelise.run(module, PassContext())
    assert next(op for op in walk(module.kernel.body) if op.kind == "for").attribute("parallel")
