"""Sorting, by kernels: a stable radix sort by digits of eight bits from the lowest up (D. E. Knuth, "The Art of Computer
Programming", volume 3, 5.2.5), in chunks that count and then place their elements independently of one another.

The bits of keys are turned into unsigned integers of the same order first. Where an element goes depends neither on
threads nor on chunks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants.lang.kernel import kernel
from quadrants.lang.loops import loop_config
from quadrants.lang.ops import cast
from quadrants.library.arrays import memory_of

__all__ = ["parallel_sort"]

_DIGITS = 256
_LEAST_CHUNK = 4096
_MOST_CHUNKS = 64
_INFINITIES = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}


def parallel_sort(keys: Any, values: Any = None) -> None:
    """Sort `keys` in place, ascending, and move the elements of `values` along with them.

    keys: a field, ndarray or array of one axis, of integers or floats of any width; values: None, or elements of any
    type and shape, as many as keys along the first axis. Equal keys keep their order; -0.0 comes before 0.0, NaN of
    either sign last. The scratch memory is twice that of keys (with values, of keys of 32 bits or more, four times).
    TypeError for what is no field or array on the CPU, ValueError for keys of more axes or lengths that differ.
    """
    memory, scalar = memory_of(keys)
    if memory.ndim != 1:
        raise ValueError(f"keys are numbers along one axis, not of shape {memory.shape}")
    moved = None if values is None else memory_of(values)[0]
    if moved is not None and moved.shape[:1] != memory.shape:
        raise ValueError(f"{memory.size} keys cannot sort values of shape {moved.shape}")
    if memory.size < 2:
        return
    bits = memory.view(np.dtype(f"u{memory.dtype.itemsize}"))
    codes = np.empty(memory.size, np.uint64 if scalar.bits > 32 else np.uint32)
    unsigned = codes.dtype.type
    sign = unsigned(1 << (scalar.bits - 1) if scalar.is_float or scalar.is_signed else 0)
    infinity = unsigned(_INFINITIES[scalar.name] if scalar.is_float else 0)
    _encode(bits, codes, sign, infinity)
    codes, order = _sorted(codes, scalar.bits, moved is not None)
    _decode(codes, bits, sign, scalar.is_float)
    if moved is not None:
        rows = moved.reshape(len(moved), -1)
        gathered = np.empty(rows.shape, rows.dtype)
        _gather(rows, order, gathered)
        moved[...] = gathered.reshape(moved.shape)


def _sorted(codes: np.ndarray, width: int, has_order: bool) -> tuple[np.ndarray, np.ndarray]:
    """The sorted codes, which are `width` bits wide, and the places that they came from if wanted."""
    count = len(codes)
    chunk = np.int64(max(_LEAST_CHUNK, -(-count // _MOST_CHUNKS)))
    index = np.uint32 if count < 2**32 else np.uint64
    counts = np.empty((int(-(-count // chunk)), _DIGITS), index)
    order = np.arange(count, dtype=index) if has_order else np.empty(0, index)
    other_codes, other_order = np.empty_like(codes), np.empty_like(order)
    for position in range(0, width, 8):
        shift = codes.dtype.type(position)
        if _count_digits(codes, counts, shift, chunk):
            continue
        if has_order:
            _place_pairs(codes, other_codes, order, other_order, counts, shift, chunk)
            order, other_order = other_order, order
        else:
            _place_codes(codes, other_codes, counts, shift, chunk)
        codes, other_codes = other_codes, codes
    return codes, order


@kernel
def _encode(bits: Any, codes: Any, sign: Any, infinity: Any) -> None:
    """Codes whose order as unsigned integers is that of the numbers. sign: the bit that is set in negative numbers, 0
    if there are none; infinity: the bits of a float's infinity, 0 for integers."""
    for i in range(len(bits)):
        number = cast(bits[i], codes.dtype)
        code = number ^ sign
        if infinity != 0:
            if number & (sign - 1) > infinity:
                code = sign | (sign - 1)
            elif number & sign != 0:
                code = (sign | (sign - 1)) ^ number
        codes[i] = code


@kernel
def _decode(codes: Any, bits: Any, sign: Any, is_float: Any) -> None:
    """What `_encode` did, undone; a NaN is any NaN."""
    for i in range(len(bits)):
        code = codes[i]
        number = code ^ sign
        if is_float and code & sign == 0:
            number = (sign | (sign - 1)) ^ code
        bits[i] = cast(number, bits.dtype)


@kernel
def _count_digits(codes: Any, counts: Any, shift: Any, chunk: Any) -> Any:
    """counts[c, d] becomes the place of the first code of chunk c whose eight bits from `shift` on are d. Whether all
    codes agree in these bits."""
    n, chunks = len(codes), len(counts)
    for c in range(chunks):
        for d in range(_DIGITS):
            counts[c, d] = 0
        for i in range(c * chunk, min(n, (c + 1) * chunk)):
            counts[c, (codes[i] >> shift) & 255] += 1
    place = counts[0, 0] * 0
    agree = False
    loop_config(serialize=True)
    for d in range(_DIGITS):
        before = place
        loop_config(serialize=True)
        for c in range(chunks):
            found = counts[c, d]
            counts[c, d] = place
            place += found
        agree = agree or place - before == n
    return agree


@kernel
def _place_codes(codes: Any, other_codes: Any, counts: Any, shift: Any, chunk: Any) -> None:
    """Every code to its place, which `counts` tells; so many chunks go at once as there are threads."""
    n = len(codes)
    loop_config(serialize=False)
    for c in range(len(counts)):
        for i in range(c * chunk, min(n, (c + 1) * chunk)):
            code = codes[i]
            digit = (code >> shift) & 255
            place = counts[c, digit]
            counts[c, digit] = place + 1
            other_codes[place] = code


@kernel
def _place_pairs(
    codes: Any, other_codes: Any, order: Any, other_order: Any, counts: Any, shift: Any, chunk: Any
) -> None:
    """`_place_codes`, and `order` along with the codes."""
    n = len(codes)
    loop_config(serialize=False)
    for c in range(len(counts)):
        for i in range(c * chunk, min(n, (c + 1) * chunk)):
            code = codes[i]
            digit = (code >> shift) & 255
            place = counts[c, digit]
            counts[c, digit] = place + 1
            other_codes[place] = code
            other_order[place] = order[i]


@kernel
def _gather(rows: Any, order: Any, gathered: Any) -> None:
    for i in range(len(order)):
        for k in range(rows.shape[1]):
            gathered[i, k] = rows[order[i], k]
