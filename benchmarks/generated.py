"""A large program, made up: many functions of many lines that call one another in a deep, shared tree."""

from __future__ import annotations

LEVELS = 12


def statement(line: int, seed: int) -> list[str]:
    """One or two lines of scalar code over the names a, b, c and n, of six kinds in turn."""
    k = (seed * 31 + line * 17) % 97 + 1
    kinds = (
        [f"    a = a * {k * 0.01:.2f} + b - c"],
        [f"    b = qd.sqrt(a * a + {k}.0) - b * 0.5"],
        [f"    if a > b + {k}.0:", "        c = a - b"],
        [f"    n = (n * {k} + {line}) % 1021"],
        [f"    for i in range(n % {k % 5 + 2}):", f"        c += b * {k * 0.001:.3f}"],
        [f"    c = qd.max(qd.min(c, a + {k}.0), b - {k}.0)"],
    )
    return kinds[line % len(kinds)]


def function(index: int, lines: int, callees: list[int]) -> list[str]:
    """The text of one function: `lines` lines between its head and its return."""
    body: list[str] = []
    while len(body) < lines - len(callees):
        body += statement(len(body), index)
    body = body[: lines - len(callees)]
    if body and body[-1].endswith(":"):
        body[-1] = "    a += b"
    calls = [f"    a += function_{callee}(b, c, a, n)" for callee in callees]
    return [f"def function_{index}(a, b, c, n):", *body, *calls, "    return a + b + c", "", ""]


def source(functions: int = 200, lines: int = 50, calls: int = 2) -> str:
    """A module with the kernel `everything(x)`: its functions lie in 12 levels, each calls `calls` of the next one.

    Every function is reached, and inlining everything would multiply the code by about calls ** 11.
    """
    level_of = [index * LEVELS // functions for index in range(functions)]
    members = [[i for i in range(functions) if level_of[i] == level] for level in range(LEVELS)]
    text = ["import quadrants as qd", "", ""]
    for level in reversed(range(LEVELS)):
        below = members[level + 1] if level + 1 < LEVELS else []
        for place, index in enumerate(members[level]):
            callees = [below[(place + k) % len(below)] for k in range(calls)] if below else []
            text += function(index, lines, callees)
    roots = " + ".join(f"function_{index}(x[i], x[i], x[i], i)" for index in members[0])
    text += ["@qd.kernel", "def everything(x):", "    for i in range(len(x)):", f"        x[i] = {roots}", ""]
    return "\n".join(text)


def separate(lines: int = 50, index: int = 0) -> str:
    """A module with one such function and a kernel that calls it: the unit in which compile time is counted."""
    text = ["import quadrants as qd", "", "", *function(index, lines, [])]
    call = f"        x[i] = function_{index}(x[i], x[i], x[i], i)"
    return "\n".join([*text, "@qd.kernel", "def everything(x):", "    for i in range(len(x)):", call, ""])
