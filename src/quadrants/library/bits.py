"""Functions of bits that are no operation of any processor, written in the language itself."""

from __future__ import annotations

from typing import Any

from quadrants.ir.types import i32, u32
from quadrants.lang.ops import cast

__all__ = ["fns"]


def fns(mask: Any, base: Any, offset: Any) -> Any:
    """The position (u32) of a set bit of the u32 `mask`, counted from bit `base`.

    For positive `offset` the offset-th set bit from `base` upwards, `base` included; for negative the one that many
    downwards; for 0 `base` itself if it is set. 0xFFFFFFFF if there is no such bit, or no bit `base`.
    """
    bits = cast(mask, u32)
    position = cast(base, i32)
    step = 1 if offset >= 0 else -1
    left = cast(abs(offset), i32)
    if left == 0:
        left = cast(1, i32)
        if 0 <= position < 32 and (bits >> cast(position, u32)) & cast(1, u32) == 0:
            position = cast(-1, i32)
    while 0 <= position < 32:
        if (bits >> cast(position, u32)) & cast(1, u32) != 0:
            left -= 1
            if left == 0:
                return cast(position, u32)
        position += step
    return cast(-1, u32)
