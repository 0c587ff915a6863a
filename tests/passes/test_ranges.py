"""What is known of the numbers that values lie between."""

from __future__ import annotations

import pytest

from quadrants.ir.builder import Builder
from quadrants.ir.nodes import Block, Value
from quadrants.ir.types import ScalarType, i8, i32, i64, u8, u64
from quadrants.passes.ranges import Range, Ranges


def _at_most_three(builder: Builder) -> Value:
    return builder.min(builder.block.add_argument(i64, "n"), builder.index(3))


@pytest.mark.parametrize(
    ("type_", "expected"),
    [(i64, (1, 3)), (i32, (None, None)), (u8, (None, None)), (u64, (None, None))],
    ids=lambda value: getattr(value, "name", None),
)
def test_what_wraps_around_has_no_range(type_: ScalarType, expected: Range) -> None:
    builder = Builder(Block())
    number = builder.cast(_at_most_three(builder), type_)
    assert Ranges().of(builder.max(number, builder.constant(1, type_))) == expected


@pytest.mark.parametrize("type_", [i8, u8, i32, i64, u64], ids=lambda type_: type_.name)
def test_what_lies_within_a_type_stays(type_: ScalarType) -> None:
    builder = Builder(Block())
    rest = builder.mod(builder.block.add_argument(i64, "n"), builder.index(7))
    number = builder.cast(rest, type_)
    assert Ranges().of(number) == (0, 6)
    lower = builder.sub(number, builder.constant(1, type_))
    assert Ranges().of(lower) == ((-1, 5) if type_.is_signed else (None, None))
