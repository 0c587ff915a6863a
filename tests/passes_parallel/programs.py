"""Programs as text for the tests of the parallel passes: a small notation over the IR's text form."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import numpy as np

from quadrants.errors import QuadrantsBoundsError
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, Op, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import parallelise
from quadrants.passes.context import PassContext
from quadrants.targets.capability import CapabilityRecord

HEAD = """quadrants-ir 1
kernel @k(%a: array<f32, 1, C>, %b: array<f32, 1, C>, %c: array<f32, 2, C>, %d: array<f32, 2, C>, %p: array<i32, 1, C>, %k: i64, %x: f32)RESULT {
  %n = dim %a, 0
  %m = dim %b, 0
  %h = dim %c, 0
  %w = dim %c, 1
  %o0 = constant 0 : i64
  %o1 = constant 1 : i64
  %o2 = constant 2 : i64
  %o3 = constant 3 : i64
  %o4 = constant 4 : i64
  %o5 = constant 5 : i64
  %o10 = constant 10 : i64
  %o1000 = constant 1000 : i64
  %big = constant 1000000 : i64
  %f0 = constant 0.0 : f32
  %f1 = constant 1.0 : f32
"""


def program(body: str, result: str = "") -> Module:
    """A kernel over two vectors a and b, two matrices c and d, indices p, numbers k and x."""
    text = HEAD.replace("RESULT", f" -> {result}" if result else "")
    lines = [f"  {line}  // k.py:{number}:0" for number, line in enumerate(body.strip("\n").split("\n"), 1)]
    module = parse_module(text + "\n".join(lines) + "\n}\n")
    verify(module)
    return module


def loops(module: Module) -> list[Op]:
    return [op for op in walk(module.kernel.body) if op.kind == "for"]


def kinds(module: Module) -> str:
    """One letter a loop, in program order: p parallel, s in order."""
    return "".join("p" if loop.attribute("parallel") else "s" for loop in loops(module))


def classify(body: str, result: str = "", record: CapabilityRecord | None = None) -> tuple[str, PassContext]:
    """The loops' kinds after `parallelise`, with its context; `record`: the target's."""
    module, context = program(body, result), PassContext(record=record)
    parallelise.run(module, context)
    verify(module)
    return kinds(module), context


def arguments(n: int = 7, m: int = 9, h: int = 5, w: int = 6, seed: int = 0) -> list:
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-4, 5, n).astype(np.float32),
        rng.integers(-4, 5, m).astype(np.float32),
        rng.integers(-4, 5, (h, w)).astype(np.float32),
        rng.integers(-4, 5, (h, w)).astype(np.float32),
        rng.integers(0, min(n, m), n).astype(np.int32),
        np.int64(rng.integers(0, 4)),
        np.float32(2),
    ]


def run(module: Module, values: list) -> list:
    """The arrays and results after a run on copies of `values`."""
    given = copy.deepcopy(values)
    results = interpret(module, given)
    return [*given[:5], *results]


def same_after(
    body: str, passes: list[Callable[[Module, PassContext], None]], result: str = "", sizes: tuple = ((7, 9, 5, 6),)
) -> Module:
    """Runs passes on a program and checks that it does what it did before; gives the module."""
    module = program(body, result)
    before = parse_module(print_module(module))
    context = PassContext()
    for entry in passes:
        entry(module, context)
        verify(module)
    compared = 0
    for number, size in enumerate([*sizes, (1, 1, 1, 1), (0, 0, 0, 0), (2, 3, 2, 2), (4, 20, 4, 4)]):
        values = arguments(*size, seed=number + random.Random(body).randrange(1000))
        try:
            wanted = run(before, values)
        except QuadrantsBoundsError:
            continue
        for expected, found in zip(wanted, run(module, values)):
            np.testing.assert_array_equal(found, expected)
        compared += 1
    assert compared
    return module
