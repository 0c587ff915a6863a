"""What joining loops costs, and that the analyses which it keeps up to date are what new ones would find."""

from __future__ import annotations

import random
from types import FrameType

import pytest
from tests.passes_parallel.programs import program
from tests.watching import watched

from quadrants.ir.nodes import Module, Op
from quadrants.passes import fuse, parallelise
from quadrants.passes.context import PassContext
from quadrants.passes.memory import MemoryEffects
from quadrants.passes.nest import Nest


def chain(length: int) -> Module:
    """Loops over one array, each of which needs the one before."""
    body = "".join(
        f"for %i{k} in %o0 .. %n {{\n  %v{k} = load %a[%i{k}] : f32\n  %w{k} = mul %v{k}, %x : f32\n"
        f"  store %w{k}, %a[%i{k}]\n}}\n"
        for k in range(length)
    )
    module = program(body)
    parallelise.run(module, PassContext())
    return module


def calls_of(length: int) -> int:
    """How many calls of functions joining takes."""
    module, calls = chain(length), 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    context = PassContext()
    watched(lambda: fuse.run(module, context), count)
    assert context.counters["loops fused"] > length // 2
    return calls


@pytest.mark.slow
def test_work_grows_with_the_number_of_loops() -> None:
    assert calls_of(160) < 2.3 * calls_of(80)


@pytest.mark.parametrize("seed", range(10))
def test_analyses_stay_true(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(seed)
    lines: list[str] = []
    for k in range(6):
        sums = source.random() < 0.5
        carried = f" carry (%s{k} = %z) : i64" if sums else ""
        lines.append(f"{f'%r{k} = ' if sums else ''}for %i{k} in %o0 .. %n{carried} {{")
        lines.append(f"  %v{k} = load %{source.choice('ab')}[%i{k}] : f32")
        lines.append(f"  %w{k} = mul %v{k}, {source.choice(('%x', f'%v{k}'))} : f32")
        lines.append(f"  store %w{k}, %{source.choice('ab')}[%i{k}]")
        if sums:
            lines += [f"  %t{k} = add %s{k}, %i{k} : i64", f"  yield %t{k}"]
        lines.append("}")
        if sums and source.random() < 0.5:
            lines.append(f"%g{k} = neg %r{k} : i64")
    module = program("%z = constant 0 : i64\n" + "\n".join(lines) + "\n")
    parallelise.run(module, PassContext())
    joined = 0
    merge = fuse._Fuser._merge

    def checked(self: fuse._Fuser, first: Op, second: Op) -> None:
        nonlocal joined
        merge(self, first, second)
        place = next(place for place, op in enumerate(self.kernel.body.ops) if op is second)
        taken = self.kernel.body.ops.pop(place)
        new, effects, body = Nest(self.kernel), MemoryEffects(module), first.regions[0]
        self.kernel.body.ops.insert(place, taken)
        assert {op: self.nest.parent[op] for op in new.parent} == new.parent
        assert {value: self.nest.home[value] for value in new.home} == new.home
        assert {value: set(self.nest.users[value]) for value in new.users} == {
            value: set(users) for value, users in new.users.items()
        }
        kept, found = self.effects.block(body), effects.block(body)
        assert (kept.reads, kept.writes) == (found.reads, found.writes)
        joined += 1

    monkeypatch.setattr(fuse._Fuser, "_merge", checked)
    fuse.run(module, PassContext())
    assert joined
