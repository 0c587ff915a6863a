"""The choice of the target: what `qd.init(arch=…)` and QD_ARCH ask for, what is there, and what is told where it is not."""

from __future__ import annotations

from collections.abc import Sequence

from quadrants import knobs
from quadrants.ir import types
from quadrants.knobs import Arch
from quadrants.lang import log
from quadrants.targets import table
from quadrants.targets.capability import CapabilityRecord

__all__ = ["Wish", "choose", "settle", "widest_float"]

Wish = Arch | str | Sequence[Arch | str]


def choose(wish: Wish | None, enable_fallback: bool) -> Arch:
    """The first of the targets wished for that runs here; None is the default one. Where there is none, the default one, which
    a warning tells with what each lacks; RuntimeError without `enable_fallback`. ValueError for what is no target."""
    if wish is None:
        return table.default()
    candidates = _targets(wish)
    reasons: list[str] = []
    for candidate in candidates:
        reason = table.missing(candidate)
        if not reason:
            return candidate
        reasons.append(f"{candidate.name}: {reason}")
    shown = f"[{', '.join(map(str, candidates))}]"
    why = "; ".join(reasons)
    if not enable_fallback:
        raise RuntimeError(f"Arch={shown} is not supported ({why})")
    fallback = table.default()
    log.warn(f"Arch={shown} is not supported, falling back to {fallback} ({why})")
    return fallback


def _targets(wish: Wish) -> list[Arch]:
    if isinstance(wish, Arch):
        return [wish]
    if isinstance(wish, str):
        return list(knobs.archs_by_name(wish))
    found = [arch for part in wish for arch in _targets(part)]
    if not found:
        raise ValueError("qd.init(arch=[]): a target is expected, or a list of which the first that is there is taken")
    return found


def widest_float(wanted: types.ScalarType, record: CapabilityRecord) -> types.ScalarType:
    """The type of weak floats where the target may not have the one wanted: then the widest that it has, and it is said."""
    if record.has_dtype(wanted):
        return wanted
    widest = next(scalar for scalar in (types.f64, types.f32, types.f16) if record.has_dtype(scalar))
    log.warn(
        f"the target {record.name} has no {wanted} on this machine: floats without a type of their own are {widest}"
    )
    return widest


def settle() -> None:
    """Chooses what QD_ARCH asks for in a program that has not called `qd.init`, once: when its first kernel is compiled."""
    state = knobs.current
    if not state.wished:
        return
    chosen = choose(state.wished, True)
    if not table.row(chosen).machine_code:
        state.default_float = widest_float(state.default_float, table.find(chosen).record())
    state.arch = chosen
    state.wished = ()  # last: whoever finds it empty finds the choice
