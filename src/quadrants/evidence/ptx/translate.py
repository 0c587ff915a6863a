"""Basic blocks of PTX to Python functions over NumPy arrays: `block(R, n, M)`.

R holds, by slot, a value for each of the n threads that run the block together: registers as unsigned integers of their width
(predicates as truth values), special registers, addresses of local memory, parameters as rows of bytes. M is the machine. A
block reads the slots `reads` first and fills in the slots `writes` last; it gives the condition of its branch, or None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quadrants.evidence.ptx.functions import FUNCTIONS
from quadrants.evidence.ptx.in_flight import check_registers, has_products
from quadrants.evidence.ptx.parse import Function, Instruction, PtxError, number
from quadrants.evidence.ptx.tensors import TENSORS
from quadrants.evidence.ptx.warpgroups import WARPGROUPS
from quadrants.evidence.ptx.warps import WARPS

__all__ = ["SPECIALS", "Code", "Step", "translate"]

SPECIALS = (
    *("%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z"),
    *("%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid"),
)
"""The registers that hardware fills; they are the first slots of every function."""

DTYPES = {
    f"{k}{8 * w}": np.dtype(f"{'u' if k == 'b' else 'i' if k == 's' else k}{w}") for k in "bus" for w in (1, 2, 4, 8)
}
DTYPES.update({"f16": np.dtype("f2"), "f32": np.dtype("f4"), "f64": np.dtype("f8"), "pred": np.dtype("?")})


@dataclass
class Step:
    """One block: its code, the slots it reads and writes, and how it ends. `kind`: 'next', 'jump', 'branch', 'table', 'end',
    'barrier'; `targets`: numbers of blocks, of a branch first the one where its condition holds. `members`: the slot that names the
    lanes for which the block waits, `everybody` where it waits for those of a number (0: for none); `of_warpgroup`: for those of
    four warps. `instructions`: how many it has, by kind (the opcode's first word, of accesses with the space of memory)."""

    run: Callable[..., Any]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    kind: str
    targets: tuple[int, ...]
    negated: bool = False
    members: int | None = None
    everybody: int = 0
    of_warpgroup: bool = False
    instructions: Counter[str] = field(default_factory=Counter[str])


@dataclass
class Code:
    """A function ready to run. `slots`: (dtype name) of each register slot behind the special ones; `locals`: (slot, bytes,
    alignment); `parameters` and `results`: (slot, bytes)."""

    name: str
    is_entry: bool
    zeros: list[str]
    locals: list[tuple[int, int, int]]
    parameters: list[tuple[int, int]]
    results: list[tuple[int, int]]
    steps: list[Step] = field(default_factory=list)


class _Slots:
    """The slots of a function by name."""

    def __init__(self, function: Function) -> None:
        self.numbers = {name: k for k, name in enumerate(SPECIALS)}
        self.types: dict[str, str] = dict.fromkeys(SPECIALS, "b32")
        self.zeros: list[str] = []
        for name, type_ in function.registers.items():
            self._add(name, type_)
            self.zeros.append(DTYPES["b" + type_[1:] if type_ != "pred" else type_].str)
        for variable in function.variables:
            if variable.space == "local":
                self._add(variable.name, "b64")
        for variable in (*function.parameters, *function.results):
            self._add(variable.name, "b64" if function.is_entry else "bytes")  # an entry's are memory

    def _add(self, name: str, type_: str) -> None:
        self.numbers[name] = len(self.numbers)
        self.types[name] = type_


def translate(function: Function, symbols: dict[str, int], namespace: dict[str, Any], watched: bool = False) -> Code:
    """The code of a function. `symbols`: addresses of variables; `namespace`: codes of functions by name, filled in later;
    `watched`: whether the machine is told who writes memory."""
    if has_products(function):
        check_registers(function)
    slots = _Slots(function)
    lines: list[str] = []
    made: list[tuple[_BlockWriter, str, tuple[int, ...], bool]] = []
    constants: dict[str, Any] = {
        "np": np,
        "C": namespace,
        **FUNCTIONS,
        **WARPS,
        **TENSORS,
        **WARPGROUPS,
        **{f"T{name}": d for name, d in DTYPES.items()},
    }
    for number_of, block in enumerate(function.blocks):
        writer = _BlockWriter(function, slots, symbols, constants, watched)
        for instruction in block.body:
            writer.instruction(instruction)
        kind, targets, negated = writer.ending(block.ending, number_of)
        lines += writer.source(f"block{number_of}")
        made.append((writer, kind, targets, negated))
    exec(compile("\n".join(lines), f"<ptx {function.name}>", "exec"), constants)
    numbers = slots.numbers
    code = Code(
        function.name,
        function.is_entry,
        slots.zeros,
        [(numbers[v.name], v.size, v.align) for v in function.variables if v.space == "local"],
        [(numbers[v.name], v.size) for v in function.parameters],
        [(numbers[v.name], v.size) for v in function.results],
    )
    for k, (writer, kind, targets, negated) in enumerate(made):
        reads = tuple(sorted(numbers[name] for name in writer.live_in))
        writes = tuple(sorted(numbers[name] for name in writer.defined))
        body = function.blocks[k].body
        named = body[0].members if body else ""
        members = numbers.get(named)
        everybody = number(named) if named and members is None else 0
        of_warpgroup = bool(body) and body[0].of_warpgroup
        count = Counter(map(_kind, [op for op in (*body, function.blocks[k].ending) if op is not None]))
        code.steps.append(
            Step(constants[f"block{k}"], reads, writes, kind, targets, negated, members, everybody, of_warpgroup, count)
        )
    return code


def _kind(op: Instruction) -> str:
    word = op.words[0]
    space = next((part for part in op.words[1:] if part in ("global", "shared", "local", "param")), "")
    return f"{word}.{space}" if word in ("ld", "st", "atom", "red") and space else word


class _BlockWriter:
    """Writes the source of one block."""

    def __init__(
        self,
        function: Function,
        slots: _Slots,
        symbols: dict[str, int],
        constants: dict[str, Any],
        watched: bool,
    ) -> None:
        self.function = function
        self.watched = watched
        self.slots = slots
        self.symbols = symbols
        self.constants = constants
        self.live_in: set[str] = set()
        self.defined: set[str] = set()
        self.parameters: dict[str, int] = {}
        self.lines: list[str] = []
        self.condition = "None"
        self.line = 0

    def source(self, name: str) -> list[str]:
        """The function of the block."""
        numbers = self.slots.numbers
        return [
            f"def {name}(R, n, M):",
            *[f"  r{numbers[used]} = R[{numbers[used]}]" for used in sorted(self.live_in)],
            *[f"  {line}" for line in self.lines],
            *[f"  R[{numbers[used]}] = r{numbers[used]}" for used in sorted(self.defined)],
            f"  return {self.condition}",
        ]

    # Operands.

    def error(self, text: str) -> PtxError:
        return PtxError(f"{self.function.name}, line {self.line}: {text}")

    def register(self, name: str) -> str:
        """The Python variable of a slot."""
        if name not in self.slots.numbers:
            raise self.error(f"no register {name}")
        if name not in self.defined:
            self.live_in.add(name)
        return f"r{self.slots.numbers[name]}"

    def constant(self, value: Any) -> str:
        name = f"K{len(self.constants)}"
        self.constants[name] = value
        return name

    def literal(self, text: str, type_: str) -> str:
        """A literal as a NumPy scalar."""
        dtype = DTYPES[type_]
        if type_ == "pred":
            return self.constant(np.bool_(number(text) != 0))
        bits = number(text) & ((1 << (8 * dtype.itemsize)) - 1)
        return self.constant(np.array(bits, f"u{dtype.itemsize}").view(dtype)[()])

    def value(self, text: str, type_: str) -> str:
        """An operand as an expression of a type."""
        if type_ not in DTYPES:
            raise self.error(f"no type {type_}")
        if text[0] in "-0123456789":
            return self.literal(text, type_)
        negate = "~" if text[0] == "!" else ""
        text = text.lstrip("!")
        if text in self.slots.numbers and self.slots.types[text] != "bytes":
            return negate + self._viewed(self.register(text), self.slots.types[text], type_)
        name, _, addend = text.partition("+")
        if name in self.symbols:
            return self.constant(np.uint64(self.symbols[name] + int(addend or 0)))
        raise self.error(f"no operand {text}")

    def _viewed(self, code: str, held: str, type_: str) -> str:
        if held == "pred" or type_ == "pred":
            if held != type_:
                raise self.error("a predicate and a number")
            return code
        have, want = int(held[1:]), int(type_.lstrip("busf"))
        if want < have:
            code, have = f"{code}.astype(Tu{want})", want
        if want > have:
            raise self.error(f"a register of {have} bits where {want} are read")
        return code if type_[0] in "bu" else f"{code}.view(T{type_})"

    def address(self, text: str) -> str:
        """The addresses of a memory operand, 64 bits each."""
        name, _, offset = text[1:-1].partition("+")
        if name in self.slots.numbers:
            base = self.value(name, "b64")
            return f"{base} + {self.constant(np.uint64(int(offset) & (2**64 - 1)))}" if offset else base
        if name not in self.symbols:
            raise self.error(f"no address {text}")
        return f"np.full(n, {self.constant(np.uint64(self.symbols[name] + int(offset or 0)))})"

    def define(self, name: str, code: str, type_: str, sources: list[str]) -> None:
        """Sets a register to an expression of a type. `sources`: the operands that it was made of."""
        if name == "_":
            self.lines.append(code)
            return
        held = self.slots.types.get(name)
        if held is None or held == "bytes":
            raise self.error(f"no register {name}")
        if not any(source.lstrip("!") in self.slots.numbers for source in sources):
            code = f"np.full(n, {code})"
        if held != "pred":
            have, want = int(type_.lstrip("busf")), int(held[1:])
            if have > want:
                raise self.error(f"{have} bits into {name}")
            if have < want:
                code = f"({code}).astype(T{'s' if type_[0] == 's' else 'u'}{want})"
                type_ = f"{'s' if type_[0] == 's' else 'u'}{want}"
            if type_[0] in "sf":
                code = f"({code}).view(Tu{want})"
        self.defined.add(name)
        self.lines.append(f"r{self.slots.numbers[name]} = {code}")

    # Instructions.

    def instruction(self, op: Instruction) -> None:
        """Writes an instruction that is no branch."""
        from quadrants.evidence.ptx.instructions import HANDLERS

        self.line = op.line
        handler = HANDLERS.get(op.words[0])
        if handler is None:
            raise self.error(f"no instruction {op.opcode}")
        if op.guard:
            raise self.error(f"{op.opcode} under a condition")
        handler(self, op)

    def ending(self, op: Instruction | None, at: int) -> tuple[str, tuple[int, ...], bool]:
        """How the block ends: kind, targets, whether the condition is negated."""
        if op is None:
            return ("next", (at + 1,), False) if at + 1 < len(self.function.blocks) else ("end", (), False)
        self.line = op.line
        word = op.words[0]
        if word == "bra":
            target = self.function.labels[op.operands[0]]
            if not op.guard:
                return "jump", (target,), False
            self.condition = self.register(op.guard.lstrip("!"))
            return "branch", (target, at + 1), op.guard[0] == "!"
        if op.guard:
            raise self.error(f"{op.opcode} under a condition")
        if word == "brx":
            self.condition = self.value(op.operands[0], "b32")
            return "table", tuple(self.function.labels[name] for name in self.function.tables[op.operands[1]]), False
        if word in ("bar", "barrier"):
            if "red" in op.words or "arrive" in op.words:
                raise self.error(f"no instruction {op.opcode}")
            return "barrier", (at + 1,), False
        if word == "trap":
            self.lines.append("M.trap()")
        return "end", (), False
