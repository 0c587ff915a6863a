"""What becomes of registers while `wgmma` is in flight: the law of PTX, for every way through a function.

From `mma_async` to the `wait_group` that waits for it nothing else touches the registers of its sums, but products of the same shape and the
same registers. In front of the first product, and where anything else has touched these registers since, stands `wgmma.fence`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from quadrants.evidence.ptx.parse import Function, Instruction, PtxError

__all__ = ["check_registers", "has_products"]

_REGISTER = re.compile(r"%[A-Za-z_]\w*")

Registers = frozenset[str]
_NONE: Registers = frozenset()
_MOST_GROUPS = 8
"""Groups that are told apart; older ones count as the last of these, so that a loop which waits for none comes to an end here."""


@dataclass(frozen=True)
class _State:
    """`fenced`: whether there was a fence at all; `touched`: registers since; `issued`: those of products not committed yet, `groups`:
    of committed ones, the last one first; `shapes`: (register, shape and list) of those in flight."""

    fenced: bool = False
    touched: Registers = _NONE
    issued: Registers = _NONE
    groups: tuple[Registers, ...] = ()
    shapes: frozenset[tuple[str, str]] = frozenset()

    @property
    def flying(self) -> Registers:
        return self.issued.union(*self.groups)

    def joined(self, other: _State) -> _State:
        """What holds where two ways meet: the worse of both."""
        longest = max(len(self.groups), len(other.groups))
        mine, others = (state.groups + (_NONE,) * (longest - len(state.groups)) for state in (self, other))
        return _State(
            self.fenced and other.fenced,
            self.touched | other.touched,
            self.issued | other.issued,
            tuple([one | two for one, two in zip(mine, others)]),
            self.shapes | other.shapes,
        )


def has_products(function: Function) -> bool:
    """Whether there is any `wgmma`."""
    return any(op.words[0] == "wgmma" for block in function.blocks for op in block.body)


def check_registers(function: Function) -> None:
    """PtxError where the law is broken."""
    arriving: dict[int, _State] = {0: _State()}
    waiting = [0]
    while waiting:
        number = waiting.pop()
        block, state = function.blocks[number], arriving[number]
        for op in block.body:
            state = _behind(function, state, op)
        if block.ending is not None:
            state = _touching(function, state, block.ending)
            if block.ending.words[0] in ("ret", "exit") and state.flying:
                raise _error(function, block.ending, "products are in flight at the end")
        for target in _targets(function, number):
            known = arriving.get(target)
            joined = state if known is None else known.joined(state)
            if joined != known:
                arriving[target] = joined
                waiting.append(target)


def _targets(function: Function, number: int) -> list[int]:
    ending = function.blocks[number].ending
    if ending is not None and ending.words[0] in ("ret", "exit", "trap") and not ending.guard:
        return []
    targets = [number + 1] if number + 1 < len(function.blocks) else []
    if ending is None:
        return targets
    if ending.words[0] == "bra":
        return [function.labels[ending.operands[0]], *(targets if ending.guard else [])]
    if ending.words[0] == "brx":
        return [function.labels[name] for name in function.tables[ending.operands[1]]]
    return targets


def _error(function: Function, op: Instruction, text: str) -> PtxError:
    return PtxError(f"{function.name}, line {op.line}: {text}")


def _registers(text: str) -> Registers:
    return frozenset(_REGISTER.findall(text))


def _touching(function: Function, state: _State, op: Instruction) -> _State:
    used = _registers(" ".join([op.guard, *op.operands]))
    early = used & state.flying
    if early:
        raise _error(function, op, f"{op.opcode} touches {min(early)}, a sum of products in flight")
    return _State(state.fenced, state.touched | used, state.issued, state.groups, state.shapes)


def _behind(function: Function, state: _State, op: Instruction) -> _State:
    if op.words[0] != "wgmma":
        return _touching(function, state, op)
    kind = op.words[1]
    if kind == "fence":
        return _State(True, _NONE, state.issued, state.groups, state.shapes)
    if kind == "commit_group":
        groups = (state.issued, *state.groups)
        last, older = groups[: _MOST_GROUPS - 1], groups[_MOST_GROUPS - 1 :]
        return _State(
            state.fenced, state.touched, _NONE, (*last, *([_NONE.union(*older)] if older else [])), state.shapes
        )
    if kind == "wait_group":
        groups = state.groups[: int(op.operands[0])]
        left = state.issued.union(*groups)
        shapes = frozenset([pair for pair in state.shapes if pair[0] in left])
        return _State(state.fenced, state.touched, state.issued, groups, shapes)
    return _multiplying(function, state, op)


def _multiplying(function: Function, state: _State, op: Instruction) -> _State:
    sums, others = _registers(op.operands[0]), _registers(" ".join(op.operands[1:]))
    if not state.fenced:
        raise _error(function, op, "no wgmma.fence stands in front of the first product")
    touched = sums & state.touched
    if touched:
        raise _error(function, op, f"{min(touched)} was touched, with no wgmma.fence since")
    if others & state.flying:
        raise _error(function, op, f"{min(others & state.flying)}, a sum of products in flight, is no operand")
    own = f"{op.words[4]} {op.operands[0]}"
    if any(register in sums and shape != own for register, shape in state.shapes):
        raise _error(function, op, "sums of products in flight are those of products of another shape")
    shapes = state.shapes | {(register, own) for register in sums}
    return _State(state.fenced, state.touched | others, state.issued | sums, state.groups, shapes)
