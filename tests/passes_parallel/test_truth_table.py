"""Every row of the truth table of loops, both ways."""

from __future__ import annotations

import pytest
from tests.passes_parallel.programs import classify

from quadrants.targets.simulated.profiles import APART, PLAIN

IN_PARALLEL = {
    "elementwise": """
for %i in %o0 .. %n {
  %v = load %a[%i]
  store %v, %b[%i]
}""",
    "in place": """
for %i in %o0 .. %n {
  %v = load %a[%i]
  %u = add %v, %x
  store %u, %a[%i]
}""",
    "a stencil into another array": """
for %i in %o1 .. %n {
  %j = sub %i, %o1
  %v = load %a[%j]
  store %v, %b[%i]
}""",
    "even elements from odd ones": """
for %i in %o0 .. %n {
  %e = mul %i, %o2
  %f = add %e, %o1
  %v = load %a[%f]
  store %v, %a[%e]
}""",
    "halves that do not overlap": """
for %i in %o0 .. %o1000 {
  %j = add %i, %o1000
  %v = load %a[%j]
  store %v, %a[%i]
}""",
    "a distance beyond the range": """
for %i in %o0 .. %o10 {
  %j = add %i, %o1000
  %v = load %a[%j]
  %z = pow %v, %v
  %z1 = pow %z, %v
  %z2 = pow %z1, %v
  %z3 = pow %z2, %v
  %z4 = pow %z3, %v
  %z5 = pow %z4, %v
  %z6 = pow %z5, %v
  %z7 = pow %z6, %v
  %z8 = pow %z7, %v
  %z9 = pow %z8, %v
  %y = pow %z9, %v
  %y1 = pow %y, %v
  %y2 = pow %y1, %v
  %y3 = pow %y2, %v
  %y4 = pow %y3, %v
  %y5 = pow %y4, %v
  %y6 = pow %y5, %v
  %y7 = pow %y6, %v
  %y8 = pow %y7, %v
  %y9 = pow %y8, %v
  store %y9, %a[%i]
}""",
    "counters narrowed to 32 bits": """
for %i in %o0 .. %n {
  %s = cast %i {exact = True} : i32
  %t = cast %s : i64
  %v = load %a[%t]
  store %v, %a[%i]
}""",
    "a sum carried": """
%r = for %i in %o0 .. %n carry (%s = %f0) : f32 {
  %v = load %a[%i]
  %t = add %s, %v
  yield %t
}""",
    "a difference carried": """
%r = for %i in %o0 .. %n carry (%s = %f0) : f32 {
  %v = load %a[%i]
  %t = sub %s, %v
  yield %t
}""",
    "two reductions": """
%r, %q = for %i in %o0 .. %n carry (%s = %f0, %g = %f1) : f32, f32 {
  %v = load %a[%i]
  %t = add %s, %v
  %u = max %v, %g
  yield %t, %u
}""",
    "a sum under a condition": """
%r = for %i in %o0 .. %n carry (%s = %f0) : f32 {
  %v = load %a[%i]
  %q = gt %v, %x
  %t = if %q : f32 {
    %u = add %s, %v
    yield %u
  } else {
    yield %s
  }
  yield %t
}""",
    "a sum with continue": """
%r = for %i in %o0 .. %n carry (%s = %f0) : f32 {
  %v = load %a[%i]
  %q = gt %v, %x
  if %q {
    continue %s
  } else {
    yield
  }
  %u = add %s, %v
  yield %u
}""",
    "a sum through an inner loop": """
%r = for %i in %o0 .. %h carry (%s = %f0) : f32 {
  %t = for %j in %o0 .. %w carry (%u = %s) : f32 {
    %v = load %c[%i, %j]
    %y = add %u, %v
    yield %y
  }
  yield %t
}""",
    "a maximum by comparison": """
%r = for %i in %o0 .. %n carry (%s = %f0) : f32 {
  %v = load %a[%i]
  %q = gt %v, %s
  %t = if %q : f32 {
    yield %v
  } else {
    yield %s
  }
  yield %t
}""",
    "updates of one element": """
for %i in %o0 .. %n {
  %v = load %a[%i]
  %old = update add %v, %b[%o0]
}""",
    "updates and subtractions": """
for %i in %o0 .. %n {
  %v = load %a[%i]
  %old = update add %v, %b[%o0]
  %old2 = update sub %v, %b[%o0]
}""",
    "updates at data-dependent places": """
for %i in %o0 .. %n {
  %q = load %p[%i]
  %j = cast %q : i64
  %old = update add %x, %b[%j]
}""",
    "stores at data-dependent places": """
for %i in %o0 .. %n {
  %q = load %p[%i]
  %j = cast %q : i64
  %v = load %b[%j]
  store %v, %a[%j]
  store %v, %b[%j]
}""",
    "a store under a condition": """
for %i in %o0 .. %n {
  %v = load %a[%i]
  %q = gt %v, %x
  if %q {
    store %v, %b[%o0]
  }
}""",
    "neighbours under a condition": """
for %i in %o0 .. %n {
  %j = add %i, %k
  %q = lt %j, %n
  if %q {
    %v = load %a[%j]
    store %v, %a[%i]
  }
}""",
    "a shift by a parameter": """
for %i in %o0 .. %n {
  %j = add %i, %k
  %v = load %a[%j]
  store %v, %a[%i]
}""",
    "an old value that is used": """
for %i in %o0 .. %n {
  %old = update add %x, %b[%o0]
  store %old, %a[%i]
}""",
    "rank 2": """
for %i, %j in %o0 .. %h, %o0 .. %w {
  %v = load %c[%i, %j]
  store %v, %c[%i, %j]
}""",
    "rank 2, transposed and skewed": """
for %i, %j in %o0 .. %h, %o0 .. %w {
  %s = add %i, %j
  %v = load %c[%i, %j]
  store %v, %d[%s, %i]
}""",
    "rows": """
for %i in %o0 .. %h {
  for %j in %o1 .. %w {
    %l = sub %j, %o1
    %v = load %c[%i, %l]
    store %v, %c[%i, %j]
  }
}""",
    "a matrix laid out by hand": """
for %i in %o0 .. %h {
  for %j in %o0 .. %w {
    %l = mul %i, %w
    %e = add %l, %j
    store %x, %a[%e]
  }
}""",
    "rank 2 laid out by hand": """
for %i, %j in %o0 .. %h, %o0 .. %w {
  %l = mul %i, %w
  %e = add %l, %j
  store %x, %a[%e]
}""",
    "blocks": """
for %i in %o0 .. %n {
  for %j in %o0 .. %o4 {
    %l = mul %i, %o4
    %e = add %l, %j
    store %x, %a[%e]
  }
}""",
    "rows below": """
for %i in %o0 .. %h {
  %i1 = add %i, %o1
  for %j in %i1 .. %w {
    %v = load %c[%i, %j]
    store %v, %d[%i, %j]
  }
}""",
}

IN_ORDER = {
    "a prefix sum": (
        "s",
        """
for %i in %o1 .. %n {
  %j = sub %i, %o1
  %v = load %a[%j]
  %u = load %a[%i]
  %t = add %u, %v
  store %t, %a[%i]
}""",
        (1, 3, 6),
        ("line 6", "line 3", "stores", "loads"),
    ),
    "one element stored": (
        "s",
        """
for %i in %o0 .. %n {
  store %x, %a[%o0]
}""",
        (1,),
        (2,),
    ),
    "an element updated and read": (
        "s",
        """
for %i in %o0 .. %n {
  %old = update add %x, %a[%o0]
  %v = load %a[%o0]
  store %v, %b[%i]
}""",
        (1, 2, 3),
        ("updates", "loads"),
    ),
    "updates that do not commute": (
        "s",
        """
for %i in %o0 .. %n {
  %old = update add %x, %a[%o0]
  %old2 = update mul %x, %a[%o0]
}""",
        (1, 2, 3),
        (),
    ),
    "a name carried over": (
        "s",
        """
%r = for %i in %o0 .. %n carry (%s = %f0) : f32 {
  %v = load %a[%i]
  %t = mul %s, %x
  %u = add %t, %v
  store %u, %b[%i]
  yield %u
}""",
        (1, 4, 3),
        ("carried",),
    ),
    "a time loop around an inner loop": (
        "sp",
        """
for %t in %o0 .. %k {
  for %i in %o0 .. %n {
    %v = load %a[%i]
    %u = add %v, %x
    store %u, %a[%i]
  }
}""",
        (1,),
        (),
    ),
    "a time loop around two sweeps": (
        "spp",
        """
for %t in %o0 .. %k {
  for %i in %o1 .. %n {
    %j = sub %i, %o1
    %v = load %a[%j]
    store %v, %b[%i]
  }
  for %i2 in %o1 .. %n {
    %v2 = load %b[%i2]
    store %v2, %a[%i2]
  }
}""",
        (1,),
        (),
    ),
    "elimination": (
        "spsp",
        """
for %t in %o0 .. %n {
  %t1 = add %t, %o1
  for %i in %t1 .. %n {
    %l = load %c[%i, %t]
    for %j in %t1 .. %n {
      %u = load %c[%t, %j]
      %v = mul %u, %l
      %old = update sub %v, %c[%i, %j]
    }
  }
  for %q in %o0 .. %n {
    store %x, %b[%q]
  }
}""",
        (),
        (),
    ),
    "the mirror image": (
        "s",
        """
for %i in %o0 .. %n {
  %n1 = sub %n, %o1
  %j = sub %n1, %i
  %v = load %a[%j]
  store %v, %a[%i]
}""",
        (1,),
        (),
    ),
    "rank 2, the cell above": (
        "s",
        """
for %i, %j in %o1 .. %h, %o0 .. %w {
  %l = sub %i, %o1
  %v = load %c[%l, %j]
  store %v, %c[%i, %j]
}""",
        (1,),
        (),
    ),
    "rank 2, one index not used": (
        "s",
        """
for %i, %j in %o0 .. %h, %o0 .. %w {
  %v = load %c[%i, %j]
  store %v, %a[%i]
}""",
        (1,),
        (),
    ),
    "factorisation": (
        "sps",
        """
for %j in %o0 .. %n {
  for %i in %j .. %n {
    for %q in %o0 .. %j {
      %u = load %c[%i, %q]
      %v = load %c[%j, %q]
      %y = mul %u, %v
      %old = update sub %y, %c[%i, %j]
    }
  }
}""",
        (1,),
        (),
    ),
    "a break": (
        "s",
        """
for %i in %o0 .. %n {
  %v = load %a[%i]
  store %v, %b[%i]
  %q = gt %v, %x
  if %q {
    break
  } else {
    yield
  }
}""",
        None,
        (),
    ),
    "a return": (
        "s",
        """
for %i in %o0 .. %n {
  %v = load %a[%i]
  store %v, %b[%i]
  %q = gt %v, %x
  if %q {
    return
  } else {
    yield
  }
}""",
        None,
        (),
    ),
}


@pytest.mark.parametrize("name", IN_PARALLEL)
def test_in_parallel(name: str) -> None:
    found, context = classify(IN_PARALLEL[name])
    assert found[0] == "p"
    assert "p" not in found[1:]
    assert not context.notices


@pytest.mark.parametrize("name", IN_ORDER)
def test_in_order(name: str) -> None:
    expected, body, lines, words = IN_ORDER[name]
    found, context = classify(body)
    assert found == expected
    if lines is None:
        assert not context.notices
        return
    first = context.notices[0]
    assert first.locations[0].line == 1
    if len(lines) > 1:
        assert {location.line for location in first.locations} <= set(lines)
    assert all(str(word) in first.text for word in words), first.text
    assert sum(notice.locations[0].line == 1 for notice in context.notices) == 1


CONDITIONAL = """
%q = gt %x, %f0
if %q {
  for %i in %o0 .. %n {
    BODY
  }
}"""


def test_under_a_condition_only_proof_counts() -> None:
    assert classify(CONDITIONAL.replace("BODY", "store %x, %a[%i]"))[0] == "p"
    unknown = "%y = load %p[%i]\n%j = cast %y : i64\nstore %x, %a[%j]"
    found, context = classify(CONDITIONAL.replace("BODY", unknown))
    assert found == "s"
    assert not context.notices


def test_in_a_while_only_proof_counts() -> None:
    body = """
while carry (%t = %o0) : i64 {
  %q = lt %t, %k
  yield %q
} do (%t2) {
  for %i in %o0 .. %n {
    store %x, %a[%i]
  }
  for %i2 in %o0 .. %n {
    %y = load %p[%i2]
    %j = cast %y : i64
    store %x, %a[%j]
  }
  %t3 = add %t2, %o1
  yield %t3
}"""
    assert classify(body)[0] == "ps"


SERIAL = """
for %i in %o0 .. %n {config = {"serialize": VALUE}} {
  BODY
}"""


def test_the_user_decides() -> None:
    order = SERIAL.replace("VALUE", "True")
    found, context = classify(order.replace("BODY", "store %x, %a[%i]"))
    assert found == "s"
    assert not context.notices
    parallel = SERIAL.replace("VALUE", "False")
    assert classify(parallel.replace("BODY", "store %x, %a[%o0]"))[0] == "p"
    assert classify(SERIAL.replace("serialize", "parallelize").replace("VALUE", "1").replace("BODY", "yield"))[0] == "s"


def test_short_loops_are_not_worth_a_task() -> None:
    assert classify("for %i in %o0 .. %o3 {\n store %x, %a[%i]\n}")[0] == "s"
    assert classify("for %i in %o0 .. %big {\n store %x, %a[%i]\n}")[0] == "p"


def test_short_loops_fill_subgroups_of_devices() -> None:
    filled = "for %i, %j in %o0 .. %o10, %o0 .. %o10 {\n store %x, %c[%i, %j]\n}"
    few = "for %i in %o0 .. %o10 {\n store %x, %a[%i]\n}"
    undecided = "for %i, %j in %o0 .. %o10, %o0 .. %o10 {\n %v = load %p[%i]\n %s = cast %v : i64\n store %x, %a[%s]\n}"
    total = (
        "%r = for %i, %j in %o0 .. %o10, %o0 .. %o10 carry (%s = %f0) : f32 {\n"
        " %v = load %c[%i, %j] : f32\n %t = add %s, %v {reassociate = True} : f32\n yield %t\n}\nstore %r, %a[%o0]"
    )
    for text, on_device in ((filled, "p"), (few, "s"), (undecided, "s"), (total, "s")):
        found, context = classify(text, record=PLAIN)
        assert found == on_device and not context.notices
        assert classify(text)[0] == classify(text, record=APART)[0] == "s"
    assert classify(f"for %t in %o0 .. %n {{\n {filled}\n}}".replace("store %x", "store %f1"), record=PLAIN)[0] == "ss"
