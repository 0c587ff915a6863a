"""`python -m benchmarks`: measure, print, append to the history, draw.

Ratios and pictures use the `quiet` time: CPU seconds over the threads that share the work, or the least wall time where
that is smaller. On an idle machine the two are one; on a busy one only the first is worth comparing.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import chart, driver, history
from benchmarks.peers import installed


def duration(seconds: float) -> str:
    scale, unit = (1e3, "ms") if seconds >= 1e-4 else (1e6, "us")
    return f"{scale * seconds:9.3f} {unit}"


def line(name: str, result: dict[str, Any], baseline: float | None) -> str:
    if not result["ok"]:
        return f"  {name:9s} failed: {result['why'][:90]}"
    ratio = f"{result['quiet'] / baseline:8.2f} x ours" if baseline else ""
    wrong = "" if history.valid(result) else f"   WRONG by {result['error']:.1e}"
    times = f"min {duration(result['minimum'])}  median {duration(result['median'])}"
    quiet = f"quiet {duration(result['quiet'])} on {result['threads']:.1f} threads"
    return f"  {name:9s} {times}  {quiet}  {ratio}{wrong}"


def show(workload: str, results: dict[str, dict[str, Any]]) -> None:
    print(workload)
    baseline = results.get("ours", {}).get("quiet")
    for name, result in results.items():
        print(line(name, result, baseline), flush=True)


def show_startup(results: dict[str, dict[str, Any]]) -> None:
    print("startup (mpm88): import, first run compiled, first run from the cache")
    for name, r in results.items():
        print(f"  {name:9s} {r['import']:8.3f} s {r['cold']:8.3f} s {r['warm']:8.3f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="workloads, separated by commas (also: startup)")
    parser.add_argument("--peers", help="peers, separated by commas; all installed ones without it")
    parser.add_argument("--rounds", type=int, default=9, help="samples of each peer and workload")
    parser.add_argument("--dry", action="store_true", help="leave history and pictures alone")
    options = parser.parse_args()
    peers = [p for p in installed() if not options.peers or p.name in options.peers.split(",")]
    wanted = options.only.split(",") if options.only else [*driver.names(), "startup"]
    record = {**history.describe(peers), "rounds": options.rounds, "results": {}}
    for workload in wanted:
        if workload == "startup":
            results = driver.measure_startup(peers)
            show_startup(results)
        else:
            results = driver.measure(workload, peers, options.rounds)
            show(workload, results)
        record["results"][workload] = results
    if not options.dry:
        history.append(record)
        chart.draw_all()


if __name__ == "__main__":
    main()
