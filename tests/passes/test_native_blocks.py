"""Threads of blocks that run at once mean the same behind every pass: none moves memory accesses past a meeting, takes
the threads loop for a plain one, or makes two of a meeting."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, Op, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.threads import threads_loop_of
from quadrants.ir.verify import verify
from quadrants.passes import blocks, drop_atomics, mark_rows
from quadrants.passes.context import PassContext
from quadrants.passes.driver import run_pipeline
from quadrants.passes.native_blocks import bytes_of
from quadrants.passes.pipeline import PIPELINE
from quadrants.records import replace
from quadrants.targets.simulated.profiles import PLAIN

pytestmark = pytest.mark.slow

# Without a host of its own, so that what the pipeline makes is interpreted as it is.
RECORD = replace(PLAIN, launches=False, threads=True)

_HEAD = """quadrants-ir 1
stage kernel
kernel @f(%x: array<f32, 1, C>, %y: array<f32, 1, C>) {parameter_names = ["x", "y"]} {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %four = constant 4 : i64
  %eight = constant 8 : i64
  %n = dim %x, 0 : i64
  for %i in %zero .. %n {config = {"block_dim": 8}} {
    %t = thread_index {of = "block"} : i64
    %s = shared {type = matrix<f32, 8>} : array<f32, 1, 8, B>
    %v = load %x[%i] : f32
    %next = add %t, %one : i64
    %around = mod %next, %eight : i64
    %j = add %i, %one : i64
    %more = lt %j, %n : u1
    %u = select %more, %around, %zero : i64
"""
_TAIL = """
  }
}
"""
BODIES = {
    "what was stored is not what lies there behind a barrier": """
    store %v, %s[%zero]
    barrier
    %w = load %s[%zero] : f32
    store %w, %y[%i]
    """,
    "a load behind a barrier is not the one before": """
    store %v, %s[%t]
    barrier
    %a = load %s[%u] : f32
    barrier
    %b = neg %v : f32
    store %b, %s[%t]
    barrier
    %c = load %s[%u] : f32
    %d = sub %a, %c : f32
    store %d, %y[%i]
    """,
    "others read what is overwritten later": """
    %minus = neg %v : f32
    store %v, %s[%t]
    barrier
    %a = load %s[%u] : f32
    barrier
    store %minus, %s[%t]
    store %a, %y[%i]
    """,
    "others read an array that is overwritten later": """
    %minus = neg %v : f32
    store %v, %y[%i]
    barrier
    %first = sub %i, %t : i64
    %at = add %first, %u : i64
    %a = load %y[%at] : f32
    barrier
    %b = add %a, %minus : f32
    store %b, %y[%i]
    """,
    "a loop in which others write what it loads": """
    store %v, %s[%t]
    barrier
    for %k in %zero .. %four {
      %a = load %s[%u] : f32
      barrier
      store %a, %s[%t]
      barrier
    }
    %r = load %s[%t] : f32
    store %r, %y[%i]
    """,
    "an element that the threads of a block add to": """
    %none = constant 0.0 : f32
    store %none, %s[%zero]
    barrier
    %old = update add %v, %s[%zero] : f32
    barrier
    %r = load %s[%zero] : f32
    store %r, %y[%i]
    """,
    "an element that all threads add to": """
    %old = update add %v, %y[%zero] : f32
    """,
    "an element that is added to between meetings": """
    %none = constant 0.0 : f32
    store %none, %s[%zero]
    barrier
    %r = for %k in %zero .. %four carry (%sum = %none) : f32 {
      %old = update add %v, %s[%zero] : f32
      barrier
      %a = load %s[%zero] : f32
      barrier
      %b = add %sum, %a : f32
      yield %b
    }
    store %r, %y[%i]
    """,
    "a loop whose iterations threads compare with their numbers": """
    store %v, %s[%t]
    barrier
    %forty = constant 40 : i64
    for %k in %zero .. %forty {
      %before = lt %k, %t : u1
      %a = load %s[%u] : f32
      %b = neg %a : f32
      %c = select %before, %b, %a : f32
      barrier
      store %c, %s[%t]
      barrier
    }
    %r = load %s[%t] : f32
    store %r, %y[%i]
    """,
    "a loop that begins below zero for some": """
    %least = sub %zero, %t : i64
    %r = for %k in %least .. %eight carry (%a = %v) : f32 {
      %b = load %x[%k] {wrap = True} : f32
      %c = team_reduce %b {by = "add", width = 4} : f32
      %d = add %a, %c : f32
      yield %d
    }
    store %r, %y[%i]
    """,
    "a load in a loop behind a barrier there": """
    %none = constant 0.0 : f32
    store %v, %s[%t]
    %r = for %k in %zero .. %four carry (%sum = %none) : f32 {
      barrier
      %a = load %s[%u] : f32
      %b = add %sum, %a : f32
      yield %b
    }
    store %r, %y[%i]
    """,
    "others read elements that this thread reads not": """
    %wide = shared {type = matrix<f32, 16>} : array<f32, 1, 16, B>
    %minus = neg %v : f32
    store %v, %wide[%t]
    barrier
    %beside = load %wide[%next] : f32
    %in = lt %next, %eight : u1
    %both = bit_and %in, %more : u1
    %a = select %both, %beside, %v : f32
    barrier
    store %minus, %wide[%t]
    store %a, %y[%i]
    """,
    "values that are read from others": """
    store %v, %y[%i]
    %a = shuffle %v, %one {width = 4} : f32
    %b = team_scan %a {by = "add", width = 0} : f32
    %w = load %y[%i] : f32
    %c = sub %b, %w : f32
    store %c, %y[%i]
    """,
    "a product of rows with shared ones": """
    %none = constant 0.0 : f32
    store %v, %s[%t]
    barrier
    %r = for %k in %zero .. %next carry (%sum = %none) : f32 {
      %a = load %s[%k] : f32
      %b = load %x[%k] : f32
      %c = mul %a, %b : f32
      %d = add %sum, %c : f32
      yield %d
    }
    store %r, %y[%i]
    """,
}


def module_of(body: str) -> Module:
    module = parse_module(_HEAD + body.strip("\n").rstrip() + _TAIL)
    verify(module)
    return module


def native(body: str) -> Module:
    """The program with its loop in the native form."""
    module = module_of(body)
    blocks.run(module, PassContext(record=RECORD))
    verify(module)
    assert any(threads_loop_of(op) is not None for op in module.kernel.body.ops if op.kind == "for")
    return module


def results(module: Module, count: int) -> np.ndarray:
    x = np.random.default_rng(count).integers(-5, 9, count).astype(np.float32)
    y = np.zeros_like(x)
    interpret(module, [x, y])
    return y


def options(**given: Any) -> knobs.Options:
    return knobs.Options(verify=True, **given)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("count", [8, 21])
def test_the_whole_pipeline_keeps_the_meaning(body: str, count: int) -> None:
    expected = results(module_of(body), count)
    assert (results(native(body), count) == expected).all()
    found = run_pipeline(module_of(body), options(), RECORD)
    assert any(threads_loop_of(op) is not None for op in walk(found.kernel.body) if op.kind == "for")
    assert (results(found, count) == expected).all()
    assert expected.any()


@pytest.mark.slow
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("left_out", [step.name for step in PIPELINE if not step.required])
def test_the_pipeline_without_one_pass_keeps_the_meaning(body: str, left_out: str) -> None:
    found = run_pipeline(module_of(body), options(disable_passes=(left_out,)), RECORD)
    assert (results(found, 21) == results(module_of(body), 21)).all()


LOWERED = """quadrants-ir 1
stage lowered
kernel @multiply(%a: array<f64, 2, C>, %b: array<f64, 2, C>, %c: array<f64, 2, C>) {
  %m = dim %c, 0 : i64
  %n = dim %c, 1 : i64
  %depth = dim %a, 1 : i64
  %zero = constant 0 : i64
  %start = constant 0.0 : f64
  parallel for %i in %zero .. %m {
    for %j in %zero .. %n {threads = 64} {
      %sum = for %k in %zero .. %depth carry (%s = %start) : f64 {
        %x = load %a[%i, %k] : f64
        %y = load %b[%k, %j] : f64
        %p = mul %x, %y : f64
        %t = add %s, %p {reassociate = True} : f64
        yield %t
      }
      store %sum, %c[%i, %j]
    }
  }
}
"""
TASKS = """quadrants-ir 1
stage tasks
kernel @sums(%pos: array<f32, 1, C>, %order: array<i32, 1, C>, %first: array<i64, 1, C>, %out: array<f32, 1, C>) {
  %zero = constant 0 : i64
  %one = constant 1 : i64
  %two = constant 2 : i64
  %start = constant 0.0 : f32
  %n = dim %out, 0 : i64
  parallel for %block in %zero .. %n {
    for %i in %zero .. %n {threads = 64} {
      for %d in %zero .. %two {
        %cell = add %i, %d : i64
        %next = add %cell, %one : i64
        %low = load %first[%cell] : i64
        %high = load %first[%next] : i64
        %sum = for %k in %low .. %high carry (%u = %start) : f32 {
          %o = load %order[%k] : i32
          %j = cast %o : i64
          %p = load %pos[%j] : f32
          %w = add %u, %p : f32
          yield %w
        }
        %old = update add %sum, %out[%next] : f32
      }
    }
  }
}
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (LOWERED, "tile"),
        (LOWERED, "vectorise"),
        (TASKS, "gather_once"),
        (TASKS, "scatter"),
    ],
)
def test_passes_that_take_loops_apart_leave_threads_loops_alone(text: str, name: str) -> None:
    def behind(text: str) -> str:
        module = parse_module(text)
        context = PassContext(record=replace(RECORD, vector_bits=256, maximum_vector_bits=256))
        importlib.import_module(f"quadrants.passes.{name}").run(module, context)
        return print_module(module)

    plain = text.replace(" {threads = 64}", "")
    assert behind(text) == text and behind(plain) != plain


def test_threads_loops_are_no_rows_of_their_own() -> None:
    module, plain = parse_module(TASKS), parse_module(TASKS.replace(" {threads = 64}", ""))
    mark_rows.run(module, PassContext())
    mark_rows.run(plain, PassContext())
    assert "%zero .. %n {threads = 64} {" in print_module(module)
    assert "%zero .. %n {independent = True} {" in print_module(plain)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_lanes_leave_threads_loops_alone(body: str) -> None:
    record = replace(RECORD, vector_bits=256, maximum_vector_bits=256)
    found = run_pipeline(module_of(body), options(lanes=8), record)
    assert (results(found, 21) == results(module_of(body), 21)).all()


def constant_width(body: str, threads: int) -> Module:
    """A grid loop whose blocks have so many threads, known at compile time."""
    text = print_module(native(body))
    low, _, rest = text.partition(" {threads = 8}")
    head, _, bounds = low.rpartition("for %thread in ")
    first, _, _ = bounds.partition(" .. ")
    made = f"{head}%few = constant {threads} : i64\n    for %thread in {first} .. %few {{threads = 8}}{rest}"
    return parse_module(made)


@pytest.mark.parametrize("threads", [1, 4])
def test_short_threads_loops_stay(threads: int) -> None:
    module = constant_width(BODIES["what was stored is not what lies there behind a barrier"], threads)
    verify(module)
    expected = results(module, 8)
    found = run_pipeline(module, options(), RECORD)
    assert any(threads_loop_of(op) is not None for op in walk(found.kernel.body) if op.kind == "for")
    assert (results(found, 8) == expected).all() and expected.any()


def test_a_single_block_keeps_its_grid_loop() -> None:
    text = print_module(native(BODIES["what was stored is not what lies there behind a barrier"]))
    head, _, bounds = text.partition("  for %block in ")
    first, _, rest = bounds.partition(" .. ")
    module = parse_module(
        f"{head}  %once = constant 1 : i64\n  for %block in {first} .. %once{rest[rest.index(' {') :]}"
    )
    expected = results(module, 8)
    found = run_pipeline(module, options(), RECORD)
    assert any(threads_loop_of(op) is not None for op in walk(found.kernel.body) if op.kind == "for")
    assert (results(found, 8) == expected).all() and expected.any()


def updates(module: Module) -> list[Op]:
    return [op for op in walk(module.kernel.body) if op.kind == "update"]


@pytest.mark.parametrize("name", [name for name in BODIES if "add" in name])
def test_updates_of_threads_stay_atomic(name: str) -> None:
    """The interpreter, which runs threads in turn, would not see it."""
    module = native(BODIES[name])
    module.stage = "tasks"
    for op in module.kernel.body.ops:
        if op.kind == "for":
            op.attributes["parallel"] = True
    drop_atomics.run(module, PassContext())
    assert updates(module)
    assert all(op.attribute("atomic", True) for op in updates(module))
    found = run_pipeline(module_of(BODIES[name]), options(), RECORD)
    assert updates(found)
    assert all(op.attribute("atomic", True) for op in updates(found))


def test_grid_loops_are_not_joined() -> None:
    body = '    %w = team_reduce %v {by = "add", width = 0} : f32\n    store %w, %y[%i]'
    text = _HEAD + body + _TAIL
    loop = text[text.index("  for %i") : text.rindex("}\n")]
    again = loop.replace("%w", "%w2").replace("load %x", "load %y").replace('"add"', '"max"')
    double = parse_module(text.replace(loop, loop + _renamed(again)))
    verify(double)
    expected = results(double, 21)
    found = run_pipeline(double, options(), RECORD)
    assert sum(threads_loop_of(op) is not None for op in walk(found.kernel.body) if op.kind == "for") == 2
    assert (results(found, 21) == expected).all()


def _renamed(text: str) -> str:
    for name in ("i", "t", "s", "v", "next", "around", "j", "more", "u"):
        text = (
            text.replace(f"%{name} ", f"%{name}.2 ")
            .replace(f"%{name},", f"%{name}.2,")
            .replace(f"%{name}]", f"%{name}.2]")
        )
    return text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"block_threads": 4}, "at most 4 at once"),
        ({"block_threads": 0}, "none at once"),
    ],
)
def test_what_the_target_cannot_run_at_once_is_taken_apart(change: dict[str, int], reason: str) -> None:
    body = BODIES["a load behind a barrier is not the one before"]
    module = module_of(body)
    context = PassContext(record=replace(RECORD, **change))
    blocks.run(module, context)
    verify(module)
    assert not any(threads_loop_of(op) for op in module.kernel.body.ops if op.kind == "for")
    assert reason in context.notices[0].text
    assert (results(module, 21) == results(module_of(body), 21)).all()


def test_more_memory_than_a_block_has_is_refused() -> None:
    module = module_of(BODIES["a load behind a barrier is not the one before"])
    context = PassContext(record=replace(RECORD, shared_memory_bytes=16))
    with pytest.raises(
        QuadrantsUnsupportedError, match=r"a block shares 32 bytes, and the target \S+ has 16"
    ) as caught:
        blocks.run(module, context)
    assert "serialize=True" in str(caught.value)


def test_memory_for_meetings_counts_too() -> None:
    """A block of 8 threads on hardware whose subgroups have 4: an element a subgroup for the sum, one a thread for
    the prefixes, beside 32 bytes of the program's."""
    body = """
    store %v, %s[%t]
    %a = team_reduce %v {by = "add", width = 0} : f32
    %b = team_scan %t {by = "add", width = 8} : i64
    %c = cast %b : f32
    %d = add %a, %c : f32
    store %d, %y[%i]
    """
    needed = 32 + 16 + 8 * 8  # the sum's elements take 8 bytes, and what lies behind them is aligned
    for room in (needed - 1, needed):
        record = replace(RECORD, subgroup_sizes=(4,), shared_memory_bytes=room)
        context = PassContext(options(), record)
        found = run_pipeline(module_of(body), context=context)
        assert (results(found, 21) == results(module_of(body), 21)).all()
        grids = [op for op in walk(found.kernel.body) if op.kind == "for" and threads_loop_of(op) is not None]
        assert len(grids) == (room == needed)
        shared = [op for grid in grids for op in grid.regions[0].ops if op.kind == "shared"]
        assert sum([bytes_of(op.attributes["type"]) for op in shared]) <= room
        assert any(f"a block shares {needed} bytes" in notice.text for notice in context.notices) == (room < needed)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("%z = random : u64\n    barrier", "random numbers"),
        (
            "%odd = bit_and %t, %one : i64\n    %is = eq %odd, %one : u1\n    if %is {\n"
            '      %w = team_reduce %v {by = "add", width = 64} : f32\n      store %w, %y[%i]\n    }',
            "larger than the hardware's 32",
        ),
    ],
)
def test_what_cannot_be_done_at_once_is_taken_apart(body: str, reason: str) -> None:
    module, context = module_of("    " + body), PassContext(record=RECORD)
    blocks.run(module, context)
    assert not any(threads_loop_of(op) for op in module.kernel.body.ops if op.kind == "for")
    assert reason in context.notices[0].text
