"""The text of a PTX module as data: variables, functions, basic blocks of instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Block", "Function", "Instruction", "Module", "PtxError", "Variable", "parse"]


class PtxError(Exception):
    """Text that the interpreter does not know."""


@dataclass
class Variable:
    """A variable of a state space: its name, bytes, alignment and, where it is initialised, its content; `symbols`: (offset,
    name, addend) of words that are the address of another variable; `external`: its memory is somebody else's affair (of shared memory
    the launch's)."""

    name: str
    space: str
    size: int
    align: int
    content: bytes | None = None
    symbols: list[tuple[int, str, int]] = field(default_factory=list)
    external: bool = False


@dataclass
class Instruction:
    """`opcode` with its modifiers, operands as text; `guard` is the predicate register ('!' before it negates). An opcode of ours:
    `declare`, the declaration of a variable for a call's parameters."""

    opcode: str
    operands: list[str]
    guard: str = ""
    line: int = 0

    @property
    def words(self) -> list[str]:
        return self.opcode.split(".")

    @property
    def members(self) -> str:
        """The operand that names the lanes of the warp for which the instruction waits; '' where it waits for none."""
        word, *others = self.words
        if word in ("mma", "ldmatrix", "wgmma"):
            return "0xffffffff"
        return self.operands[-1] if (word in _OF_WARPS and "sync" in others) or others[:1] == ["warp"] else ""

    @property
    def of_warpgroup(self) -> bool:
        """Whether it waits for the 128 threads of a warpgroup."""
        return self.words[0] == "wgmma"


_OF_WARPS = frozenset({"shfl", "vote", "match", "redux"})


@dataclass
class Block:
    """Instructions without a way in or out in between; what waits for lanes of a warp comes first. `ending` is a branch, `ret`, `exit`, `trap` or a barrier (None: on to the
    next)."""

    body: list[Instruction]
    ending: Instruction | None = None


@dataclass
class Function:
    """A function or an entry: registers by name with their type, blocks, labels as numbers of blocks."""

    name: str
    is_entry: bool
    parameters: list[Variable]
    results: list[Variable]
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass
class Module:
    """All of a text."""

    target: str
    version: str
    variables: list[Variable] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)


_BYTES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4}
_BYTES.update({"f32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16, "pred": 1})
_ENDINGS = ("bra", "ret", "exit", "trap", "brx", "bar", "barrier")


def parse(text: str) -> Module:
    """The module of a text; PtxError where it cannot be read."""
    text = re.sub(r"/\*.*?\*/", lambda found: "\n" * found.group().count("\n"), text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    module = Module("", "")
    at = 0
    while True:
        at = _skip_space(text, at)
        if at >= len(text):
            return module
        at = _top_level(module, text, at)


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _top_level(module: Module, text: str, at: int) -> int:
    for word in (".version", ".target", ".address_size"):
        if text.startswith(word, at):
            end = text.index("\n", at)
            value = text[at + len(word) : end].strip()
            if word == ".version":
                module.version = value
            elif word == ".target":
                module.target = value.split(",")[0]
            return end
    semicolon, brace = text.find(";", at), text.find("{", at)
    head = text[at : brace if brace >= 0 else len(text)]
    if re.search(r"\.(func|entry)\b", head) and not (0 <= semicolon < brace or brace < 0):
        end = _matching(text, brace)
        function = _function(head, text[brace + 1 : end], text.count("\n", 0, brace) + 1)
        module.functions[function.name] = function
        return end + 1
    if semicolon < 0:
        raise PtxError(f"no end of {text[at : at + 60]!r}")
    statement = text[at:semicolon].strip()
    if not re.search(r"\.(func|entry)\b", statement) and not statement.startswith((".file", ".section")):
        module.variables.append(_variable(statement))
    return semicolon + 1


def _matching(text: str, brace: int) -> int:
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, brace):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return found.start()
    raise PtxError("a brace without an end")


_VARIABLE = re.compile(
    r"(?P<link>(?:\.(?:visible|extern|weak|common)\s+)*)\.(?P<space>global|shared|const|local|param)\s+"
    r"(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(?P<align>\d+)\s+)?(?:\.ptr\s+\S+\s+)?\.(?P<type>\w+)\s+(?P<name>[^\s\[=]+)"
    r"\s*(?:\[(?P<count>\d*)\])?\s*(?:=\s*(?P<value>.*))?$",
    re.S,
)


def _variable(statement: str) -> Variable:
    found = _VARIABLE.match(re.sub(r"\.ptr\b\s*(\.\w+\s+)?(\.align\s+\d+)?", "", statement))
    if found is None:
        raise PtxError(f"no variable: {statement!r}")
    each = _BYTES[found["type"]]
    size = each * int(found["count"] or 1) if found["count"] != "" else 0
    made = Variable(found["name"], found["space"], size, int(found["align"] or each))
    made.external = ".extern" in found["link"]
    if found["value"]:
        content = bytearray()
        for item in found["value"].strip().strip("{}").split(","):
            _initial(made, content, item.strip(), each)
        made.content = bytes(content).ljust(size, b"\0")
    return made


def _initial(variable: Variable, content: bytearray, item: str, each: int) -> None:
    item = item.removeprefix("generic(").rstrip(")")
    if re.match(r"-?\d|0[xXfFdD]", item):
        content += (number(item) & ((1 << (8 * each)) - 1)).to_bytes(each, "little")
    elif item:
        name, _, addend = item.partition("+")
        variable.symbols.append((len(content), name.strip(), int(addend or 0)))
        content += bytes(each)


def number(text: str) -> int:
    """The bits of a literal."""
    if text[:2] in ("0f", "0F", "0d", "0D"):
        return int(text[2:], 16)
    return int(text.rstrip("U"), 0) if not re.fullmatch(r"-?0\d+U?", text) else int(text.rstrip("U"), 8)


def _function(head: str, body: str, line: int) -> Function:
    is_entry = ".entry" in head
    found = re.match(
        r"(?:\s*\.(?:visible|weak|extern))*\s*\.(?:func|entry)\s*(\([^)]*\))?\s*([^\s(]+)\s*(\([^)]*\))?(.*)",
        head,
        re.S,
    )
    if found is None:
        raise PtxError(f"no function: {head!r}")
    results, name, parameters, rest = found.groups()
    made = Function(name, is_entry, _parameters(parameters), _parameters(results))
    for word, values in re.findall(r"\.(maxntid|reqntid|minnctapersm|maxnreg)\s+([\d, ]+)", rest):
        made.limits[word] = tuple(int(value) for value in values.split(","))
    _body(made, body, line)
    return made


def _parameters(text: str | None) -> list[Variable]:
    inside = (text or "()").strip()[1:-1].strip()
    return [_variable(part.strip()) for part in inside.split(",")] if inside else []


def _statements(body: str, line: int) -> Iterator[tuple[str, int]]:
    """Statements and labels with their lines; the braces around calls mean nothing to us."""
    text, start = "", line
    for raw in body.split("\n"):
        part = raw.strip()
        if not text:
            start = line
            if part in ("{", "}"):
                part = ""
        if part:
            text = f"{text} {part}" if text else part
            if re.fullmatch(r"[$\w]+:", text):
                yield text, start
                text = ""
            elif text.endswith(";"):
                for statement in text.split(";"):
                    if statement.strip():
                        yield statement.strip(), start
                text = ""
        line += 1
    if text.strip():
        raise PtxError(f"line {start}: no end of {text!r}")


def _body(function: Function, body: str, line: int) -> None:
    blocks = function.blocks
    blocks.append(Block([]))
    for statement, at in _statements(body, line):
        if statement.endswith(":"):
            if blocks[-1].body or blocks[-1].ending or blocks[-1] is blocks[0]:
                blocks.append(Block([]))
            function.labels[statement[:-1]] = len(blocks) - 1
        elif ".branchtargets" in statement:
            label, _, targets = statement.partition(":")
            function.tables[label.strip()] = [name.strip() for name in targets.split(".branchtargets")[1].split(",")]
        elif statement.startswith(".param"):
            made = _variable(statement)
            blocks[-1].body.append(Instruction("declare", [made.name, str(made.size)], line=at))
        elif statement.startswith("."):
            _declare(function, statement)
        else:
            instruction = _instruction(statement, at)
            if instruction.words[0] in _ENDINGS and instruction.words[:2] != ["bar", "warp"]:
                blocks[-1].ending = instruction
                blocks.append(Block([]))
            else:
                if instruction.members and blocks[-1].body:
                    blocks.append(Block([]))
                blocks[-1].body.append(instruction)


def _declare(function: Function, statement: str) -> None:
    if statement.startswith(".reg"):
        _, type_, names = statement.split(None, 2)
        for name in names.split(","):
            found = re.fullmatch(r"(\S+?)<(\d+)>", name.strip())
            if found is None:
                function.registers[name.strip()] = type_[1:]
            else:
                function.registers.update({f"{found[1]}{k}": type_[1:] for k in range(int(found[2]))})
    elif statement.startswith((".local", ".shared")):
        function.variables.append(_variable(statement))
    elif not statement.startswith((".loc", ".pragma")):
        raise PtxError(f"no declaration: {statement!r}")


def _instruction(statement: str, line: int) -> Instruction:
    guard = ""
    if statement.startswith("@"):
        guard, statement = statement[1:].split(None, 1)
    opcode, _, rest = statement.partition(" ") if " " in statement else statement.partition("\t")
    opcode, rest = (opcode.split("\t")[0], opcode.split("\t", 1)[1] + " " + rest) if "\t" in opcode else (opcode, rest)
    return Instruction(opcode, _operands(rest.strip()), guard, line)


def _operands(text: str) -> list[str]:
    found, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        elif letter == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    if text[start:].strip():
        found.append(text[start:].strip())
    return found
