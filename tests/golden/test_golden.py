"""Golden files: IR text in, passes, IR text out.

A file `*.qir` begins with the line `// passes: name, name` (and `// vectors: bits` where the target has some, `// launches` where its host
launches loops, `// blocks: threads, subgroup, bytes` where it does and blocks of threads have that much shared memory, `// task operations: number` where large loops are split, `// marked vectors: bits` where it makes vectors of marked loops), goes on with a module, and after a line `// ---` shows what
the passes make of it. `pytest --bless` writes what they make into the files. Names are those of modules in
`quadrants.passes`. The module is verified before the first pass and after each one.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes.context import PassContext
from quadrants.records import replace
from quadrants.targets.capability import CapabilityRecord

FILES = sorted(Path(__file__).parent.glob("**/*.qir"))
DIRECTIVE = "// passes:"
VECTORS = "// vectors:"
LAUNCHES = "// launches"
TASK_OPERATIONS = "// task operations:"
BLOCKS = "// blocks:"
MARKED = "// marked vectors:"
SEPARATOR = "// ---\n"


def directives(text: str) -> list[str]:
    """The passes that a file asks for, in order."""
    lines = [line.removeprefix(DIRECTIVE) for line in text.splitlines() if line.startswith(DIRECTIVE)]
    assert lines, f"the file lacks a line `{DIRECTIVE} ...`"
    return [name.strip() for line in lines for name in line.split(",") if name.strip()]


def record_of(text: str) -> CapabilityRecord | None:
    """The target that a file asks for."""
    for line in text.splitlines():
        if line.startswith(VECTORS):
            bits = int(line.removeprefix(VECTORS))
            return CapabilityRecord("golden", "1", frozenset(), vector_bits=bits, maximum_vector_bits=bits)
        if line.startswith(MARKED):
            bits = int(line.removeprefix(MARKED))
            return CapabilityRecord("golden", "1", frozenset(), vector_bits=bits, marked_vectors=True)
        if line.startswith(BLOCKS):
            threads, subgroup, size = map(int, line.removeprefix(BLOCKS).split(","))
            made = CapabilityRecord("golden", "1", frozenset(), launches=True, subgroup_sizes=(subgroup,))
            return replace(made, block_threads=threads, shared_memory_bytes=size)
        if line.startswith(TASK_OPERATIONS):
            most = int(line.removeprefix(TASK_OPERATIONS))
            return CapabilityRecord("golden", "1", frozenset(), launches=True, task_operations=most)
        if line == LAUNCHES:
            return CapabilityRecord("golden", "1", frozenset(), launches=True)
    return None


def result(text: str, passes: list[str]) -> str:
    """What the passes make of a module."""
    module = parse_module(text)
    verify(module)
    context = PassContext(record=record_of(text))
    for name in passes:
        importlib.import_module(f"quadrants.passes.{name}").run(module, context)
        verify(module)
    found = print_module(module)
    assert print_module(parse_module(found)) == found
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, bless: bool) -> None:
    given, _, expected = path.read_text().partition(SEPARATOR)
    found = result(given, directives(given))
    if bless:
        path.write_text(f"{given}{SEPARATOR}{found}")
        return
    assert found == expected, "if the new text is right: pytest --bless"


def test_there_are_golden_files() -> None:
    assert FILES
