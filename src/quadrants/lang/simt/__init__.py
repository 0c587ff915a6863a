"""`qd.simt`: what the threads of a block do together, as on a GPU, on every target.

A loop at a kernel's top level that uses anything of this runs by blocks of threads: its iterations, in order, are cut into
blocks of `qd.loop_config(block_dim=…)` (128 if nothing is said); the last block has as many threads as are left. Threads
side by side, 32 at a time (`qd.init(subgroup_size=…)`), are a subgroup. Barriers and what else a block does together must be
come to by all its threads; of a subgroup those members meet that are there.
"""

from __future__ import annotations

from quadrants.lang.simt import block, grid, subgroup, warp
from quadrants.lang.simt.tiles import Tile16x16, Tile32x32

__all__ = ["Tile16x16", "Tile32x32", "block", "grid", "subgroup", "warp"]


def __dir__() -> list[str]:
    return __all__
