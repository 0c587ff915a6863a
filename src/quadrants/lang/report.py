"""`kernel.report()`: what the compiler made of a kernel, in words."""

from __future__ import annotations

from quadrants.program import Program

__all__ = ["report_text"]


def report_text(program: Program) -> str:
    """Loops and what was chosen for them, choices by timing, notices with their places, counters, times: a fact a line."""
    lines = [f"kernel {program.name}"]
    lines += [f"  {line}" for line in _tasks(program)]
    for notice in program.notices:
        places = ", ".join(f"{place.file}:{place.line}" for place in notice.locations if place is not None)
        lines.append(f"  {notice.pass_name}: {notice.text}" + (f" ({places})" if places else ""))
    if program.tuner is not None:
        lines += [f"  {line}" for line in program.tuner.report()]
    if program.device is not None:
        lines += [f"  {line}" for line in program.device.code.tasks.report(program.module)]
    if program.may_alias:
        lines.append("  arguments share memory: compiled without assuming that they do not")
    for what, (counter, before) in program.tallies.items():
        lines.append(f"  {what}: {counter.value - before} times")
    for name, number in sorted(program.counters.items()):
        lines.append(f"  {name}: {number}")
    lines.append(f"  {_times(program)}")
    return "\n".join(lines)


def _tasks(program: Program) -> list[str]:
    found = []
    for place, facts in program.tasks:
        line = f"line {place.line}" if place is not None else "unknown line"
        first, *others = facts.split("\n")
        found += [f"parallel loop at {line}: {first}", *[f"  {fact}" for fact in others]]
    return found or ["no parallel loop"]


def _times(program: Program) -> str:
    shown = ", ".join(f"{what} {seconds * 1e3:.1f} ms" for what, seconds in program.times.items())
    compiled = f"compiled in {sum(program.times.values()) * 1e3:.1f} ms ({shown})"
    if program.disk_seconds is not None:
        return f"from the disk cache in {program.disk_seconds * 1e3:.1f} ms; {compiled} before"
    if program.not_cached:
        return f"{compiled}; not kept on disk: {program.not_cached}"
    return f"{compiled}; kept on disk" if program.remember is not None else compiled
