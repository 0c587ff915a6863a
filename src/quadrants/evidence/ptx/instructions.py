"""The instructions that LLVM writes for us: a handler for each base opcode writes Python for it (see `translate`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quadrants.evidence.ptx import memory_instructions
from quadrants.evidence.ptx.parse import Instruction

if TYPE_CHECKING:
    from quadrants.evidence.ptx.translate import _BlockWriter

__all__ = ["HANDLERS"]

_COMPARISONS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_TYPES = frozenset({*(f"{k}{w}" for k in "bus" for w in (8, 16, 32, 64)), "f16", "f32", "f64"})


def _type(op: Instruction) -> str:
    return op.words[-1]


def _known(writer: _BlockWriter, op: Instruction, *words: str) -> None:
    """Refuses modifiers that are not among those named."""
    unknown = set(op.words[1:-1]) - set(words)
    if unknown:
        raise writer.error(f"{op.opcode}: {', '.join(sorted(unknown))}")


def _values(writer: _BlockWriter, op: Instruction, type_: str) -> list[str]:
    return [writer.value(operand, type_) for operand in op.operands[1:]]


def _pattern(form: str, *words: str) -> Callable[[_BlockWriter, Instruction], None]:
    """An instruction whose operands and result have its type: {0}, {1}, … are the operands."""

    def write(writer: _BlockWriter, op: Instruction) -> None:
        _known(writer, op, *words)
        type_ = _type(op)
        writer.define(op.operands[0], form.format(*_values(writer, op, type_)), type_, op.operands[1:])

    return write


def _product(writer: _BlockWriter, op: Instruction) -> None:
    """mul, mad: of integers the lower or the upper half, or all of it."""
    _known(writer, op, "lo", "hi", "wide", "rn")
    type_, words = _type(op), op.words
    a, b = (writer.value(operand, type_) for operand in op.operands[1:3])
    if "hi" in words:
        code = f"high_product(*np.broadcast_arrays({a}, {b}))"
    elif "wide" in words:
        type_ = f"{type_[0]}{2 * int(type_[1:])}"
        a, b = (f"{x}.astype(T{type_})" for x in (a, b))
        code = f"{a} * {b}"
    else:
        code = f"{a} * {b}"
    if words[0] == "mad":
        code = f"{code} + {writer.value(op.operands[3], type_)}"
    writer.define(op.operands[0], code, type_, op.operands[1:])


def _integer_or_float(integer: str, floating: str, *words: str) -> Callable[[_BlockWriter, Instruction], None]:
    on_integers, on_floats = _pattern(integer, *words), _pattern(floating, *words)

    def write(writer: _BlockWriter, op: Instruction) -> None:
        (on_floats if _type(op)[0] == "f" else on_integers)(writer, op)

    return write


def _is_mixed(op: Instruction) -> bool:
    """Whether the first operands are of 16 bits, and what is added to them and comes out of f32."""
    return op.words[-2:-1] == ["f32"] and op.words[-1] in ("f16", "bf16")


def _widened(writer: _BlockWriter, operand: str, type_: str) -> str:
    """An operand of 16 bits as f32."""
    if type_ == "f16":
        return f"{writer.value(operand, 'f16')}.astype(Tf32)"
    return f"({writer.value(operand, 'b16')}.astype(Tu32) << np.uint32(16)).view(Tf32)"


def _sum(form: str) -> Callable[[_BlockWriter, Instruction], None]:
    plain = _pattern(form, "rn")

    def write(writer: _BlockWriter, op: Instruction) -> None:
        if not _is_mixed(op):
            plain(writer, op)
            return
        a, c = _widened(writer, op.operands[1], op.words[-1]), writer.value(op.operands[2], "f32")
        writer.define(op.operands[0], form.format(a, c), "f32", op.operands[1:])

    return write


def _fma(writer: _BlockWriter, op: Instruction) -> None:
    if _is_mixed(op):
        a, b = (_widened(writer, operand, op.words[-1]) for operand in op.operands[1:3])
        code = f"fused(n, {a}, {b}, {writer.value(op.operands[3], 'f32')})"
        writer.define(op.operands[0], code, "f32", op.operands[1:])
        return
    _known(writer, op, "rn")
    if _type(op) == "f16":
        raise writer.error(op.opcode)
    writer.define(op.operands[0], f"fused(n, {', '.join(_values(writer, op, _type(op)))})", _type(op), op.operands[1:])


def _extremum(writer: _BlockWriter, op: Instruction) -> None:
    _known(writer, op, "NaN")
    type_, name = _type(op), "minimum" if op.words[0] == "min" else "maximum"
    a, b = _values(writer, op, type_)
    code = f"{name}({a}, {b}, {'NaN' in op.words})" if type_[0] == "f" else f"np.{name}({a}, {b})"
    writer.define(op.operands[0], code, type_, op.operands[1:])


def _sign_bits(form: str) -> Callable[[_BlockWriter, Instruction], None]:
    """neg, abs: of floats the sign alone changes."""

    def write(writer: _BlockWriter, op: Instruction) -> None:
        _known(writer, op)
        type_ = _type(op)
        if type_[0] == "f":
            bits, width = f"b{type_[1:]}", int(type_[1:])
            a = writer.value(op.operands[1], bits)
            mask = writer.literal(str(1 << (width - 1)), bits)
            code = f"{a} ^ {mask}" if op.words[0] == "neg" else f"{a} & ~{mask}"
            writer.define(op.operands[0], code, bits, op.operands[1:])
        else:
            writer.define(op.operands[0], form.format(writer.value(op.operands[1], type_)), type_, op.operands[1:])

    return write


def _logic(sign: str) -> Callable[[_BlockWriter, Instruction], None]:
    def write(writer: _BlockWriter, op: Instruction) -> None:
        values = _values(writer, op, _type(op))
        code = f"{values[0]} {sign} {values[1]}" if len(values) == 2 else f"{sign}{values[0]}"
        writer.define(op.operands[0], code, _type(op), op.operands[1:])

    return write


def _shift(writer: _BlockWriter, op: Instruction) -> None:
    name = "shift_left" if op.words[0] == "shl" else "shift_right"
    type_ = _type(op)
    amount, bits = op.operands[2], int(type_[1:])
    a = writer.value(op.operands[1], type_)
    if amount.isdecimal() and int(amount) < bits:
        code = f"{a} {'<<' if name == 'shift_left' else '>>'} {writer.literal(amount, type_)}"
    else:
        code = f"{name}({a}, {writer.value(amount, 'u32')})"
    writer.define(op.operands[0], code, type_, op.operands[1:])


def _funnel(writer: _BlockWriter, op: Instruction) -> None:
    _, direction, mode, _ = op.words
    low, high, count = _values(writer, op, "b32")
    code = f"funnel({low}, {high}, {count}, {direction == 'l'}, {mode == 'wrap'})"
    writer.define(op.operands[0], code, "b32", op.operands[1:])


def _counted(name: str) -> Callable[[_BlockWriter, Instruction], None]:
    """popc, clz: the result has 32 bits."""

    def write(writer: _BlockWriter, op: Instruction) -> None:
        a = writer.value(op.operands[1], _type(op))
        writer.define(op.operands[0], f"{name}(np.atleast_1d({a}))", "b32", op.operands[1:])

    return write


def _bfind(writer: _BlockWriter, op: Instruction) -> None:
    a = writer.value(op.operands[1], _type(op))
    writer.define(op.operands[0], f"find_highest({a}, {'shiftamt' in op.words})", "u32", op.operands[1:])


def _bfe(writer: _BlockWriter, op: Instruction) -> None:
    type_ = _type(op)
    start, length = (writer.value(operand, "u32") for operand in op.operands[2:])
    code = f"extract_bits({writer.value(op.operands[1], type_)}, {start}, {length})"
    writer.define(op.operands[0], code, type_, op.operands[1:])


def _bfi(writer: _BlockWriter, op: Instruction) -> None:
    type_ = _type(op)
    a, b = (writer.value(operand, type_) for operand in op.operands[1:3])
    start, length = (writer.value(operand, "u32") for operand in op.operands[3:])
    writer.define(op.operands[0], f"insert_bits({a}, {b}, {start}, {length})", type_, op.operands[1:])


def _setp(writer: _BlockWriter, op: Instruction) -> None:
    words = op.words
    type_ = _type(op)
    a, b = (writer.value(operand, type_) for operand in op.operands[1:3])
    kind = words[1]
    if kind in ("num", "nan"):
        code = f"(np.isnan({a}) | np.isnan({b}))"
        code = f"~{code}" if kind == "num" else code
    elif type_[0] == "f" and len(kind) == 3:  # unordered
        code = f"(np.isnan({a}) | np.isnan({b}) | ({a} {_COMPARISONS[kind[:2]]} {b}))"
    elif type_[0] == "f" and kind == "ne":
        code = f"({a} < {b}) | ({a} > {b})"
    else:
        code = f"({a} {_COMPARISONS[kind]} {b})"
    destinations = op.operands[0].split("|")
    if len(words) == 4 and words[2] in ("and", "or", "xor"):
        sign = {"and": "&", "or": "|", "xor": "^"}[words[2]]
        code = f"({code}) {sign} {writer.value(op.operands[3], 'pred')}"
    elif len(words) > 3:
        raise writer.error(op.opcode)
    if len(destinations) > 1:
        raise writer.error(op.opcode)
    writer.define(destinations[0], code, "pred", op.operands[1:])


def _selp(writer: _BlockWriter, op: Instruction) -> None:
    bits = f"b{_type(op)[1:]}" if _type(op) != "pred" else "pred"
    a, b = (writer.value(operand, bits) for operand in op.operands[1:3])
    writer.define(op.operands[0], f"np.where({writer.value(op.operands[3], 'pred')}, {a}, {b})", bits, op.operands[1:])


def _mov(writer: _BlockWriter, op: Instruction) -> None:
    type_ = _type(op)
    target, source = op.operands
    if target[0] == "{":
        parts = [part.strip() for part in target[1:-1].split(",")]
        width = int(type_[1:]) // len(parts)
        for k, part in enumerate(parts):
            code = f"({writer.value(source, type_)} >> {writer.literal(str(k * width), type_)}).astype(Tu{width})"
            writer.define(part, code, f"b{width}", [source])
    elif source[0] == "{":
        parts = [part.strip() for part in source[1:-1].split(",")]
        width = int(type_[1:]) // len(parts)
        pieces = []
        for k, part in enumerate(parts):
            piece = f"{writer.value(part, f'b{width}')}.astype(T{type_})"
            pieces.append(f"({piece} << {writer.literal(str(k * width), type_)})")
        writer.define(target, " | ".join(pieces), type_, parts)
    else:
        bits = type_ if type_ == "pred" else f"b{type_[1:]}"
        writer.define(target, writer.value(source, bits), bits, [source])


def _same(writer: _BlockWriter, op: Instruction) -> None:
    """cvta: one range of addresses serves all state spaces."""
    target, source = op.operands
    writer.define(target, writer.value(source, "b64"), "b64", [source])


def _cvt(writer: _BlockWriter, op: Instruction) -> None:
    words = op.words[1:]
    to, source = words[-2:]
    rounding = words[0] if len(words) > 2 else ""
    if len(words) > 3 or to not in _TYPES or source not in _TYPES:
        raise writer.error(op.opcode)
    target, operand = op.operands
    a = writer.value(operand, source)
    if source[0] == "f" and to[0] == "f":
        if rounding in ("rni", "rzi", "rmi", "rpi"):
            code = f"to_integral({a}, {rounding!r}).astype(T{to})"
        elif rounding in ("", "rn"):
            code = f"({a}).astype(T{to})"
        else:
            raise writer.error(op.opcode)
    elif source[0] == "f":
        code = f"to_integer({a}, {rounding!r}, T{to})"
    elif to[0] == "f":
        if rounding != "rn":
            raise writer.error(op.opcode)
        code = f"({a}).astype(T{to})"
    else:
        code = f"({a}).astype(T{to})"
    writer.define(target, code, to, [operand])


def _copysign(writer: _BlockWriter, op: Instruction) -> None:
    type_ = _type(op)
    sign, size = _values(writer, op, type_)
    writer.define(op.operands[0], f"np.copysign({size}, {sign})", type_, op.operands[1:])


def _testp(writer: _BlockWriter, op: Instruction) -> None:
    a = writer.value(op.operands[1], _type(op))
    writer.define(op.operands[0], f"test_property({a}, {op.words[1]!r})", "pred", op.operands[1:])


# Warps.


def _place(writer: _BlockWriter) -> str:
    return ", ".join([writer.register(name) for name in ("%ctaid.x", "%laneid", "%warpid")])


def _destinations(op: Instruction) -> list[str]:
    return [part.strip() for part in op.operands[0].split("|")]


def _shuffle(writer: _BlockWriter, op: Instruction) -> None:
    _, sync, mode, type_ = op.words
    if sync != "sync":
        raise writer.error(op.opcode)
    values = ", ".join(_values(writer, op, "b32"))
    writer.lines.append(f"s, t = shuffle({mode!r}, {values}, {_place(writer)})")
    value, *flag = _destinations(op)
    writer.define(value, "s", type_, ["%tid.x"])
    if flag:
        writer.define(flag[0], "t", "pred", ["%tid.x"])


def _vote(writer: _BlockWriter, op: Instruction) -> None:
    kind, type_ = op.words[2:]
    wanted, mask = writer.value(op.operands[1], "pred"), writer.value(op.operands[2], "b32")
    code = f"ballot(np.broadcast_to({wanted}, n), {mask}, {_place(writer)})"
    if kind != "ballot":
        code = f"vote({kind!r}, {wanted}, {mask}, {_place(writer)})"
    writer.define(op.operands[0], code, type_, ["%tid.x"])


def _active(writer: _BlockWriter, op: Instruction) -> None:
    everybody = writer.literal("0xffffffff", "b32")
    code = f"ballot(np.ones(n, np.bool_), {everybody}, {_place(writer)})"
    writer.define(op.operands[0], code, "b32", ["%tid.x"])


def _match(writer: _BlockWriter, op: Instruction) -> None:
    kind, type_ = op.words[1], _type(op)
    code = (
        f"match_{kind}({writer.value(op.operands[1], type_)}, {writer.value(op.operands[2], 'b32')}, {_place(writer)})"
    )
    value, *flag = _destinations(op)
    if kind == "all":
        writer.lines.append(f"s, t = {code}")
        code = "s"
        if flag:
            writer.define(flag[0], "t", "pred", ["%tid.x"])
    writer.define(value, code, "b32", ["%tid.x"])


def _redux(writer: _BlockWriter, op: Instruction) -> None:
    kind, type_ = op.words[2:]
    a, mask = writer.value(op.operands[1], type_), writer.value(op.operands[2], "b32")
    writer.define(op.operands[0], f"reduction({kind!r}, {a}, {mask}, {_place(writer)})", type_, ["%tid.x"])


def _multiply(writer: _BlockWriter, op: Instruction) -> None:
    """mma.sync of factors of 16 bits or tf32 and sums of f32."""
    shape, kind = op.words[3], op.words[7]
    wanted = {"f16": "m16n8k16", "bf16": "m16n8k16", "tf32": "m16n8k8"}
    if op.words[4:] != ["row", "col", "f32", kind, kind, "f32"] or wanted.get(kind) != shape:
        raise writer.error(op.opcode)
    to, *sources = ([part.strip() for part in operand.strip("{}").split(",")] for operand in op.operands)
    lists = ", ".join(["[" + ", ".join([writer.value(part, "b32") for part in parts]) + "]" for parts in sources])
    writer.lines.append(f"s = multiply({kind!r}, {lists}, n, {_place(writer)})")
    for k, name in enumerate(to):
        writer.define(name, f"s[{k}]", "b32", ["%tid.x"])


def _load_matrices(writer: _BlockWriter, op: Instruction) -> None:
    """ldmatrix: matrices of 8 rows of 16 bytes, whose addresses lanes give."""
    counts = {"x1": 1, "x2": 2, "x4": 4}
    is_transposed = "trans" in op.words
    shape, *rest = [word for word in op.words[3:] if word != "trans"]
    if op.words[1:3] != ["sync", "aligned"] or shape != "m8n8" or rest[1:] != ["shared", "b16"]:
        raise writer.error(op.opcode)
    to = [part.strip() for part in op.operands[0].strip("{}").split(",")]
    if counts.get(rest[0]) != len(to):
        raise writer.error(op.opcode)
    threads = writer.register("%tid.x")
    writer.lines.append(f"a = {writer.address(op.operands[1])}")
    writer.lines.append(f"s = load_matrices(M, a, {len(to)}, {is_transposed}, {threads}, {_place(writer)})")
    for k, name in enumerate(to):
        writer.define(name, f"s[{k}]", "b32", ["%tid.x"])


def _multiply_shared(writer: _BlockWriter, op: Instruction) -> None:
    """wgmma of factors in shared memory, 16 bits or tf32, and sums of f32, and what orders it."""
    thread = writer.register("%tid.x")
    if op.words[1:] == ["fence", "sync", "aligned"]:
        writer.lines.append(f"groups_of({thread})")
    elif op.words[1:] == ["commit_group", "sync", "aligned"]:
        writer.lines.append(f"M.watched.committed(groups_of({thread}))")
    elif op.words[1:] == ["wait_group", "sync", "aligned"]:
        writer.lines.append(f"M.watched.waited(groups_of({thread}), {int(op.operands[0])})")
    else:
        _multiply_asynchronously(writer, op, thread)


def _multiply_asynchronously(writer: _BlockWriter, op: Instruction, thread: str) -> None:
    shape, kind = op.words[4], op.words[6]
    columns, depth = (int(number) for number in shape.removeprefix("m64n").split("k"))
    wanted = {"f16": 16, "bf16": 16, "tf32": 8}
    if op.words[1:4] != ["mma_async", "sync", "aligned"] or op.words[5:] != ["f32", kind, kind]:
        raise writer.error(op.opcode)
    to, left, right, adds, *flags = op.operands
    names = [part.strip() for part in to.strip("{}").split(",")]
    signs, turned = flags[:2], [flag == "1" for flag in flags[2:]] or [False, False]
    if depth != wanted.get(kind) or columns not in range(8, 257, 8) or len(names) != columns // 2:
        raise writer.error(op.opcode)
    if signs != ["1", "1"] or len(flags) != (2 if kind == "tf32" else 4) or left[0] == "{":
        raise writer.error(f"{op.opcode} {', '.join(op.operands[1:])}")
    sums = ", ".join([writer.value(name, "b32") for name in names])
    operands = f"{writer.value(left, 'b64')}, {writer.value(right, 'b64')}, {writer.value(adds, 'pred')}"
    form = (kind, columns, *turned)
    writer.lines.append(f"s = multiply_shared(M.memory, M.watched, {form!r}, [{sums}], ({operands}), {thread})")
    for k, name in enumerate(names):
        writer.define(name, f"s[{k}]", "b32", ["%tid.x"])


HANDLERS: dict[str, Callable[[_BlockWriter, Instruction], None]] = {
    "add": _sum("{0} + {1}"),
    "sub": _sum("{0} - {1}"),
    "mul": _product,
    "mad": _product,
    "div": _integer_or_float("divide(*np.broadcast_arrays({0}, {1}))", "{0} / {1}", "rn"),
    "rem": _pattern("remainder(*np.broadcast_arrays({0}, {1}))"),
    "fma": _fma,
    "min": _extremum,
    "max": _extremum,
    "neg": _sign_bits("np.negative({0})"),
    "abs": _sign_bits("np.abs({0})"),
    "and": _logic("&"),
    "or": _logic("|"),
    "xor": _logic("^"),
    "not": _logic("~"),
    "shl": _shift,
    "shr": _shift,
    "shf": _funnel,
    "popc": _counted("ones"),
    "clz": _counted("leading_zeros"),
    "brev": _pattern("reversed_bits({0})"),
    "bfind": _bfind,
    "bfe": _bfe,
    "bfi": _bfi,
    "prmt": _pattern("permute_bytes({0}, {1}, {2})"),
    "setp": _setp,
    "selp": _selp,
    "mov": _mov,
    "cvta": _same,
    "cvt": _cvt,
    "sqrt": _pattern("np.sqrt({0})", "rn"),
    "rcp": _pattern("1 / {0}", "rn"),
    "copysign": _copysign,
    "testp": _testp,
    "ld": memory_instructions.load,
    "st": memory_instructions.store,
    "cp": memory_instructions.copy,
    "ldmatrix": _load_matrices,
    "atom": memory_instructions.atomic,
    "red": memory_instructions.atomic,
    "membar": memory_instructions.nothing,
    "fence": memory_instructions.fence,
    "bar": memory_instructions.nothing,
    "shfl": _shuffle,
    "vote": _vote,
    "activemask": _active,
    "match": _match,
    "redux": _redux,
    "mma": _multiply,
    "wgmma": _multiply_shared,
    "declare": memory_instructions.declare,
    "call": memory_instructions.call,
}
