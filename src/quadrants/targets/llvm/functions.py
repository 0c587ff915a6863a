"""How rows of the op table that are one operation of LLVM's are spelled."""

from __future__ import annotations

__all__ = ["EXACT", "INTRINSICS"]

# Row -> stem of the intrinsic `llvm.<stem>.f32`: each is an instruction, or a few.
INTRINSICS: dict[str, str] = {
    "abs": "fabs",
    "ceil": "ceil",
    "copysign": "copysign",
    "floor": "floor",
    "fma": "fma",
    "round": "roundeven",
    "sqrt": "sqrt",
    "trunc": "trunc",
}

# Rows whose result on f16 or bf16 operands is one of their values already: no rounding follows.
EXACT: frozenset[str] = frozenset({"abs", "ceil", "copysign", "floor", "neg", "round", "sign", "trunc", "min", "max"})
