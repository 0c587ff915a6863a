"""Inductions, privatised updates and wide sums: what they make, and that programs do what they did."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes_parallel.programs import arguments, kinds, loops, program, run, same_after

from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import walk
from quadrants.ir.verify import verify
from quadrants.passes import inductions, parallelise, privatise, sink_slots, straighten, widen_sums
from quadrants.passes.context import PassContext

pytestmark = pytest.mark.slow

ALL = [sink_slots.run, inductions.run, parallelise.run, privatise.run, straighten.run, widen_sums.run]


def updates(module) -> list:
    return [op for op in walk(module.kernel.body) if op.kind == "update"]


def in_loops(module) -> int:
    return sum(op.kind == "update" for loop in loops(module) for op in walk(loop.regions[0]))


INDUCTIONS = {
    "a counter of its own": (
        "i64",
        """
%r = for %i in %o1 .. %n carry (%s = %k) : i64 {
  %v = load %a[%i]
  %l = add %s, %o2
  store %v, %b[%s]
  yield %l
}
return %r""",
    ),
    "counting down": (
        "i64",
        """
%r = for %i in %o0 .. %n carry (%s = %n) : i64 {
  %l = sub %s, %o1
  store %x, %b[%l]
  yield %l
}
return %r""",
    ),
    "the loop variable afterwards": (
        "i32",
        """
%start = constant 77 : i32
%r = for %i in %o0 .. %n carry (%s = %start) : i32 {
  %l = cast %i {exact = True} : i32
  store %x, %b[%i]
  yield %l
}
return %r""",
    ),
    "rank 2, the last of both": (
        "i64, i64",
        """
%r, %q = for %i, %j in %o0 .. %h, %o0 .. %w carry (%s = %k, %t = %k) : i64, i64 {
  store %x, %c[%i, %j]
  yield %i, %j
}
return %r, %q""",
    ),
    "two that depend on one another": (
        "i64",
        """
%r, %q = for %i in %o0 .. %n carry (%s = %o0, %t = %o1) : i64, i64 {
  %s1 = add %s, %o1
  %e = mul %s1, %o2
  %y = cast %e : f32
  store %y, %b[%i]
  yield %s1, %e
}
%z = add %r, %q
return %z""",
    ),
    "one after the other": (
        "i64",
        """
%r = for %i in %o0 .. %n carry (%s = %k) : i64 {
  %l = add %s, %o1
  yield %l
}
%q = for %j in %o0 .. %r carry (%t = %r) : i64 {
  %u = add %t, %r
  yield %u
}
return %q""",
    ),
    "nested": (
        "i64",
        """
%r = for %i in %o0 .. %h carry (%s = %k) : i64 {
  %q = for %j in %o0 .. %w carry (%t = %s) : i64 {
    store %x, %d[%i, %j]
    %u = add %t, %o1
    yield %u
  }
  %g = add %s, %o3
  yield %g
}
return %r""",
    ),
}


@pytest.mark.parametrize("name", INDUCTIONS)
def test_inductions(name: str) -> None:
    result, body = INDUCTIONS[name]
    sizes = ((3, 40, 5, 6), (1, 9, 1, 3))
    module = same_after(body, [inductions.run], result, sizes if "own" in name else ((7, 9, 5, 6),))
    assert not any(loop.results for loop in loops(module)[:1]) or name == "nested"
    same_after(body, ALL, result)


def test_an_induction_makes_its_loop_parallel() -> None:
    module = program(INDUCTIONS["a counter of its own"][1], "i64")
    for entry in ALL:
        entry(module, PassContext())
    assert kinds(module) == "p"


def test_a_product_is_no_induction() -> None:
    body = """
%r = for %i in %o0 .. %n carry (%s = %k) : i64 {
  %l = mul %s, %o2
  yield %l
}
return %r"""
    assert loops(same_after(body, [inductions.run], "i64"))[0].results


PRIVATE = {
    "one element": "%v = load %a[%i]\n%old = update add %v, %b[%o0]",
    "subtraction": "%v = load %a[%i]\n%old = update sub %v, %b[%o0]",
    "minimum": "%v = load %a[%i]\n%old = update min %v, %b[%o0]",
    "product": "%old = update mul %x, %b[%o0]",
    "several elements": "%v = load %a[%i]\n%old = update add %v, %b[%o0]\n%o2nd = update max %v, %b[%o1]",
    "under a condition": """
%v = load %a[%i]
%q = gt %v, %x
if %q {
  %old = update add %v, %b[%o0]
}""",
    "in both branches": """
%v = load %a[%i]
%q = gt %v, %x
if %q {
  %old = update add %v, %b[%o0]
} else {
  %old2 = update sub %v, %b[%o0]
}""",
    "in an inner loop": """
for %j in %o0 .. %w {
  %v = load %c[%o0, %j]
  %q = gt %v, %x
  if %q {
    continue
  } else {
    yield
  }
  %old = update add %v, %b[%o0]
}""",
    "with continue": """
%v = load %a[%i]
%q = gt %v, %x
if %q {
  continue
} else {
  yield
}
%old = update add %v, %b[%o0]""",
    "in a while": """
while carry (%t = %o0) : i64 {
  %q = lt %t, %o3
  yield %q
} do (%t2) {
  %old = update add %x, %b[%o0]
  %t3 = add %t2, %o1
  yield %t3
}""",
    "an index computed in the loop": "%j = sub %n, %o1\n%old = update add %x, %a[%j]",
}


@pytest.mark.parametrize("name", PRIVATE)
def test_privatised(name: str) -> None:
    body = "for %i in %o0 .. %n {\n" + PRIVATE[name] + "\n}"
    sizes = () if "several" in name else ((7, 9, 5, 6), (3, 2, 1, 4))
    if name == "several elements":
        body = "%q0 = gt %m, %o1\nif %q0 {\n" + body + "\n}"
    module = same_after(body, ALL, sizes=sizes or ((7, 9, 5, 6),))
    assert in_loops(module) == 0
    assert updates(module)
    assert kinds(module).startswith("p")


SHARED = {
    "also read": ("%old = update add %x, %b[%o0]\n%v = load %b[%o0]\nstore %v, %a[%i]", "s"),
    "its old value is used": ("%old = update add %x, %b[%o0]\nstore %old, %a[%i]", "p"),
    "perhaps read": ("%old = update add %x, %b[%o0]\n%v = load %b[%i]\nstore %v, %a[%i]", "s"),
    "in two ways": ("%old = update add %x, %b[%o0]\n%old2 = update max %x, %b[%o0]", "s"),
    "another place each time": ("%y = load %p[%i]\n%j = cast %y : i64\n%old = update add %x, %b[%j]", "p"),
}


@pytest.mark.parametrize("name", SHARED)
def test_not_privatised(name: str) -> None:
    body, kind = SHARED[name]
    module = program("for %i in %o0 .. %n {\n" + body + "\n}")
    for entry in ALL:
        entry(module, PassContext())
        verify(module) if entry not in (sink_slots.run, inductions.run) else None
    assert in_loops(module) >= 1
    assert kinds(module) == kind


def test_an_inner_loop_adds_up_in_a_register() -> None:
    body = """
for %i in %o0 .. %h {
  for %j in %o0 .. %w {
    %v = load %c[%i, %j]
    %old = update add %v, %a[%i]
  }
}"""
    module = same_after(body, ALL, sizes=((7, 9, 5, 6),))
    outer, inner = loops(module)
    assert outer.attribute("parallel")
    assert not any(op.kind == "update" for op in walk(inner.regions[0]))
    (left,) = updates(module)
    assert left in [op for op in walk(outer.regions[0])]


def test_an_element_that_is_never_updated_is_not_touched() -> None:
    body = """
for %i in %o0 .. %n {
  %q = lt %k, %o0
  if %q {
    %j = mul %k, %big
    %old = update add %x, %b[%j]
  }
}"""
    module = same_after(body, ALL)
    assert in_loops(module) == 0


SUMS = {
    "a sum": """
%r = for %i in %o0 .. %n carry (%s = %x) : f32 {
  %v = load %a[%i]
  %t = add %s, %v
  yield %t
}
return %r""",
    "a sum and a maximum": """
%r, %g = for %i in %o0 .. %n carry (%s = %x, %z = %x) : f32, f32 {
  %v = load %a[%i]
  %q = gt %v, %f0
  %t = if %q : f32 {
    %u = add %s, %v
    yield %u
  } else {
    yield %s
  }
  %y = max %z, %v
  yield %t, %y
}
%e = mul %r, %g
return %e""",
    "rank 2": """
%r = for %i, %j in %o0 .. %h, %o0 .. %w carry (%s = %x) : f32 {
  %v = load %c[%i, %j]
  %t = sub %s, %v
  yield %t
}
return %r""",
    "at places that the data tell": """
%r = for %i in %o0 .. %n carry (%s = %x) : f32 {
  %l = load %p[%i]
  %j = cast %l : i64
  %v = load %a[%j]
  %t = add %s, %v
  yield %t
}
return %r""",
    "nested": """
%r = for %i in %o0 .. %h carry (%s = %x) : f32 {
  %e = load %c[%i, %o0]
  %s1 = add %s, %e
  %t = for %j in %o0 .. %w carry (%u = %s1) : f32 {
    %v = load %c[%i, %j]
    %y = add %u, %v
    yield %y
  }
  yield %t
}
return %r""",
    "nested, short and left early": """
%r = for %i in %o0 .. %h carry (%s = %x) : f32 {
  %t = for %j in %o0 .. %o1 carry (%u = %s) : f32 {
    %v = load %c[%i, %j]
    %y = add %u, %v
    yield %y
  }
  %t2 = for %j2 in %o0 .. %w carry (%u2 = %t) : f32 {
    %v2 = load %c[%i, %j2]
    %q = gt %v2, %f1
    if %q {
      break %u2
    } else {
      yield
    }
    %y2 = add %u2, %v2
    yield %y2
  }
  yield %t2
}
return %r""",
}


@pytest.mark.parametrize("name", SUMS)
def test_wide_sums(name: str) -> None:
    module = same_after(SUMS[name], ALL, "f32", ((7, 9, 5, 6), (5000, 3, 1, 1), (9, 9, 3, 4500)))
    loop = loops(module)[0]
    assert loop.attribute("parallel")
    assert loop.results[0].type.name == "f64"
    assert loop.attribute("chunk") > 0
    assert any(op.attribute("reassociate") for op in walk(module.kernel.body))


def test_half_floats_are_added_up_in_wider_ones() -> None:
    from quadrants.ir.text import parse_module

    text = """quadrants-ir 1
kernel @k(%a: array<f16, 1, C>) -> f16 {
  %n = dim %a, 0
  %z = constant 0 : i64
  %f = constant 0.0 : f16
  %r = for %i in %z .. %n carry (%s = %f) : f16 {
    %v = load %a[%i]
    %t = add %s, %v
    yield %t
  }
  return %r
}
"""
    module = parse_module(text)
    for entry in ALL:
        entry(module, PassContext())
    verify(module)
    ones = np.ones(20000, np.float16)
    assert interpret(module, [ones])[0] == 20000


def test_sums_are_exact_where_narrow_ones_are_not() -> None:
    module = program(SUMS["a sum"], "f32")
    for entry in ALL:
        entry(module, PassContext())
    data = np.random.default_rng(0).random(60000, np.float32)
    values = [data, data[:2], data[:1].reshape(1, 1), data[:1].reshape(1, 1), np.zeros(1, np.int32), np.int64(0)]
    (found,) = interpret(module, [*values, np.float32(0)])
    exact = data.astype(np.float64).sum()
    assert abs(found - exact) < 5e-7 * exact
    assert abs(np.add.accumulate(data)[-1] - exact) > 5e-7 * exact


EXTREMES = """
%r = for %i in %o0 .. %n carry (%s = %START) : f32 {
  %v = load %a[%i]
  %q = KIND %v, %s
  %t = if %q : f32 {
    yield %v
  } else {
    yield %s
  }
  yield %t
}
return %r"""


@pytest.mark.parametrize("kind", ["gt", "ge", "lt", "le"])
@pytest.mark.parametrize("start", ["x", "f0"])
def test_extremes_by_comparison(kind: str, start: str) -> None:
    body = EXTREMES.replace("START", start).replace("KIND", kind)
    module = same_after(body, ALL, "f32")
    loop = loops(module)[0]
    assert loop.attribute("reductions") == ("max" if kind[0] == "g" else "min",)
    values = arguments()
    for number, data in enumerate(([np.nan, 1, 2], [1, np.nan, 5], [np.nan, np.nan], [-np.inf, np.nan])):
        values[0] = np.array(data, np.float32)
        for x in (np.nan, -3.0, np.inf):
            values[6] = np.float32(x)
            wanted, found = run(program(body, "f32"), values)[5], run(module, values)[5]
            np.testing.assert_array_equal(found, wanted, str(number))


@pytest.mark.parametrize("kind", ["min", "max"])
def test_extremes_of_nan_alone_are_nan(kind: str) -> None:
    carried = f"""
%first = load %a[%o0]
%r = for %i in %o0 .. %n carry (%s = %first) : f32 {{
  %v = load %a[%i]
  %t = {kind} %s, %v
  yield %t
}}
return %r"""
    updated = f"""
for %i in %o0 .. %n {{
  %v = load %a[%i]
  %q = lt %i, %k
  if %q {{
    %old = update {kind} %v, %b[%o0]
  }}
}}"""
    for body, result, place in ((carried, "f32", 5), (updated, "", 1)):
        module = same_after(body, ALL, result)
        values = arguments()
        values[5] = np.int64(5)
        for data in ([np.nan] * 5, [np.nan, 2, np.nan, 1, np.nan], [1, np.nan, np.nan, 2, 3]):
            for start in (np.nan, -3.0, 7.0):
                values[0], values[1] = np.array(data, np.float32), np.full(3, start, np.float32)
                wanted, found = run(program(body, result), values)[place], run(module, values)[place]
                np.testing.assert_array_equal(found, wanted)


def test_extremes_one_after_the_other() -> None:
    body = """
%r = for %i in %o0 .. %n carry (%s = %x) : f32 {
  %v = load %a[%i]
  %q = gt %v, %s
  %t = select %q, %v, %s
  %w2 = load %b[%i]
  %q2 = gt %w2, %t
  %u = select %q2, %w2, %t
  yield %u
}
return %r"""
    module = same_after(body, ALL, "f32")
    assert loops(module)[0].attribute("reductions") == ("max",)


def test_a_mixed_extreme_is_none() -> None:
    body = (
        EXTREMES.replace("START", "x")
        .replace("KIND", "gt")
        .replace("  yield %t\n}", "  %w1 = max %t, %f1\n  yield %w1\n}")
    )
    assert kinds(same_after(body, ALL, "f32")) == "s"
    assert kinds(same_after(body.replace("= %x", "= %f0"), ALL, "f32")) == "p"


TRUTHS = """
%start = constant START : u1
%r = for %i in %o0 .. %n carry (%s = %start) : u1 {
  %t = if %s : u1 {
    YES
  } else {
    NO
  }
  yield %t
}
return %r"""
FRESH = "%v = load %a[%i]\n%q = gt %v, %x\nyield %q"


@pytest.mark.parametrize("start", ["True", "False"])
def test_any_and_all(start: str) -> None:
    anything = TRUTHS.replace("START", start).replace("YES", "yield %s").replace("NO", FRESH)
    assert loops(same_after(anything, ALL, "u1"))[0].attribute("reductions") == ("bit_or",)
    everything = (
        TRUTHS.replace("START", start).replace("YES", FRESH).replace("NO", "%f = constant False : u1\nyield %f")
    )
    assert loops(same_after(everything, ALL, "u1"))[0].attribute("reductions") == ("bit_and",)
    other = TRUTHS.replace("START", start).replace("YES", FRESH).replace("NO", "yield %s").replace("%s {", "%s {")
    assert loops(same_after(other, ALL, "u1"))[0].attribute("parallel")
    neither = TRUTHS.replace("START", start).replace("YES", FRESH).replace("NO", "%f = constant True : u1\nyield %f")
    assert kinds(same_after(neither, ALL, "u1")) == "s"


CONDITIONAL = """
%r = for %i in %o0 .. %n carry (%s = %START) : f32 {
  %v = load %a[%i]
  %q = gt %v, %f0
  %t = if %q : f32 {
    YES
  } else {
    NO
  }
  yield %t
}
return %r"""
BRANCHES = {
    "sum": ("%e = mul %v, %x\n%u = add %s, %e\nyield %u", "yield %s"),
    "sum otherwise": ("yield %s", "%u = add %v, %s\nyield %u"),
    "difference": ("%u = sub %s, %v\nyield %u", "yield %s"),
    "both ways": ("%u = sub %s, %v\nyield %u", "%u2 = add %s, %x\nyield %u2"),
    "two steps": ("%u = add %s, %v\n%u2 = add %u, %v\nyield %u2", "yield %s"),
    "minimum": ("%u = min %s, %v\nyield %u", "yield %s"),
    "nested": (
        "%q2 = gt %v, %x\n%u = if %q2 : f32 {\n%u2 = add %s, %v\nyield %u2\n} else {\nyield %s\n}\nyield %u",
        "yield %s",
    ),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_conditions_are_straightened(name: str) -> None:
    yes, no = BRANCHES[name]
    body = CONDITIONAL.replace("YES", yes).replace("NO", no).replace("START", "x")
    module = same_after(body, ALL, "f32", ((40, 1, 1, 1),))
    assert not [op for op in walk(module.kernel.body) if op.kind == "if"]


@pytest.mark.parametrize(
    "branch", ["%u = load %b[%i]\n%w1 = add %s, %u\nyield %w1", "%u = pow %v, %f1\n%w1 = add %s, %u\nyield %w1"]
)
def test_memory_and_long_work_stay_under_their_condition(branch: str) -> None:
    body = CONDITIONAL.replace("YES", branch).replace("NO", "yield %s").replace("START", "x")
    module = same_after(body, ALL, "f32", ((7, 9, 1, 1),))
    assert [op for op in walk(module.kernel.body) if op.kind == "if"]


def test_steps_leave_branches_that_must_stay() -> None:
    branch = "store %v, %b[%i]\n%u = load %b[%o0]\n%w1 = add %s, %u\nyield %w1"
    for yes, no in ((branch, "yield %s"), ("yield %s", branch), (branch, "%w2 = add %s, %x\nyield %w2")):
        body = CONDITIONAL.replace("YES", yes).replace("NO", no).replace("START", "x")
        module = same_after(body, [straighten.run], "f32", ((7, 9, 1, 1),))
        (branching,) = [op for op in walk(module.kernel.body) if op.kind == "if"]
        assert not [op for region in branching.regions for op in region.ops if op.kind == "add"]
        assert len([op for op in walk(module.kernel.body) if op.kind == "add"]) == 1


def test_extremes_become_one_operation() -> None:
    module = same_after(EXTREMES.replace("START", "x").replace("KIND", "gt"), ALL, "f32")
    body = loops(module)[0].regions[0].ops
    assert [op.kind for op in body if op.kind in ("if", "select", "max")] == ["max"]


def test_a_choice_that_does_more_is_no_extreme() -> None:
    body = EXTREMES.replace("START", "f0").replace("KIND", "gt").replace("yield %v", "store %x, %b[%o0]\n    yield %v")
    assert kinds(same_after(body, ALL, "f32")) == "s"


def test_other_reductions_keep_their_type() -> None:
    body = """
%start = constant 0 : i64
%r, %g = for %i in %o0 .. %n carry (%s = %start, %z = %f0) : i64, f32 {
  %y = load %p[%i]
  %e = cast %y : i64
  %t = add %s, %e
  %v = load %a[%i]
  %z1 = max %z, %v
  yield %t, %z1
}
return %r"""
    module = same_after(body, ALL, "i64")
    loop = loops(module)[0]
    assert [value.type.name for value in loop.results] == ["i64", "f32"]
    assert loop.attribute("reductions") == ("add", "max")


def test_a_slot_that_each_iteration_fills_is_its_own() -> None:
    text = """
%l = slot matrix<f32, 3>
for %i in %o0 .. %n {
  %v = load %a[%i]
  %g = splat %v : matrix<f32, 3>
  store %g, %l[]
  store %x, %l[%o1]
  %u = load %l[%o1]
  store %u, %b[%i]
}"""
    module = program(text)
    sink_slots.run(module, PassContext())
    assert loops(module)[0].regions[0].ops[0].kind == "slot"
    parallelise.run(module, PassContext())
    verify(module)
    assert kinds(module) == "p"


def test_a_slot_that_iterations_share_keeps_order() -> None:
    text = """
%l = slot matrix<f32, 3>
%g = splat %x : matrix<f32, 3>
store %g, %l[]
for %i in %o0 .. %n {
  %y = load %p[%i]
  %j = cast %y : i64
  %v = load %l[%j]
  store %v, %l[%j]
}"""
    module = program(text)
    sink_slots.run(module, PassContext())
    parallelise.run(module, PassContext())
    assert kinds(module) == "s"
