"""Contractions in tiles: which nests are, and that every shape of tiles means what the nest means."""

from __future__ import annotations

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import tile
from quadrants.passes.context import PassContext
from quadrants.passes.tile_code import TileShape
from quadrants.targets.capability import CapabilityRecord

from .contraction_nests import CARRIED, PRODUCT, UPDATED, module_of

pytestmark = pytest.mark.slow

SERIAL = (
    CARRIED.replace("parallel for %i, %j in %0 .. %m, %0 .. %n {", "for %j in %0 .. %n {\nfor %i in %0 .. %m {") + "\n}"
)
STORED = f"""for %k, %i, %j in %0 .. %d, %0 .. %m, %0 .. %n {{
  {PRODUCT}
  %t = load %c[%i, %j] : TYPE
  %u = STEP %t, %p : TYPE
  store %u, %c[%i, %j]
}}"""
FORMS = {"carried": CARRIED, "serial": SERIAL, "updated": UPDATED, "stored": STORED}
VECTORS = CapabilityRecord("vectors", "1", frozenset(), vector_bits=256, maximum_vector_bits=256)


def _tiled(module: Module, *more: object) -> int:
    context = PassContext(knobs.Options(), VECTORS)
    tile.run(module, context)
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return context.counters.get("contractions in tiles", 0)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("step", ["add", "sub"])
@pytest.mark.parametrize("sizes", [(5, 7, 11), (4, 8, 16), (9, 17, 1)])
@pytest.mark.parametrize("shape", [TileShape(2, 2, 2, 4, 8, 5), TileShape(6, 3, 1, 6, 9, 4)])
def test_tiles_give_what_the_nest_gives(
    name: str, step: str, sizes: tuple[int, int, int], shape: TileShape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tile, "_SMALLEST", 1)
    monkeypatch.setattr(tile, "_SHALLOWEST", 1)
    monkeypatch.setattr(tile, "shape_of_tiles", lambda record, scalar: shape)
    rows, columns, depth = sizes
    generator = np.random.default_rng(1)
    a, b, c = (
        generator.integers(-9, 9, shape).astype(np.float64)
        for shape in ((rows, depth), (depth, columns), (rows, columns))
    )
    found = []
    for tiled in (True, False):
        module = module_of(FORMS[name], step)
        assert not tiled or _tiled(module) == 1
        result = c.copy()
        interpret(module, [a, b[::1], result])
        found.append(result)
    assert (found[0] == found[1]).all()


def _refused(text: str) -> bool:
    return _tiled(module_of(text)) == 0


def test_what_depends_on_order_is_left() -> None:
    assert _refused(SERIAL.replace("%old = load %c[%i, %j]", "%old = load %c[%j, %i]"))
    assert _refused(STORED.replace("store %u, %c[%i, %j]", "store %u, %c[%i, %k]"))


def test_factors_that_are_written_are_left() -> None:
    assert _refused(CARRIED.replace("store %new, %c", "store %new, %a").replace("load %c", "load %a"))


def test_sums_whose_order_is_fixed_are_left() -> None:
    assert _refused(CARRIED.replace(" {reassociate = True}", ""))


def test_products_of_a_matrix_and_a_vector_are_left() -> None:
    assert _refused(CARRIED.replace("%b[%k, %j]", "%b[%k, %0]"))


def test_uneven_bounds_are_left() -> None:
    assert _refused(CARRIED.replace("in %0 .. %d carry", "in %i .. %d carry"))


def test_small_sizes_that_the_code_tells_take_no_tiles() -> None:
    text = CARRIED.replace("parallel", "%8 = constant 8 : i64\nparallel", 1)
    for bound in ("%m", "%n", "%d"):
        text = text.replace(f".. {bound}", ".. %8")
    assert _refused(text)


def test_small_sizes_keep_their_loops() -> None:
    module = module_of(CARRIED)
    assert _tiled(module) == 1
    (branch,) = [op for op in walk(module.kernel.body) if op.kind == "if" and len(op.regions[1].ops) == 2]
    assert not any(op.attribute("tile") for op in walk(branch.regions[1]))


def test_lanes_that_the_user_chose_are_kept() -> None:
    module = module_of(CARRIED)
    tile.run(module, PassContext(knobs.Options(lanes=4), VECTORS))
    assert not any(op.attribute("tile") for op in walk(module.kernel.body))
