"""What kernels print reads as what Python prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsCompilationError


class Pair(NamedTuple):
    a: int
    b: float


@dataclass
class Point:
    x: float
    name: str = "p"
    hidden: float = field(default=0.0, repr=False)


@dataclass
class Spoken:
    x: float

    def __str__(self) -> str:
        return "spoken"


def objects(n):
    print(Pair(n, n / 2), Point(n / 4), (Pair(1, 2.5), [Point(1.0, "q")]), ("a", n), ["b"])


def conversions(n):
    print(f"{n!r:8}|{n!s:>8}|{n / 2!r:^9}|{'q'!r}|{n!s}|{'q'!s:>3}|{n > 2!s}")


@pytest.mark.parametrize("arch", [knobs.host_arch().name, "reference"])
@pytest.mark.parametrize("function", [objects, conversions])
def test_reads_as_in_python(function, arch: str, capfd: pytest.CaptureFixture[str]) -> None:
    function(3)
    expected = capfd.readouterr().out
    qd.init(arch=arch, default_ip=qd.i64, default_fp=qd.f64, log_level="error")
    qd.kernel(function)(3)
    qd.sync()
    assert capfd.readouterr().out.endswith(expected)


def spoken(n):
    print(Spoken(n))


def truth_as_text(n):
    print(f"{n > 2!s:>6}")


@pytest.mark.parametrize("function, says", [(spoken, "the class's own"), (truth_as_text, "leave out the !s")])
def test_refused(function, says: str) -> None:
    with pytest.raises(QuadrantsCompilationError, match=says) as caught:
        qd.kernel(function)(3)
    assert caught.value.location is not None
    assert caught.value.location.line == function.__code__.co_firstlineno + 1
