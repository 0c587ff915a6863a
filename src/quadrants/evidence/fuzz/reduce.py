"""Shrinks a failing program: statements and expressions go, options go, as long as the failure stays what it is.

Every candidate runs in a process of its own. One counts only if it still has a meaning: the oracle runs it, and the
interpreter of the unoptimised program agrees with the oracle and finds no race (unless that is what fails).
"""

from __future__ import annotations

import ast
import os
import pickle
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from quadrants.evidence.fuzz.expressions import Style
from quadrants.evidence.fuzz.settings import Settings
from quadrants.evidence.fuzz.trial import Expected, Failure, Invalid, check, expectations, load

__all__ = ["Candidate", "outcome", "reduced", "test_text"]

SECONDS_FOR_ONE = 30
PLAIN = Settings("reference", {"opt_level": 0})


class Candidate(NamedTuple):
    """A program with the sizes, numbers and options that it fails with."""

    text: str
    sizes: tuple[int, ...]
    style: Style
    settings: Settings


def outcome(candidate: Candidate, wanted: Failure | None = None) -> Failure | None:
    """What goes wrong with a program that has a meaning; 'invalid' is one that has none. `wanted`: what is looked for,
    where that makes less work."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            signal.alarm(SECONDS_FOR_ONE)
            data = pickle.dumps(_outcome(candidate, wanted))
        except BaseException as error:  # a child never returns; a candidate that cannot be judged is not taken
            data = pickle.dumps(Failure("invalid", str(error)))
        os.write(writing, data)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if data:
        return pickle.loads(data)
    return Failure("hang" if os.WTERMSIG(status) == signal.SIGALRM else "crash", f"status {status}")


def _outcome(candidate: Candidate, wanted: Failure | None) -> Failure | None:
    _silence()
    settings = candidate.settings
    with tempfile.TemporaryDirectory() as folder:
        module = load(candidate.text, Path(folder), "candidate")
        if wanted is not None and wanted.kind not in ("value", "type", "race"):
            failure = check(module, [Expected(size, [], [], []) for size in candidate.sizes], settings, candidate.style)
            if not _like(failure, wanted) or wanted.kind in ("VerificationError", "QuadrantsInternalError", "crash"):
                return failure
        try:
            expected = expectations(module, candidate.sizes, settings.defaults)
        except Invalid as error:
            return Failure("invalid", str(error))
        failure = check(module, expected, settings, candidate.style)
        if failure is None or failure.kind not in ("value", "type") or _is_plain(settings):
            return failure
        plain = replace(PLAIN, defaults=settings.defaults)
        found = check(module, expected, plain, candidate.style, finds_races=True)
        return failure if found is None or found.kind == failure.kind == "type" else Failure("invalid", found.text)


def _is_plain(settings: Settings) -> bool:
    """Whether options are so plain that nothing simpler can be the judge."""
    return settings.arch == "reference" and settings.options.get("opt_level") == 0


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _like(failure: Failure | None, wanted: Failure) -> bool:
    if failure is None or failure.kind != wanted.kind:
        return False
    return wanted.kind in ("value", "type", "crash", "hang", "race") or _shape(failure.text) == _shape(wanted.text)


def _shape(text: str) -> str:
    """A message's first line without what changes as a program shrinks."""
    return re.sub(
        r"0x[0-9a-f]+|\S*/\S+|[`'][^`']*[`']|[%@][\w.?]+|\d+|: [a-z]+\d+", "", text.splitlines()[0] if text else ""
    )


def reduced(candidate: Candidate, seconds: float = 300.0) -> tuple[Candidate, Failure]:
    """The smallest candidate that was found in that time, with its failure. ValueError if it does not fail."""
    plain = candidate._replace(settings=replace(PLAIN, defaults=candidate.settings.defaults))
    if outcome(plain) is not None:
        candidate = plain
    wanted = outcome(candidate)
    if wanted is None or wanted.kind == "invalid":
        raise ValueError(f"nothing to reduce: {wanted}")
    deadline = time.monotonic() + seconds
    best, failure = candidate, wanted
    changed = True
    while changed and time.monotonic() < deadline:
        changed = False
        for steps in (_simpler_settings, _smaller_programs):
            position = 0
            while time.monotonic() < deadline:
                found = _next(best, steps, position, wanted, deadline)
                if found is None:
                    break
                best, failure, position = found
                changed = True
    return best, failure


def _next(
    best: Candidate, steps: Any, position: int, wanted: Failure, deadline: float
) -> tuple[Candidate, Failure, int] | None:
    """The first smaller candidate from a position on (then from the start) that still fails. `steps` gives how many
    there are, and one of them by its number (None where that changes nothing)."""
    count: int = steps(best, None)
    for index in [*range(position, count), *range(min(position, count))]:
        smaller: Candidate | None = steps(best, index)
        if time.monotonic() > deadline:
            return None
        if smaller is None:
            continue
        failure = outcome(smaller, wanted)
        if failure is not None and _like(failure, wanted):
            return smaller, failure, index
    return None


# Options.


def _simpler_settings(candidate: Candidate, number: int | None) -> Any:
    simpler = list(_all_simpler_settings(candidate))
    return len(simpler) if number is None else simpler[number]


def _all_simpler_settings(candidate: Candidate) -> Iterator[Candidate]:
    settings = candidate.settings
    for name in settings.options:
        rest = {key: value for key, value in settings.options.items() if key != name}
        yield candidate._replace(settings=replace(settings, options=rest))
    if settings.code_level is not None:
        yield candidate._replace(settings=replace(settings, code_level=None))
    if settings.look:
        yield candidate._replace(settings=replace(settings, look=""))
        options = {**settings.options, "stop_after": settings.look}
        yield candidate._replace(settings=replace(Settings("reference", options), defaults=settings.defaults))
    if settings.busy:
        yield candidate._replace(settings=replace(settings, busy=False))
    if settings.eager:
        yield candidate._replace(settings=replace(settings, eager=False))
    if settings.warm:
        yield candidate._replace(settings=replace(settings, warm=False))
    if settings.defaults != ("i64", "f64"):
        yield candidate._replace(settings=replace(settings, defaults=("i64", "f64")))
    if settings.arch != "reference":
        options = {name: value for name, value in settings.options.items() if name != "cpu_max_num_threads"}
        yield candidate._replace(settings=replace(Settings("reference", options), defaults=settings.defaults))
    first, *others = candidate.sizes
    if others:
        yield from (candidate._replace(sizes=(size,)) for size in candidate.sizes)
    else:
        yield from (candidate._replace(sizes=(size,)) for size in (1, 2, 3, 5, 8) if size < first)


# Programs.


def _smaller_programs(candidate: Candidate, number: int | None) -> Any:
    """Each has one thing less; large pieces come first."""
    tree = ast.parse(candidate.text)
    edits = list(_edits(tree))
    if number is None:
        return len(edits)
    edits[number]()
    text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    return candidate._replace(text=text) if text != candidate.text else None


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in reversed(tree.body) if isinstance(node, ast.FunctionDef)]


def _edits(tree: ast.Module) -> Iterator[Any]:
    """What makes the program smaller, as functions that change the tree; callers come before callees."""
    functions = _functions(tree)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for function in functions:
        if function.name not in names | {"program", "arguments"}:
            yield lambda function=function: tree.body.remove(function)
    yield from _parameter_edits(functions)
    for function in functions:
        if function.name != "arguments":
            for node in ast.walk(function):
                for field in ("body", "orelse"):
                    statements = getattr(node, field, None)
                    if isinstance(statements, list):
                        yield from _statement_edits(node, field, statements)
            for statement in ast.walk(function):
                if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Tuple):
                    yield from _result_edits(statement.value)
    for function in functions:
        if function.name != "arguments":
            yield from _expression_edits(function)


def _result_edits(given: ast.Tuple) -> Iterator[Any]:
    if len(given.elts) > 1:
        for position in range(len(given.elts)):
            yield lambda position=position: given.elts.pop(position)


def _parameter_edits(functions: list[ast.FunctionDef]) -> Iterator[Any]:
    """Arrays that the program does not name leave it and `arguments`."""
    program = next(function for function in functions if function.name == "program")
    arguments = next(function for function in functions if function.name == "arguments")
    given = arguments.body[-1]
    assert isinstance(given, ast.Return) and isinstance(given.value, ast.Tuple)
    values = given.value.elts
    used = {node.id for node in ast.walk(program) if isinstance(node, ast.Name)}
    for position, parameter in enumerate(program.args.args):
        if parameter.arg not in used:

            def drop(position: int = position, name: str = parameter.arg) -> None:
                del program.args.args[position]
                del values[position]
                arguments.body[:] = [
                    statement
                    for statement in arguments.body
                    if not (isinstance(statement, ast.Assign) and _is_name(statement.targets[0], name))
                ]

            yield drop


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _statement_edits(node: ast.AST, field: str, statements: list[Any]) -> Iterator[Any]:
    size = len(statements)
    while size >= 1:
        for start in range(0, len(statements), size):

            def drop(start: int = start, size: int = size) -> None:
                rest = statements[:start] + statements[start + size :]
                setattr(node, field, rest or ([ast.Pass()] if field == "body" else []))

            if not all(isinstance(statement, ast.Pass) for statement in statements[start : start + size]):
                yield drop
        size //= 2
    for position, statement in enumerate(statements):
        for inner in ("body", "orelse"):
            inside = getattr(statement, inner, None)
            if isinstance(inside, list) and inside and not isinstance(statement, ast.FunctionDef):

                def lift(position: int = position, inside: list[Any] = inside) -> None:
                    statements[position : position + 1] = inside

                yield lift


def _expression_edits(function: ast.FunctionDef) -> Iterator[Any]:
    """Expressions become one of their parts, or a small number."""
    for node in ast.walk(function):
        if isinstance(node, (ast.arguments, ast.arg)):
            continue
        for field, value in ast.iter_fields(node):
            values = value if isinstance(value, list) else [value]
            for position, part in enumerate(values):
                if isinstance(part, ast.expr) and isinstance(getattr(part, "ctx", ast.Load()), ast.Load):
                    yield from _replacements(node, field, position, isinstance(value, list), part)


def _replacements(node: ast.AST, field: str, position: int, is_list: bool, part: ast.expr) -> Iterator[Any]:
    if isinstance(node, ast.Call) and field == "func":
        return
    parts: list[ast.expr] = [child for child in ast.iter_child_nodes(part) if isinstance(child, ast.expr)]
    if isinstance(part, ast.Call):
        parts = list(part.args)
    if not isinstance(part, (ast.Constant, ast.Name, ast.Attribute)):
        parts += [ast.Constant(value=0), ast.Constant(value=1)]
    elif isinstance(part, ast.Constant) and isinstance(part.value, int) and abs(part.value) > 1:
        parts += [ast.Constant(value=part.value // 2), ast.Constant(value=1)]
    for smaller in parts:
        if isinstance(smaller, (ast.expr, ast.Constant)) and not isinstance(smaller, ast.Starred):

            def put(smaller: ast.expr = smaller) -> None:
                if is_list:
                    getattr(node, field)[position] = smaller
                else:
                    setattr(node, field, smaller)

            yield put


def test_text(candidate: Candidate, failure: Failure) -> str:
    """A reduced program as a file of `tests/fuzz/found`."""
    first = failure.text.splitlines()[0] if failure.text else failure.kind
    told = f'"""Found by the fuzzer ({failure.kind}: {first[:90]})."""\n\n'
    body = candidate.text.replace('"""', "'''")
    facts = (
        f"\nSIZES = {candidate.sizes!r}\nSTYLE = {tuple(candidate.style)!r}\n"
        f"SETTINGS = {_settings_text(candidate.settings)}\n"
    )
    return told + body + facts


def _settings_text(settings: Settings) -> str:
    return repr(settings).replace("Settings", "dict", 1)
