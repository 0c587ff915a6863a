"""What neighbours in a hardware's subgroup exchange. Law: invocation k of a workgroup is member k % size of its subgroup; whether a
driver does so is asked when the device is made (`probe.py`)."""

from __future__ import annotations

from collections.abc import Callable

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Op
from quadrants.targets.webgpu.scalars import register
from quadrants.targets.webgpu.writer import Writer, scalar

__all__ = ["HANDLERS"]


def _shuffle(writer: Writer, op: Op) -> None:
    """The value of the team's member with that number; where it is not there, the thread's own."""
    value, source, *members = [writer.name(operand) for operand in op.operands]
    width, subgroup = op.attributes["width"], writer.shader.driver.subgroup
    if not 0 < width <= subgroup:
        raise QuadrantsInternalError(f"a shuffle of {width} threads on a device with subgroups of {subgroup}")
    lane = writer.let("u32", f"u32(thread) & {subgroup - 1}u")
    inside = writer.let("bool", f"{source} >= 0li && {source} < {width}li")
    at = writer.let("u32", f"select({lane}, ({lane} & {(subgroup - 1) & -width}u) + u32({source}), {inside})")
    there = f"{inside} && (({members[0]} >> {at}) & 1lu) != 0lu" if members else inside
    if scalar(op.results[0]).bits == 1:
        found = f"(subgroupShuffle(select(0u, 1u, {value}), {at}) != 0u)"
    else:
        found = f"subgroupShuffle({value}, {at})"
    got = writer.let(register(scalar(op.results[0])), found)
    writer.define(op.results[0], f"select({value}, {got}, {there})")


def _ballot(writer: Writer, op: Op) -> None:
    """Threads that are not there have no bit: they are not active."""
    bits = writer.let("vec4<u32>", f"subgroupBallot({writer.name(op.operands[0])})")
    writer.define(op.results[0], f"(u64({bits}.x) | (u64({bits}.y) << 32u))")


HANDLERS: dict[str, Callable[[Writer, Op], None]] = {"shuffle": _shuffle, "ballot": _ballot}
