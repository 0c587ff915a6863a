"""Fingerprints of Python functions and of the compiler itself: what cache keys and manifests are made of.

They are the same in every process: no addresses, no hash order, no times but those of the package's own files.
"""

from __future__ import annotations

import functools
import linecache
import os
import re
import sys
import types
from typing import Any

from quadrants.digest import blake2b

__all__ = ["code_fingerprint", "compiler_fingerprint", "last_line", "source_fingerprint"]

_DIGEST_BYTES = 16
_PLAIN = frozenset({int, float, str, bytes, bool, complex, type(None), type(Ellipsis)})
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def code_fingerprint(function: Any, *, lines: bool = False, layout: bool = False) -> str:
    """A hash of what a Python function's code, defaults and annotations say.

    `lines` adds where it stands: line numbers matter to messages, not to meaning; `layout` adds how it is set out,
    lines counted from its first (and columns, where Python keeps them). Not covered: what free names stand
    for (the manifest records captured values), the inside of default values other than numbers, text, tuples, lists,
    dicts, types and functions, and annotations of local names, which Python's code objects do not keep (see
    `source_fingerprint`). Raises TypeError for what has no code.
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        raise TypeError(f"{function!r} has no Python code")
    parts: list[str] = []
    _add_code(parts, code, lines, layout or lines)
    if function.__defaults__:
        _add_value(parts, function.__defaults__)
    if function.__kwdefaults__:
        _add_value(parts, function.__kwdefaults__)
    annotations = _annotations(function)
    if annotations:
        parts.extend([f"{name}:{_annotation_text(wish)}" for name, wish in annotations.items()])
    return _digest("\x00".join(parts))


def source_fingerprint(function: Any) -> str | None:
    """A hash of the source lines that a function's code covers; None where the source is not to be had.

    It also sees what code objects drop: annotations of local names. Raises TypeError for what has no code.
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        raise TypeError(f"{function!r} has no Python code")
    linecache.checkcache(code.co_filename)
    text = linecache.getlines(code.co_filename, function.__globals__)
    covered = text[code.co_firstlineno - 1 : last_line(code)]
    return _digest("".join(covered)) if covered else None


@functools.lru_cache(maxsize=1)
def compiler_fingerprint() -> str:
    """A hash of this package's version, its files (path, size, time of change) and the Python that runs it."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    package = sys.modules[__name__.partition(".")[0]]
    facts = [str(getattr(package, "__version__", "")), sys.implementation.cache_tag or sys.version]
    found: list[str] = []
    _add_files(root, "", found)
    return _digest("\x00".join(facts + sorted(found)))


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def _add_code(parts: list[str], code: types.CodeType, lines: bool, layout: bool) -> None:
    parts.append(code.co_code.hex())
    parts.append(
        f"{code.co_name} {code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} {code.co_flags} "
        f"{code.co_names} {code.co_varnames} {code.co_freevars} {code.co_cellvars}"
    )
    if lines:
        parts.append(str(code.co_firstlineno))
    if layout:
        parts.append(code.co_linetable.hex())
    constants = code.co_consts
    if _PLAIN.issuperset(map(type, constants)):
        parts.append(repr(constants))
        return
    parts.append(str(len(constants)))
    for constant in constants:
        if type(constant) is types.CodeType:
            _add_code(parts, constant, lines, layout)
        else:
            _add_value(parts, constant)


def _add_value(parts: list[str], value: Any) -> None:
    """Text of a value that is the same in every process."""
    kind = type(value)
    if kind in _PLAIN:
        parts.append(repr(value))
    elif kind is tuple or kind is list:
        parts.append(f"{kind.__name__} {len(value)}")
        for item in value:
            _add_value(parts, item)
    elif kind is dict:
        parts.append(f"dict {len(value)}")
        for key, item in value.items():
            _add_value(parts, key)
            _add_value(parts, item)
    elif kind is frozenset or kind is set:
        parts.append(f"set {' '.join(sorted([_value_text(item) for item in value]))}")
    elif isinstance(value, type):
        parts.append(f"type {value.__module__}.{value.__qualname__}")
    elif kind is types.FunctionType:
        parts.append(f"function {value.__module__}.{value.__qualname__}")
        _add_code(parts, value.__code__, False, False)
    elif kind is slice:
        parts.append("slice")
        _add_value(parts, (value.start, value.stop, value.step))
    else:
        parts.append(f"{kind.__module__}.{kind.__qualname__} {getattr(value, '__qualname__', '')}")


def _value_text(value: Any) -> str:
    parts: list[str] = []
    _add_value(parts, value)
    return "\x00".join(parts)


def _annotations(function: Any) -> dict[str, Any]:
    """The annotations as objects; none where evaluating them fails (from Python 3.14 on that is done when asked)."""
    try:
        return function.__annotations__
    except NameError:
        return {}


def _annotation_text(wish: Any) -> str:
    if type(wish) is str:
        return wish
    if isinstance(wish, type):
        return f"{wish.__module__}.{wish.__qualname__}"
    return _ADDRESS.sub("", repr(wish))


def last_line(code: types.CodeType) -> int:
    """The number of the last source line that a code object covers."""
    last = max([line for _, _, line in code.co_lines() if line is not None], default=code.co_firstlineno)
    inner = [last_line(constant) for constant in code.co_consts if type(constant) is types.CodeType]
    return max([last, *inner])


def _add_files(folder: str, prefix: str, found: list[str]) -> None:
    """The files of code below a folder; none where the package is no folder (imported from an archive)."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith((".py", ".qir")):
                    facts = entry.stat()
                    found.append(f"{prefix}{name} {facts.st_size} {facts.st_mtime_ns}")
                elif "." not in name and name != "__pycache__" and entry.is_dir():
                    _add_files(entry.path, f"{prefix}{name}/", found)
    except OSError:
        return
