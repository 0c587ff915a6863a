"""Records behave as dataclasses do: frozen ones, and those that change."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from quadrants.records import MutableRecord, Record, dataclass_names, fresh, replace


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
        setattr(point, "x", 2)
    with pytest.raises(AttributeError, match=r"Point\.x"):
        del point.x
    assert point.x == 1


def test_equality_and_hashes() -> None:
    assert Point(1) == Point(1, 2) and hash(Point(1)) == hash(Point(1, 2))
    assert Point(1) != Point(2) and Point(1) != Named(1) and Point(1) != (1, 2)
    assert len({Point(1), Point(1, 2), Named(1)}) == 2
    with pytest.raises(TypeError):
        hash(Point([]))


def test_the_text_of_a_record() -> None:
    assert repr(Named(1, name="a")) == "Named(x=1, y=2, name='a')"


class Found(MutableRecord):
    where: Point
    names: list[str] = fresh(list[str])
    count: int = 0


def test_records_that_change() -> None:
    one, two = Found(Point(1)), Found(Point(1))
    one.names.append("a")
    one.count += 1
    assert (one.names, one.count, two.names, two.count) == (["a"], 1, [], 0)
    assert one != two and two == Found(Point(1), [], 0) and Found(Point(1), names=["b"]).names == ["b"]
    assert list(Found.fields()) == ["names"]
    with pytest.raises(TypeError):
        hash(one)


def test_replacing_fields() -> None:
    assert replace(Named(1, name="a"), y=5) == Named(1, 5, "a")
    with pytest.raises(TypeError, match="Named"):
        replace(Named(1), z=1)


def test_fields_of_dataclasses() -> None:
    assert dataclass_names(dataclasses.make_dataclass("Pair", ["left", "right"])) == ("left", "right")
    assert dataclass_names(Point) is None and dataclass_names(tuple) is None
