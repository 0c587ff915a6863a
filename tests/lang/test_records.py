"""Records behave as frozen dataclasses do."""

from __future__ import annotations

from typing import Any

import pytest

from quadrants.records import Record


class Point(Record):
    """A place."""

    x: int
    y: int = 2


class Named(Point):
    name: str = ""


def test_fields_by_position_and_name() -> None:
    assert (Point(1).x, Point(1).y, Point(y=3, x=1).y) == (1, 2, 3)
    assert Named(1, 2, "a").name == "a" and Named(1).name == ""


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1}), ((), {"y": 1})],
)
def test_wrong_fields(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="Point"):
        Point(*values, **named)


def test_records_do_not_change() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match=r"Point\.x"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"Point\.x"):
        del point.x
    assert point.x == 1


def test_equality_and_hashes() -> None:
    assert Point(1) == Point(1, 2) and hash(Point(1)) == hash(Point(1, 2))
    assert Point(1) != Point(2) and Point(1) != Named(1) and Point(1) != (1, 2)
    assert len({Point(1), Point(1, 2), Named(1)}) == 2
    with pytest.raises(TypeError):
        hash(Point([]))  # type: ignore[arg-type]


def test_the_text_of_a_record() -> None:
    assert repr(Named(1, name="a")) == "Named(x=1, y=2, name='a')"
