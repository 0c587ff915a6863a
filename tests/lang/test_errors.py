from __future__ import annotations

import pytest

import quadrants as qd
from quadrants import errors
from quadrants.errors import SourceLocation


def test_error_shows_line_caret_and_way_out():
    place = SourceLocation("saxpy.py", 6, 15, 23, "        y[i] = a & x[i]\n")
    other = SourceLocation("saxpy.py", 2, 4, 5, "    a = 0.5")
    error = errors.QuadrantsTypeError.at(
        place,
        "bad operands of &",
        "use qd.bit_cast",
        found="f32 and i32",
        expected="integers",
        notes=[(other, "a is a float")],
    )
    assert str(error).splitlines() == [
        "saxpy.py:6:16: bad operands of &",
        "    y[i] = a & x[i]",
        "           ^~~~~~~~",
        "  found:    f32 and i32",
        "  expected: integers",
        "  saxpy.py:2:5: a is a float",
        "    a = 0.5",
        "    ^",
        "  help: use qd.bit_cast",
    ]
    assert error.location is place


def test_error_without_source_or_location():
    assert str(errors.CompilationError.at(None, "no source")) == "no source"
    assert str(errors.CompilationError.at(SourceLocation("<stdin>", 1), "x")) == "<stdin>:1:1: x"


@pytest.mark.parametrize(
    "error, base",
    [
        (errors.QuadrantsSyntaxError, SyntaxError),
        (errors.QuadrantsNameError, NameError),
        (errors.QuadrantsIndexError, IndexError),
        (errors.QuadrantsTypeError, TypeError),
        (errors.QuadrantsUnsupportedError, NotImplementedError),
    ],
)
def test_compile_errors_are_pythons_too(error, base):
    assert issubclass(error, base) and issubclass(error, errors.QuadrantsCompilationError)
    with pytest.raises(base, match="text"):
        raise error.at(None, "text")


def test_run_time_errors():
    assert issubclass(errors.QuadrantsAssertionError, (errors.QuadrantsRuntimeError, AssertionError))
    assert issubclass(errors.QuadrantsBoundsError, IndexError) and issubclass(
        errors.QuadrantsBoundsError, AssertionError
    )
    assert issubclass(errors.QuadrantsRuntimeTypeError, TypeError)


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        ("quadrants", "dataclass", "Python's dataclasses"),
        ("quadrants.types", "struct", "Python's dataclasses"),
        ("quadrants", "ad", "not differentiated"),
        ("quadrants", "no_such_name", "has no attribute 'no_such_name'"),
    ],
)
def test_names_that_are_not_there(module: str, name: str, instead: str) -> None:
    owner = qd.types if module.endswith("types") else qd
    with pytest.raises(AttributeError, match=instead) as caught:
        getattr(owner, name)
    assert str(caught.value).startswith(f"module '{module}' has no attribute")
    assert not hasattr(owner, name)
