"""Devices of `wgpu` with less than the machine's has: what takes gigabytes elsewhere shows there with a few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

import quadrants as qd
from quadrants import knobs
from quadrants.targets import table
from quadrants.targets.webgpu.device import CHOICE, WebDevice, open_device
from quadrants.targets.webgpu.tasks import Tasks

REACH = 1 << 20
SMALL = {"max-storage-buffer-binding-size": REACH, "max-storage-buffers-per-shader-stage": 8}
"""A binding reaches a megabyte, and there are eight of them."""

Opened = Callable[[Mapping[str, int]], WebDevice]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens a device with limits, on which kernels run from then on."""
    if reason := table.missing(knobs.Arch.vulkan):
        pytest.skip(reason)
    with ExitStack() as stack:

        def opens(limits: Mapping[str, int]) -> WebDevice:
            device = stack.enter_context(CHOICE.using(open_device(limits)))
            qd.init(arch=qd.vulkan, offline_cache=False, enable_fallback=False, log_level="error")
            return device

        yield opens
        qd.reset()


@pytest.fixture
def small(opened: Opened) -> WebDevice:
    return opened(SMALL)


@pytest.fixture
def texts(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shaders that kernels are made of."""
    opened({})
    found: list[str] = []
    prepare = WebDevice.prepare

    def noted(self: WebDevice, *arguments: Any) -> Tasks:
        tasks = prepare(self, *arguments)
        found.extend(tasks.texts)
        return tasks

    monkeypatch.setattr(WebDevice, "prepare", noted)
    return found
