"""What attributes are made of, as text: None, truth values, numbers, strings, types, locations, tuples, lists, dicts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from quadrants.ir.nodes import Location
from quadrants.ir.types import Type, parse_type, scalar_types

__all__ = ["TOKEN", "LiteralError", "TokenStream", "format_attributes", "format_literal", "format_symbol"]

_SIMPLE_SYMBOL = re.compile(r"[\w.$]+")

TOKEN = re.compile(
    r"""
    "(?:[^"\\]|\\.)*"
    | //.*
    | (?:matrix|array|lanes)<[^>]*>
    | %[\w.$?]+
    | @(?:[\w.$]+|"(?:[^"\\]|\\.)*")
    | -?(?:inf|nan)\b
    | -?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?
    | [^\W\d][\w.]*
    | -> | \.\.
    | \S
    """,
    re.VERBOSE,
)

_CONSTANTS = {"None": None, "True": True, "False": False}
_SCALARS = {scalar.name: scalar for scalar in scalar_types}


class LiteralError(ValueError):
    """Text that is no literal or not the token that was expected."""


def format_symbol(name: str) -> str:
    """A function's name as `@name`, quoted where it is not a plain word."""
    return f"@{name}" if _SIMPLE_SYMBOL.fullmatch(name) else f"@{json.dumps(name, ensure_ascii=False)}"


def _format_float(value: float) -> str:
    if value != value:
        return "-nan" if math.copysign(1.0, value) < 0 else "nan"
    return repr(float(value))


def format_literal(value: Any) -> str:
    """The text of an attribute's value; TypeError for what has none."""
    if value is None or type(value) is bool:
        return str(value)
    if isinstance(value, np.generic):
        return format_literal(value.item())
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _format_float(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Type):
        return value.name
    if isinstance(value, Location):
        return f"location{format_literal(tuple(value))}"
    if isinstance(value, (tuple, list)):
        members = cast("Sequence[Any]", value)
        parts = ", ".join([format_literal(part) for part in members])
        return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' if len(members) == 1 else ''})"
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return f"{{{', '.join([f'{format_literal(key)}: {format_literal(item)}' for key, item in items])}}}"
    raise TypeError(f"an attribute cannot hold a {type(value).__name__}: {value!r}")


def format_attributes(attributes: dict[str, Any] | None, without: tuple[str, ...] = ()) -> str:
    """` {name = value, ...}` sorted by name, '' where nothing is left."""
    if not attributes:
        return ""
    parts = [
        f"{name} = {format_literal(attributes[name])}"
        for name in sorted(attributes)
        if name not in without and not name.startswith("_")
    ]
    return f" {{{', '.join(parts)}}}" if parts else ""


class TokenStream:
    """The tokens of one line, read from left to right. `next` is the token ahead, '' at the end."""

    __slots__ = ("_at", "_tokens", "next")

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self.next = tokens[0] if tokens else ""

    def take(self) -> str:
        """The token ahead, consumed."""
        token = self.next
        self._at += 1
        self.next = self._tokens[self._at] if self._at < len(self._tokens) else ""
        return token

    def accept(self, token: str) -> bool:
        """Whether the token ahead is `token`, which is then consumed."""
        if self.next != token or not token:
            return False
        self.take()
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise LiteralError(f"expected {token!r}, found {self.next or 'the end of the line'!r}")

    @property
    def is_last(self) -> bool:
        """Whether the token ahead is the line's last one."""
        return self._at == len(self._tokens) - 1

    def symbol(self) -> str:
        """A function's name."""
        token = self.take()
        if not token.startswith("@"):
            raise LiteralError(f"expected a function's name (@name), found {token!r}")
        return json.loads(token[1:]) if token[1:2] == '"' else token[1:]

    def type(self) -> Type:
        token = self.take()
        found = _SCALARS.get(token)
        if found is not None:
            return found
        try:
            return parse_type(token)
        except ValueError as error:
            raise LiteralError(str(error)) from None

    def types(self) -> tuple[Type, ...]:
        """Types between commas, at least one."""
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return tuple(found)

    def attributes(self) -> dict[str, Any]:
        """`{name = value, ...}`, or nothing."""
        found: dict[str, Any] = {}
        if self.is_last or not self.accept("{"):
            return found
        while not self.accept("}"):
            name = self.take()
            self.expect("=")
            found[name] = self.literal()
            if self.next != "}":
                self.expect(",")
        return found

    def literal(self) -> Any:
        """One attribute's value."""
        token = self.take()
        first = token[:1]
        if first == '"':
            return json.loads(token)
        if first.isdigit() or (first == "-" and len(token) > 1) or token in ("inf", "nan"):
            return _number(token)
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if token == "(":
            return tuple(self._sequence(")"))
        if token == "[":
            return self._sequence("]")
        if token == "{":
            return self._dictionary()
        if token == "location":
            self.expect("(")
            return Location(*self._sequence(")"))
        if token in _SCALARS or "<" in token:
            return _SCALARS[token] if token in _SCALARS else parse_type(token)
        raise LiteralError(f"expected a value, found {token or 'the end of the line'!r}")

    def _sequence(self, end: str) -> list[Any]:
        found: list[Any] = []
        while not self.accept(end):
            found.append(self.literal())
            if self.next != end:
                self.expect(",")
        return found

    def _dictionary(self) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        while not self.accept("}"):
            key = self.literal()
            self.expect(":")
            found[key] = self.literal()
            if self.next != "}":
                self.expect(",")
        return found


def _number(token: str) -> int | float:
    digits = token.lstrip("-")
    return int(token) if digits.isdigit() else float(token)
