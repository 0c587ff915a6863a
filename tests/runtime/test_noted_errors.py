"""Errors that wait until machine code has returned."""

from __future__ import annotations

import threading

from quadrants.targets.device.failures import NOTED, note, noted


def test_each_thread_gets_its_own_error() -> None:
    mine = ValueError("mine")
    assert note(mine) == NOTED
    other = threading.Thread(target=note, args=(ValueError("another thread's"),))
    other.start()
    other.join()
    assert noted() is mine


def test_an_error_is_told_once() -> None:
    note(ValueError())
    assert isinstance(noted(), ValueError)
    assert isinstance(noted(), KeyboardInterrupt), "only an interrupt keeps who is called back from noting anything"
