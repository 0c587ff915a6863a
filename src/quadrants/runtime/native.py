"""Machine code of the runtime itself: built by LLVM once, kept as object files on disk, loaded without LLVM after that.

A part is a builder of LLVM text. Its cache key covers the builder's source, the facts that the text depends on and the
version of llvmlite, so a stale object is never loaded; content is checksummed, so a damaged one never is either.
"""

from __future__ import annotations

import functools
import importlib.machinery
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from quadrants.digest import blake2b
from quadrants.targets import hosts

if TYPE_CHECKING:
    from quadrants.runtime.loader import LoadedObject
    from quadrants.targets.hosts import Host

__all__ = ["available", "compile_text", "load_part", "use_cache", "version_file"]

_DIGEST_BYTES = 32
_cache_directory: str | None = None


def available() -> bool:
    """Whether this process runs the native runtime: a machine of the hosts' table, a CPython with the global lock."""
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    return hosts.host() is not None and sys.implementation.name == "cpython" and locked


def use_cache(directory: str | os.PathLike[str] | None) -> None:
    """Keep object files in `directory` (created when needed) from now on; None keeps none."""
    global _cache_directory
    _cache_directory = None if directory is None else os.fspath(directory)


def load_part(
    name: str,
    build: Callable[[], str],
    sources: Sequence[str],
    facts: str = "",
    symbols: Mapping[str, int] | None = None,
    hot: bool = False,
) -> LoadedObject:
    """Load one part of the runtime, from the cache if it is there.

    `build` gives the LLVM text, `sources` are the modules of this package that determine it together with `facts`;
    `symbols` are addresses that the part refers to; `hot` as for `compile_text`. Raises `LoaderError` for a symbol that nobody defines.
    """
    from quadrants.runtime.loader import Library

    directory = _cache_directory
    path = os.path.join(directory, f"runtime-{name}-{_key(sources, facts)}.o") if directory is not None else None
    content = _read(path)
    if content is None:
        content = compile_text(build(), hot)
        _write(path, content)
    return Library(symbols).load(content)


def compile_text(text: str, hot: bool = False, host: Host | None = None) -> bytes:
    """An object file (position independent, small code model) of LLVM text, for this process's host or another one.

    The first call of the first kernel waits for this, so it takes a path through LLVM that is six times quicker than
    the first level of optimisation: variables in registers, tidy control flow, plain instruction selection where that is to be
    had. For `hot` code registers are allocated over whole functions, which takes half as long again.
    """
    import llvmlite.binding as llvm

    if host is None:
        host = hosts.host()
        assert host is not None, "no row of the hosts' table fits this machine"
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    if hot:
        _allocate_registers_well()
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_triple(host.triple)
    machine = target.create_target_machine(cpu=host.processor, opt=host.code_level, reloc="pic", codemodel="small")
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return machine.emit_object(module)


@functools.cache
def _allocate_registers_well() -> None:
    """An option of the whole process that may be given once; it says what is the case above level 0 anyway."""
    import llvmlite.binding as llvm

    llvm.set_option("", "-optimize-regalloc")


def _key(sources: Sequence[str], facts: str) -> str:
    digest = blake2b(f"{facts} {hosts.host()!r}".encode(), digest_size=12)
    folder = os.path.dirname(__file__)
    for source in [*(os.path.join(folder, name + ".py") for name in sources), __file__, version_file()]:
        digest.update(_digest_of_file(source))
    return digest.hexdigest()


@functools.cache
def _digest_of_file(path: str) -> bytes:
    """Parts share sources: each is read once."""
    with open(path, "rb", buffering=0) as file:
        return _digest(file.readall())


def version_file() -> str:
    """The file that states llvmlite's version, found without importing llvmlite."""
    specification = importlib.machinery.PathFinder.find_spec("llvmlite")
    if specification is None or specification.origin is None:
        raise ImportError("llvmlite is not installed")
    return os.path.join(os.path.dirname(specification.origin), "_version.py")


def _read(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb", buffering=0) as file:
            content = file.readall()
    except OSError:
        return None
    body = content[_DIGEST_BYTES:]
    return body if _digest(body) == content[:_DIGEST_BYTES] else None


def _write(path: str | None, content: bytes) -> None:
    """Write atomically; a directory that cannot be written to costs only the next start's time."""
    if path is None:
        return
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        temporary = f"{path}.{os.getpid()}.{threading.get_ident()}"
        with open(temporary, "wb") as file:
            file.write(_digest(content) + content)
        os.replace(temporary, path)
    except OSError:
        return


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()
