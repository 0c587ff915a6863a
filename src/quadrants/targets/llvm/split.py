"""The text of a large kernel as several LLVM modules, which are compiled side by side.

Tasks are functions that nothing but the kernel's entry names, so each may stand in a module of its own. The parts
follow from the text alone: the same source gives the same objects on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from quadrants.targets.llvm.writer import Unit

__all__ = ["distribute", "split"]

# A module has a fixed cost (its passes, its tables): fewer lines than these are no part of their own.
_LINES = 700
_MOST_PARTS = 4

_NAME = re.compile(r"@([\w.$]+)")


def distribute(sizes: Sequence[int]) -> list[list[int]]:
    """Numbers of functions of these sizes, in parts of about one size; the last function is in the last part."""
    count = max(min(sum(sizes) // _LINES, _MOST_PARTS, len(sizes)), 1)
    parts: list[list[int]] = [[] for _ in range(count)]
    totals = [0] * count
    for k in sorted(range(len(sizes)), key=lambda k: (-sizes[k], k)):
        least = totals.index(min(totals))
        parts[least].append(k)
        totals[least] += sizes[k]
    last = len(sizes) - 1
    return sorted([sorted(part) for part in parts], key=lambda part: (last in part, part))


def split(unit: Unit, entry: str) -> list[tuple[str, str]]:
    """(symbol, text) of the modules for a kernel's unit, the one with the entry at the end, with that symbol.

    A task outside that module has a symbol that starts with the entry's: it is one of the whole program.
    """
    functions = unit.functions
    *away, home = distribute([function.count("\n") for function in functions])
    renamed: dict[str, str] = {}
    modules = []
    for part in away:
        names = [_NAME.findall(functions[k], 0, functions[k].index("("))[0] for k in part]
        renamed.update({name: f"{entry}.{name}" for name in names})
        bodies = [functions[k].replace("define internal ", "define ", 1) for k in part]
        modules.append((renamed[names[0]], _module(unit, bodies, renamed)))
    declarations = [f"declare void @{name}(ptr, ptr, i64, i64)" for name in renamed]
    return [*modules, (entry, _module(unit, [*declarations, *[functions[k] for k in home]], renamed))]


def _module(unit: Unit, lines: Sequence[str], renamed: dict[str, str]) -> str:
    """The text of a module with these functions; `renamed` are the tasks with symbols of the whole program."""
    text = "\n".join(lines)
    declarations = list(unit.declarations.values())
    names = set(_NAME.findall("\n".join([*declarations, text])))
    constants = [line for line in unit.constants if line[1 : line.index(" ")] in names]
    if renamed:
        text = _NAME.sub(lambda found: "@" + renamed.get(found[1], found[1]), text)
    return "\n".join([*constants, *declarations, text, *unit.metadata, ""])
