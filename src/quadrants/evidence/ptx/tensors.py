"""`mma.sync`: the lanes of a warp multiply matrices whose elements they hold, as NVIDIA's description of PTX says; `ldmatrix`, which
brings them elements of shared memory so.

Law: all 32 lanes are at the instruction. Products are exact; what hardware rounds sums to is not described: here they are added
in f64 and rounded once. Of tf32 the first 19 bits of a register count.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadrants.evidence.ptx.warps import WarpError, table_of

__all__ = ["TENSORS"]

Array = Any
_LANE = np.arange(32)
_GROUP, _IN_GROUP = _LANE // 4, _LANE % 4


def _halves(registers: list[Array]) -> Array:
    """Two f16 of each register, the lower bits first: (elements, threads)."""
    bits = np.array(registers, np.uint32)
    parts = np.stack([bits & 0xFFFF, bits >> 16], axis=1).reshape(-1, bits.shape[1])
    return parts.astype(np.uint16).view(np.float16).astype(np.float64)


def _brains(registers: list[Array]) -> Array:
    """Two bf16 of each register."""
    bits = np.array(registers, np.uint32)
    parts = np.stack([bits << 16, bits & 0xFFFF0000], axis=1).reshape(-1, bits.shape[1])
    return parts.astype(np.uint32).view(np.float32).astype(np.float64)


def _tensor_floats(registers: list[Array]) -> Array:
    bits = np.array(registers, np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32).astype(np.float64)


def _wide_places() -> tuple[list[Any], list[Any]]:
    """m16n8k16: (row, column) of each element that a lane holds of A and of B."""
    of_a = [
        (
            _GROUP + (0 if 0 <= i < 2 or 4 <= i < 6 else 8),
            _IN_GROUP * 2 + (i & 1) + (8 if i >= 4 else 0),
        )
        for i in range(8)
    ]
    of_b = [(_IN_GROUP * 2 + (i & 1) + (8 if i >= 2 else 0), _GROUP) for i in range(4)]
    return of_a, of_b


def _narrow_places() -> tuple[list[Any], list[Any]]:
    """m16n8k8 of tf32."""
    of_a = [(_GROUP + (8 if i in (1, 3) else 0), _IN_GROUP + (4 if i >= 2 else 0)) for i in range(4)]
    return of_a, [(_IN_GROUP + 4 * i, _GROUP) for i in range(2)]


_KINDS = {
    "f16": (_halves, 16, _wide_places),
    "bf16": (_brains, 16, _wide_places),
    "tf32": (_tensor_floats, 8, _narrow_places),
}
_OF_SUMS = [(_GROUP + (8 if i >= 2 else 0), _IN_GROUP * 2 + (i & 1)) for i in range(4)]


def multiply(kind: str, a: list[Array], b: list[Array], c: list[Array], n: int, *place: Array) -> list[Array]:
    """The sums of each thread, bits of f32, for registers of factors of a kind and of sums."""
    blocks, lanes, warps = place
    numbers, places = table_of(blocks, lanes, warps)
    if (places < 0).any():
        raise WarpError("lanes of a warp are not at the instruction")
    unpacked, depth, of_factors = _KINDS[kind]
    of_a, of_b = of_factors()
    count = len(places)
    left, right, sums = np.zeros((count, 16, depth)), np.zeros((count, depth, 8)), np.zeros((count, 16, 8))
    for matrix, at, registers in (
        (left, of_a, unpacked([np.broadcast_to(r, n) for r in a])),
        (right, of_b, unpacked([np.broadcast_to(r, n) for r in b])),
        (sums, _OF_SUMS, np.array([np.broadcast_to(r, n) for r in c]).view(np.float32).astype(np.float64)),
    ):
        for (rows, columns), values in zip(at, registers):
            matrix[:, rows, columns] = values[places]
    with np.errstate(all="ignore"):
        found = (left @ right + sums).astype(np.float32)
    return [found[numbers, rows[lanes], columns[lanes]].view(np.uint32) for rows, columns in _OF_SUMS]


def load_matrices(
    machine: Any, addresses: Array, count: int, is_transposed: bool, threads: Array, *place: Array
) -> list[Array]:
    """`count` matrices of 8 x 8 words of 16 bits: lane 8 m + r gives the address of row r of matrix m; each lane gets two neighbours of
    each, in row lane / 4 (transposed: column)."""
    _, places = table_of(*place)
    if (places < 0).any():
        raise WarpError("lanes of a warp are not at the instruction")
    if (addresses & np.uint64(15)).any():
        raise WarpError("a row of a matrix at an address that is not aligned to 16 bytes")
    givers = places[:, : 8 * count]
    rows = addresses[givers]
    for number in range(count):
        part = slice(8 * number, 8 * number + 8)
        machine.reach_matrix(rows[:, part], threads[places[:, 0]] // 32)
    words = np.stack([machine.load(rows.reshape(-1) + np.uint64(2 * k), 2) for k in range(8)], axis=-1)
    matrices = words.reshape(len(places), count, 8, 8).astype(np.uint32)
    machine.loads["matrix"] += count * 32 * len(places)
    if is_transposed:
        matrices = matrices.swapaxes(2, 3)
    found = []
    for number in range(count):
        low = matrices[:, number, _GROUP, 2 * _IN_GROUP]
        high = matrices[:, number, _GROUP, 2 * _IN_GROUP + 1]
        each = np.zeros(len(addresses), np.uint32)
        each[places] = low | high << np.uint32(16)
        found.append(each)
    return found


TENSORS = {"multiply": multiply, "load_matrices": load_matrices}
