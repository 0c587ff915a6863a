"""What instructions compute, on NumPy arrays with an element for each thread, as the PTX manual says."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["FUNCTIONS"]

Array = Any


# Integers.


def _size(a: Array) -> Array:
    """The absolute value as an unsigned number, that of the smallest one included."""
    bits = a.view(f"u{a.itemsize}")
    return np.where(a < 0, np.negative(bits), bits)


def divide(a: Array, b: Array) -> Array:
    """Truncated; by zero all bits are set (the manual leaves it open)."""
    if a.dtype.kind == "u":
        zero = b == 0
        return np.where(zero, ~a.dtype.type(0), a // np.where(zero, b.dtype.type(1), b))
    quotient = divide(_size(a), _size(b)).view(a.dtype)
    return np.where((a < 0) != (b < 0), np.negative(quotient), quotient)


def remainder(a: Array, b: Array) -> Array:
    """The sign is that of a."""
    if a.dtype.kind == "u":
        zero = b == 0
        return np.where(zero, a, a % np.where(zero, b.dtype.type(1), b))
    rest = remainder(_size(a), _size(b)).view(a.dtype)
    return np.where(a < 0, np.negative(rest), rest)


def high_product(a: Array, b: Array) -> Array:
    """The upper half of the product."""
    if a.dtype.itemsize < 8:
        wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        return ((a.astype(wide) * b.astype(wide)) >> wide.type(8 * a.dtype.itemsize)).astype(a.dtype)
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    al, ah, bl, bh = ua & low, ua >> half, ub & low, ub >> half
    middle = ah * bl + ((al * bl) >> half)
    other = al * bh + (middle & low)
    high = ah * bh + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
    return high.view(a.dtype)


def shift_left(a: Array, count: Array) -> Array:
    """Counts beyond the width shift all out."""
    bits = 8 * a.dtype.itemsize
    return np.where(count < bits, a << (count & np.uint32(bits - 1)).astype(a.dtype), a.dtype.type(0))


def shift_right(a: Array, count: Array) -> Array:
    """Arithmetic for signed numbers."""
    return (
        a >> np.minimum(count, 8 * a.dtype.itemsize - 1).astype(a.dtype) if a.dtype.kind == "i" else _logical(a, count)
    )


def _logical(a: Array, count: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    return np.where(count < bits, a >> (count & np.uint32(bits - 1)).astype(a.dtype), a.dtype.type(0))


def funnel(low: Array, high: Array, count: Array, left: bool, wrap: bool) -> Array:
    """`shf`: a shift of 64 bits of which one half is kept."""
    count = (count & np.uint32(31) if wrap else np.minimum(count, np.uint32(32))).astype(np.uint64)
    both = (high.astype(np.uint64) << np.uint64(32)) | low
    return ((both << count) >> np.uint64(32) if left else both >> count).astype(np.uint32)


def leading_zeros(a: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    return np.array([bits - int(x).bit_length() for x in a], np.uint32)


def ones(a: Array) -> Array:
    return np.array([int(x).bit_count() for x in a], np.uint32)


def reversed_bits(a: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    return np.array([int(format(int(x), f"0{bits}b")[::-1], 2) for x in a], a.dtype)


def find_highest(a: Array, shift: bool) -> Array:
    """`bfind`: the place of the highest bit that is not the sign; all bits set where there is none."""
    bits = 8 * a.dtype.itemsize
    plain = [int(x) if x >= 0 else ~int(x) for x in a]
    return np.array(
        [0xFFFFFFFF if x == 0 else bits - x.bit_length() if shift else x.bit_length() - 1 for x in plain], np.uint32
    )


def extract_bits(a: Array, start: Array, length: Array) -> Array:
    """`bfe`, without a sign that is taken along beyond the width."""
    bits = 8 * a.dtype.itemsize
    found = []
    for x, s, n in zip(a, np.broadcast_to(start, a.shape), np.broadcast_to(length, a.shape)):
        s, n = int(s) & 255, int(n) & 255
        value = (int(x) >> s) & ((1 << n) - 1) if a.dtype.kind == "u" or n == 0 else _signed_bits(int(x), s, n, bits)
        found.append(value & ((1 << bits) - 1))
    return np.array(found, f"u{a.dtype.itemsize}").view(a.dtype)


def _signed_bits(x: int, start: int, length: int, bits: int) -> int:
    top = min(start + length - 1, bits - 1)
    value = (x >> start) & ((1 << length) - 1)
    return value | (-1 << length) if (x >> top) & 1 else value


def insert_bits(a: Array, b: Array, start: Array, length: Array) -> Array:
    """`bfi`: a's bits into b."""
    bits = 8 * b.dtype.itemsize
    found = []
    for x, y, s, n in zip(*np.broadcast_arrays(a, b, start, length)):
        mask = (((1 << (int(n) & 255)) - 1) << (int(s) & 255)) & ((1 << bits) - 1)
        found.append((int(y) & ~mask) | ((int(x) << (int(s) & 255)) & mask))
    return np.array(found, b.dtype)


def permute_bytes(a: Array, b: Array, selection: Array) -> Array:
    """`prmt`: four of eight bytes, each as it is or as its sign."""
    found = []
    for x, y, s in zip(*np.broadcast_arrays(a, b, selection)):
        both, value = int(x) | int(y) << 32, 0
        for k in range(4):
            choice = (int(s) >> (4 * k)) & 15
            byte = (both >> (8 * (choice & 7))) & 255
            value |= ((255 if byte & 128 else 0) if choice & 8 else byte) << (8 * k)
        found.append(value)
    return np.array(found, np.uint32)


# Floats.


def minimum(a: Array, b: Array, keep_nan: bool = False) -> Array:
    """The smaller one, of zeros the negative; of NaN and a number the number."""
    least = np.where(
        (a == 0) & (b == 0), np.copysign(np.zeros_like(a + b), np.where(np.signbit(a), a, b)), np.fmin(a, b)
    )
    return np.where(np.isnan(a) | np.isnan(b), a + b, least) if keep_nan else least


def maximum(a: Array, b: Array, keep_nan: bool = False) -> Array:
    most = np.where(
        (a == 0) & (b == 0), np.copysign(np.zeros_like(a + b), np.where(np.signbit(a), b, a)), np.fmax(a, b)
    )
    return np.where(np.isnan(a) | np.isnan(b), a + b, most) if keep_nan else most


_ROUNDINGS = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def to_integral(a: Array, rounding: str) -> Array:
    return _ROUNDINGS[rounding](a)


def to_integer(a: Array, rounding: str, target: Any) -> Array:
    """Saturates; NaN is 0, or the highest bit where a 64-bit type takes part."""
    target = np.dtype(target)
    whole = _ROUNDINGS[rounding](a).astype(np.float64)
    info = np.iinfo(target)
    high = 2.0 ** (8 * target.itemsize - (target.kind == "i"))
    inside = (whole >= float(info.min)) & (whole < high)
    cut = np.where(inside, whole, 0.0)
    value = np.where(inside, cut.astype(target), np.where(whole > 0, target.type(info.max), target.type(info.min)))
    wide = a.dtype.itemsize == 8 or target.itemsize == 8
    nan = np.uint64(1 << (8 * target.itemsize - 1) if wide else 0).astype(f"u{target.itemsize}").view(target)
    return np.where(np.isnan(whole), nan, value)


def test_property(a: Array, name: str) -> Array:
    """`testp`."""
    tiny = np.finfo(a.dtype).tiny
    tests = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= tiny),
        "subnormal": lambda x: (np.abs(x) < tiny) & (x != 0),
    }
    return tests[name](a)


_FMA = """
declare T @llvm.fma.S(T, T, T)
define void @fma(ptr %a, ptr %b, ptr %c, ptr %out, i64 %n) {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %head ]
  %pa = getelementptr T, ptr %a, i64 %k
  %pb = getelementptr T, ptr %b, i64 %k
  %pc = getelementptr T, ptr %c, i64 %k
  %po = getelementptr T, ptr %out, i64 %k
  %x = load T, ptr %pa
  %y = load T, ptr %pb
  %z = load T, ptr %pc
  %r = call T @llvm.fma.S(T %x, T %y, T %z)
  store T %r, ptr %po
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %head, label %done
done:
  ret void
}
"""


@lru_cache(maxsize=2)
def _fma(kind: str) -> tuple[Any, Any]:
    """The function of the host that rounds once, and what keeps it alive."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    name, suffix = ("float", "f32") if kind == "f4" else ("double", "f64")
    module = llvm.parse_assembly(
        _FMA.replace("T ", f"{name} ").replace("T,", f"{name},").replace("T)", f"{name})").replace(".S(", f".{suffix}(")
    )
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(engine.get_function_address("fma"))
    return function, engine


def fused(n: int, a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once."""
    dtype = np.dtype(a.dtype)
    arrays = [np.ascontiguousarray(np.broadcast_to(x, (n,))) for x in (a, b, c)]
    out = np.empty(n, dtype)
    _fma(dtype.str[1:])[0](*[x.ctypes.data for x in arrays], out.ctypes.data, n)
    return out


# Bytes of parameters.


def take(parameter: Array, offset: int, width: int) -> Array:
    """A number out of a parameter's bytes."""
    return np.ascontiguousarray(parameter[:, offset : offset + width]).view(f"u{width}").reshape(-1)


def put(parameter: Array, offset: int, width: int, values: Array) -> Array:
    """The parameter with a number in it."""
    made = parameter.copy()
    made[:, offset : offset + width] = np.ascontiguousarray(values).view(np.uint8).reshape(-1, width)
    return made


FUNCTIONS = {
    function.__name__: function
    for function in (
        *(divide, remainder, high_product, shift_left, shift_right, funnel, leading_zeros, ones, reversed_bits),
        *(find_highest, extract_bits, insert_bits, permute_bytes, minimum, maximum, to_integral, to_integer),
        *(test_property, fused, take, put),
    )
}
