"""Pictures of the history: our time against the rivals' now (bars), and the ratios over commits (lines)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import history

IMAGES = Path(__file__).parent.parent / "docs" / "images"
HIGHEST = 30  # bars end there and carry their number
COLOURS = {
    "ours": "#d9480f",
    "cpp": "#495057",
    "python": "#adb5bd",
    "numba": "#1c7ed6",
    "warp": "#74b816",
    "taichi": "#7048e8",
    "upstream": "#c2255c",
}


def latest(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The newest results of each workload that has a valid time of ours."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        for workload, results in record["results"].items():
            if workload != "startup" and history.valid(results.get("ours", {})):
                found[workload] = results
    return found


def caption(records: list[dict[str, Any]]) -> str:
    """Machine, commit and versions of the newest run of our workloads."""
    record = next(r for r in reversed(records) if any("ours" in results for results in r["results"].values()))
    machine = record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items() if name != "ours")
    return (
        f"{machine['processor']}, {machine['cores']} cores; commit {record['commit'][:7]}; {versions}; make peers bench"
    )


def bars(records: list[dict[str, Any]], path: Path) -> None:
    """Time of each peer over ours, a group of bars a workload; wrong answers are left out and marked."""
    from matplotlib import pyplot

    workloads = latest(records)
    peers = [name for name in COLOURS if name != "ours" and any(name in r for r in workloads.values())]
    figure, axes = pyplot.subplots(figsize=(10, 3.6), dpi=130)
    width = 0.85 / max(1, len(peers))
    for place, peer in enumerate(peers):
        for group, results in enumerate(workloads.values()):
            result, x = results.get(peer), group + (place - len(peers) / 2 + 0.5) * width
            if result is None or not result["ok"]:
                continue
            if history.valid(result):
                ratio = result["quiet"] / results["ours"]["quiet"]
                axes.bar(x, min(ratio, HIGHEST) - 1, width, bottom=1, color=COLOURS[peer])
                if ratio > HIGHEST:
                    axes.text(x, HIGHEST, f" {ratio:.0f}", rotation=90, ha="center", va="bottom", fontsize=7)
            else:
                axes.text(x, 1.05, "wrong", rotation=90, ha="center", va="bottom", fontsize=6, color=COLOURS[peer])
    axes.axhline(1, color=COLOURS["ours"], linewidth=1.5)
    axes.set_yscale("log")
    axes.set_xticks(range(len(workloads)), list(workloads), rotation=20, fontsize=8)
    axes.set_ylabel("time / our time\n(above the line: slower than ours)", fontsize=8)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=COLOURS[peer]) for peer in peers]
    axes.legend(handles, peers, fontsize=8, ncols=len(peers), loc="upper left", frameon=False)
    axes.set_ylim(top=4 * HIGHEST)
    axes.set_yticks([0.3, 1, 3, 10, 30], ["0.3", "1", "3", "10", "30"])
    axes.minorticks_off()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(caption(records), fontsize=7, loc="left", color="#495057")
    save(figure, path)


def over_commits(records: list[dict[str, Any]], path: Path) -> None:
    """Our time over the fastest right rival's, a line a workload, a step a run."""
    from matplotlib import pyplot

    lines: dict[str, list[tuple[int, float]]] = {}
    for step, record in enumerate(records):
        for workload, results in record["results"].items():
            if workload == "startup" or not history.valid(results.get("ours", {})):
                continue
            others = [r["quiet"] for r in history.rivals(results).values()]
            if others:
                lines.setdefault(workload, []).append((step, results["ours"]["quiet"] / min(others)))
    figure, axes = pyplot.subplots(figsize=(10, 4), dpi=130)
    for workload, points in sorted(lines.items()):
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=workload)
    axes.axhline(1, color="black", linewidth=1)
    axes.set_yscale("log")
    commits = [record["commit"][:7] for record in records]
    axes.set_xticks(range(len(commits)), commits, rotation=45, fontsize=7)
    axes.set_ylabel("our time / fastest rival's", fontsize=8)
    axes.legend(fontsize=7, ncols=2, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Software": None})
    pyplot.close(figure)
    print(f"wrote {path}")


def draw_all() -> None:
    """Draws both pictures from the history into docs/images."""
    import matplotlib

    matplotlib.use("Agg")
    records = history.read()
    bars(records, IMAGES / "benchmarks.png")
    over_commits(records, IMAGES / "history.png")


if __name__ == "__main__":
    draw_all()
