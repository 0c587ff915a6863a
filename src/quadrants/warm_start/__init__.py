"""Warm starts: compiled kernels kept on disk, found again by a process that neither parses Python nor loads LLVM.

The key of an entry is a hash of the kernel's code, the types of its arguments, the options, the compiler and the
processor. Under it stand a few manifests: paths to every object that a compiled form depends on, with descriptions that
must hold of them (see descriptions.py, places.py, manifests.py), the program's data (programs.py) and the names of its
objects.
"""

from __future__ import annotations

import time
import types
from typing import Any

from quadrants import knobs
from quadrants.digest import hex_digest
from quadrants.frontend.arguments import Argument
from quadrants.ir.types import Type
from quadrants.program import Program, is_loaded
from quadrants.runtime import manifest as store
from quadrants.targets import table
from quadrants.warm_start.descriptions import Describer, Unstable

__all__ = ["Lookup"]

FORMAT = 1


class Lookup:
    """The disk cache's side of one compile: `find` before it, `keep` after it.

    Nothing is found or kept for targets without machine code of their host's part, with `offline_cache=False`, and with options that watch
    the compiler at work.
    """

    def __init__(
        self,
        function: types.FunctionType,
        arguments: list[tuple[str, Argument]],
        state: knobs.State,
        may_alias: bool,
        lanes: int = 0,
        is_graph: bool = False,
    ) -> None:
        self._roots: dict[tuple[str, Any], Any] = {("kernel", None): function}
        self._reason = ""
        self._key = ""
        self._cache = store.disk()
        self._state = state
        row = table.row(state.arch)
        if not (row.machine_code or row.keeps_tasks) or state.print_ir or state.stop_after:
            self._cache = None
        if self._cache is None:
            return
        for name, argument in arguments:
            _collect_static(self._roots, (name,), argument)
        try:
            describer = Describer()
            facts = (
                FORMAT,
                may_alias,
                (lanes, is_graph),
                describer.describe(function),
                [_stable(argument, describer) for _, argument in arguments],
                _options(state),
            )
            self._key = hex_digest(store.surroundings(), repr(facts))
        except Exception as error:  # users' objects may raise anything when looked at
            self._refuse(error)

    def find(self, leaves: list[Argument]) -> Program | None:
        """A form kept on disk that holds for these arguments and everything captured; None if there is none."""
        if self._cache is None or not self._key:
            return None
        start = time.perf_counter()
        kept = store.manifests(self._cache, self._key)
        for data in sorted(kept, key=_numbers):
            program = self._restore(data, leaves)
            if program is not None:
                program.disk_seconds = time.perf_counter() - start
                store.count("hits")
                return program
        store.count("misses")
        return None

    def _restore(self, data: dict[str, Any], leaves: list[Argument]) -> Program | None:
        from quadrants.warm_start.manifests import check
        from quadrants.warm_start.programs import captured_arrays_fit, decode

        assert self._cache is not None
        found = check(data["dependencies"], self._roots)
        if found is None:
            return None
        program = decode(data["program"], found)
        if not captured_arrays_fit(program) or not program.fits(leaves):
            return None
        tasks = data.get("tasks")
        objects = []
        for name, digest in data["objects"]:
            content = b"" if tasks is None and is_loaded(name) else store.load_object(self._cache, digest)
            if content is None:
                return None
            objects.append((name, content))
        if tasks is None:
            program.load(objects, data["entry"], data["externals"])
        else:
            from quadrants.warm_start.tasks import restore

            if not restore(program, self._state.arch, tasks, objects, data["entry"], data["externals"]):
                return None
        self._let_remember(program, data)
        return program

    def _let_remember(self, program: Program, manifest: dict[str, Any]) -> None:
        """What is found out by timing is kept with the manifest."""
        cache, key = self._cache, self._key
        assert cache is not None
        program.tuned = dict(manifest.get("tuned", {}))
        program.remember = lambda tuned: store.tune(cache, key, manifest, tuned)

    def keep(self, program: Program) -> None:
        """Puts a compiled program on disk; notes in it why not, where that cannot be."""
        from quadrants.warm_start.manifests import Dependencies
        from quadrants.warm_start.programs import encode

        if self._cache is None:
            return
        artifact, source, tasks = program.artifact, program.source, None
        if program.device is not None:
            from quadrants.warm_start.tasks import kept

            artifact, tasks = kept(program.device.code)
        if self._key and artifact is not None and source is not None:
            try:
                dependencies = Dependencies(source, self._roots)
                encoded = encode(program, source, dependencies)
                digests = [hex_digest(content) for _, content in artifact.objects]
                manifest = {
                    "dependencies": dependencies.data(),
                    "program": encoded,
                    "objects": [(name, digest) for (name, _), digest in zip(artifact.objects, digests)],
                    "entry": artifact.entry,
                    "externals": list(artifact.externals),
                    "tasks": tasks,
                }
                contents = dict(zip(digests, [content for _, content in artifact.objects]))
                store.keep(self._cache, self._key, manifest, contents)
                self._let_remember(program, manifest)
                return
            except Exception as error:  # users' objects may raise anything when looked at
                self._refuse(error)
        store.count("not cacheable")
        program.not_cached = self._reason

    def _refuse(self, error: Exception) -> None:
        self._reason = str(error) if isinstance(error, Unstable) else f"{type(error).__name__}: {error}"


def _numbers(data: dict[str, Any]) -> int:
    """How many captured numbers a form reads at each launch: the fewer, the faster it is called."""
    return sum([entry[0] == "number" for entry in data["dependencies"]["captured"]])


def _collect_static(roots: dict[tuple[str, Any], Any], path: tuple[Any, ...], argument: Argument) -> None:
    """The objects among the arguments that a kernel is specialised on, and the classes of records."""
    if argument.kind == "static":
        roots["argument", path] = argument.value
    if argument.record is not None:
        roots["argument", (*path, "class")] = argument.record
    for position, child in enumerate(argument.children):
        _collect_static(roots, (*path, position), child)


def _stable(argument: Argument, describer: Describer) -> Any:
    """What specialises a kernel on an argument, as text and numbers."""
    if argument.kind == "static":
        return "static", describer.describe(argument.value)
    if argument.kind == "sequence":
        record = argument.record and describer.describe(argument.record)
        return "sequence", argument.names, record, [_stable(child, describer) for child in argument.children]
    return [str(part) if isinstance(part, Type) else part for part in argument.key]


_NOT_OF_CODE = frozenset(
    ["default_fp", "default_ip", "libraries", "autotune", "verify", "print_ir", "stop_after", "random_seed"]
    + ["kernel_profiler", "log_level", "print_full_traceback"]
)
"""Options that no compiled code depends on, or through what they come to alone; nor does any on those of the cache itself."""


def _options(state: knobs.State) -> Any:
    """What code depends on of the options. One that is new is among them until somebody says otherwise."""
    names = [name for name in knobs.Options.fields() if not (name in _NOT_OF_CODE or name.startswith("offline_cache"))]
    keeping = table.keeping(state.arch)
    return (
        [(name, str(getattr(state, name))) for name in names],
        str(state.default_int),
        str(state.default_float),
        _libraries(state),
        "" if keeping is None else keeping.surroundings(),
    )


def _libraries(state: knobs.State) -> tuple[str, ...]:
    """The libraries that compiled code may call."""
    if state.libraries == "off":
        return ()
    from quadrants.targets import libraries

    return libraries.identity(state)
