"""`python -m quadrants.evidence.fuzz`: runs random programs, reduces failing ones, writes them as tests."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from quadrants.evidence.fuzz.block_trial import CAMPAIGNS, KINDS, TARGETS, block_campaign, told
from quadrants.evidence.fuzz.campaign import campaign, work


def main(arguments: list[str] | None = None) -> int:
    """Gives the exit status: 0 if nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m quadrants.evidence.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=500, help="how many programs (500)")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed (0)")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes at a time (2)")
    parser.add_argument("--stop-after", type=int, default=20, help="failures after which to stop (20)")
    parser.add_argument("--show", type=int, metavar="SEED", help="print a program and stop")
    parser.add_argument("--reduce", type=int, metavar="SEED", help="shrink a failing program and write it as a test")
    parser.add_argument("--into", default="tests/fuzz/found", help="the folder for it (tests/fuzz/found)")
    parser.add_argument("--seconds", type=float, default=300.0, help="for how long to reduce (300)")
    kinds = {"blocks": "blocks of threads", "devices": "reductions, products, stencils", "plain": "the kind above"}
    for kind, what in kinds.items():
        text = f"programs of {what} instead, on targets with commas between, of {', '.join(TARGETS)}"
        parser.add_argument(f"--{kind}", metavar="TARGETS", help=text)
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.work:
        work(*chosen.work)
        return 0
    for kind in CAMPAIGNS:
        if getattr(chosen, kind):
            return _on_targets(kind, chosen)
    if chosen.show is not None:
        from quadrants.evidence.fuzz.generate import program_text

        print(program_text(chosen.show).text)
        return 0
    if chosen.reduce is not None:
        return _reduce(chosen.reduce, Path(chosen.into), chosen.seconds)
    summary = campaign(chosen.seed, chosen.programs, chosen.jobs, chosen.stop_after)
    print(f"seed {chosen.seed}: {summary}")
    return 1 if summary.findings else 0


def _on_targets(kind: str, chosen: argparse.Namespace) -> int:
    """The same for programs of another kind, on targets that are named."""
    targets = getattr(chosen, kind).split(",")
    if unknown := set(targets) - set(TARGETS):
        raise SystemExit(f"--{kind}: {', '.join(sorted(unknown))}: of {', '.join(TARGETS)}, with commas between")
    if kind not in KINDS and (chosen.show is not None or chosen.reduce is not None):
        raise SystemExit(f"--{kind} runs programs: without it --show prints them")
    if chosen.show is not None:
        print(KINDS[kind](chosen.show).text())
        return 0
    if chosen.reduce is not None:
        for target in targets:
            print(told(kind, chosen.reduce, target, chosen.seconds))
        return 0
    seeds = range(chosen.seed, chosen.seed + chosen.programs)
    return 1 if block_campaign(kind, seeds, targets, chosen.stop_after, sys.stdout) else 0


def _reduce(seed: int, folder: Path, seconds: float) -> int:
    """Shrinks each failure of a seed and writes it as a test; gives how many there are."""
    from quadrants.evidence.fuzz.reduce import Candidate, reduced, test_text
    from quadrants.evidence.fuzz.trial import settings_of

    case, chosen = settings_of(seed)
    found = 0
    for settings in chosen:
        candidate = Candidate(case.text, case.sizes, case.style, settings)
        try:
            small, failure = reduced(candidate, seconds)
        except ValueError as error:
            print(f"seed {seed} under {settings}: {error}")
            continue
        found += 1
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"seed_{seed}_{settings.arch}.py"
        path.write_text(test_text(small, failure))
        print(f"{path}:\n{path.read_text()}\n{failure.kind}: {failure.text}")
    return found


if __name__ == "__main__":
    sys.exit(main())
