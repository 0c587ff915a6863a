"""Random programs of block loops, and of what devices do in ways of their own: their second opinion, what they have in them,
and a few on every target."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.evidence.fuzz.block_code import Branch, parts
from quadrants.evidence.fuzz.block_programs import BlockLoop, BlockProgram
from quadrants.evidence.fuzz.block_trial import KINDS, TARGETS, Way, check, check_apart, reduced, told, way_of
from quadrants.evidence.fuzz.block_worlds import World, team_reduce, team_scan, team_shuffle
from quadrants.evidence.fuzz.device_programs import DeviceProgram
from quadrants.evidence.fuzz.thresholds import thresholds
from quadrants.evidence.fuzz.trial import check_on, load, settings_on
from quadrants.targets import table

pytestmark = pytest.mark.slow

FEATURES = (
    "block.SharedArray((",
    "_2)",
    "swapped(s",
    "twice(",
    "qd.atomic_max(s",
    "qd.atomic_max(h",
    "block.exclusive_",
    "block.sync_count_nonzero(",
    "subgroup.segmented_reduce_",
    "_tiled(",
    "subgroup.ballot(",
    "subgroup.elect(",
    "warp.match_any(",
    "while ",
    "continue",
    "break",
    "qd.ndrange(",
    "for j in range(",
    "own[",
    "qd.bit_cast(block.",
    "range(n",
)

IN_BLOCKS = (
    "reductions in blocks",
    "scattered sums in shared memory",
    "contractions in shared memory",
    "boxes in shared memory",
    "loops shared by teams",
)
"""What the compiler counts where a device's threads work together on a plain loop."""


def test_a_seed_gives_one_program() -> None:
    assert BlockProgram(5).text() == BlockProgram(5).text() != BlockProgram(6).text()


def test_programs_have_everything_in_them() -> None:
    texts = "\n".join(BlockProgram(seed).text().partition("def program(")[2] for seed in range(240))
    assert [feature for feature in FEATURES if feature not in texts] == []


def test_what_teams_come_to() -> None:
    """Two blocks of 5 threads, of which the last has 3; teams of 4; the second member of the first team is not there."""
    world = World(8, 5, {}, {})
    value = np.array([[1, 20, 3, 4, 50], [6, 7, 8, 99, 99]], np.int64)
    mask = world.there & (world.flat != 1)
    assert world.width.tolist() == [[5] * 5, [3] * 5]

    def of_members(found: np.ndarray) -> list[list[int]]:
        return np.where(mask, found, 0).tolist()

    assert of_members(team_reduce(world, value, mask, "add", 4)) == [[8, 0, 8, 8, 50], [21, 21, 21, 0, 0]]
    assert of_members(team_reduce(world, value, mask, "max", 0)) == [[50, 0, 50, 50, 50], [8, 8, 8, 0, 0]]
    assert of_members(team_scan(world, value, mask, "add", 4, False)) == [[1, 0, 4, 8, 50], [6, 13, 21, 0, 0]]
    assert of_members(team_scan(world, value, mask, "mul", 4, True)) == [[1, 0, 1, 3, 1], [1, 6, 42, 0, 0]]
    behind = team_shuffle(world, value, mask, world.thread % 4 + 1, 4)
    assert behind.tolist()[0] == [1, 3, 4, 4, 50] and behind[1, :3].tolist() == [7, 8, 8]


def test_teams_add_up_in_halves() -> None:
    world = World(7, 8, {}, {})
    value = np.array([[1, 2**-24, 2**-24, 2**-24, 1, 0, 2**-24, 0]], np.float32)
    halves = [((value[0, 0] + value[0, 1]) + (value[0, 2] + value[0, 3])), (value[0, 4] + value[0, 5]) + value[0, 6]]
    found = team_reduce(world, value, world.there, "add", 0)
    assert found[0, 0] == np.float32(halves[0]) + np.float32(halves[1]) != value[0, :7].sum(dtype=np.float64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(4))
def test_random_program(seed: int, target: str, kind: str) -> None:
    if target == "vulkan":
        if reason := table.missing(knobs.Arch.vulkan):
            pytest.skip(reason)
        _in_a_new_process(seed, target, kind)
        return
    failure = check_apart(KINDS[kind](seed), way_of(seed, target))
    if failure is not None and failure.kind == "missing":
        pytest.skip(failure.text)
    assert failure is None


def _in_a_new_process(seed: int, target: str, kind: str) -> None:
    """The same where other tests may have opened the GPU in this process: drivers do not work behind a fork."""
    command = [
        sys.executable,
        "-m",
        "quadrants.evidence.fuzz",
        f"--{kind}",
        target,
        "--seed",
        str(seed),
        "--programs",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "1 runs, 0 failures, 0 refused" in done.stdout, done.stdout + done.stderr


def test_a_difference_is_told_and_the_program_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    program = BlockProgram(2)
    right = BlockProgram.expected

    def wrong(self: BlockProgram) -> list[np.ndarray]:
        """What programs with a branch mean, but for the first number of the last array."""
        found = right(self)
        loops = [loop for loop in self.loops if isinstance(loop, BlockLoop)]
        branches = [1 for loop in loops for body in loop.bodies for all_, k in parts(body) if type(all_[k]) is Branch]
        found[-1].flat[0] += bool(branches)
        return found

    way = Way("x64", {})
    assert check(program, way) is None
    before = len(program.text())
    monkeypatch.setattr(BlockProgram, "expected", wrong)
    failure = check(program, way)
    assert failure is not None and failure.kind == "value"
    assert reduced(program, way, failure, seconds=60).kind == "value"
    assert len(program.text()) < before / 2 and "if " in program.text()


def test_devices_do_what_pays_in_blocks(tmp_path: Path) -> None:
    missing = set(IN_BLOCKS)
    with thresholds(True):
        for seed in range(60):
            qd.init(arch=knobs.Arch.simulated, default_ip=qd.i32, log_level="error")
            program = DeviceProgram(seed)
            kernel: Any = qd.kernel(load(program.text(), tmp_path, f"program_{seed}").program)
            kernel(*program.arguments())
            missing -= {name for name in missing if name in kernel.report()}
            if not missing:
                break
    qd.reset()
    assert not missing


@pytest.mark.parametrize("target", ["kernel", "simulated", "cuda"])
@pytest.mark.parametrize("seed", range(20, 24))
def test_programs_of_cpus_on_devices(seed: int, target: str) -> None:
    assert check_on(seed, settings_on(seed, target)) is None


def test_a_program_that_is_right_is_not_made_smaller() -> None:
    assert told("blocks", 1, "x64", 1.0).endswith("nothing is wrong\n")
