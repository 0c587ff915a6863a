"""`print`: static text and run-time values with Python's format specifications."""

from __future__ import annotations

import ast
import re
import string
from typing import TYPE_CHECKING, Any

from quadrants.frontend import numbers
from quadrants.frontend.calls import Arguments
from quadrants.frontend.dispatch import evaluate
from quadrants.frontend.values import Binding, Formatted, Sequence, Static, is_tile
from quadrants.ir.formatting import in_message
from quadrants.ir.nodes import Value
from quadrants.ir.types import shape_of, u1

if TYPE_CHECKING:
    from quadrants.frontend.walker import Walker

__all__ = ["call_of_text", "emit_print", "formatted", "message_text"]


class _Text:
    """The pieces of text between values, the values, and their format specifications."""

    def __init__(self) -> None:
        self.pieces: list[str] = [""]
        self.values: list[Value] = []
        self.specs: list[str] = []

    def text(self, text: str) -> None:
        self.pieces[-1] += text

    def value(self, value: Value, spec: str) -> None:
        self.values.append(value)
        self.specs.append(spec)
        self.pieces.append("")


def emit_print(walker: Walker, arguments: Arguments, node: ast.AST) -> None:
    separator, end = " ", "\n"
    for name, binding in arguments.keywords.items():
        if name not in ("sep", "end", "flush") or type(binding) is not Static:
            raise walker.error(node, f"print takes sep and end in a kernel, not {name}")
        if name == "sep":
            separator = str(binding.value)
        elif name == "end":
            end = str(binding.value)
    text = _Text()
    for position, binding in enumerate(arguments.positional):
        if position:
            text.text(separator)
        _add(walker, text, binding, "", node)
    text.text(end)
    walker.builder.op("print", *text.values, format=tuple(text.pieces), specs=tuple(text.specs))


def message_text(walker: Walker, node: ast.expr) -> tuple[str, list[Value]]:
    """An expression as the message of a check: its text with {} or {:spec} for the run-time values, and these."""
    text = _Text()
    _add(walker, text, evaluate(walker, node), "", node)
    parts = [in_message(text.pieces[0])]
    for spec, piece in zip(text.specs, text.pieces[1:]):
        parts += ["{:" + spec + "}" if spec else "{}", in_message(piece)]
    return "".join(parts), text.values


def _add(walker: Walker, text: _Text, binding: Binding, spec: str, node: ast.AST) -> None:
    if type(binding) is Formatted:
        for part in binding.parts:
            text.text(part) if isinstance(part, str) else _add(walker, text, part[0], part[1], node)
    elif type(binding) is Static:
        walker.compilation.evaluated(binding.value)
        text.text(format(binding.value, spec))
    elif type(binding) is Sequence and binding.record is not None:
        _add_record(walker, text, binding, binding.record, spec, node)
    elif type(binding) is Sequence and not is_tile(binding):
        text.text("[" if binding.is_list else "(")
        for position, item in enumerate(binding.items):
            text.text(", " if position else "")
            _add_item(walker, text, item, spec, node)
        text.text("]" if binding.is_list else ",)" if len(binding.items) == 1 else ")")
    else:
        _add_value(walker, text, numbers.to_run(walker, binding, node).value, spec)


def _add_item(walker: Walker, text: _Text, item: Binding, spec: str, node: ast.AST) -> None:
    """What a tuple, list or record shows of an item: text in quotes."""
    if type(item) is Static and isinstance(item.value, str):
        item = Static(repr(item.value))
    _add(walker, text, item, spec, node)


def _add_record(walker: Walker, text: _Text, binding: Sequence, kind: type, spec: str, node: ast.AST) -> None:
    """As the method __repr__ does that `dataclass` or `namedtuple` makes."""
    maker = getattr(kind.__repr__, "__globals__", {}).get("__name__")
    if maker not in _MAKERS or kind.__str__ is not object.__str__ or kind.__format__ is not object.__format__:
        text_of = f"how {kind.__name__} reads is the class's own, which a kernel does not run"
        raise walker.error(node, text_of, hint="print its members")
    hidden: set[str] = set()
    if not issubclass(kind, tuple):
        import dataclasses  # which is there: it has made the class

        hidden = {field.name for field in dataclasses.fields(kind) if not field.repr}
    text.text(f"{kind.__name__ if issubclass(kind, tuple) else kind.__qualname__}(")
    shown = [(name, item) for name, item in zip(binding.names, binding.items) if name not in hidden]
    for position, (name, item) in enumerate(shown):
        text.text(f"{', ' if position else ''}{name}=")
        _add_item(walker, text, item, spec, node)
    text.text(")")


# The modules whose functions are the methods __repr__ that are made for a class.
_MAKERS = ("dataclasses", "reprlib", "collections")


def _add_value(walker: Walker, text: _Text, value: Value, spec: str) -> None:
    shape = shape_of(value.type)
    if not shape:
        text.value(value, spec)
        return
    elements = iter(numbers.elements(walker, value))
    text.text("[")
    for row in range(shape[0]):
        text.text(", " if row else "")
        if len(shape) == 1:
            text.value(next(elements), spec)
            continue
        text.text("[")
        for column in range(shape[1]):
            text.text(", " if column else "")
            text.value(next(elements), spec)
        text.text("]")
    text.text("]")


def formatted(walker: Walker, node: ast.JoinedStr) -> Formatted | Static:
    """An f-string as a binding; static where all in it is."""
    parts: list[Any] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
            continue
        assert isinstance(part, ast.FormattedValue)
        spec = formatted(walker, part.format_spec) if isinstance(part.format_spec, ast.JoinedStr) else Static("")
        if type(spec) is not Static:
            raise walker.error(node, "a format specification must be known at compile time")
        binding = evaluate(walker, part.value)
        parts.append(
            _converted(walker, binding, chr(part.conversion), spec.value, part)
            if part.conversion > 0
            else (binding, spec.value)
        )
    if all(isinstance(part, str) or type(part[0]) is Static for part in parts):
        return Static("".join(part if isinstance(part, str) else format(part[0].value, part[1]) for part in parts))
    return Formatted(parts)


def _converted(walker: Walker, binding: Binding, how: str, spec: str, node: ast.AST) -> tuple[Binding, str]:
    """A replacement field with `!s`, `!r` or `!a`: what is formatted then is text, which stands at the left."""
    if type(binding) is Static:
        return Static({"s": str, "r": repr, "a": ascii}[how](binding.value)), spec
    if not spec:
        return binding, spec
    run = numbers.to_run(walker, binding, node)
    aligned = re.fullmatch(r"(.?[<>^])?[1-9][0-9]*", spec)
    if shape_of(run.type) or run.type is u1 or aligned is None:
        text = f"!{how} and a format of text are not known to kernels for {numbers.describe(run)}"
        raise walker.error(node, text, hint=f"leave out the !{how}, or the format")
    return run, spec if aligned[1] else f"<{spec}"


def call_of_text(walker: Walker, method: Any, arguments: Arguments, node: ast.AST) -> Binding:
    """A method of a text: `format` takes run-time values (in print and assert), the others are Python's."""
    if arguments.all_static:
        positional, keywords = arguments.objects()
        walker.compilation.evaluated(*positional, *keywords.values())
        return Static(method(*positional, **keywords))
    if method.__name__ != "format":
        raise walker.error(node, "a kernel has no strings at run time")
    parts: list[Any] = []
    supply = iter(range(len(arguments.positional)))
    for literal, field, spec, conversion in string.Formatter().parse(method.__self__):
        parts.append(literal)
        if field is None:
            continue
        position = next(supply, len(arguments.positional)) if field == "" else field
        known = arguments.keywords.get(str(position))
        if known is None and str(position).isdigit() and int(position) < len(arguments.positional):
            known = arguments.positional[int(position)]
        if known is None or conversion or "{" in (spec or ""):
            raise walker.error(node, f"the replacement field {{{field}}} has no meaning in a kernel")
        parts.append((known, spec or ""))
    return Formatted(parts)
