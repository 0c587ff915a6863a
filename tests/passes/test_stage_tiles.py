"""Contractions in shared memory: which nests are, and that every shape of tiles means what the nest means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.threads import threads_loop_of
from quadrants.ir.verify import verify
from quadrants.passes import stage_code, stage_tiles
from quadrants.passes.context import PassContext
from quadrants.passes.stage_code import StageShape
from quadrants.passes.tensor_code import TensorShape
from quadrants.records import replace
from quadrants.targets.capability import CapabilityRecord

from .contraction_nests import CARRIED, KERNEL, PRODUCT, UPDATED, module_of

pytestmark = [pytest.mark.slow]  # each runs its kernels

TRANSPOSED = CARRIED.replace("%a[%i, %k]", "%a[%k, %i]").replace("%b[%k, %j]", "%b[%j, %k]")
BATCH = """%1 = constant 1 : i64
parallel for %q, %i, %j in %1 .. %m, %0 .. %m, %0 .. %n {
  %s = for %k in %1 .. %d carry (%t = %z) : TYPE {
    %x = load %a[%i, %k] : TYPE
    %y = load %b[%k, %j] : TYPE
    %g = load %a[%q, %k] : TYPE
    %h = sub %x, %g : TYPE
    %p = mul %h, %y : TYPE
    %u = STEP %t, %p {reassociate = True} : TYPE
    yield %u
  }
  %last = sub %m, %1 : i64
  %own = eq %q, %last : u1
  if %own {
    store %s, %c[%i, %j]
  } else {
  }
}"""
FORMS = {"carried": CARRIED, "transposed": TRANSPOSED, "updated": UPDATED, "batch": BATCH}


def record(threads: int, size: int) -> CapabilityRecord:
    return CapabilityRecord(
        "blocks", "1", frozenset(), launches=True, block_threads=threads, subgroup_sizes=(4,), shared_memory_bytes=size
    )


def staged(module: Module, target: CapabilityRecord) -> int:
    context = PassContext(knobs.Options(), target)
    stage_tiles.run(module, context)
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return context.counters.get("contractions in shared memory", 0)


def results(form: str, step: str, sizes: tuple[int, int, int]) -> list[Any]:
    """With tiles, and without."""
    rows, columns, depth = sizes
    generator = np.random.default_rng(1)
    shapes = [(rows, depth), (depth, columns), (rows, columns)]
    if form is TRANSPOSED:
        shapes[:2] = [(max(rows, depth), max(rows, depth)), (columns, max(rows, depth))]
    a, b, c = (generator.integers(-9, 9, shape).astype(np.float64) for shape in shapes)
    found = []
    for tiled in (True, False):
        module = module_of(form, step)
        if tiled:
            assert staged(module, record(64, 1 << 14)) == 1
            assert any(op.kind == "for" and threads_loop_of(op) is not None for op in walk(module.kernel.body))
        result = c.copy()
        interpret(module, [a, b[::1], result], debug=True)
        found.append(result)
    return found


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tiles, "_SMALLEST", 1)
    monkeypatch.setattr(stage_tiles, "_LEAST", 1)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("step", ["add", pytest.param("sub", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "sizes", [(5, 7, 11), *[pytest.param(sizes, marks=pytest.mark.slow) for sizes in ((8, 16, 1), (9, 17, 4))]]
)
@pytest.mark.parametrize(
    "shape", [StageShape(4, 4, 8, 8, 2), pytest.param(StageShape(8, 4, 8, 16, 4), marks=pytest.mark.slow)]
)
def test_tiles_give_what_the_nest_gives(
    name: str, step: str, sizes: tuple[int, int, int], shape: StageShape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_tiles, "shapes_of_stages", lambda record, scalar: [shape])
    tiled, plain = results(FORMS[name], step, sizes)
    assert (tiled == plain).all()


@pytest.mark.usefixtures("_small")
def test_long_statements_are_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tiles, "shapes_of_stages", lambda record, scalar: [StageShape(8, 8, 16, 16, 4)])
    monkeypatch.setattr(stage_code, "MOST_STATEMENTS", 16)
    tiled, plain = results(CARRIED, "add", (18, 13, 5))
    assert (tiled == plain).all()


def test_only_what_has_room_and_is_large_and_parallel_is_staged() -> None:
    large = record(256, 1 << 15)
    assert staged(module_of(CARRIED), large) == 1
    assert staged(module_of(CARRIED), record(0, 0)) == 0
    assert staged(module_of(CARRIED), record(256, 1 << 10)) == 0
    assert staged(module_of(CARRIED), record(32, 1 << 15)) == 0
    assert staged(module_of(CARRIED.replace("parallel ", "")), large) == 0
    small = CARRIED.replace("parallel", "%8 = constant 8 : i64\nparallel", 1)
    for bound in ("%m", "%n", "%d"):
        small = small.replace(f".. {bound}", ".. %8")
    assert staged(module_of(small), large) == 0


def test_the_host_waits_for_no_size_of_the_devices() -> None:
    loaded = "%v = load %a[%0, %0] : f64\n%w = cast %v : i64\n" + CARRIED.replace("in %0 .. %d", "in %0 .. %w")
    assert staged(module_of(loaded), record(256, 1 << 15)) == 0


@pytest.mark.parametrize("scalar", ["f32", "f64", "i32", "i64"])
def test_tiles_fit_into_what_blocks_have(scalar: str) -> None:
    module = module_of(CARRIED, scalar=scalar)
    assert staged(module, record(256, 48 * 1024)) == 1
    loops = [op for op in walk(module.kernel.body) if op.kind == "for" and op.attribute("threads")]
    assert [op.attribute("threads") for op in loops] == [256, 256 if scalar in ("f32", "i32") else 64]


@pytest.mark.slow
@pytest.mark.usefixtures("_small")
def test_few_large_tiles_become_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [StageShape(4, 4, 16, 16, 4), StageShape(4, 4, 4, 4, 4)]
    monkeypatch.setattr(stage_tiles, "shapes_of_stages", lambda record, scalar: shapes)
    for enough in (2, 1000):
        monkeypatch.setattr(stage_tiles, "_ENOUGH", enough)
        tiled, plain = results(CARRIED, "add", (18, 9, 5))
        assert (tiled == plain).all()


# Tensor cores.

NARROW = """%x16 = load %a[%i, %k] : NARROW
  %y16 = load %b[%k, %j] : NARROW
  %x = cast %x16 : f32
  %y = cast %y16 : f32
  %p = mul %x, %y : f32"""


def narrow_module(narrow: str, config: str = "") -> Module:
    product = NARROW if narrow != "f32" else PRODUCT
    text = (
        KERNEL.replace("BODY", CARRIED.replace(PRODUCT, product))
        .replace("STEP", "add")
        .replace("constant 3", "constant 3.0")
    )
    for name in "ab":
        text = text.replace(f"%{name}: array<TYPE", f"%{name}: array<NARROW")
    text = text.replace("NARROW", narrow).replace("TYPE", "f32")
    if config:
        text = text.replace("%0 .. %n {", f'%0 .. %n {{config = {{"tensor_cores": {config}}}}} {{')
    return parse_module(text)


def on_tensor_cores(module: Module, target: CapabilityRecord) -> int:
    context = PassContext(knobs.Options(), target)
    stage_tiles.run(module, context)
    verify(module)
    return context.counters.get("contractions on tensor cores", 0)


TENSORS = replace(record(256, 48 * 1024), tensor_products=frozenset(["f16", "bf16", "tf32"]))


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(
    ("narrow", "sizes"),
    [("f16", (17, 9, 19)), pytest.param("bf16", (33, 20, 16), marks=pytest.mark.slow), ("f32", (16, 8, 21))],
)
def test_tensor_cores_give_what_the_nest_gives(
    narrow: str, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = 32 if narrow == "f32" else 16
    shape = TensorShape(2, 2, 32, 16, 32 * 16 // bits, bits)
    monkeypatch.setattr(stage_tiles, "shapes_on_tensor_cores", lambda record, scalar: [shape])
    rows, columns, depth = sizes
    generator = np.random.default_rng(2)
    held = {"f16": np.float16, "bf16": np.uint16, "f32": np.float32}[narrow]
    a, b, c = (
        generator.integers(-9, 9, size).astype(np.float32)
        for size in ((rows, depth), (depth, columns), (rows, columns))
    )
    expected = a @ b + 3 - c
    factors = [(x.view(np.uint32) >> 16).astype(held) if narrow == "bf16" else x.astype(held) for x in (a, b)]
    module = narrow_module(narrow, '"tf32"')
    assert on_tensor_cores(module, TENSORS) == 1
    interpret(module, [*factors, c], debug=True)
    assert (c == expected).all()  # whole numbers: nothing is rounded


def test_f32_is_rounded_to_nearest_and_only_on_the_users_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tiles, "_LEAST", 1)
    monkeypatch.setattr(stage_tiles, "_SMALLEST", 1)
    assert on_tensor_cores(narrow_module("f32"), TENSORS) == 0
    monkeypatch.setattr(stage_tiles, "shapes_on_tensor_cores", lambda record, scalar: [TensorShape(2, 2, 16, 8, 8, 32)])
    module = narrow_module("f32", '"tf32"')
    assert on_tensor_cores(module, TENSORS) == 1
    a, b = np.zeros((1, 4), np.float32), np.ones((4, 1), np.float32)
    for value, rounded in ((1 + 2**-10 + 2**-11, 1 + 2**-9), (1 + 2**-12, 1.0), (np.inf, np.inf), (np.nan, np.nan)):
        a[0, 0] = value
        c = np.full((1, 1), 3, np.float32)
        interpret(module, [a, b, c])
        assert np.array_equal(c[0, 0], np.float32(rounded), equal_nan=True)


def test_tensor_cores_are_left_alone_where_they_are_not_there_or_not_wanted() -> None:
    assert on_tensor_cores(narrow_module("f16"), TENSORS) == 1
    assert on_tensor_cores(narrow_module("f16", "False"), TENSORS) == 0
    assert on_tensor_cores(narrow_module("f16"), replace(TENSORS, tensor_products=frozenset())) == 0
    assert on_tensor_cores(narrow_module("f16"), replace(TENSORS, shared_memory_bytes=1 << 10)) == 0
    assert on_tensor_cores(module_of(CARRIED), TENSORS) == 0
