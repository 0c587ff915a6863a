"""Boxes of arrays in shared memory: which stencils gain by them, and that they mean what the loops mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import stage_boxes
from quadrants.passes.context import PassContext
from quadrants.records import replace
from quadrants.targets.capability import CapabilityRecord

pytestmark = [pytest.mark.slow]  # each runs its kernels

NAMES = "ijk"
RECORD = CapabilityRecord(
    "blocks", "1", frozenset(), launches=True, block_threads=256, subgroup_sizes=(32,), shared_memory_bytes=48 * 1024
)


def stencil(offsets: Sequence[tuple[int, ...]], rank: int, guarded: bool = False, fixed: str = "") -> Module:
    """y[i…] = Σ w x[i + a, …] over inner points, or over all with the loads under conditions."""
    reach = 0 if guarded else max(abs(part) for place in offsets for part in place)
    lines = [f"    %p0 = constant {0.0} : f64"]
    for number, place in enumerate(offsets):
        for axis, part in enumerate(place):
            lines += [f"    %c{number}.{axis} = constant {part} : i64"]
            lines += [f"    %x{number}.{axis} = add %{NAMES[axis]}, %c{number}.{axis} : i64"]
        index = ", ".join([*([fixed] if fixed else []), *[f"%x{number}.{axis}" for axis in range(rank)]])
        load = [f"%v{number} = load %x[{index}] : f64"]
        if guarded:
            tests = []
            for axis in range(rank):
                tests += [
                    f"%g{number}.{axis} = ge %x{number}.{axis}, %zero : u1",
                    f"%h{number}.{axis} = lt %x{number}.{axis}, %n{axis} : u1",
                    f"%b{number}.{axis} = bit_and %g{number}.{axis}, %h{number}.{axis} : u1",
                ]
            both = f"%b{number}.0"
            for axis in range(1, rank):
                tests.append(f"%t{number}.{axis} = bit_and {both}, %b{number}.{axis} : u1")
                both = f"%t{number}.{axis}"
            load = [
                *tests,
                f"%w{number} = if {both} : f64 {{",
                *load,
                f"yield %v{number}",
                "} else {",
                "yield %none",
                "}",
                f"%q{number} = mul %w{number}, %two : f64",
            ]
        else:
            load.append(f"%q{number} = mul %v{number}, %two : f64")
        lines += ["    " + line for line in load]
        lines.append(f"    %p{number + 1} = add %p{number}, %q{number} : f64")
    rank_of_x = rank + bool(fixed)
    counters = ", ".join([f"%{name}" for name in NAMES[:rank]])
    ranges = ", ".join([f"%low .. %m{axis}" for axis in range(rank)])
    text = "\n".join(
        [
            "quadrants-ir 1",
            "stage lowered",
            f"kernel @f(%x: array<f64, {rank_of_x}, C>, %y: array<f64, {rank}, C>, %at: i64) {{",
            "  %zero = constant 0 : i64",
            "  %none = constant 0.5 : f64",
            "  %two = constant 2.0 : f64",
            f"  %low = constant {reach} : i64",
            *[f"  %n{axis} = dim %y, {axis} : i64\n  %m{axis} = sub %n{axis}, %low : i64" for axis in range(rank)],
            f"  parallel for {counters} in {ranges} {{",
            *lines,
            f"    store %p{len(offsets)}, %y[{counters}]",
            "  }",
            "}",
        ]
    )
    module = parse_module(text)
    verify(module)
    return module


def boxes(module: Module, record: CapabilityRecord = RECORD) -> int:
    context = PassContext(knobs.Options(), record)
    stage_boxes.run(module, context)
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return context.counters.get("boxes in shared memory", 0)


def box(rank: int, reach: int) -> list[tuple[int, ...]]:
    side = range(-reach, reach + 1)
    grids = np.meshgrid(*[side] * rank, indexing="ij")
    return list(map(tuple, np.stack([g.ravel() for g in grids], axis=1).tolist()))


def cross(rank: int) -> list[tuple[int, ...]]:
    return [place for place in box(rank, 1) if sum(map(abs, place)) <= 1]


SMALL = {1: (4,), 2: (2, 4), 3: (1, 2, 4)}


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize(
    ("rank", "shape"),
    [
        (1, (11,)),
        (2, (5, 7)),
        pytest.param(2, (9, 10), marks=pytest.mark.slow),
        pytest.param(3, (4, 3, 6), marks=pytest.mark.slow),
        (2, (1, 1)),
        (2, (0, 4)),
    ],
)
def test_boxes_give_what_the_loop_gives(
    rank: int, shape: tuple[int, ...], guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_boxes, "_SHAPES", SMALL)
    monkeypatch.setattr(stage_boxes, "_GAIN", 0.0)
    x = np.random.default_rng(1).random(shape)
    found = []
    for staged in (True, False):
        module = stencil(box(rank, 1), rank, guarded)
        assert not staged or boxes(module) == 1
        y = np.zeros(shape)
        interpret(module, [x, y, np.int64(0)], debug=True)
        found.append(y)
    assert (found[0] == found[1]).all()


def test_an_axis_may_be_the_same_in_all_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_boxes, "_SHAPES", SMALL)
    monkeypatch.setattr(stage_boxes, "_GAIN", 0.0)
    x = np.random.default_rng(1).random((3, 6, 7))
    module = stencil(box(2, 2), 2, fixed="%at")
    assert boxes(module) == 1
    y, expected = np.zeros((6, 7)), np.zeros((6, 7))
    interpret(module, [x, y, np.int64(2)])
    interpret(stencil(box(2, 2), 2, fixed="%at"), [x, expected, np.int64(2)])
    assert (y == expected).all()


def test_only_where_the_model_says_that_it_is_less_work() -> None:
    assert boxes(stencil(cross(2), 2)) == 0
    assert boxes(stencil(cross(3), 3)) == 0
    assert boxes(stencil(box(2, 1), 2)) == 0
    assert boxes(stencil(box(2, 2), 2)) == 1
    assert boxes(stencil(box(3, 1), 3)) == 0
    assert boxes(stencil(box(1, 8), 1)) == 1
    assert boxes(stencil([(0,), (1,), (2,)], 1)) == 0


def test_what_is_written_or_has_no_room_is_left() -> None:
    text = print_module(stencil(box(2, 2), 2))
    assert boxes(parse_module(text)) == 1
    assert boxes(parse_module(text.replace("store %p25, %y", "store %p25, %x"))) == 0
    assert boxes(parse_module(text), replace(RECORD, shared_memory_bytes=1 << 10)) == 0
    assert boxes(parse_module(text), replace(RECORD, block_threads=0)) == 0
    assert boxes(parse_module(text.replace("add %j, %c", "mul %j, %c"))) == 0
