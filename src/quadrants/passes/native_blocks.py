"""Which block loops a target runs as they are, with the threads of a block at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from quadrants.errors import QuadrantsUnsupportedError
from quadrants.ir.nodes import Block, Module, Op, walk
from quadrants.ir.threads import shared_places
from quadrants.ir.types import MatrixType, ScalarType, scalar_of, u64
from quadrants.passes.context import PassContext
from quadrants.passes.places import shown
from quadrants.passes.structure import callee_of
from quadrants.passes.thread_checks import Together

__all__ = ["bytes_of", "scratch_of", "subgroup_of", "why_apart"]

_EXCHANGES = frozenset({"shuffle", "ballot", "team_reduce", "team_scan"})


def subgroup_of(record: Any) -> int:
    """How many neighbours reach one another's values in hardware, without memory; 1 where none do."""
    return min(record.subgroup_sizes, default=1)


def why_apart(loop: Op, region: Block, size: int, together: Together, module: Module, context: PassContext) -> str:
    """Why a block loop must be taken apart; '' where the target runs its threads at once. `region`: what a thread does.
    QuadrantsUnsupportedError where only memory is missing for that: one thread in the place of a block's is no way to run such a program."""
    record = context.record
    watched = record is not None and record.finds_races and context.options.debug
    if record is None or not (record.block_threads or watched):
        return "the target runs none at once"
    if size > record.block_threads and not watched:
        return f"the target runs at most {record.block_threads} at once, not {size}"
    config: dict[str, Any] = loop.attribute("config") or {}
    if config.get("serialize") or config.get("parallelize") == 1:
        return "the loop is to run in order"
    ops = list(_everything(region, module))
    if any(op.kind == "random" for op in ops):
        return "random numbers follow the order of the threads"
    if context.options.deterministic and any(_rounds(op) for op in ops):
        return "deterministic=True, and float updates may meet"
    if watched:
        return ""
    if not record.block_fences and any(op.kind == "fence" for op in ops):
        return "the target has barriers, but no fences"
    subgroup = subgroup_of(record)
    if not record.team_barriers and any(op in together.parted and op.kind == "team_barrier" for op in ops):
        return "some of a subgroup wait for one another, and the target has barriers of whole blocks only"
    if any(op in together.parted and op.attributes["width"] > subgroup for op in ops):
        return f"some of a subgroup meet, and it is larger than the hardware's {subgroup}"
    sizes = _check_memory([op for op in ops if op.kind == "shared"], record)
    sizes += [scalar.bytes * count for scalar, count in scratch_of(ops, size, subgroup).items()]
    needed = shared_places(sizes)[1]
    if needed > record.shared_memory_bytes:
        return f"a block shares {needed} bytes, and the target has {record.shared_memory_bytes}"
    return ""


def _check_memory(arrays: list[Op], record: Any) -> list[int]:
    """The bytes of arrays that a block shares; QuadrantsUnsupportedError at the largest one where the target has too few."""
    sizes = [bytes_of(op.attributes["type"]) for op in arrays]
    needed = shared_places(sizes)[1]
    if needed > record.shared_memory_bytes:
        raise QuadrantsUnsupportedError.at(
            shown(arrays[sizes.index(max(sizes))].location),
            f"a block shares {needed} bytes, and the target {record.name} has {record.shared_memory_bytes} on this machine",
            hint="share smaller arrays (fewer or narrower numbers, a smaller block_dim), or have plain loops in the place of a"
            " block's threads, which is slow: qd.loop_config(serialize=True)",
        )
    return sizes


def _everything(block: Block, module: Module) -> Iterator[Op]:
    """The operations of a block, and of the functions called there."""
    pending, seen = [block], set[str]()
    while pending:
        for op in walk(pending.pop()):
            yield op
            if op.kind == "call" and callee_of(op) not in seen:
                seen.add(callee_of(op))
                pending.append(module.functions[callee_of(op)].body)


def _rounds(op: Op) -> bool:
    return op.kind in ("update", "update_loaded") and scalar_of(op.operands[0].type).is_float


def bytes_of(type_: Any) -> int:
    """The memory that a value takes."""
    count = type_.count if type(type_) is MatrixType else 1
    return count * scalar_of(type_).bytes


def scratch_of(ops: Iterable[Op], size: int, subgroup: int) -> dict[ScalarType, int]:
    """How many elements of memory of the block meetings need whose teams are larger than the hardware's subgroup, by type: one for
    each thread, or where only subgroups exchange values, for each subgroup."""
    found: dict[ScalarType, int] = {}
    for op in ops:
        if op.kind in _EXCHANGES and (op.attributes["width"] or size) > subgroup:
            scalar = u64 if op.kind == "ballot" else scalar_of(op.operands[0].type)
            count = -(-size // subgroup) if op.kind in ("team_reduce", "ballot") else size
            found[scalar] = max(found.get(scalar, 0), count)
    return found
