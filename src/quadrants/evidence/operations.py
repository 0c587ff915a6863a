"""One loop an operation of the op table, written as a user would: what the property tests compile.

The functions are plain; `BINARY` and `UNARY` give them by the operation's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import quadrants as qd

__all__ = ["BINARY", "UNARY", "cast_to"]

BINARY: dict[str, Callable[..., Any]] = {}
UNARY: dict[str, Callable[..., Any]] = {}


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    BINARY[function.__name__.strip("_")] = function
    return function


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    UNARY[function.__name__.strip("_")] = function
    return function


def cast_to(a, out):
    """The elements of one dtype stored to an array of another."""
    for i in range(len(out)):
        out[i] = a[i]


@_binary
def add(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] + b[i]


@_binary
def sub(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] - b[i]


@_binary
def mul(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] * b[i]


@_binary
def div(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] / b[i]


@_binary
def floordiv(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] // b[i]


@_binary
def mod(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] % b[i]


@_binary
def pow_(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] ** b[i]


@_binary
def truncdiv(a, b, out):
    for i in range(len(out)):
        out[i] = qd.raw_div(a[i], b[i])


@_binary
def truncmod(a, b, out):
    for i in range(len(out)):
        out[i] = qd.raw_mod(a[i], b[i])


@_binary
def min_(a, b, out):
    for i in range(len(out)):
        out[i] = min(a[i], b[i])


@_binary
def max_(a, b, out):
    for i in range(len(out)):
        out[i] = max(a[i], b[i])


@_binary
def bit_and(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] & b[i]


@_binary
def bit_or(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] | b[i]


@_binary
def bit_xor(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] ^ b[i]


@_binary
def shl(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] << b[i]


@_binary
def shr(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] >> b[i]


@_binary
def ushr(a, b, out):
    for i in range(len(out)):
        out[i] = qd.bit_shr(a[i], b[i])


@_binary
def atan2(a, b, out):
    for i in range(len(out)):
        out[i] = qd.atan2(a[i], b[i])


@_binary
def hypot(a, b, out):
    for i in range(len(out)):
        out[i] = np.hypot(a[i], b[i])


@_binary
def copysign(a, b, out):
    for i in range(len(out)):
        out[i] = np.copysign(a[i], b[i])


@_binary
def eq(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] == b[i]


@_binary
def ne(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] != b[i]


@_binary
def lt(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] < b[i]


@_binary
def le(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] <= b[i]


@_binary
def gt(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] > b[i]


@_binary
def ge(a, b, out):
    for i in range(len(out)):
        out[i] = a[i] >= b[i]


@_unary
def neg(a, out):
    for i in range(len(out)):
        out[i] = -a[i]


@_unary
def abs_(a, out):
    for i in range(len(out)):
        out[i] = abs(a[i])


@_unary
def sign(a, out):
    for i in range(len(out)):
        out[i] = qd.math.sign(a[i])


@_unary
def bit_not(a, out):
    for i in range(len(out)):
        out[i] = ~a[i]


@_unary
def popcount(a, out):
    for i in range(len(out)):
        out[i] = qd.math.popcnt(a[i])


@_unary
def clz(a, out):
    for i in range(len(out)):
        out[i] = qd.math.clz(a[i])


@_unary
def floor(a, out):
    for i in range(len(out)):
        out[i] = qd.floor(a[i])


@_unary
def ceil(a, out):
    for i in range(len(out)):
        out[i] = qd.ceil(a[i])


@_unary
def trunc(a, out):
    for i in range(len(out)):
        out[i] = np.trunc(a[i])


@_unary
def round_(a, out):
    for i in range(len(out)):
        out[i] = qd.round(a[i])


@_unary
def sqrt(a, out):
    for i in range(len(out)):
        out[i] = qd.sqrt(a[i])


@_unary
def rsqrt(a, out):
    for i in range(len(out)):
        out[i] = qd.rsqrt(a[i])


@_unary
def cbrt(a, out):
    for i in range(len(out)):
        out[i] = np.cbrt(a[i])


@_unary
def exp(a, out):
    for i in range(len(out)):
        out[i] = qd.exp(a[i])


@_unary
def exp2(a, out):
    for i in range(len(out)):
        out[i] = np.exp2(a[i])


@_unary
def expm1(a, out):
    for i in range(len(out)):
        out[i] = np.expm1(a[i])


@_unary
def log(a, out):
    for i in range(len(out)):
        out[i] = qd.log(a[i])


@_unary
def log2(a, out):
    for i in range(len(out)):
        out[i] = np.log2(a[i])


@_unary
def log10(a, out):
    for i in range(len(out)):
        out[i] = np.log10(a[i])


@_unary
def log1p(a, out):
    for i in range(len(out)):
        out[i] = np.log1p(a[i])


@_unary
def sin(a, out):
    for i in range(len(out)):
        out[i] = qd.sin(a[i])


@_unary
def cos(a, out):
    for i in range(len(out)):
        out[i] = qd.cos(a[i])


@_unary
def tan(a, out):
    for i in range(len(out)):
        out[i] = qd.tan(a[i])


@_unary
def asin(a, out):
    for i in range(len(out)):
        out[i] = qd.asin(a[i])


@_unary
def acos(a, out):
    for i in range(len(out)):
        out[i] = qd.acos(a[i])


@_unary
def atan(a, out):
    for i in range(len(out)):
        out[i] = math.atan(a[i])


@_unary
def sinh(a, out):
    for i in range(len(out)):
        out[i] = np.sinh(a[i])


@_unary
def cosh(a, out):
    for i in range(len(out)):
        out[i] = np.cosh(a[i])


@_unary
def tanh(a, out):
    for i in range(len(out)):
        out[i] = qd.tanh(a[i])


@_unary
def asinh(a, out):
    for i in range(len(out)):
        out[i] = np.arcsinh(a[i])


@_unary
def acosh(a, out):
    for i in range(len(out)):
        out[i] = np.arccosh(a[i])


@_unary
def atanh(a, out):
    for i in range(len(out)):
        out[i] = np.arctanh(a[i])


@_unary
def erf(a, out):
    for i in range(len(out)):
        out[i] = math.erf(a[i])


@_unary
def is_nan(a, out):
    for i in range(len(out)):
        out[i] = qd.math.isnan(a[i])


@_unary
def is_inf(a, out):
    for i in range(len(out)):
        out[i] = qd.math.isinf(a[i])
