"""How the rows of the op table are written in programs, and what operands each takes without undefined behaviour."""

from __future__ import annotations

__all__ = ["CONDITIONS", "FLOATS", "INTEGERS", "LOOSE", "SCRAMBLES", "UNWRITTEN"]

# {0}, {1}: integers of any type; {k}: a small count; {p}: an integer that is not zero; {c}: a condition; {s}, {t}: two
# integers of one type.
INTEGERS: dict[str, str] = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "floordiv": "({0} // {p})",
    "mod": "({0} % {p})",
    "truncdiv": "qd.raw_div({0}, {p})",
    "truncmod": "qd.raw_mod({0}, {p})",
    "pow": "({0} ** {k})",
    "neg": "(-{0})",
    "abs": "abs({0})",
    "sign": "np.sign({0})",
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "bit_and": "({0} & {1})",
    "bit_or": "({0} | {1})",
    "bit_xor": "({0} ^ {1})",
    "bit_not": "(~{0})",
    "shl": "({0} << {k})",
    "shr": "({0} >> {k})",
    "ushr": "qd.bit_shr({0}, {k})",
    "popcount": "qd.math.popcnt({0})",
    "clz": "qd.math.clz({0})",
    "select": "qd.select({c}, {s}, {t})",
}

# {0}, {1}: floats that are small multiples of a quarter, and so are the results, but for few bits; {h}: a power of two;
# {n}: a float that is not zero.
FLOATS: dict[str, str] = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "qd.floor({0} / {n})",
    "floordiv": "({0} // {h})",
    "mod": "({0} % {h})",
    "neg": "(-{0})",
    "abs": "abs({0})",
    "sign": "np.sign({0})",
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "floor": "qd.floor({0})",
    "ceil": "qd.ceil({0})",
    "trunc": "np.trunc({0})",
    "round": "qd.round({0})",
    "sqrt": "qd.floor(qd.sqrt(abs({0})))",
    "select": "qd.select({c}, {0}, {1})",
}

# Rounded differently by every target: operands and results stay within -4 .. 4, and no result grows faster than about
# twice its operands do.
LOOSE: dict[str, str] = {
    "add": "(({0} + {1}) * 0.5)",
    "sub": "(({0} - {1}) * 0.5)",
    "mul": "({0} * {1} * 0.25)",
    "div": "({0} / (abs({1}) + 1.0))",
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "abs": "abs({0})",
    "neg": "(-{0})",
    "copysign": "np.copysign({0}, abs({1}) + 1.0)",
    "sqrt": "qd.sqrt(abs({0}) + 1.0)",
    "rsqrt": "qd.rsqrt(abs({0}) + 1.0)",
    "cbrt": "np.cbrt(abs({0}) + 1.0)",
    "exp": "qd.exp(-abs({0}))",
    "exp2": "np.exp2(-abs({0}))",
    "expm1": "np.expm1(-abs({0}))",
    "log": "qd.log(abs({0}) + 1.0)",
    "log2": "np.log2(abs({0}) + 1.0)",
    "log10": "np.log10(abs({0}) + 1.0)",
    "log1p": "np.log1p(abs({0}))",
    "sin": "qd.sin({0})",
    "cos": "qd.cos({0})",
    "tan": "(qd.tan(qd.sin({0})) * 0.5)",
    "asin": "qd.asin(qd.sin({0}) * 0.5)",
    "acos": "qd.acos(qd.sin({0}) * 0.5)",
    "atan": "np.arctan({0})",
    "sinh": "np.sinh(qd.tanh({0}))",
    "cosh": "np.cosh(qd.tanh({0}))",
    "tanh": "qd.tanh({0})",
    "asinh": "np.arcsinh({0})",
    "acosh": "np.arccosh(abs({0}) + 2.0)",
    "atanh": "np.arctanh(qd.tanh({0}) * 0.5)",
    "erf": "math.erf({0})",
    "atan2": "qd.atan2({0}, abs({1}) + 1.0)",
    "hypot": "(math.hypot({0}, {1}) * 0.5)",
    "pow": "((abs({0}) + 1.0) ** (qd.tanh({1}) * 0.5))",
    "select": "qd.select({c}, {0}, {1})",
}

# {0}, {1}: numbers of one kind.
CONDITIONS: dict[str, str] = {
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
}

# Rows that no expression is made of alone: conversions stand at every assignment, the rest have no name of their own or
# show the bits of NaN.
UNWRITTEN = frozenset({"cast", "bitcast", "fma", "ctz", "is_nan", "is_inf", "lookup"})

# What makes random numbers of small ones, by its type; the last ones give few numbers again, and 0 alone.
SCRAMBLES = (
    ("i32", "{0} * 1664525 + 1013904223"),
    ("u32", "{0} * 1664525 + 1013904223"),
    ("i32", "{0} * 73856093"),
    ("i32", "{0} * 1000003 - 7"),
    ("u32", "{0} * 2654435761"),
    ("i64", "{0} * 6364136223846793005 + 1442695040888963407"),
    ("u64", "{0} * 6364136223846793005 + 1442695040888963407"),
    ("i64", "{0} * 1000003"),
    ("i32", "{0} * 65536 * 32768"),
    ("i32", "{0} * 65536 * 65536"),
)
