"""Block loops mean the same before and behind the pass that takes them apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants import knobs
from quadrants.errors import QuadrantsAssertionError, QuadrantsUnsupportedError
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import walk
from quadrants.ir.text import parse_module
from quadrants.ir.threads import TEAM_OPS
from quadrants.ir.verify import VerificationError, verify
from quadrants.passes import blocks
from quadrants.passes.context import PassContext
from quadrants.passes.driver import run_pipeline
from quadrants.records import replace
from quadrants.targets.simulated.profiles import PLAIN

pytestmark = pytest.mark.slow

_HEAD = """quadrants-ir 1
stage kernel
kernel @f(%x: array<f32, 1, C>, %y: array<f32, 1, C>) {parameter_names = ["x", "y"]} {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %half = constant 4 : i64
  %n = dim %x, 0 : i64
  for %i in %zero .. %n {config = {"block_dim": 8}} {
    %t = thread_index {of = "block"} : i64
    %v = load %x[%i] : f32
"""
_TAIL = """
  }
}
"""
BODIES = {
    "values that swap": """
    %w = neg %v : f32
    %p, %q = for %k in %zero .. %half carry (%a = %v, %b = %w) : f32, f32 {
      %s = shuffle %a, %k {width = 4} : f32
      %c = add %b, %s : f32
      yield %c, %a
    }
    %r = mul %p, %q : f32
    store %r, %y[%i]
    """,
    "branches that yield": """
    %g = floordiv %i, %eight : i64
    %u = bit_and %g, %one : i64
    %even = eq %u, %zero : u1
    %r, %same = if %even : f32, i64 {
      %s = team_scan %v {by = "add", width = 0} : f32
      yield %s, %g
    } else {
      %s.1 = team_reduce %v {by = "max", width = 4} : f32
      %d = add %s.1, %v : f32
      yield %d, %u
    }
    %f = cast %same : f32
    %z = add %r, %f : f32
    barrier
    store %z, %y[%i]
    """,
    "a loop that threads leave one by one while teams meet": """
    %limit = constant 2.0 : f32
    %r, %m = for %k in %zero .. %n carry (%a = %v, %c = %t) : f32, i64 {
      %b = sub %a, %limit : f32
      %skips = lt %a, %limit : u1
      if %skips {
        continue %b, %c
      }
      %s = team_reduce %b {by = "add", width = 4} : f32
      %ends = gt %s, %limit : u1
      if %ends {
        break %s, %k
      }
      %d = add %c, %k : i64
      yield %b, %d
    }
    %f = cast %m : f32
    %z = add %r, %f : f32
    store %z, %y[%i]
    """,
    "a while with votes, and a break": """
    %limit = constant 6.0 : f32
    %r = while carry (%a = %v) : f32 {
      %less = lt %a, %limit : u1
      %votes = team_reduce %less {by = "bit_or", width = 0} : u1
      yield %votes
    } do (%e) {
      %b = add %e, %limit : f32
      %all = team_reduce %b {by = "min", width = 0} : f32
      %enough = gt %all, %limit : u1
      if %enough {
        break %b
      }
      barrier
      %c = shuffle %b, %one {width = 0} : f32
      %m = max %b, %c : f32
      yield %m
    }
    store %r, %y[%i]
    """,
    "members under conditions of their own": """
    %odd = bit_and %t, %one : i64
    %is = eq %odd, %one : u1
    %limit = constant 2.0 : f32
    %r = if %is : f32 {
      %sum = team_reduce %v {by = "add", width = 4} : f32
      %more = gt %sum, %limit : u1
      %in = if %more : f32 {
        %w = team_scan %v {by = "add", width = 8} : f32
        %first = load %x[%zero] : f32
        %count = cast %first : i64
        %z = for %k in %zero .. %count carry (%a = %w) : f32 {
          %y.1 = shuffle %a, %k {width = 8} : f32
          %b = add %y.1, %w : f32
          yield %b
        }
        yield %z
      } else {
        %m = ballot %is {width = 8} : u64
        %f = cast %m : f32
        yield %f
      }
      yield %in
    } else {
      %s = shuffle %v, %one {width = 2} : f32
      %p = team_scan %s {by = "max", exclusive = True, width = 8} : f32
      %p.1 = max %p, %limit : f32
      %p.2 = min %p.1, %s : f32
      yield %p.2
    }
    barrier
    store %r, %y[%i]
    """,
    "loops that threads leave one by one": """
    %limit = constant 9.0 : f32
    %step = constant 2.0 : f32
    %r = while carry (%a = %v) : f32 {
      %less = lt %a, %limit : u1
      yield %less
    } do (%e) {
      %b = add %e, %step : f32
      %s = team_reduce %b {by = "max", width = 4} : f32
      %m = add %t, %one : i64
      %c = for %k in %zero .. %m carry (%p = %s) : f32 {
        %q = shuffle %p, %k {width = 8} : f32
        %d = max %q, %b : f32
        yield %d
      }
      yield %c
    }
    store %r, %y[%i]
    """,
    "who has left an inner loop waits for the others": """
    %limit = constant 19.0 : f32
    %step = constant 2.0 : f32
    %r = while carry (%a = %v) : f32 {
      %most = team_reduce %a {by = "max", width = 4} : f32
      %less = lt %most, %limit : u1
      yield %less
    } do (%e) {
      %m = add %t, %one : i64
      %c = for %k in %zero .. %m carry (%p = %e) : f32 {
        %q = shuffle %p, %k {width = 8} : f32
        %d = max %q, %p : f32
        yield %d
      }
      %f = add %c, %step : f32
      yield %f
    }
    store %r, %y[%i]
    """,
    "memory and fences where no threads meet": """
    %limit = constant 2.0 : f32
    %more = gt %v, %limit : u1
    if %more {
      %s = shared {type = matrix<f32, 8>} : array<f32, 1, 8, B>
      store %v, %s[%t]
      fence {scope = "subgroup"}
      for %k in %zero .. %half {
        fence {scope = "block"}
        %w = load %s[%t] : f32
        store %w, %y[%i]
        yield
      }
      yield
    } else {
      yield
    }
    barrier
    """,
    "memory of each thread's own": """
    %own = slot {type = matrix<f32, 2x3>} : array<f32, 2, 2, 3, L>
    %shared = shared {type = matrix<f32, 8>} : array<f32, 1, 8, B>
    store %v, %own[%one, %one]
    store %v, %shared[%t]
    barrier
    %a = load %own[%one, %one] : f32
    %b = load %shared[%zero] : f32
    %e = add %a, %b : f32
    %vote = lt %a, %b : u1
    %mask = ballot %vote {width = 8} : u64
    %g = cast %mask : f32
    %h = add %e, %g : f32
    %first = eq %t, %zero : u1
    if %first {
      continue
    }
    store %h, %y[%i]
    """,
}


def module_of(body: str) -> Any:
    eight = "    %eight = constant 8 : i64\n"
    return parse_module(_HEAD + eight + body.strip("\n").rstrip() + _TAIL)


def results(module: Any, count: int) -> np.ndarray:
    x = np.random.default_rng(count).integers(-5, 9, count).astype(np.float32)
    y = np.zeros_like(x)
    interpret(module, [x, y])
    return y


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("count", [0, 1, 8, 21])
def test_the_same_before_and_behind(body: str, count: int) -> None:
    module = module_of(body)
    verify(module)
    before = results(module, count)
    blocks.run(module, PassContext())
    verify(module)
    assert not any(op.kind in TEAM_OPS for op in walk(module.kernel.body))
    assert (results(module, count) == before).all()
    assert count < 8 or before.any()


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("subgroup", [1, 2, 4, 8, 32])
def test_the_same_where_threads_run_at_once(body: str, subgroup: int) -> None:
    """Whatever the size of the hardware's subgroups is: meetings of larger teams go through memory of the block."""
    record = replace(PLAIN, launches=False, threads=True, subgroup_sizes=(subgroup,))
    for count in (1, 8, 21):
        expected = results(module_of(body), count)
        found = run_pipeline(module_of(body), knobs.Options(verify=True), record)
        assert (results(found, count) == expected).all()
        kinds = {op.kind for op in walk(found.kernel.body)}
        assert kinds.isdisjoint({"team_reduce", "team_scan"})
        assert subgroup > 1 or kinds.isdisjoint({"shuffle", "ballot"})


@pytest.mark.parametrize("by", ["add", "min", "mul"])
@pytest.mark.parametrize("size", [5, 33, 96, 128, 300])
@pytest.mark.parametrize("subgroup", [1, 8, 32, 64])
def test_large_blocks_combine_in_one_order(by: str, size: int, subgroup: int) -> None:
    body = f"""
    %a = team_reduce %v {{by = "{by}", width = 0}} : f32
    %b = team_scan %v {{by = "{by}", width = 0}} : f32
    %c = team_scan %v {{by = "{by}", exclusive = True, width = 0}} : f32
    %d = team_reduce %v {{by = "{by}", width = 64}} : f32
    %e = team_scan %v {{by = "{by}", exclusive = True, width = 16}} : f32
    %w = lt %v, %a : u1
    %m = ballot %w {{width = 64}} : u64
    %f = cast %m : f32
    %g = shuffle %f, %half {{width = 0}} : f32
    %p = add %a, %b : f32
    %q = add %c, %d : f32
    %r = add %e, %g : f32
    %s = add %p, %q : f32
    %z = add %s, %r : f32
    store %z, %y[%i]
    """
    head = _HEAD.replace('block_dim": 8', f'block_dim": {size}')

    def module() -> Any:
        return parse_module(head + body.strip("\n").rstrip() + _TAIL)

    def found(module: Any) -> np.ndarray:
        x = np.random.default_rng(size).normal(size=size + 70).astype(np.float32)
        y = np.zeros_like(x)
        interpret(module, [x, y])
        return y

    expected = found(module())
    record = replace(PLAIN, launches=False, threads=True, subgroup_sizes=(subgroup,))
    assert np.array_equal(found(run_pipeline(module(), knobs.Options(verify=True), record)), expected, equal_nan=True)
    blocks.run(apart := module(), PassContext())
    assert np.array_equal(found(apart), expected, equal_nan=True)
    assert np.isfinite(expected).sum() > size // 2 or by != "add"


def test_threads_at_different_meetings_are_found() -> None:
    module = module_of("""
    %some = lt %t, %half : u1
    if %some {
      barrier
    }
    """)
    with pytest.raises(QuadrantsAssertionError, match="different meetings"):
        results(module, 8)


def test_too_much_memory_is_refused() -> None:
    module = module_of("""
    %own = slot {type = matrix<f32, 600000>} : array<f32, 1, 600000, L>
    store %v, %own[%t]
    barrier
    """)
    with pytest.raises(QuadrantsUnsupportedError, match="needs too much memory"):
        blocks.run(module, PassContext())


def test_nothing_of_threads_is_left_at_later_stages() -> None:
    module = module_of("    barrier")
    module.stage = "tasks"
    with pytest.raises(VerificationError, match="thread_index in stage tasks"):
        verify(module)
