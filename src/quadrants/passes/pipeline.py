"""The pipeline: the list of passes, with what each is for and why it stands where it stands. The driver runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quadrants import knobs
from quadrants.ir.nodes import STAGES, Module
from quadrants.passes import (
    cse,
    dead_code,
    dead_stores,
    forward_stores,
    hoist,
    inline,
    mark_aliases,
    simplify,
)
from quadrants.passes.context import PassContext

__all__ = ["CONSTRAINTS", "PIPELINE", "Constraint", "Pass", "check_pipeline"]


@dataclass(frozen=True)
class Pass:
    """One step of the pipeline.

    `stage` is the module's stage when the pass runs, `leads_to` the stage afterwards ('' for the same). A `required`
    pass gives meaning or form that later steps rely on; the others only improve, and can be left out. `wanted` says
    whether the options ask for the pass at all. A pass `keeps_effects` if it adds no access, call or parameter: what is
    known of memory effects then holds on.
    """

    name: str
    run: Callable[[Module, PassContext], None]
    stage: str
    reason: str
    leads_to: str = ""
    required: bool = False
    wanted: Callable[[knobs.Options], bool] = lambda options: True
    keeps_effects: bool = False


@dataclass(frozen=True)
class Constraint:
    """`before` stands in front of `after` in the pipeline, because of `reason`."""

    before: str
    after: str
    reason: str


PIPELINE: tuple[Pass, ...] = (
    Pass("inline", inline.run, "kernel", "small calls cost nothing; loops of functions become the kernel's"),
    Pass("mark_aliases", mark_aliases.run, "kernel", "a function may get one array twice", required=True),
    Pass("simplify", simplify.run, "kernel", "constants, laws of algebra, decided branches"),
    Pass("cse", cse.run, "kernel", "equal indices and bounds become one value, which analyses compare by identity"),
    Pass("forward_stores", forward_stores.run, "kernel", "values stay in registers instead of going through memory"),
    Pass("dead_code", dead_code.run, "kernel", "what is carried or yielded for nothing would look like a dependence"),
    Pass("hoist", hoist.run, "tasks", "what does not change is computed once, in front of the loop"),
    Pass("dead_stores", dead_stores.run, "tasks", "memory that is overwritten unseen is not written"),
)
CONSTRAINTS: tuple[Constraint, ...] = (
    Constraint("inline", "mark_aliases", "calls that are gone overlap nothing"),
    Constraint("inline", "simplify", "arguments that are constants decide branches of the callee"),
    Constraint("mark_aliases", "forward_stores", "forwarding asks which parameters may overlap"),
    Constraint("simplify", "cse", "numbers on the right of commutative operations make more of them equal"),
    Constraint("cse", "forward_stores", "equal elements are recognised by equal index values"),
    Constraint("forward_stores", "dead_code", "forwarding leaves values without use"),
)


def check_pipeline(passes: Sequence[Pass] = PIPELINE, constraints: Sequence[Constraint] = CONSTRAINTS) -> None:
    """ValueError where names repeat, stages do not follow one another, or a constraint is broken."""
    position = {step.name: index for index, step in enumerate(passes)}
    if len(position) < len(passes):
        raise ValueError("two passes have one name")
    stage = STAGES[0]
    for step in passes:
        if step.stage != stage:
            raise ValueError(f"pass {step.name} takes stage {step.stage}, but stands where the stage is {stage}")
        stage = step.leads_to or stage
    for constraint in constraints:
        before, after = constraint.before, constraint.after
        if before not in position or after not in position:
            raise ValueError(f"constraint {before} before {after}: there is no such pass")
        if position[before] >= position[after]:
            raise ValueError(f"pass {before} must stand before {after}: {constraint.reason}")


check_pipeline()
