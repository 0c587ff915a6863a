"""Text to modules. Reads what the printer writes, and the shorter forms that people write by hand: blank lines, comment
lines, result types left out where the op table's rule gives them, no `stage` line (then `kernel`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import STAGES, Block, Function, Location, Module, Op, Value
from quadrants.ir.ops import OPS, TERMINATORS
from quadrants.ir.text.literals import TOKEN, LiteralError, TokenStream
from quadrants.ir.text.printer import VERSION
from quadrants.ir.types import Type, i64

__all__ = ["IRSyntaxError", "parse_module"]

_PLACE = re.compile(r"//\s*(.*):(\d+):(\d+)(?:-(\d+))?\s*$")
_TYPE_IS_RESULT = frozenset({"constant", "cast", "bitcast", "lookup", "splat", "construct"})


class IRSyntaxError(QuadrantsInternalError):
    """Text that is no IR. `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


def parse_module(text: str) -> Module:
    """The module that `text` describes. IRSyntaxError names the line of what cannot be read."""
    return _Parser(text).module()


class _Parser:
    """Reads line by line; `tokens` is the line at hand, `location` its place in the user's source."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self.number = 0
        self.tokens = TokenStream([])
        self.location: Location | None = None
        self.names: dict[str, Value] = {}

    def advance(self) -> bool:
        """Goes to the next line that has tokens; False at the end."""
        lines = self._lines
        while self.number < len(lines):
            line = lines[self.number]
            self.number += 1
            tokens = TOKEN.findall(line)
            if not tokens:
                continue
            self.location = None
            if tokens[-1].startswith("//"):
                self.location = _place(tokens.pop())
                if not tokens:
                    continue
            self.tokens = TokenStream(tokens)
            return True
        self.tokens = TokenStream([])
        return False

    def module(self) -> Module:
        try:
            return self._module()
        except IRSyntaxError:
            raise
        except (LiteralError, TypeError, KeyError, ValueError) as error:
            reason = f"lacks {error}" if type(error) is KeyError else str(error)
            raise IRSyntaxError(self.number, reason) from None

    def _module(self) -> Module:
        self._version()
        module = Module()
        entry = None
        while self.advance():
            word = self.tokens.take()
            if word == "stage":
                module.stage = self._stage()
            elif word == "entry":
                entry = self.tokens.symbol()
            elif word in ("kernel", "function"):
                function = self._function(word)
                if function.name in module.functions:
                    raise LiteralError(f"@{function.name} is defined twice")
                module.add(function)
            else:
                raise LiteralError(f"expected `kernel`, `function`, `stage` or `entry`, found {word!r}")
        kernels = [name for name, function in module.functions.items() if function.is_kernel]
        module.entry = entry if entry is not None else (kernels[0] if kernels else "")
        return module

    def _version(self) -> None:
        if not self.advance() or self._header() != "quadrants-ir":
            raise LiteralError("expected the header `quadrants-ir 1`")
        version = self.tokens.take()
        if version != str(VERSION):
            raise LiteralError(f"version {version or 'missing'} of the text form; this release reads version {VERSION}")
        self.end_of_line()

    def _header(self) -> str:
        tokens = self.tokens
        return tokens.take() + tokens.take() + tokens.take()

    def _stage(self) -> str:
        stage = self.tokens.take()
        if stage not in STAGES:
            raise LiteralError(f"unknown stage {stage!r}; stages are {', '.join(STAGES)}")
        self.end_of_line()
        return stage

    def end_of_line(self) -> None:
        if self.tokens.next:
            raise LiteralError(f"unexpected {self.tokens.next!r}")

    def _function(self, kind: str) -> Function:
        tokens = self.tokens
        name = tokens.symbol()
        self.names = {}
        body = Block()
        self.arguments(body)
        results = tokens.types() if tokens.accept("->") else ()
        function = Function(name, (), results, kind)
        function.body = body
        function.attributes.update(tokens.attributes())
        function.location = self.location
        self.open_region()
        self.block(body, "return", function.location)
        self.end_of_line()
        return function

    def arguments(self, block: Block) -> None:
        """`(%name: type, ...)`."""
        tokens = self.tokens
        tokens.expect("(")
        while not tokens.accept(")"):
            name = tokens.take()
            tokens.expect(":")
            self.define(name, block.add_argument(tokens.type()))
            if tokens.next != ")":
                tokens.expect(",")

    def open_region(self) -> None:
        self.tokens.expect("{")
        self.end_of_line()

    def define(self, token: str, value: Value) -> None:
        if not token.startswith("%") or token in self.names:
            why = "is defined twice" if token in self.names else "is no value's name"
            raise LiteralError(f"{token!r} {why}")
        self.names[token] = value
        if not token[1:].isdigit():
            value.name = token[1:]

    def use(self, token: str) -> Value:
        value = self.names.get(token)
        if value is None:
            what = f"{token} is not defined" if token.startswith("%") else f"expected a value, found {token!r}"
            raise LiteralError(what)
        return value

    def uses(self, end: str = "") -> list[Value]:
        """Values between commas; with `end`, up to that token, which is consumed."""
        tokens = self.tokens
        found: list[Value] = []
        if end and tokens.accept(end):
            return found
        while True:
            found.append(self.use(tokens.take()))
            if end and tokens.accept(end):
                return found
            if not tokens.accept(","):
                if end:
                    tokens.expect(end)
                return found

    def block(self, block: Block, implicit: str, place: Location | None) -> None:
        """Lines up to the one that begins with `}`; an `implicit` terminator is added where none ends the block."""
        ops = block.ops
        unterminated = False
        while True:
            if not self.advance():
                raise LiteralError("the text ends within a region")
            tokens = self.tokens
            if tokens.accept("}"):
                break
            if tokens.next == "unterminated":
                tokens.take()
                self.end_of_line()
                unterminated = True
            else:
                ops.append(self.op())
        if not unterminated and not (ops and ops[-1].kind in TERMINATORS):
            if not implicit:
                raise LiteralError("the region has no terminator")
            ops.append(Op(implicit, location=place))

    def op(self) -> Op:
        """The operation of the line at hand, with its regions."""
        tokens = self.tokens
        location = self.location
        names: list[str] = []
        if tokens.next.startswith("%"):
            names.append(tokens.take())
            while tokens.accept(","):
                names.append(tokens.take())
            tokens.expect("=")
        kind = tokens.take()
        form = _FORMS.get(kind)
        op = form(self, names) if form is not None else self._plain(kind, names)
        op.location = location
        self.end_of_line()
        return op

    def _plain(self, kind: str, names: list[str]) -> Op:
        if kind not in OPS:
            raise LiteralError(f"unknown operation {kind!r}")
        operands = tuple(self.uses()) if self.tokens.next.startswith("%") else ()
        return self.finish(kind, operands, self.tokens.attributes(), names)

    def finish(self, kind: str, operands: tuple[Value, ...], attributes: dict[str, Any], names: list[str]) -> Op:
        """The operation, after its types (those said, else the rule's) and with its results named."""
        types = self.types()
        if types is not None and kind in _TYPE_IS_RESULT and "type" not in attributes and len(types) == 1:
            attributes["type"] = types[0]
        if types is None:
            types = OPS[kind].rule(tuple([value.type for value in operands]), attributes)
        op = Op(kind, operands, types, attributes or None)
        self.name_results(op, names)
        return op

    def types(self) -> tuple[Type, ...] | None:
        return self.tokens.types() if self.tokens.accept(":") else None

    def name_results(self, op: Op, names: list[str]) -> None:
        if len(names) != len(op.results):
            if names:
                raise LiteralError(f"{op.kind} has {len(op.results)} results, {len(names)} names are given")
            return
        for name, value in zip(names, op.results):
            self.define(name, value)


def _place(comment: str) -> Location | None:
    found = _PLACE.match(comment)
    if found is None:
        return None
    file, line, column, end = found.groups()
    return Location(file, int(line), int(column), int(end or 0))


_Form = Callable[[_Parser, list[str]], Op]


def _constant(parser: _Parser, names: list[str]) -> Op:
    if parser.tokens.next in ("{", ":"):
        return parser.finish("constant", (), parser.tokens.attributes(), names)
    value = parser.tokens.literal()
    return parser.finish("constant", (), {**parser.tokens.attributes(), "value": value}, names)


def _dim(parser: _Parser, names: list[str]) -> Op:
    array = parser.use(parser.tokens.take())
    axis = {"axis": parser.tokens.literal()} if parser.tokens.accept(",") else {}
    return parser.finish("dim", (array,), {**axis, **parser.tokens.attributes()}, names)


def _slot(parser: _Parser, names: list[str]) -> Op:
    type_ = {"type": parser.tokens.type()} if parser.tokens.next not in ("{", "") else {}
    return parser.finish("slot", (), {**type_, **parser.tokens.attributes()}, names)


def _access(kind: str, values: int) -> _Form:
    def read(parser: _Parser, names: list[str]) -> Op:
        tokens = parser.tokens
        by = {"by": tokens.take()} if kind in ("update", "update_loaded") else {}
        operands: list[Value] = []
        for _ in range(values):
            operands.append(parser.use(tokens.take()))
            tokens.expect(",")
        operands.append(parser.use(tokens.take()))
        tokens.expect("[")
        operands += parser.uses("]")
        return parser.finish(kind, tuple(operands), {**by, **tokens.attributes()}, names)

    return read


def _call(parser: _Parser, names: list[str]) -> Op:
    callee = parser.tokens.symbol()
    parser.tokens.expect("(")
    operands = tuple(parser.uses(")"))
    attributes = {"callee": callee, **parser.tokens.attributes()}
    types = parser.types() or ()
    if types:
        attributes["types"] = types
    op = Op("call", operands, types, attributes)
    parser.name_results(op, names)
    return op


def _carry(parser: _Parser) -> tuple[list[tuple[str, Type]], list[Value]]:
    """Names and types of carried arguments, and the values they start with."""
    arguments: list[tuple[str, Type]] = []
    inits: list[Value] = []
    tokens = parser.tokens
    if not tokens.accept("carry"):
        return arguments, inits
    tokens.expect("(")
    while not tokens.accept(")"):
        name = tokens.take()
        explicit = tokens.type() if tokens.accept(":") else None
        tokens.expect("=")
        init = parser.use(tokens.take())
        arguments.append((name, explicit or init.type))
        inits.append(init)
        if tokens.next != ")":
            tokens.expect(",")
    return arguments, inits


def _carrying_op(
    parser: _Parser, kind: str, operands: tuple[Value, ...], inits: list[Value], attributes: dict[str, Any]
) -> Op:
    attributes |= parser.tokens.attributes()
    types = parser.types()
    return Op(kind, operands, tuple([value.type for value in inits]) if types is None else types, attributes or None)


def _for(parser: _Parser, names: list[str], parallel: bool = False) -> Op:
    tokens = parser.tokens
    counters = [tokens.take()]
    while tokens.accept(","):
        counters.append(tokens.take())
    tokens.expect("in")
    lows: list[Value] = []
    highs: list[Value] = []
    for axis in range(len(counters)):
        if axis:
            tokens.expect(",")
        lows.append(parser.use(tokens.take()))
        tokens.expect("..")
        highs.append(parser.use(tokens.take()))
    arguments, inits = _carry(parser)
    attributes: dict[str, Any] = {"rank": len(counters)} | ({"parallel": True} if parallel else {})
    op = _carrying_op(parser, "for", (*lows, *highs, *inits), inits, attributes)
    op.location = parser.location
    parser.open_region()
    body = Block()
    for name in counters:
        parser.define(name, body.add_argument(i64))
    for name, type_ in arguments:
        parser.define(name, body.add_argument(type_))
    parser.name_results(op, names)
    parser.block(body, "yield", op.location)
    op.regions = (body,)
    return op


def _parallel(parser: _Parser, names: list[str]) -> Op:
    parser.tokens.expect("for")
    return _for(parser, names, parallel=True)


def _while(parser: _Parser, names: list[str]) -> Op:
    arguments, inits = _carry(parser)
    op = _carrying_op(parser, "while", tuple(inits), inits, {})
    op.location = parser.location
    parser.open_region()
    condition, body = Block(), Block()
    for name, type_ in arguments:
        parser.define(name, condition.add_argument(type_))
    parser.name_results(op, names)
    parser.block(condition, "", op.location)
    tokens = parser.tokens
    tokens.expect("do")
    if tokens.accept("("):
        for result in op.results:
            parser.define(tokens.take(), body.add_argument(result.type))
            if tokens.next != ")":
                tokens.expect(",")
        tokens.expect(")")
    parser.open_region()
    parser.block(body, "yield", op.location)
    op.regions = (condition, body)
    return op


def _if(parser: _Parser, names: list[str]) -> Op:
    condition = parser.use(parser.tokens.take())
    attributes = parser.tokens.attributes()
    types = parser.types() or ()
    if types:
        attributes["types"] = types
    op = Op("if", (condition,), types, attributes or None)
    op.location = parser.location
    parser.open_region()
    parser.name_results(op, names)
    yes, no = Block(), Block()
    parser.block(yes, "yield", op.location)
    if parser.tokens.accept("else"):
        parser.open_region()
        parser.block(no, "yield", op.location)
    else:
        no.ops.append(Op("yield", location=op.location))
    op.regions = (yes, no)
    return op


def _generic(parser: _Parser, names: list[str]) -> Op:
    tokens = parser.tokens
    kind = tokens.take()
    tokens.expect("(")
    operands = tuple(parser.uses(")"))
    attributes = tokens.attributes()
    op = Op(kind, operands, parser.types() or (), attributes or None)
    parser.name_results(op, names)
    regions: list[Block] = []
    more = tokens.next == "{"
    if more:
        parser.open_region()
    while more:
        regions.append(block := Block())
        parser.advance()
        parser.tokens.expect("^")
        parser.arguments(block)
        parser.block(block, "", op.location)
        more = parser.tokens.accept("and")
        if more:
            parser.open_region()
    op.regions = tuple(regions)
    return op


_FORMS: dict[str, _Form] = {
    "constant": _constant,
    "dim": _dim,
    "slot": _slot,
    "load": _access("load", 0),
    "store": _access("store", 1),
    "update": _access("update", 1),
    "update_loaded": _access("update_loaded", 2),
    "compare_exchange": _access("compare_exchange", 2),
    "call": _call,
    "for": _for,
    "parallel": _parallel,
    "while": _while,
    "if": _if,
    "generic": _generic,
}
