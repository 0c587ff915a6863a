"""What kernels print on a GPU that WebGPU reaches."""

from __future__ import annotations

import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.targets import table
from quadrants.targets.artifact import PrintFormat
from quadrants.targets.webgpu import status

pytestmark = pytest.mark.slow


def test_a_record_without_room_is_left_out() -> None:
    form = PrintFormat(("", "\n"), ("",), ("i32",))
    assert status.printed([7, 0, 1, 0, 7, 0, 2, 0, 0, 0], {7: form}) == ["1\n", "2\n"]


def test_prints_beyond_the_room_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    reason = table.missing(knobs.Arch.vulkan)
    if reason:
        pytest.skip(reason)
    qd.init(arch=qd.vulkan, offline_cache=False, enable_fallback=False, log_level="error")

    @qd.kernel
    def say(count):
        for i in range(count):
            print(i, -i)

    try:
        say(180_000)
        room = status.PRINT_WORDS // 6  # a record's number, and two values of two words each
        *printed, lost = capsys.readouterr().out.splitlines()
        count = 4 * (6 * 180_000 - status.PRINT_WORDS)
        assert (
            lost
            == f"[Quadrants] {count} bytes of what a kernel printed are lost: there is room for {4 * status.PRINT_WORDS}"
        )
        assert len(printed) == len(set(printed)) == room
        assert all(line == f"{line.split()[0]} {-int(line.split()[0])}" for line in printed)
        say(2)
        assert sorted(capsys.readouterr().out.splitlines()) == ["0 0", "1 -1"]
    finally:
        qd.reset()
