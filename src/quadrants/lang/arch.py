"""The choice of the target: what `qd.init(arch=…)` and QD_ARCH ask for, what is there, and what is told where it is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quadrants import knobs
from quadrants.ir import types
from quadrants.knobs import Arch
from quadrants.lang import log
from quadrants.targets import table

__all__ = ["Wish", "adopt_floats", "choose", "settle"]

_EXPECTED = "a target is expected, or a list of which the first that is there is taken"

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
    if not isinstance(wish, Iterable):
        raise TypeError(f"qd.init(arch={wish!r}): {_EXPECTED}, not an object of type {type(wish).__name__}")
    found = [arch for part in wish for arch in _targets(part)]
    if not found:
        raise ValueError(f"qd.init(arch={wish!r}): {_EXPECTED}")
    return found


def adopt_floats(chosen: Arch) -> None:
    """Makes the types of floats without one of their own those that the target has, and says where the default is another."""
    state = knobs.current
    if table.row(chosen).machine_code:  # which has them all
        return
    record, wanted = table.find(chosen).record(), state.default_float
    state.widest_float = next(scalar for scalar in (types.f64, types.f32, types.f16) if record.has_dtype(scalar))
    if not record.has_dtype(wanted):
        state.default_float = state.widest_float
        log.warn(
            f"the target {record.name} has no {wanted} on this machine: floats without a type of their own are {state.default_float}"
        )


def settle() -> None:
    """Chooses what QD_ARCH asks for in a program that has not called `qd.init`, once: when its first kernel is compiled."""
    state = knobs.current
    if not state.wished:
        return
    chosen = choose(state.wished, True)
    adopt_floats(chosen)
    state.arch = chosen
    state.wished = ()  # last: whoever finds it empty finds the choice
