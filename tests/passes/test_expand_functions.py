"""Elementary functions written out: what is left, what is called, and that the code computes the function."""

from __future__ import annotations

import numpy as np
import pytest

from quadrants.ir.interpret import interpret
from quadrants.ir.nodes import Module, walk
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes import expand_functions
from quadrants.passes.context import PassContext
from quadrants.targets import reference
from quadrants.targets.capability import CapabilityRecord

BARE = CapabilityRecord("bare", "1", reference.RECORD.dtypes)


def expanded(body: str, record: CapabilityRecord = BARE) -> Module:
    module = parse_module(f"quadrants-ir 1\nstage lowered\nkernel @f{body}")
    expand_functions.run(module, PassContext(record=record))
    verify(module)
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    return module


def kinds(module: Module) -> set[str]:
    return {op.kind for op in walk(module.kernel.body)}


ONE = "(%x: TYPE) -> TYPE {\n  %y = ROW %x : TYPE\n  return %y\n}\n"


@pytest.mark.parametrize("row", ("exp", "log", "sin", "atan", "tanh", "erf", "cbrt", "asin"))
@pytest.mark.parametrize("scalar", ("f32", "f64", "f16"))
def test_bodies_compute_their_row(row: str, scalar: str) -> None:
    body = ONE.replace("TYPE", scalar).replace("ROW", row)
    module = expanded(body)
    assert row not in kinds(module) or row == "sin"
    dtype = np.dtype(scalar.replace("f", "float"))
    for x in (0.3, 0.9, -0.7 if row != "log" else 7.0):
        arguments = [dtype.type(x)]
        (found,) = interpret(module, list(arguments))
        (meant,) = interpret(parse_module(f"quadrants-ir 1\nstage lowered\nkernel @f{body}"), list(arguments))
        assert found.dtype == dtype
        assert abs(float(found) - float(meant)) <= 4 * float(np.spacing(np.abs(meant)))


def test_rows_that_the_target_has_stay() -> None:
    module = expanded(ONE.replace("TYPE", "f32").replace("ROW", "sin"), reference.RECORD)
    assert kinds(module) == {"sin", "return"}


def test_huge_sines_are_a_function_that_is_called() -> None:
    module = expanded(ONE.replace("TYPE", "f64").replace("ROW", "sin"))
    (call,) = [op for op in walk(module.kernel.body) if op.kind == "sin"]
    assert call.attribute("callee") == "far_sin_f64"
    assert set(module.functions) == {"f", "far_sin_f64"}


def test_operations_of_bodies_are_exact() -> None:
    module = expanded(ONE.replace("TYPE", "f32").replace("ROW", "exp"))
    floats = [
        op for op in walk(module.kernel.body) if op.kind in ("add", "sub", "mul") and op.result.type.name == "f32"
    ]
    assert floats and all(op.attribute("exact") for op in floats)


def test_integer_powers_stay() -> None:
    module = expanded("(%x: i32) -> i32 {\n  %y = pow %x, %x : i32\n  return %y\n}\n")
    assert kinds(module) == {"pow", "return"}


def test_beyond_a_budget_functions_are_called() -> None:
    lines = "".join([f"  %x{k + 1} = exp %x{k} : f32\n" for k in range(100)])
    module = expanded(f"(%x0: f32) -> f32 {{\n{lines}  return %x100\n}}\n")
    left = [op for op in walk(module.kernel.body) if op.kind == "exp"]
    assert 0 < len(left) < 100 and {op.attribute("callee") for op in left} == {"exp_f32"}
    assert set(module.functions) == {"f", "exp_f32"}
