"""Algorithms on arrays that kernels call at their top level: sums, prefixes, selection, sorting, sums by key.

The `scratch` of all is memory of 32-bit integers, as many as the function `…_scratch_slots` tells. `log256_max_n` says how
large n may become at most, as a power of 256; it is checked, and bounds nothing here. Results do not depend on the number
of threads.
"""

from __future__ import annotations

from typing import Any

from quadrants.lang import ops, types
from quadrants.lang.kernel import func
from quadrants.lang.loops import loop_config, static

__all__ = [
    "exclusive_scan_add",
    "exclusive_scan_max",
    "exclusive_scan_min",
    "exclusive_scan_scratch_slots",
    "reduce_add",
    "reduce_by_key_add",
    "reduce_by_key_scratch_slots",
    "reduce_max",
    "reduce_min",
    "reduce_scratch_slots",
    "select",
    "select_scratch_slots",
    "sort",
    "sort_scratch_slots",
]

_FAN = 256
_DEEPEST = 4
_LEAST_CHUNK = 4096
_MOST_CHUNKS = 64
_TYPES = ("i32", "u32", "f32", "i64", "u64", "f64")
_WORDS = {32: types.u32, 64: types.u64}


# What Python works out when a kernel is compiled.


def _checked(dtype: Any, log256_max_n: Any, name: str, bits: int = 64) -> Any:
    """The type, if the algorithm is there for it; NotImplementedError, which callers of this API know for types without
    a form, or ValueError for the depth, otherwise."""
    found = types.scalar_type(dtype)
    if found.name not in _TYPES or found.bits > bits:
        raise NotImplementedError(f"{name} is for {', '.join(t for t in _TYPES if int(t[1:]) <= bits)}, not {found}")
    if not 1 <= int(log256_max_n) <= _DEEPEST:
        raise ValueError(f"{name}: log256_max_n lies in 1..{_DEEPEST}, not {log256_max_n}")
    return found


def _start(dtype: Any, by: str) -> Any:
    """What a reduction starts from: what changes nothing."""
    if by == "add":
        return 0
    if dtype.is_float:
        return float("inf") if by == "min" else float("-inf")
    return dtype.maximum if by == "min" else dtype.minimum


def _wide(dtype: Any) -> Any:
    return types.f64 if dtype.is_float else dtype


def _rounds(end_bit: int, dtype: Any) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of rounds of a sort, (lowest bit, mask of a digit) each: after a pair the keys are where they were. Where
    there is nothing left for the second of the last pair, it only moves them."""
    digits = [(bit, (1 << min(8, end_bit - bit)) - 1) for bit in range(0, min(int(end_bit), dtype.bits), 8)]
    digits += [(0, 0)] * (len(digits) % 2)
    return list(zip(digits[::2], digits[1::2]))


def _slots(n: int, log256_max_n: int | None) -> int:
    """Partial results of all levels of a tree in which a node has 256 children."""
    total, level, depth = 0, -(-int(n) // _FAN), 1
    while level > 1 and (log256_max_n is None or depth <= max(log256_max_n, 1)):
        total, level, depth = total + level, -(-level // _FAN), depth + 1
    return max(total, 1)


def reduce_scratch_slots(n: int, log256_max_n: int | None = None) -> int:
    """Scratch of `reduce_add`, `reduce_min` and `reduce_max` over n elements."""
    return _slots(n, log256_max_n)


def exclusive_scan_scratch_slots(n: int, log256_max_n: int | None = None) -> int:
    """Scratch of the exclusive scans of n elements."""
    return _slots(n, log256_max_n)


def select_scratch_slots(n: int, log256_max_n: int | None = None) -> int:
    """Scratch of `select` from n elements."""
    return int(n) + _slots(n, log256_max_n)


def sort_scratch_slots(n: int, log256_max_n: int | None = None) -> int:
    """Scratch of `sort` of n keys."""
    counts = max(-(-int(n) // _FAN), 1) * _FAN
    return counts + _slots(counts, log256_max_n)


def reduce_by_key_scratch_slots(n: int, log256_max_n: int | None = None) -> int:
    """Scratch of `reduce_by_key_add` over n pairs."""
    return int(n) + _slots(n, log256_max_n)


# Reductions.


@func
def _put(out: Any, value: Any) -> None:
    """The only, or the first, element."""
    if static(len(out.shape) == 0):
        out[None] = value
    else:
        out[0] = value


@func
def _reduce(arr: Any, out: Any, n: Any, dtype: Any, by: Any) -> None:
    found = ops.cast(static(_start(dtype, by)), dtype)
    for i in range(n):
        if static(by == "add"):
            found += arr[i]
        elif static(by == "min"):
            found = min(found, arr[i])
        else:
            found = max(found, arr[i])
    _put(out, found)


@func
def reduce_add(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """The sum of the first n elements, of type dtype, goes to out."""
    _reduce(arr, out, n, static(_checked(dtype, log256_max_n, "reduce_add")), "add")


@func
def reduce_min(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """The least of the first n elements goes to out; for n = 0 the largest number that there is."""
    _reduce(arr, out, n, static(_checked(dtype, log256_max_n, "reduce_min")), "min")


@func
def reduce_max(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """The largest of the first n elements goes to out; for n = 0 the least number that there is."""
    _reduce(arr, out, n, static(_checked(dtype, log256_max_n, "reduce_max")), "max")


# Prefixes. In order in meaning: integers are added up block by block all the same.


@func
def _scan(arr: Any, out: Any, n: Any, dtype: Any, by: Any) -> None:
    found = ops.cast(static(_start(dtype, by)), static(_wide(dtype)))
    loop_config(serialize=True)
    for i in range(n):
        own = arr[i]
        out[i] = ops.cast(found, dtype)
        if static(by == "add"):
            found += own
        elif static(by == "min"):
            found = min(found, own)
        else:
            found = max(found, own)


@func
def exclusive_scan_add(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """out[i] becomes the sum of arr[:i], for i < n; floats are summed in f64 and rounded once each."""
    _scan(arr, out, n, static(_checked(dtype, log256_max_n, "exclusive_scan_add")), "add")


@func
def exclusive_scan_min(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """out[i] becomes the least of arr[:i], for i < n; out[0] the largest number that there is."""
    _scan(arr, out, n, static(_checked(dtype, log256_max_n, "exclusive_scan_min")), "min")


@func
def exclusive_scan_max(arr: Any, out: Any, scratch: Any, n: Any, dtype: Any, log256_max_n: Any) -> None:
    """out[i] becomes the largest of arr[:i], for i < n; out[0] the least number that there is."""
    _scan(arr, out, n, static(_checked(dtype, log256_max_n, "exclusive_scan_max")), "max")


@func
def select(arr: Any, flags: Any, out: Any, num_out: Any, scratch: Any, n: Any, log256_max_n: Any) -> None:
    """The elements of arr[:n] whose flag is not 0 go to out, in order, and how many they are to num_out."""
    static(_checked(types.i32, log256_max_n, "select"))
    count = 0
    loop_config(serialize=True)
    for i in range(n):
        if flags[i] != 0:
            out[count] = arr[i]
            count += 1
    _put(num_out, count)


@func
def reduce_by_key_add(
    keys_in: Any,
    values_in: Any,
    keys_out: Any,
    values_out: Any,
    num_runs: Any,
    scratch: Any,
    n: Any,
    value_dtype: Any,
    log256_max_n: Any,
) -> None:
    """Of each run of equal keys among the first n: the key to keys_out, the sum of its values to values_out; how many
    runs there are to num_runs."""
    dtype = static(_checked(value_dtype, log256_max_n, "reduce_by_key_add", 32))
    runs = 0
    loop_config(serialize=True)
    for i in range(n):
        if i == 0 or keys_in[i] != keys_in[max(i - 1, 0)]:
            keys_out[runs] = keys_in[i]
            scratch[runs] = i
            runs += 1
    loop_config(serialize=False)
    for r in range(runs):
        end = ops.cast(n, types.i64)
        if r + 1 < runs:
            end = ops.cast(scratch[r + 1], types.i64)
        total = ops.cast(0, dtype)
        for i in range(ops.cast(scratch[r], types.i64), end):
            total += values_in[i]
        values_out[r] = total
    _put(num_runs, runs)


# Sorting: digits of eight bits from the lowest up, in chunks that count and then place their keys independently.


@func
def _code(key: Any, dtype: Any) -> Any:
    """The key's bits as an unsigned integer of the same order."""
    word = static(_WORDS[dtype.bits])
    bits = ops.bit_cast(key, word)
    sign = ops.cast(static(1 << dtype.bits - 1), word)
    if static(dtype.is_float):
        if bits & sign != 0:
            bits = ~bits
        else:
            bits = bits | sign
    elif static(dtype.is_signed):
        bits = bits ^ sign
    return bits


@func
def _place(
    keys: Any,
    values: Any,
    to_keys: Any,
    to_values: Any,
    scratch: Any,
    count: Any,
    bits: Any,
    dtype: Any,
    has_values: Any,
) -> None:
    """One round: every key, with its value, to its place by the digit that `bits` tells; equal ones keep their order."""
    shift, mask = static(bits[0]), static(bits[1])
    length = max((count + static(_MOST_CHUNKS - 1)) // _MOST_CHUNKS, _LEAST_CHUNK)
    chunks = (count + length - 1) // length
    loop_config(serialize=False)
    for c in range(chunks):
        for d in range(_FAN):
            scratch[c * _FAN + d] = 0
        for i in range(c * length, min(count, (c + 1) * length)):
            digit = ops.cast(_code(keys[i], dtype) >> shift & mask, types.i64)
            scratch[c * _FAN + digit] += 1
    place = 0
    loop_config(serialize=True)
    for d in range(_FAN):
        loop_config(serialize=True)
        for c in range(chunks):
            found = scratch[c * _FAN + d]
            scratch[c * _FAN + d] = place
            place += found
    loop_config(serialize=False)
    for c in range(chunks):
        for i in range(c * length, min(count, (c + 1) * length)):
            digit = ops.cast(_code(keys[i], dtype) >> shift & mask, types.i64)
            target = scratch[c * _FAN + digit]
            scratch[c * _FAN + digit] = target + 1
            to_keys[target] = keys[i]
            if static(has_values):
                to_values[target] = values[i]


@func
def sort(
    keys: Any,
    tmp_keys: Any,
    values: Any,
    tmp_values: Any,
    scratch: Any,
    n: Any,
    key_dtype: Any,
    has_values: Any,
    end_bit: Any,
    log256_max_n: Any,
) -> None:
    """Sorts the first n[None] keys, ascending and stable, by their lowest end_bit bits as they are ordered; the values
    move along, if there are any. tmp_keys and tmp_values are as large as keys and values."""
    dtype = static(_checked(key_dtype, log256_max_n, "sort"))
    count = ops.cast(n[None], types.i64)
    for first, second in static(_rounds(end_bit, dtype)):
        _place(keys, values, tmp_keys, tmp_values, scratch, count, first, dtype, has_values)
        _place(tmp_keys, tmp_values, keys, values, scratch, count, second, dtype, has_values)
