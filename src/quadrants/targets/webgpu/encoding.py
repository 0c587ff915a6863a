"""Launches as commands of a compute pass. `wgpu`'s own methods take some eight calls of Python a command, for errors that its
encoders tell when they are finished anyway: where its library is at hand, that is called directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Command", "direct_encoder", "encode"]

Command = tuple[Any, Any, int, int]
"""A pipeline, its bind group, where the launch's parameters begin, and how many workgroups there are."""

Encoder = Callable[[Any, Sequence[Command]], None]

_FUNCTIONS = ("SetPipeline", "SetBindGroup", "DispatchWorkgroups")


def encode(work: Any, launches: Sequence[Command]) -> None:
    """Adds launches to a pass, by the methods of `wgpu`."""
    current = None
    for pipeline, group, place, groups in launches:
        if pipeline is not current:
            work.set_pipeline(pipeline)
            current = pipeline
        work.set_bind_group(0, group, [place])
        work.dispatch_workgroups(groups)


def direct_encoder() -> Encoder | None:
    """What does the same by the library's functions; None for a `wgpu` that has them elsewhere. Law: whoever calls it keeps pipelines
    and groups until the pass is submitted."""
    from wgpu.backends import wgpu_native

    lib, ffi = getattr(wgpu_native, "lib", None), getattr(wgpu_native, "ffi", None)
    found = [getattr(lib, f"wgpuComputePassEncoder{name}", None) for name in _FUNCTIONS]
    if ffi is None or None in found:
        return None
    set_pipeline, set_group, dispatch = (function for function in found if function is not None)

    def direct(work: Any, launches: Sequence[Command]) -> None:
        inside, current = work._internal, None
        places = ffi.new("uint32_t[]", [place for _, _, place, _ in launches])
        for k, (pipeline, group, _, groups) in enumerate(launches):
            if pipeline is not current:
                set_pipeline(inside, pipeline._internal)
                current = pipeline
            set_group(inside, 0, group._internal, 1, places + k)
            dispatch(inside, groups, 1, 1)

    return direct
