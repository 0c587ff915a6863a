"""Sizes from which passes find their work worth it, and smaller ones, under which random programs reach them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quadrants.passes import (
    gather_once,
    inner_loops,
    interchange,
    lane_jam,
    reduce_in_blocks,
    scans,
    scatter_in_blocks,
    share_rows,
    stage_boxes,
    stage_tiles,
    tile,
    tile_code,
    vectorise_rows,
)

__all__ = ["EAGER", "thresholds"]

EAGER: tuple[tuple[Any, str, Any], ...] = (
    (tile, "_SMALLEST", 1),
    (tile, "_SHALLOWEST", 1),
    (tile_code, "_LEAST_TILES", 1),
    (interchange, "_LEAST", 1),
    (interchange, "_BLOCK", 8),
    (interchange, "_SHIFT", 3),
    (scans, "_FEWEST", 1),
    (scans, "_SHORTEST_BLOCK", 2),
    (scans, "_BLOCKS", 4),
    (scans, "_LEAST_GAIN", 0.0),
    (gather_once, "_GUESS", 64),
    (gather_once, "_TIMES", 1),
    (vectorise_rows, "_FEW_TRIPS", 2),
    (inner_loops, "_FEW_TRIPS", 2),
    (lane_jam, "_FEW_TRIPS", 2),
    (stage_tiles, "_SMALLEST", 1),
    (stage_tiles, "_LEAST", 1),
    (stage_boxes, "_GAIN", 0.0),
    (reduce_in_blocks, "_ITERATIONS", 1),
    (scatter_in_blocks, "_LEAST", 1),
    (scatter_in_blocks, "_TIMES", 0),
    (share_rows, "_SHORTEST", 1),
)
"""Passes with the names of their thresholds, and the smaller values."""


@contextmanager
def thresholds(eager: bool) -> Iterator[None]:
    """What pays at large sizes only is done at small ones, if `eager`."""
    before = [getattr(module, name) for module, name, _ in EAGER]
    for module, name, value in EAGER if eager else ():
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(EAGER, before):
            setattr(module, name, value)
