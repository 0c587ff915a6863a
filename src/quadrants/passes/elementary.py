"""The elementary functions that are written out in arithmetic where a target computes none itself."""

from __future__ import annotations

__all__ = ["EXPANDED"]

EXPANDED = frozenset(
    {
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "exp", "exp2"),
        *("expm1", "hypot", "log", "log10", "log1p", "log2", "pow", "sin", "sinh", "tan", "tanh"),
    }
)
"""The rows of the op table that have bodies (`pow`: that of floats)."""
