"""The names of `qd.simt` are those that programs of Taichi's family use, and those of ours that are listed here."""

from __future__ import annotations

from types import ModuleType

import pytest

import quadrants as qd

COMBINERS = ("add", "mul", "min", "max", "and", "or", "xor")


def families(suffix: str = "") -> set[str]:
    kinds = ("reduce", "reduce_all", "inclusive", "exclusive")
    return {f"{kind}_{by}{suffix}" for kind in kinds for by in COMBINERS}


BLOCK = {
    *("sync", "sync_all_nonzero", "sync_any_nonzero", "sync_count_nonzero", "mem_fence", "thread_idx"),
    *("global_thread_idx", "SharedArray", "reduce", "reduce_all", "inclusive_scan", "exclusive_scan"),
    "radix_rank_match_atomic_or",
    *families(),
}
GRID = {"mem_fence", "memfence"}
SUBGROUP = {
    *("shuffle", "shuffle_up", "shuffle_down", "shuffle_xor", "broadcast", "broadcast_first", "invocation_id"),
    *(
        "group_size",
        "log2_group_size",
        "elect",
        "sync",
        "mem_fence",
        "ballot",
        "ballot_first_n",
        "all_true",
        "any_true",
    ),
    *("all_equal", "lanemask_lt", "lanemask_le", "lanemask_eq", "lanemask_gt", "lanemask_ge"),
    *("bitonic_sort_kv", "bitonic_sort_kv_tiled", "barrier", "memory_barrier", "ballot_full_subgroup"),
    *families(),
    *families("_tiled"),
    *(f"segmented_reduce_{by}{suffix}" for by in COMBINERS for suffix in ("", "_tiled")),
}
WARP = {
    *("all_nonzero", "any_nonzero", "unique", "ballot", "match_any", "match_all", "active_mask", "sync"),
    *("shfl_sync_i32", "shfl_sync_f32", "shfl_up_i32", "shfl_up_f32", "shfl_down_i32", "shfl_down_f32", "shfl_xor_i32"),
}


def test_names_of_the_package() -> None:
    assert set(dir(qd.simt)) == {"Tile16x16", "Tile32x32", "block", "grid", "subgroup", "warp"}
    assert "outer" in dir(qd) and qd.outer.__doc__
    for tile, size in ((qd.simt.Tile16x16, 16), (qd.simt.Tile32x32, 32)):
        assert tile.SIZE == size and {name for name in dir(tile) if name[0] != "_"} == {"SIZE", "eye", "zeros"}


@pytest.mark.parametrize(
    ("module", "names"),
    [(qd.simt.block, BLOCK), (qd.simt.grid, GRID), (qd.simt.subgroup, SUBGROUP), (qd.simt.warp, WARP)],
    ids=["block", "grid", "subgroup", "warp"],
)
def test_names_of_a_module(module: ModuleType, names: set[str]) -> None:
    assert set(dir(module)) == names
    for name in names:
        function = getattr(module, name)
        assert callable(function)
        assert function.__doc__, name
