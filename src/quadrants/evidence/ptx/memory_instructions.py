"""Instructions that reach memory, and calls, whose arguments are memory, too: each writes Python (see `translate`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadrants.evidence.ptx.parse import Instruction

if TYPE_CHECKING:
    from quadrants.evidence.ptx.translate import _BlockWriter

__all__ = ["atomic", "call", "copy", "declare", "fence", "load", "nothing", "store"]

_SET_CONDITION = "cudaGraphSetConditional"
"""The function that the driver has: it tells a graph's loop whether there is another round."""
_SPACES = frozenset({"global", "shared", "local", "const", "param"})


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text[1:-1].split(",")] if text[0] == "{" else [text]


def _inside(text: str) -> tuple[str, int]:
    name, _, offset = text[1:-1].partition("+")
    return name.strip(), int(offset or 0)


def _places(writer: _BlockWriter, operand: str, count: int, width: int) -> list[str]:
    """The addresses of so many neighbours of that width; several are aligned as one."""
    writer.lines.append(f"a = {writer.address(operand)}")
    if count > 1:
        writer.lines.append(f"M.aligned(a, {width * count})")
    return ["a", *[f"a + {writer.literal(str(k * width), 'b64')}" for k in range(1, count)]]


def _note_shared(writer: _BlockWriter, kind: str, space: str, size: int) -> None:
    if space in ("shared", "generic"):
        known = kind if space == "shared" else ""
        condition = "M.copies or M.banks" if known else "M.copies"
        writer.lines.append(f"if {condition}: M.reach_shared({known!r}, a, {size}, {writer.register('%tid.x')})")


def copy(writer: _BlockWriter, op: Instruction) -> None:
    """cp.async, and what its threads wait for."""
    threads = writer.register("%tid.x")
    if op.words[:3] == ["cp", "async", "commit_group"]:
        writer.lines.append(f"M.copies.commit({threads})")
    elif op.words[:3] == ["cp", "async", "wait_group"]:
        writer.lines.append(f"M.copies.wait({int(op.operands[0])}, {threads})")
    elif op.words[:3] == ["cp", "async", "wait_all"]:
        writer.lines.append(f"M.copies.wait_all({threads})")
    elif op.words[:2] == ["cp", "async"] and op.words[2] in ("ca", "cg") and op.words[3:5] == ["shared", "global"]:
        size = int(op.operands[2])
        if size not in ((16,) if op.words[2] == "cg" else (4, 8, 16)):
            raise writer.error(f"{op.opcode} of {size} bytes")
        length = writer.value(op.operands[3], "u32") if len(op.operands) > 3 else str(size)
        places = f"{writer.address(op.operands[0])}, {writer.address(op.operands[1])}"
        writer.lines.append(f"M.begin_copies({places}, {size}, {length}, {threads})")
    else:
        raise writer.error(op.opcode)


def load(writer: _BlockWriter, op: Instruction) -> None:
    type_ = op.words[-1]
    width = int(type_[1:]) // 8
    parts = _parts(op.operands[0])
    name, offset = _inside(op.operands[1])
    bytes_of = name if name in writer.parameters else ""
    is_slot = writer.slots.types.get(name) == "bytes"
    bits = type_ if type_[0] == "s" else f"u{type_[1:]}"
    if bytes_of or is_slot:
        code = f"p_{name}" if bytes_of else writer.register(name)
        for k, part in enumerate(parts):
            writer.define(part, f"take({code}, {offset + k * width}, {width}).view(T{bits})", bits, ["%tid.x"])
        return
    space = next((word for word in op.words if word in _SPACES), "generic")
    places = _places(writer, op.operands[1], len(parts), width)
    writer.lines.append(f"M.loads[{space!r}] += {len(parts)} * n")
    if space == "global":
        writer.lines.append(f"if M.counts_sectors: M.count_sectors(a, {len(parts) * width})")
    _note_shared(writer, "load", space, len(parts) * width)
    for part, at in zip(parts, places):
        writer.define(part, f"M.load({at}, {width}).view(T{bits})", bits, ["%tid.x"])
    if "nc" in op.words:
        writer.lines.append(f"M.constancy.read(a, {len(parts) * width})")


def store(writer: _BlockWriter, op: Instruction) -> None:
    type_ = op.words[-1]
    width = int(type_[1:]) // 8
    parts = _parts(op.operands[1])
    name, offset = _inside(op.operands[0])
    values = [writer.value(part, f"b{type_[1:]}") for part in parts]
    if name in writer.parameters or writer.slots.types.get(name) == "bytes":
        code = f"p_{name}"
        if name not in writer.parameters:
            code = writer.register(name)
            writer.defined.add(name)
        for k, value in enumerate(values):
            full = value if parts[k] in writer.slots.numbers else f"np.full(n, {value})"
            writer.lines.append(f"{code} = put({code}, {offset + k * width}, {width}, {full})")
        return
    places = _places(writer, op.operands[0], len(parts), width)
    space = next((word for word in op.words if word in _SPACES), "generic")
    _note_shared(writer, "store", space, len(parts) * width)
    for value, at in zip(values, places):
        _note(writer, at, width)
        writer.lines.append(f"M.store({at}, {width}, {value})")
    if space in ("global", "generic"):
        writer.lines.append(f"if M.watches_constants: M.constancy.write(a, {len(parts) * width})")


def _note(writer: _BlockWriter, addresses: str, width: int) -> None:
    """Where products read shared memory while threads go on, writes are looked at."""
    if writer.watched:
        writer.lines.append(f"M.watched.wrote({addresses}, {width}, {writer.register('%tid.x')})")


def atomic(writer: _BlockWriter, op: Instruction) -> None:
    """atom, red: threads in order."""
    words = [word for word in op.words[1:] if word not in _SPACES]
    words = [
        word for word in words if word not in ("relaxed", "acquire", "release", "acq_rel", "sys", "gpu", "cta", "noftz")
    ]
    if len(words) != 2:
        raise writer.error(op.opcode)
    kind, type_ = words
    operands = op.operands if op.words[0] == "atom" else ["_", *op.operands]
    values = [writer.value(operand, type_) for operand in operands[2:]]
    more = ", ".join([f"np.broadcast_to({value}, n)" for value in values])
    bits = f"b{type_[1:]}"
    _note(writer, writer.address(operands[1]), int(type_[1:]) // 8)
    code = f"M.atomic({kind!r}, T{type_}, {writer.address(operands[1])}, {more})"
    writer.define(operands[0], code, bits, ["%tid.x"])


def nothing(writer: _BlockWriter, op: Instruction) -> None:
    """What orders memory: threads run one block of code after the other, and all memory is one."""


def fence(writer: _BlockWriter, op: Instruction) -> None:
    """As `nothing`, but for the asynchronous proxy: products see what was written before."""
    if "proxy" not in op.words:
        return
    if op.words[1:3] != ["proxy", "async"] or not op.words[-1].startswith(("async", "shared::")):
        raise writer.error(op.opcode)
    if writer.watched:
        writer.lines.append(f"M.watched.fenced({writer.register('%tid.x')})")


def declare(writer: _BlockWriter, op: Instruction) -> None:
    name, size = op.operands
    writer.parameters[name] = int(size)
    writer.lines.append(f"p_{name} = np.zeros((n, {size}), np.uint8)")


def call(writer: _BlockWriter, op: Instruction) -> None:
    operands = list(op.operands)
    results = _parts(operands.pop(0).replace("(", "{").replace(")", "}")) if operands[0][0] == "(" else []
    name = operands.pop(0)
    arguments = [part for part in _parts(operands[0].replace("(", "{").replace(")", "}")) if part] if operands else []
    if name == _SET_CONDITION:
        handle, value = arguments
        writer.lines.append(f"M.set_condition(take(p_{handle}, 0, 8), take(p_{value}, 0, 4))")
        return
    from quadrants.evidence.ptx.translate import SPECIALS

    specials = ", ".join([writer.register(special) for special in SPECIALS])
    passed = ", ".join([f"p_{argument}" for argument in arguments])
    target = "".join([f"p_{result}, " for result in results]) + "= " if results else ""
    writer.lines.append(f"{target}M.call(C[{name!r}], n, [{specials}], [{passed}])")
