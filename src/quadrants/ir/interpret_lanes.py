"""Memory accesses by lanes, as the interpreter runs them: one lane after the other, by the scalar access."""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants.ir import evaluate as ev
from quadrants.ir.nodes import Op, Value
from quadrants.ir.types import i64, lanes_of, scalar_of

__all__ = ["interleaving", "lane_access"]

Environment = dict[Value, Any]


def lane_access(program: Any, op: Op, scalar_step: Callable[[Any, Op], Any]) -> Callable[[Environment], None]:
    """A closure that runs `lane_load`, `lane_store` or `lane_update` as the scalar access of a lane at a time."""
    kind = op.kind.partition("_")[2]
    values = 0 if kind == "load" else 1
    mask, lanes = op.operands[-1], lanes_of(op.operands[-1].type)
    indices, steps = op.operands[values + 1 : -1], op.attribute("steps")
    array = op.operands[values]
    own = [Value(i64, None, index.name) for index in indices]
    value = Value(array.type.scalar)
    one = Op(
        kind,
        (*([value] if values else []), array, *own),
        (value.type,) if op.results else (),
        op.attributes,
        location=op.location,
    )
    step = scalar_step(program, one)
    held = ev.held_dtype(scalar_of(value.type))

    def run(env: Environment) -> None:
        found = np.zeros(lanes, held)
        for lane in np.flatnonzero(env[mask]):
            for index, stride, name in zip(indices, steps, own):
                env[name] = env[index] + np.int64(stride * lane) if index.type is i64 else env[index][lane]
            if values:
                env[value] = env[op.operands[0]][lane]
            step(env)
            if op.results:
                found[lane] = env[one.results[0]]
        if op.results:
            env[op.results[0]] = found

    return run


def interleaving(program: Any, op: Op) -> Callable[[Environment], None]:
    """A closure that runs `interleave` or `deinterleave`; a row or an element out of range is an IndexError."""
    slot, place, array, *indices, count = op.operands
    axis, gathers = op.attribute("axis"), op.kind == "interleave"

    def run(env: Environment) -> None:
        rows, elements, first = env[slot], env[array], int(env[place])
        at = [int(env[index]) for index in indices]
        if min(at) < 0:
            raise IndexError(f"{op.kind}: an index below 0")
        for lane in range(rows.shape[1]):
            own = [index + lane * (k == axis) for k, index in enumerate(at[: axis + 1])]
            inner = elements.shape[axis + 1 :]
            start = np.ravel_multi_index(at[axis + 1 :], inner) if env[count] else 0
            for k in range(int(env[count])):
                element = (*own, *np.unravel_index(start + k, inner))
                if gathers:
                    rows[first + k, lane] = elements[element]
                else:
                    elements[element] = rows[first + k, lane]

    return run
