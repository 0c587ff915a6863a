"""Every public name says what it is: its arguments or kinds of values, and what it raises where that is its own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import quadrants as qd

KINDS = re.compile(
    r"\b(numbers?|vectors?|matri(x|ces)|arrays?|fields?|ndarrays?|tensors?|integers?|floats?|ints?|dtype|types?|shape|text"
    r"|function|class|annotations?|kernels?|target|options?|loop|iteration|levels?|messages?|name)\b"
)
RAISES = re.compile(r"raise (?:errors\.)?(\w+(?:Error|Exception))\b")


def public() -> Iterator[tuple[str, Any]]:
    for prefix, space in (("qd", qd), ("qd.math", qd.math), ("qd.types", qd.types)):
        for name in space.__all__:
            yield f"{prefix}.{name}", getattr(space, name)


CALLABLES = [(name, thing) for name, thing in public() if callable(thing)]
CLASSES = {thing for _, thing in public() if isinstance(thing, type)} | {
    qd.types.ScalarType,
    type(qd.kernel(lambda: None)),
}


def parameters(thing: Any) -> set[str]:
    try:
        return set(inspect.signature(thing).parameters) - {"self", "cls"}
    except (TypeError, ValueError):
        return set()


@pytest.mark.parametrize(("name", "thing"), CALLABLES, ids=[name for name, _ in CALLABLES])
def test_public_name(name: str, thing: Any) -> None:
    text = inspect.getdoc(thing) or ""
    assert len(text) > 40, f"{name}: {text!r}"
    assert text[0].isupper() or text[0] in "`(" or text.split()[0].isidentifier() or text[0].isdigit() or text[0] == "-"
    names = parameters(thing)
    tells = KINDS.search(text) or any(re.search(rf"\b{re.escape(parameter)}\b", text) for parameter in names)
    assert tells or not names, f"{name} does not say what it takes: {text!r}"


@pytest.mark.parametrize("kind", sorted(CLASSES, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_members_of_public_classes(kind: type) -> None:
    missing = [
        name
        for name, member in vars(kind).items()
        if not name.startswith("_")
        and isinstance(member, (property, staticmethod, classmethod)) | inspect.isfunction(member)
        and len(inspect.getdoc(getattr(kind, name)) or inspect.getdoc(member) or "") < 10
    ]
    assert missing == []


def test_functions_that_raise_say_so() -> None:
    silent = []
    for name, thing in CALLABLES:
        if inspect.isfunction(thing):
            text = inspect.getdoc(thing) or ""
            own = set(RAISES.findall(inspect.getsource(thing))) - {"QuadrantsInternalError"}
            silent += [f"{name}: {error}" for error in own if error not in text]
    assert silent == []
