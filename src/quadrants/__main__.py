"""`python -m quadrants`: what the targets can do here, and whether they do what the reference does."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from quadrants import knobs
from quadrants.targets import table


def main(arguments: list[str] | None = None) -> int:
    """Gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m quadrants", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    targets = commands.add_parser("targets", help="the targets: whether they are usable here, and what they can do")
    targets.add_argument("--json", action="store_true", help="with every field of the capability records, as JSON")
    conform = commands.add_parser("conform", help="a target against the reference, into an evidence file")
    conform.add_argument("--target", required=True, choices=[arch.name for arch in table.TARGETS])
    conform.add_argument(
        "--out", type=Path, required=True, help="the evidence file; parts that are not run are kept in it"
    )
    conform.add_argument("--parts", default="", help="of operations,conversions,programs,tests,fuzz (all)")
    conform.add_argument("--programs", type=int, default=200, help="random programs of the part fuzz (200)")
    conform.add_argument("--every", type=int, default=1, help="a sample: one case of so many (1); leaves tests out")
    conform.add_argument("--jobs", type=int, default=1, help="processes of the part tests (1)")
    conform.add_argument("--seconds", type=int, default=600, help="how long a case may take (600)")
    chosen = parser.parse_args(arguments)
    if chosen.command == "targets":
        return _targets(chosen.json)
    from quadrants.evidence.conformance import run

    return run.conform(
        knobs.arch_by_name(chosen.target),
        chosen.out,
        [part for part in chosen.parts.split(",") if part],
        chosen.programs,
        chosen.every,
        chosen.jobs,
        chosen.seconds,
    )


def _targets(as_json: bool) -> int:
    from quadrants.evidence import capabilities

    found = capabilities.report()
    print(json.dumps(found, indent=1) if as_json else capabilities.table_text(found["targets"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
