"""The random numbers of the language: SplitMix64, whose n-th number is a hash of `start + n * STEP`.

One process-wide stream, set by the seed, gives every launch a start. The rest is the compiler's: a launch and every
iteration of a parallel loop have a stream of their own (see passes/random_streams.py), so the numbers depend on seed,
launch and iteration, not on threads or targets.
"""

from __future__ import annotations

import itertools

__all__ = ["FIRST_FACTOR", "FIRST_SHIFT", "LAST_SHIFT", "SECOND_FACTOR", "SECOND_SHIFT", "STEP", "hash_bits"]
__all__ += ["next_bits", "seed", "start_of"]

STEP = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: multiples of it are spread evenly
FIRST_SHIFT, FIRST_FACTOR = 30, 0xBF58476D1CE4E5B9
SECOND_SHIFT, SECOND_FACTOR = 27, 0x94D049BB133111EB
LAST_SHIFT = 31
_MASK = (1 << 64) - 1


def hash_bits(bits: int) -> int:
    """SplitMix64's mix: a bijection of 64 bits in which every bit depends on all."""
    bits = ((bits ^ bits >> FIRST_SHIFT) * FIRST_FACTOR) & _MASK
    bits = ((bits ^ bits >> SECOND_SHIFT) * SECOND_FACTOR) & _MASK
    return bits ^ bits >> LAST_SHIFT


def start_of(number: int) -> int:
    """The state in which a seed, any integer, puts the process's stream."""
    return hash_bits(number & _MASK)


_start = start_of(0)
_counts = itertools.count(1)  # one step is atomic: threads that launch at once get different numbers


def seed(number: int) -> None:
    """Begin the process's stream anew, as the interpreter knows it."""
    global _start, _counts
    _start = start_of(number)
    _counts = itertools.count(1)


def next_bits() -> int:
    """The next number of the process's stream, as the interpreter knows it."""
    return hash_bits((_start + next(_counts) * STEP) & _MASK)
