"""The operations' manual, derived from the op table. `python -m quadrants.ir.document docs/ops.md` writes it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from quadrants.ir import rules
from quadrants.ir.ops import OPS, TERMINATORS, Row

__all__ = ["document"]

_HEAD = """# The operations of the IR

Made from the op table (`src/quadrants/ir/ops.py`) by `python -m quadrants.ir.document docs/ops.md`: change the table,
not this page. Elementwise operations take numbers, or matrices of one shape; operands have one type unless said
otherwise. "Algebra" names laws that passes may use; "d" marks operations with a derivative; cost is in rough
nanoseconds of a scalar operation.
"""

_OPERANDS = {
    rules.number: "numbers",
    rules.floating: "floats",
    rules.integer: "integers",
    rules.bits: "integers, truth values",
    rules.compare: "any, gives u1",
    rules.test: "floats, gives u1",
    rules.select: "u1, then two of one type",
    rules.constant: "none",
    rules.cast: "any",
    rules.bitcast: "any",
    rules.lookup: "i64",
    rules.splat: "a number",
    rules.construct: "the elements",
    rules.extract: "a matrix, its i64 indices",
    rules.insert: "a matrix, a number, the i64 indices",
    rules.matmul: "two matrices",
    rules.transpose: "a matrix",
    rules.reduce: "a matrix or lanes",
    rules.load: "an array, i64 indices",
    rules.store: "a value, an array, i64 indices",
    rules.update: "a value, an array, i64 indices",
    rules.update_loaded: "two values, an array, i64 indices",
    rules.compare_exchange: "two integers, an array, i64 indices",
    rules.dim: "an array",
    rules.slot: "none",
    rules.shared: "none",
    rules.temporary: "u1, i64 sizes",
    rules.release: "a temporary array",
    rules.tally: "none",
    rules.random: "none",
    rules.external: "numbers; arrays, each with its indices",
    rules.lane_index: "none",
    rules.broadcast: "a number",
    rules.extract_lane: "lanes",
    rules.lane_test: "lanes of u1",
    rules.lane_load: "an array, indices, a mask",
    rules.interleave: "a slot, a row, an array, indices, a count",
    rules.lane_store: "lanes, an array, indices, a mask",
    rules.lane_update: "lanes, an array, indices, a mask",
    rules.thread_index: "none",
    rules.barrier: "none",
    rules.fence: "none",
    rules.team_barrier: "none",
    rules.shuffle: "a value, i64",
    rules.ballot: "u1",
    rules.team_combine: "a number",
    rules.team_multiply: "16 or 10 numbers",
    rules.team_multiply_shared: "two arrays, a place in each, numbers",
    rules.team_multiplied: "numbers",
    rules.team_load: "a block's memory, a place in it",
    rules.copy_begin: "a block's memory, a place in it, an array, indices, a length",
    rules.copy_wait: "none",
    rules.lines_aligned: "an array",
    rules.for_: "lows, highs, initial values",
    rules.while_: "initial values",
    rules.if_: "u1",
    rules.call: "the arguments",
    rules.terminator: "values",
    rules.effect: "values",
    rules.check: "u1, values",
}


def _is_lane(row: Row) -> bool:
    return "lane" in row.name or row.name == "broadcast"


def _is_external(row: Row) -> bool:
    return row.name.startswith("external")


_SECTIONS: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("Elementwise", lambda row: row.elementwise),
    (
        "Constants and matrices",
        lambda row: row.evaluate is not None and not row.elementwise and not _is_lane(row) and not _is_external(row),
    ),
    ("Lanes", lambda row: not row.elementwise and _is_lane(row)),
    (
        "Memory",
        lambda row: (
            row.evaluate is None
            and not _is_lane(row)
            and not _is_external(row)
            and row.effects in ("pure", "reads", "writes", "atomic")
        ),
    ),
    ("Threads of a block", lambda row: row.effects == "team"),
    ("Functions of C", _is_external),
    ("Control", lambda row: row.effects == "control" and row.name not in TERMINATORS),
    ("Terminators", lambda row: row.name in TERMINATORS),
    ("Effects on the outside", lambda row: row.effects == "traps"),
)


def document() -> str:
    """The whole manual as Markdown: each operation in exactly one table."""
    parts = [_HEAD]
    for title, belongs in _SECTIONS:
        rows = [row for row in OPS.values() if belongs(row)]
        parts.append(f"## {title}\n")
        parts.append("| operation | operands | effects | algebra | d | cost | meaning |\n|---|---|---|---|---|---|---|")
        parts += map(_line, rows)
        parts.append("")
    return "\n".join(parts)


def _line(row: Row) -> str:
    algebra = [name for name in ("commutative", "associative") if getattr(row, name)]
    if row.identity is not None:
        algebra.append(f"identity {row.identity}")
    meaning = row.doc.replace("|", "\\|")
    derivative = "d" if row.derivative is not None else ""
    cells = (
        f"`{row.name}`",
        _OPERANDS[row.rule],
        row.effects,
        ", ".join(algebra),
        derivative,
        f"{row.cost:g}",
        meaning,
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document())
