"""How rows of the op table that are functions of floats are spelled: LLVM intrinsics, else symbols of the C library."""

from __future__ import annotations

__all__ = ["INTRINSICS", "LIBRARY", "library_symbol"]

# Row -> stem of the intrinsic `llvm.<stem>.f32`. Those without an instruction become calls of the C library.
INTRINSICS: dict[str, str] = {
    "abs": "fabs",
    "ceil": "ceil",
    "copysign": "copysign",
    "cos": "cos",
    "exp": "exp",
    "exp2": "exp2",
    "floor": "floor",
    "fma": "fma",
    "log": "log",
    "log10": "log10",
    "log2": "log2",
    "pow": "pow",
    "round": "roundeven",
    "sin": "sin",
    "sqrt": "sqrt",
    "trunc": "trunc",
}

# Row -> the C library's function of double; that of float has an `f` at its end.
LIBRARY: dict[str, str] = {
    name: name
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cosh"),
        *("erf", "expm1", "hypot", "log1p", "sinh", "tan", "tanh"),
    )
}

# Rows whose result on f16 or bf16 operands is one of their values already: no rounding follows.
EXACT: frozenset[str] = frozenset({"abs", "ceil", "copysign", "floor", "neg", "round", "sign", "trunc", "min", "max"})


def library_symbol(row: str, double: bool) -> str:
    """The C library's symbol for a row of LIBRARY."""
    return LIBRARY[row] if double else LIBRARY[row] + "f"
