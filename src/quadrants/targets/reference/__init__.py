"""The reference target: runs a module of any stage through the interpreter. It defines what the others must compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants import knobs
from quadrants.ir.interpret import prepare
from quadrants.ir.nodes import Module
from quadrants.ir.threads import MOST_THREADS
from quadrants.ir.types import scalar_types
from quadrants.passes.elementary import EXPANDED
from quadrants.records import Record
from quadrants.targets.capability import IEEE, CapabilityRecord, Facts

__all__ = ["RECORD", "Program", "build", "compile_module", "facts", "record", "run"]

RECORD = CapabilityRecord(
    name="reference",
    version="1",
    dtypes=frozenset(scalar.name for scalar in scalar_types),
    float_atomics=frozenset(scalar.name for scalar in scalar_types if scalar.is_float),
    fused_multiply_add=False,
    threads=False,
    calls_c=True,
    finds_races=True,
    functions=EXPANDED,
)


class Program(Record):
    """A kernel ready to run: `run` takes one argument a parameter of the kernel as it was before matrices were taken
    apart (see `quadrants.ir.interpret.interpret`) and gives the results as NumPy scalars and arrays."""

    module: Module
    run: Callable[[list[Any]], tuple[Any, ...]]


def record() -> CapabilityRecord:
    """The capability record: everything that the IR has, nothing that is fast."""
    return RECORD


def facts() -> Facts:
    """What users are told of it."""
    floats = {
        **IEEE,
        "contraction": "never",
        "elementary functions": "NumPy's",
    }
    return Facts(
        floats,
        {"all": "one iteration runs after another"},
        {"threads of a block": MOST_THREADS},
        {"numpy": np.__version__},
    )


def build(module: Module, options: knobs.Options) -> Program:
    """A kernel as a program for the interpreter."""
    return compile_module(module, debug=options.debug)


def compile_module(module: Module, *, debug: bool = False, output: Callable[[str], None] | None = None) -> Program:
    """Makes a program of a module of any stage. `debug` and `output` are those of `interpret`."""
    return Program(module, prepare(module, debug=debug, output=output))


def run(
    module: Module, arguments: list[Any], *, debug: bool = False, output: Callable[[str], None] | None = None
) -> tuple[Any, ...]:
    """Runs a module's kernel once: `compile_module(module).run(arguments)`."""
    return compile_module(module, debug=debug, output=output).run(arguments)
