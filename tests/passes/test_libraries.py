"""Products of matrices given to a library's routine: which nests are, and that the call means what the nest means."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from quadrants import knobs
from quadrants.ir.external import Routine
from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import libraries
from quadrants.passes.context import PassContext
from quadrants.targets.capability import CapabilityRecord

from .contraction_nests import PRODUCT, UPDATED

pytestmark = pytest.mark.slow

VECTORS = CapabilityRecord("vectors", "1", frozenset(), vector_bits=256, maximum_vector_bits=256, calls_c=True)
KERNEL = """quadrants-ir 1
stage lowered
kernel @f(%a: array<TYPE, 2, A>, %b: array<TYPE, 2, A>, %c: array<TYPE, 2, A>) {
  %m = dim %c, 0 : i64
  %n = dim %c, 1 : i64
  %d = dim %a, 1 : i64
  %0 = constant 0 : i64
  %z = constant 0.0 : TYPE
BODY
}
"""
SUM = f"""for %k in %0 .. %d carry (%t = START) : TYPE {{
    {PRODUCT}
    %u = STEP %t, %p {{reassociate = True}} : TYPE
    yield %u
  }}"""
LOOPS = "parallel for %i, %j in %0 .. %m, %0 .. %n {"
STORED = f"{LOOPS}\n%s = {SUM.replace('START', '%z')}\nstore %s, %c[%i, %j]\n}}"
ADDED = f"{LOOPS}\n%s = {SUM.replace('START', '%z')}\n%o = update add %s, %c[%i, %j] : TYPE\n}}"
BEGUN = f"{LOOPS}\n%w = load %c[%i, %j] : TYPE\n%s = {SUM.replace('START', '%w')}\nstore %s, %c[%i, %j]\n}}"
FORMS = {"stored": STORED, "added": ADDED, "begun": BEGUN, "updated": UPDATED}
NUMBERS: dict[str, Any] = {"f32": ctypes.c_float, "f64": ctypes.c_double}
CALLS: list[tuple[int, int, int]] = []


def _gemm(number: str, integer: Any) -> Any:
    """A `gemm` of CBLAS that checks what it is given."""

    def matrix(address: int, rows: int, columns: int, leading: int, by_rows: bool) -> np.ndarray:
        inner, outer = (columns, rows) if by_rows else (rows, columns)
        assert leading >= max(inner, 1)
        found = (NUMBERS[number] * ((outer - 1) * leading + inner)).from_address(address)
        flat = np.ctypeslib.as_array(found)
        size = flat.itemsize
        steps = (leading * size, size) if by_rows else (size, leading * size)
        return np.lib.stride_tricks.as_strided(flat, (rows, columns), steps)

    def run(order: int, first: int, second: int, m: int, n: int, k: int, alpha: float, *rest: Any) -> None:
        a, leading_a, b, leading_b, beta, c, leading_c = rest
        assert order in (101, 102) and {first, second} <= {111, 112}
        by_rows = order == 101
        left = matrix(a, m, k, leading_a, by_rows == (first == 111))
        right = matrix(b, k, n, leading_b, by_rows == (second == 111))
        result = matrix(c, m, n, leading_c, by_rows)
        result[:] = alpha * (left @ right) + (beta * result if beta else 0)
        CALLS.append((order, first, second))

    count, value = integer, NUMBERS[number]
    pointer = ctypes.c_void_p
    kinds = [ctypes.c_int] * 3 + [count] * 3 + [value, pointer, count, pointer, count, value, pointer, count]
    return ctypes.CFUNCTYPE(None, *kinds)(run)


GEMM = {
    (number, kind): _gemm(number, of)
    for number in NUMBERS
    for kind, of in (("i32", ctypes.c_int32), ("i64", ctypes.c_int64))
}


def _routine(number: str, integer: str = "i64", smallest: int = 1) -> Routine:
    address = ctypes.cast(GEMM[number, integer], ctypes.c_void_p).value
    return Routine("a test", None, hex(address or 0), integer, "", smallest)


def _module(form: str, step: str = "add", scalar: str = "f64") -> Module:
    module = parse_module(KERNEL.replace("BODY", form).replace("TYPE", scalar).replace("STEP", step))
    verify(module)
    return module


def _run(module: Module, routine: Routine | str, record: CapabilityRecord = VECTORS) -> PassContext:
    context = PassContext(knobs.Options(libraries="auto"), record, routine_for=lambda task, scalar: routine)
    libraries.run(module, context)
    verify(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    return context


def _arrays(layouts: str, sizes: tuple[int, int, int], dtype: Any) -> list[np.ndarray]:
    rows, columns, depth = sizes
    generator = np.random.default_rng(1)
    found = []
    for layout, shape in zip(layouts, ((rows, depth), (depth, columns), (rows, columns))):
        plain = generator.integers(-9, 9, shape).astype(dtype)
        wide = np.zeros((shape[0] * 2, shape[1] * 2), dtype, "F" if layout in "Ff" else "C")
        view = (
            wide[: shape[0], : shape[1]]
            if layout in "cf"
            else wide[::2, ::2]
            if layout == "x"
            else np.empty_like(plain, order=layout)
        )
        view[:] = plain
        found.append(view)
    return found


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "_LEAST", 1)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("step", ["add", "sub"])
@pytest.mark.parametrize("layouts", ["CCC", "CFC", "FCF", "cfC", "fcf", "CCx", "xCC", "FFF"])
def test_the_routine_gives_what_the_nest_gives(name: str, step: str, layouts: str, tiny: None) -> None:
    for number, integer, sizes in (("f64", "i64", (5, 7, 11)), ("f32", "i32", (4, 3, 2))):
        module, plain = _module(FORMS[name], step, number), _module(FORMS[name], step, number)
        context = _run(module, _routine(number, integer))
        expected = 0 if (name, step) == ("stored", "sub") else 1  # -0 and 0 - 0 differ
        assert context.counters.get("tasks for libraries", 0) == expected
        given, wanted = (_arrays(layouts, sizes, np.dtype(NUMBERS[number])) for _ in range(2))
        CALLS.clear()
        interpret(module, given)
        assert len(CALLS) == (expected if "x" not in layouts else 0)
        interpret(plain, wanted)
        assert (given[2] == wanted[2]).all()


def test_small_products_and_empty_ones_keep_the_nest(tiny: None) -> None:
    for sizes, smallest in (((5, 7, 11), 386), ((5, 7, 0), 1), ((0, 7, 3), 1)):
        module = _module(STORED)
        _run(module, _routine("f64", smallest=smallest))
        given, wanted = (_arrays("CCC", sizes, np.float64) for _ in range(2))
        CALLS.clear()
        interpret(module, given)
        interpret(_module(STORED), wanted)
        assert not CALLS and (given[2] == wanted[2]).all()


BATCH = """quadrants-ir 1
stage lowered
kernel @f(%a: array<f64, 3, C>, %b: array<f64, 2, C>, %c: array<f64, 3, C>) {
  %e = dim %c, 0 : i64
  %m = dim %c, 1 : i64
  %n = dim %c, 2 : i64
  %d = dim %b, 0 : i64
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %z = constant 0.0 : f64
  parallel for %h, %i, %j in %0 .. %e, %1 .. %m, %0 .. %n {
    %s = for %k in %1 .. %d carry (%t = %z) : f64 {
      %q = sub %k, %1 : i64
      %x = load %a[%h, %q, %i] : f64
      %y = load %b[%k, %j] : f64
      %p = mul %x, %y : f64
      %u = add %t, %p {reassociate = True} : f64
      yield %u
    }
    %g = sub %i, %1 : i64
    store %s, %c[%h, %g, %j]
  }
}
"""


def test_batches_and_parts_of_arrays(tiny: None) -> None:
    results = []
    generator = np.random.default_rng(2)
    a, b = generator.integers(-9, 9, (3, 6, 5)).astype(np.float64), generator.integers(-9, 9, (7, 4)).astype(np.float64)
    for given in (True, False):
        module = parse_module(BATCH)
        CALLS.clear()
        if given:
            assert _run(module, _routine("f64")).counters["tasks for libraries"] == 1
        result = np.ones((3, 5, 4))
        interpret(module, [a, b, result])
        assert CALLS == [(101, 112, 111)] * (3 if given else 0)
        results.append(result)
    assert (results[0] == results[1]).all()


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (STORED.replace("store %s", "%v = mul %s, %s : TYPE\nstore %v"), "more is done"),
        (STORED.replace("%p = mul %x, %y", "%xx = mul %x, %x : TYPE\n%p = mul %xx, %y"), "not an element of a matrix"),
        (STORED.replace("%x = load %a[%i, %k]", "%ik = add %i, %k : i64\n%x = load %a[%ik, %k]"), "not an element"),
        (BEGUN.replace("%w = load %c[%i, %j]", "%w = load %c[%j, %i]"), "begin at something else"),
    ],
)
def test_other_nests_are_left_with_a_reason(form: str, reason: str) -> None:
    context = _run(_module(form), _routine("f64"))
    assert "tasks for libraries" not in context.counters
    if context.notices:  # else it is no contraction either
        assert context.notices[0].text.startswith("no library is called: ")
        assert reason in context.notices[0].text


def test_reasons_are_told() -> None:
    assert "there is none" in _run(_module(STORED), "there is none").notices[0].text
    context = _run(_module(STORED), _routine("f64"), CapabilityRecord("none", "1", frozenset()))
    assert "the target none computes everything itself" in context.notices[0].text


def test_both_sides_are_counted() -> None:
    module = _module(STORED)
    _run(module, _routine("f64"))
    tallies = [op.attributes["what"] for op in walk(module.kernel.body) if op.kind == "tally"]
    assert len(tallies) == 2 and all(what.startswith("c = a @ b by ") for what in tallies)
