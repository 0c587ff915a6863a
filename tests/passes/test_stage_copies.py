"""Contractions whose factors are copied into shared memory while threads compute: every shape of tiles means what the nest means,
whatever lines are aligned, and what may not be copied as it is goes by way of registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import stage_copies, stage_tiles
from quadrants.passes.context import PassContext
from quadrants.passes.stage_code import StageShape
from quadrants.passes.tensor_code import TensorShape
from quadrants.records import replace

from .contraction_nests import CARRIED, KERNEL, UPDATED, module_of
from .test_stage_tiles import BATCH, TENSORS, TRANSPOSED, narrow_module

pytestmark = [pytest.mark.slow]  # each runs its kernels

COPYING = replace(TENSORS, asynchronous_copies=True)
PLANES = """parallel for %i, %j in %0 .. %m, %0 .. %n {
  %s = for %k in %0 .. %d carry (%t = %z) : TYPE {
    %x = load %a[%k, %i] : TYPE
    %y = load %b[%k, %j] : TYPE
    %p = mul %x, %y : TYPE
    %u = STEP %t, %p {reassociate = True} : TYPE
    yield %u
  }
  store %s, %c[%i, %j]
}"""
BIASED = """parallel for %j in %0 .. %n {
  %bias = load %a[%0, %j] : TYPE
  for %i in %0 .. %m {
    %s = for %k in %0 .. %d carry (%t = %z) : TYPE {
      %x = load %a[%i, %k] : TYPE
      %y = load %b[%k, %j] : TYPE
      %p = mul %x, %y : TYPE
      %u = STEP %t, %p {reassociate = True} : TYPE
      yield %u
    }
    %r = add %s, %bias : TYPE
    store %r, %c[%i, %j]
  }
}"""
LATER = "%1 = constant 1 : i64\n" + CARRIED.replace("in %0 .. %m, %0 .. %n", "in %1 .. %m, %1 .. %n").replace(
    "in %0 .. %d", "in %1 .. %d"
)
"""Lines are aligned where elements are that nobody asks for."""
FORMS = {
    **{"carried": CARRIED, "biased": BIASED, "transposed": TRANSPOSED, "updated": UPDATED, "planes": PLANES},
    "later": LATER,
}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_tiles, "_SMALLEST", 1)
    monkeypatch.setattr(stage_tiles, "_LEAST", 1)


def copied(module: Module, kind: str = "contractions in shared memory") -> bool:
    """Whether the module's contraction is copied."""
    context = PassContext(knobs.Options(), COPYING)
    stage_tiles.run(module, context)
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    assert context.counters.get(kind) == 1
    return any(op.kind == "copy_begin" for op in walk(module.kernel.body))


def matrices(form: str, sizes: tuple[int, int, int], width: int, dtype: Any) -> tuple[np.ndarray, ...]:
    """Factors and sums, their lines multiples of `width` elements."""
    rows, columns, depth = sizes
    generator = np.random.default_rng(1)
    square = max(sizes)
    shapes = (
        [(rows, square), (square, columns), (rows, columns)]
        if form is BIASED
        else [(square, square)] * 2 + [(rows, columns)]
    )
    if form is CARRIED or form is UPDATED:
        shapes = [(rows, depth), (depth, columns), (rows, columns)]
    found = []
    for height, length in shapes:
        wide = -(-length // width) * width
        found.append(generator.integers(-9, 9, (height, wide)).astype(dtype)[:, :length])
    return tuple(found)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [(9, 17, 4), (18, 16, 11)])
@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("shape", [(StageShape(4, 4, 16, 16, 4), 3), (StageShape(8, 4, 16, 32, 8), 2)])
def test_copies_give_what_the_nest_gives(
    form: str, sizes: tuple[int, int, int], width: int, shape: tuple[StageShape, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_tiles, "shapes_of_copies", lambda record, scalar: [shape])
    scalar, dtype = ("f64", np.float64) if width == 1 else ("f32", np.float32)
    a, b, c = matrices(FORMS[form], sizes, width, dtype)
    plain, found = c.copy(), np.zeros((len(c), -(-c.shape[1] // width) * width), dtype)[:, : c.shape[1]]
    found[:] = c
    interpret(strided(module_of(FORMS[form], scalar=scalar)), [a, b, plain], debug=True)
    module = strided(module_of(FORMS[form], scalar=scalar))
    assert copied(module)
    interpret(module, [a, b, found], debug=True)
    assert (found == plain).all()


def strided(module: Module) -> Module:
    """The same for arrays of any strides."""
    return parse_module(print_module(module).replace(", C>", ", A>"))


@pytest.mark.parametrize("planes", [(False, False), (True, False), (True, True), (False, True)])
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((TensorShape(4, 4, 32, 16, 16, 16), 3), (40, 16, 35)),
        ((TensorShape(2, 8, 16, 64, 32, 16), 2), (16, 67, 40)),
        ((TensorShape(2, 4, 32, 64, 64, 16), 2), (64, 64, 70)),
    ],
)
@pytest.mark.parametrize("width", [1, 8])
def test_tensor_cores_give_what_the_nest_gives(
    planes: tuple[bool, bool],
    shape: tuple[TensorShape, int],
    sizes: tuple[int, int, int],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage_tiles, "shapes_of_tensor_copies", lambda record, scalar: [shape])
    rows, columns, depth = sizes
    narrow = "f16" if width == 8 else "bf16"
    generator = np.random.default_rng(2)
    text = print_module(narrow_module(narrow))
    if planes[0]:
        text = text.replace("load %a[%i, %k]", "load %a[%k, %i]").replace("%d = dim %a, 1", "%d = dim %a, 0")
    if planes[1]:
        text = text.replace("load %b[%k, %j]", "load %b[%j, %k]")
    module = strided(parse_module(text))
    assert copied(module, "contractions on tensor cores")
    a, b = (generator.integers(-9, 9, size).astype(np.float32) for size in ((rows, depth), (depth, columns)))
    c = generator.integers(-9, 9, (rows, columns)).astype(np.float32)
    expected = a @ b + 3 - c
    factors = []
    for factor, turned in zip((a, b), planes):
        bits = (factor.view(np.uint32) >> 16).astype(np.uint16) if narrow == "bf16" else factor.astype(np.float16)
        bits = bits.T if turned else bits
        wide = np.zeros((len(bits), -(-bits.shape[1] // width) * width), bits.dtype)
        wide[:, : bits.shape[1]] = bits
        factors.append(wide[:, : bits.shape[1]])
    interpret(module, [*factors, c])
    assert (c == expected).all()  # whole numbers: nothing is rounded


ROW = "%x = load %a[%i, %k]", "%r = load %order[%i] : i64\n    %x = load %a[%r, %k]"
DEPTH = "%y = load %b[%k, %j]", "%r = load %order[%k] : i64\n    %y = load %b[%r, %j]"


@pytest.mark.parametrize(("gathered", "length"), [(ROW, 9), (DEPTH, 4)])
def test_indices_in_memory_are_read_where_the_nest_reads_them(gathered: tuple[str, str], length: int) -> None:
    """A tile's rows and depths reach beyond those that there are."""
    text = KERNEL.replace("%c:", "%order: array<i64, 1, C>, %c:").replace("BODY", CARRIED.replace(*gathered))
    text = text.replace("constant 3", "constant 3.0").replace("TYPE", "f32").replace("STEP", "add")
    modules = [parse_module(text) for _ in range(2)]
    assert copied(modules[0])
    a, b, c = matrices(CARRIED, (9, 17, 4), 1, np.float32)
    order = np.random.default_rng(3).permutation(length)
    found = []
    for module in modules:
        found.append(c.copy())
        interpret(module, [a, b, order, found[-1]], debug=True)
    assert (found[0] == found[1]).all()


def test_what_is_computed_goes_by_way_of_registers() -> None:
    assert not copied(module_of(BATCH))
    skewed = CARRIED.replace("%x = load %a[%i, %k]", "%q = add %i, %k : i64\n    %x = load %a[%q, %k]")
    assert not copied(module_of(skewed)), "neighbours along the depth lie in several lines"
    assert copied(module_of(CARRIED))


@pytest.mark.parametrize("form", FORMS)
def test_what_is_said_to_be_aligned_is_asked_for(form: str) -> None:
    module = module_of(FORMS[form], scalar="f32")
    assert copied(module)
    ops = list(walk(module.kernel.body))
    asked = {op.operands[0] for op in ops if op.kind == "lines_aligned"}
    said = {op.operands[op.kind == "store"] for op in ops if op.kind in ("load", "store") and op.attribute("aligned")}
    in_memory = {array for array in said if array.type.has_descriptor}
    assert in_memory and in_memory <= asked


def test_long_statements_are_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, stores = (StageShape(4, 4, 16, 16, 4), 2), list[int]()
    monkeypatch.setattr(stage_tiles, "shapes_of_copies", lambda record, scalar: [shape])
    for most in (stage_copies.MOST_STATEMENTS, 16):
        monkeypatch.setattr(stage_copies, "MOST_STATEMENTS", most)
        module = module_of(CARRIED)
        assert copied(module)
        stores.append(sum(op.kind == "store" for op in walk(module.kernel.body)))
    assert stores[0] >= stores[1] + 16, "a thread's 16 sums are not written out"
    test_copies_give_what_the_nest_gives("carried", (18, 13, 5), 1, shape, monkeypatch)


@pytest.mark.parametrize("scalar", ["f32", "f64", "i32", "i64", "f16"])
def test_tiles_fit_into_what_blocks_have(scalar: str) -> None:
    narrow = scalar == "f16"
    module = narrow_module(scalar) if narrow else module_of(CARRIED, scalar=scalar)
    assert copied(module, f"contractions {'on tensor cores' if narrow else 'in shared memory'}")
    loops = [op for op in walk(module.kernel.body) if op.kind == "for" and op.attribute("threads")]
    threads = {"f16": [128, 128], "f32": [256, 256], "i32": [256, 256]}.get(scalar, [256, 64])
    assert [op.attribute("threads") for op in loops] == threads
