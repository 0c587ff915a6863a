"""What kernels print on a GPU that WebGPU reaches."""

from __future__ import annotations

import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.targets import table
from quadrants.targets.artifact import PrintFormat
from quadrants.targets.webgpu import status

pytestmark = pytest.mark.slow


def test_a_record_without_room_is_left_out() -> None:
    form = PrintFormat(("", "\n"), ("",), ("i32",))
    assert status.printed([7, 0, 1, 0, 7, 0, 2, 0, 0, 0], {7: form}) == ["1\n", "2\n"]


def test_prints_beyond_the_room_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    reason = table.missing(knobs.Arch.vulkan)
    if reason:
        pytest.skip(reason)
    qd.init(arch=qd.vulkan, offline_cache=False, enable_fallback=False, log_level="error")

    @qd.kernel
    def say(count):
        for i in range(count):
            print(i, -i)

    try:
        with pytest.raises(QuadrantsUnsupportedError, match="printed more than its device keeps"):
            say(180_000)
        room = status.PRINT_WORDS // 6  # a record's number, and two values of two words each
        printed = capsys.readouterr().out.splitlines()
        assert len(printed) == len(set(printed)) == room
        assert all(line == f"{line.split()[0]} {-int(line.split()[0])}" for line in printed)
        say(2)
        assert sorted(capsys.readouterr().out.splitlines()) == ["0 0", "1 -1"]
    finally:
        qd.reset()
