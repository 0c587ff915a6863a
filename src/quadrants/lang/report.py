"""`kernel.report()`: what the compiler made of a kernel, in words."""

from __future__ import annotations

from quadrants.ir.nodes import Op, walk
from quadrants.program import Program

__all__ = ["report_text"]


def report_text(program: Program) -> str:
    """Tasks and what was chosen for them, notices with their places, operations, times."""
    lines = [f"kernel {program.name}"]
    lines += [f"  {line}" for line in _tasks(program)]
    for notice in program.notices:
        places = ", ".join(f"{place.file}:{place.line}" for place in notice.locations if place is not None)
        lines.append(f"  {notice.pass_name}: {notice.text}" + (f" ({places})" if places else ""))
    if program.may_alias:
        lines.append("  arguments share memory: compiled without assuming that they do not")
    for name, number in sorted(program.counters.items()):
        lines.append(f"  {name}: {number}")
    shown = ", ".join(f"{what} {seconds * 1e3:.1f} ms" for what, seconds in program.times.items())
    lines.append(f"  compiled in {sum(program.times.values()) * 1e3:.1f} ms ({shown})")
    return "\n".join(lines)


def _tasks(program: Program) -> list[str]:
    found = []
    for op in walk(program.module.kernel.body):
        if op.kind == "for" and op.attribute("parallel"):
            found.append(_task(op))
    return found or ["no parallel loop"]


def _task(op: Op) -> str:
    place = f"line {op.location.line}" if op.location is not None else "unknown line"
    facts = [f"{op.attribute('rank')}-dimensional", f"about {op.attribute('cost', 1)} ns an iteration"]
    if op.attribute("reductions"):
        facts.append(f"reductions by {', '.join(op.attribute('reductions'))} in chunks of {op.attribute('chunk')}")
    if op.attribute("scatter"):
        facts.append("scattered updates: private copies where they are small, else atomic")
    return f"parallel loop at {place}: " + "; ".join(facts)
