"""Updates and loads of shared memory: `qd.atomic_add` and its kin. In kernels only."""

from __future__ import annotations

from typing import Any

from quadrants.lang.intrinsic import intrinsic, kernel_only

__all__ = [
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_exchange",
    "atomic_max",
    "atomic_min",
    "atomic_mul",
    "atomic_or",
    "atomic_sub",
    "atomic_xor",
    "volatile_load",
]


@intrinsic
def atomic_add(x: Any, y: Any) -> Any:
    """x += y as one step; the old value of x, an element of a field or array. In kernels only."""
    kernel_only("atomic_add")


@intrinsic
def atomic_sub(x: Any, y: Any) -> Any:
    """x -= y as one step; the old value of x, an element of a field or array. In kernels only."""
    kernel_only("atomic_sub")


@intrinsic
def atomic_mul(x: Any, y: Any) -> Any:
    """x *= y as one step; the old value of x, an element of a field or array. In kernels only."""
    kernel_only("atomic_mul")


@intrinsic
def atomic_min(x: Any, y: Any) -> Any:
    """x = min(x, y) as one step; the old value of x, an element of a field or array. In kernels only."""
    kernel_only("atomic_min")


@intrinsic
def atomic_max(x: Any, y: Any) -> Any:
    """x = max(x, y) as one step; the old value of x, an element of a field or array. In kernels only."""
    kernel_only("atomic_max")


@intrinsic
def atomic_and(x: Any, y: Any) -> Any:
    """x &= y as one step; the old value of x, an integer element of a field or array. In kernels only."""
    kernel_only("atomic_and")


@intrinsic
def atomic_or(x: Any, y: Any) -> Any:
    """x |= y as one step; the old value of x, an integer element of a field or array. In kernels only."""
    kernel_only("atomic_or")


@intrinsic
def atomic_xor(x: Any, y: Any) -> Any:
    """x ^= y as one step; the old value of x, an integer element of a field or array. In kernels only."""
    kernel_only("atomic_xor")


@intrinsic
def atomic_exchange(x: Any, y: Any) -> Any:
    """x = y as one step; the old value of x, an element of a field or array. In kernels only."""
    kernel_only("atomic_exchange")


@intrinsic
def atomic_cas(x: Any, expected: Any, desired: Any) -> Any:
    """x = desired if x == expected, as one step; the old value of x, an integer element. In kernels only."""
    kernel_only("atomic_cas")


@intrinsic
def volatile_load(x: Any) -> Any:
    """The element x of a field or array that a kernel may write, read anew at every execution, also while others update it. It
    costs as much as an atomic update. In kernels only."""
    kernel_only("volatile_load")
