"""`qd.init`, `qd.reset`, `qd.sync`, the targets, and the live configuration `qd.cfg`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from quadrants import knobs
from quadrants.ir import types
from quadrants.knobs import Arch
from quadrants.lang import log
from quadrants.lang.arch import Wish, adopt_floats, choose
from quadrants.lang.types import use_python_widths
from quadrants.runtime import threads
from quadrants.targets import table
from quadrants.targets.device import live

__all__ = [
    "amdgpu",
    "arm64",
    "config",
    "cpu",
    "cuda",
    "d3d12",
    "dump_compile_config",
    "extension",
    "gpu",
    "init",
    "is_extension_enabled",
    "metal",
    "on_sync",
    "python",
    "reference",
    "reset",
    "supported_archs",
    "sync",
    "vulkan",
    "x64",
    "x86_64",
]

x64 = x86_64 = Arch.x64
arm64 = Arch.arm64
cuda = Arch.cuda
metal = Arch.metal
d3d12 = Arch.d3d12
vulkan = Arch.vulkan
amdgpu = Arch.amdgpu
python = Arch.python
reference = Arch.reference
cpu = knobs.host_arch()
gpu = list(knobs.GPUS)

_sync_callbacks: list[Callable[[], None]] = []


def supported_archs() -> frozenset[Arch]:
    """The targets that this installation can compile for and run on this machine."""
    return table.supported()


def init(
    arch: Wish | None = None,
    default_fp: Any = None,
    default_ip: Any = None,
    *,
    enable_fallback: bool = True,
    require_version: str | None = None,
    print_non_pure: bool = False,
    src_ll_cache: bool = True,
    _test_mode: bool = False,
    **options: Any,
) -> None:
    """Choose target and options. Optional: without it the host's CPU and Python's widths (i64, f64) are used.

    `arch` is a target or a list of which the first supported one is taken ("cuda,vulkan" is a list, too); if none is, the
    CPU is taken with a warning when `enable_fallback`, else RuntimeError. QD_ARCH, of that form, wins over it. `default_ip` (i32, i64) and `default_fp` (f16, f32, f64) are the types of
    weak numbers, i32 and f32 if not given. `options` are those of `quadrants.knobs`; KeyError for others.
    All fields and ndarrays made before are freed. `print_non_pure`, `src_ll_cache` and `_test_mode` have no effect.
    """
    del print_non_pure, src_ll_cache, _test_mode
    _check_names(options)
    if require_version is not None:
        _check_version(require_version)
    settings = dict(options)
    if default_fp is not None:
        settings["default_fp"] = default_fp
    if default_ip is not None:
        settings["default_ip"] = default_ip
    reset()
    try:
        chosen = _apply(arch, settings, enable_fallback)
    except BaseException:  # an interrupt, too: no half state stays
        _restore()
        raise
    log.info(f"Starting on arch={chosen.name}")


def _apply(arch: Wish | None, settings: dict[str, Any], enable_fallback: bool) -> Arch:
    state = knobs.current
    state.restore(settings)
    wish, state.wished = state.wished or arch, ()
    state.arch = chosen = choose(wish, enable_fallback)
    state.default_float = _default_type("default_fp", state.default_fp, types.f32)
    adopt_floats(chosen)
    state.default_fp = state.default_float
    state.default_int = state.default_ip = _default_type("default_ip", state.default_ip, types.i32)
    state.initialised = True
    _hand_over()
    return chosen


def _hand_over() -> None:
    """Gives the runtime the options that it keeps for itself."""
    threads.set_count(min(knobs.current.cpu_max_num_threads, threads.LARGEST_COUNT))
    threads.seed_random(knobs.current.random_seed)


def _check_names(options: dict[str, Any]) -> None:
    if "default_up" in options:
        raise KeyError("'default_up' is always the unsigned type of default_ip's width")
    unknown = [name for name in options if not knobs.is_known(name)]
    if unknown:
        raise KeyError(f"Unrecognized keyword argument(s) for qd.init: {', '.join(unknown)}")


def _check_version(required: str) -> None:
    parts = required.split(".")
    if len(parts) not in (2, 3) or not all(part.isdigit() for part in parts):
        raise ValueError(f"require_version takes 'major.minor' or 'major.minor.patch', not {required!r}")
    wanted = tuple(map(int, parts))
    installed: tuple[int, ...] = getattr(sys.modules["quadrants"], "__version__")  # noqa: B009 - set by the root
    if wanted[0] != installed[0] or installed < wanted:
        raise Exception(f"Quadrants {required} is required, but {'.'.join(map(str, installed))} is installed")


def _default_type(option: str, value: Any, default: types.ScalarType) -> types.ScalarType:
    family = "f" if option == "default_fp" else "i"
    named = {16: types.f16, 32: types.f32, 64: types.f64} if family == "f" else {32: types.i32, 64: types.i64}
    if value is None:
        return default
    if isinstance(value, int) and value in named:
        return named[value]
    if isinstance(value, types.ScalarType) and value in named.values():
        return value
    raise ValueError(f"{option} must be one of {', '.join(map(str, named.values()))}, not {value!r}")


def reset() -> None:
    """Free all fields and ndarrays, forget compiled code, and go back to the state before `qd.init`."""
    sync()
    knobs.run_reset_callbacks()
    _restore()


def _restore() -> None:
    knobs.current.restore({})
    use_python_widths()
    _hand_over()


def on_sync(callback: Callable[[], None]) -> Callable[[], None]:
    """Have `callback` called by every `qd.sync`; usable as a decorator."""
    _sync_callbacks.append(callback)
    return callback


def sync() -> None:
    """Wait until everything launched has run; raises what a kernel reported meanwhile (failed assertions)."""
    for callback in _sync_callbacks:
        callback()
    live.synchronise()


def config() -> knobs.State | None:
    """The live configuration that `qd.cfg` shows: every option as an attribute; None before `qd.init`."""
    return knobs.current if knobs.current.initialised else None


def dump_compile_config() -> None:
    """Print all options as sorted lines `name=value`."""
    for name in knobs.option_names():
        print(f"{name}={getattr(knobs.current, name)}")


class _Extensions:
    """The names of optional features of targets, for `qd.is_extension_enabled`."""

    __slots__ = ()
    sparse = "sparse"
    quant = "quant"
    quant_basic = "quant_basic"
    mesh = "mesh"
    data64 = "data64"
    adstack = "adstack"
    bls = "bls"
    assertion = "assertion"
    extfunc = "extfunc"


extension = _Extensions
_EXTENSIONS_HERE = frozenset({"data64", "assertion"})


def is_extension_enabled(name: str) -> bool:
    """Whether the present target has optional feature `name`, one of `qd.extension`; ValueError for another name."""
    if not hasattr(_Extensions, name) or name.startswith("_"):
        raise ValueError(f"{name!r} is not one of qd.extension's features")
    return name in _EXTENSIONS_HERE


_hand_over()
