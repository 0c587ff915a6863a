"""Every option and environment variable, typed and documented, in this one place.

An option is set by `qd.init(name=value)`, else by the environment variable `QD_<NAME>` (empty means unset), else it
has its default. `knobs.current` is the state that the whole package reads; it is one object for the life of the
process, changed in place by `qd.init` and `qd.reset`. This module imports nothing of the package.
"""

from __future__ import annotations

import enum
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from quadrants.records import Field, MutableRecord, Record

__all__ = ["INERT", "MOST_LANES", "Arch", "Inert", "Options", "State", "are_lanes", "current", "on_reset"]


class Arch(enum.IntEnum):
    """The targets that a program can ask for. The numbers are stable."""

    x64 = 0
    arm64 = 1
    cuda = 2
    metal = 3
    vulkan = 4
    amdgpu = 5
    python = 6
    reference = 7
    simulated = 8
    d3d12 = 9

    def __str__(self) -> str:
        return f"Arch.{self.name}"

    __repr__ = __str__


GPUS = (Arch.cuda, Arch.metal, Arch.vulkan, Arch.amdgpu)
"""What `qd.gpu` and the name 'gpu' stand for: the first of them that is there."""


def _option(default: Any, doc: str, factory: Callable[[], Any] | None = None) -> Any:
    return Field(factory or (lambda: default), doc)


MOST_LANES = 64
"""More vectors than any processor has registers for."""


def are_lanes(number: int) -> bool:
    """Whether so many iterations can run as vector lanes."""
    return 1 <= number <= MOST_LANES and number & (number - 1) == 0


def hardware_threads() -> int:
    """The number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_cache_directory() -> str:
    """Where compiled kernels are kept unless the user says otherwise."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(root, "quadrants")


class Options(MutableRecord):
    """The options that do something. Types are checked when they are set."""

    arch: Arch | None = _option(
        None,
        "Target, or several of which the first that is there is taken; None is the host's CPU. QD_ARCH (cuda,vulkan) wins.",
    )
    default_fp: Any = _option(None, "Type of weak floats. QD_DEFAULT_FP is 32 or 64.")
    default_ip: Any = _option(None, "Type of weak integers. QD_DEFAULT_IP is 32 or 64.")
    debug: bool = _option(False, "Assertions, bounds, overflow, division by zero, races; implies check_out_of_bound.")
    check_out_of_bound: bool = _option(False, "Check indices of fields and arrays in kernels.")
    wraparound: bool = _option(True, "Run-time negative indices of arrays count from the end, as in Python.")
    deterministic: bool = _option(False, "Float atomics, too, give the same bits in every run.")
    cpu_max_num_threads: int = _option(0, "Threads of parallel loops on CPUs.", hardware_threads)
    opt_level: int = _option(1, "0: only the passes that meaning requires; 1: all.")
    autotune: bool = _option(
        True, "Try variants of long-running kernels, which give the same bits, on real launches, and keep the fastest."
    )
    graph_loops: bool = _option(
        True,
        "GPUs decide on loops and branches of kernels with graph=True by themselves, where their drivers can; else the host looks.",
    )
    libraries: str = _option(
        "off",
        "Large products of matrices by a BLAS, which rounds in its own way: 'off', 'auto' (one that is found, where it "
        "was measured to be faster), or a library's path.",
    )
    lanes: int = _option(
        0, "Iterations of a parallel loop that run as vector lanes: 0 is the compiler's choice, 1 none."
    )
    subgroup_size: int = _option(32, "Threads of a subgroup in loops that use qd.simt: 8, 16, 32 or 64.")
    warpgroups: bool = _option(
        True,
        "Products on tensor cores by NVIDIA's Hopper in its own way (wgmma), where its GPU is asked and they are right.",
    )
    verify: bool = _option(False, "Verify the IR after every pass, not only at stage borders.")
    disable_passes: tuple[str, ...] = _option((), "Names of optional passes to leave out (environment: a,b,c).")
    stop_after: str = _option("", "Name of the pass after which compilation stops.")
    print_ir: bool | str = _option(False, "True: print the IR after every pass; a pass's name: after that pass.")
    offline_cache: bool = _option(True, "Keep compiled kernels on disk.")
    offline_cache_file_path: str = _option("", "Folder of the disk cache.", default_cache_directory)
    offline_cache_max_size_of_files: int = _option(104857600, "Bytes that the disk cache may take.")
    offline_cache_cleaning_policy: str = _option("lru", "What leaves a full disk cache: 'lru', 'fifo' or 'never'.")
    offline_cache_cleaning_factor: float = _option(0.25, "Share of the disk cache that one cleaning removes.")
    random_seed: int = _option(0, "Seed of qd.random.")
    kernel_profiler: bool = _option(False, "Time every launch for qd.profiler; each then goes through Python.")
    log_level: str = _option("info", "trace, debug, info, warn, error, critical or off.")
    print_full_traceback: bool = _option(False, "Compile errors keep the compiler's own frames.")
    raise_on_templated_floats: bool = _option(False, "ValueError when a Python float is specialised on.")


class Inert(Record):
    """An option of upstream that is accepted, kept in `qd.cfg` and has no effect here; `reason` says why."""

    default: Any
    reason: str


_ALWAYS = "The compiler decides this by itself, from what the code and the target allow."
_GPU = "Only for GPU targets, which take their own limits from the device."
_DUMP = "Dumps of this form do not exist here: see print_ir and kernel.report()."
_MESH = "Belongs to mesh loops."
_STACK = "Reverse-mode storage is sized at run time by need."

_INERT_BY_REASON: dict[str, dict[str, Any]] = {
    "Floats stay IEEE in meaning (NaN, infinities and signed zeros are kept); approximations are opt-in per kernel.": {
        "fast_math": True
    },
    "The default unsigned type follows default_ip.": {"default_up": None},
    "`and`, `or` and conditional expressions are always lazy.": {"short_circuit_operators": True},
    "Static loops of any length unroll without a warning.": {"unrolling_limit": 32},
    "No debugger is attached on a fault.": {"gdb_trigger": False},
    "The profiler lists launches in their order: qd.profiler.print_kernel_profiler_info('trace').": {"timeline": False},
    _ALWAYS: {
        "advanced_optimization": True,
        "cfg_optimization": True,
        "num_compile_threads": 4,
        "default_cpu_block_dim": 32,
        "make_thread_local": True,
        "make_block_local": True,
        "detect_read_only": True,
        "demote_dense_struct_fors": True,
        "real_matrix_scalarize": True,
        "make_cpu_multithreading_loop": True,
        "cache_loop_invariant_global_vars": True,
        "quant_opt_store_fusion": True,
        "quant_opt_atomic_demotion": True,
        "flatten_if": False,
        "force_scalarize_matrix": False,
        "half2_vectorization": False,
        "move_loop_invariant_outside_if": False,
    },
    _MESH: {
        "optimize_mesh_reordered_mapping": True,
        "mesh_localize_to_end_mapping": True,
        "mesh_localize_from_end_mapping": False,
        "mesh_localize_all_attr_mappings": False,
        "make_mesh_block_local": True,
        "demote_no_access_mesh_fors": True,
        "experimental_auto_mesh_local": False,
        "auto_mesh_local_default_occupacy": 4,
    },
    _STACK: {
        "ad_stack_experimental_enabled": False,
        "ad_stack_size": 0,
        "ad_stack_sparse_threshold_bytes": 104857600,
    },
    _DUMP: {
        "print_preprocessed_ir": False,
        "print_accessor_ir": False,
        "print_ir_dbg_info": False,
        "print_struct_llvm_ir": False,
        "print_kernel_llvm_ir": False,
        "print_kernel_llvm_ir_optimized": False,
        "print_kernel_asm": False,
        "print_kernel_amdgcn": False,
        "debug_dump_path": "",
    },
    _GPU: {
        "default_gpu_block_dim": 128,
        "max_block_dim": 1024,
        "saturating_grid_dim": 0,
        "device_memory_GB": 1.0,
        "device_memory_fraction": 0.0,
        "cuda_stack_limit": 0,
        "vk_api_version": "",
        "external_metal_command_queue": 0,
        "external_metal_command_queue_is_torch_queue": False,
    },
}

INERT: dict[str, Inert] = {
    name: Inert(default, reason) for reason, group in _INERT_BY_REASON.items() for name, default in group.items()
}


def _parse_text(name: str, text: str) -> Any:
    """The value of option `name` that an environment variable's text stands for; ValueError if it has none."""
    default = INERT[name].default if name in INERT else getattr(Options(), name)
    if name == "arch":
        return archs_by_name(text)
    if name in ("default_fp", "default_ip"):
        if text not in ("32", "64"):
            raise ValueError(f"QD_{name.upper()} must be 32 or 64, not {text!r}")
        return int(text)
    if name == "print_ir" and text not in ("0", "1"):
        return text
    if isinstance(default, bool):
        return bool(int(text))
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return type(default)(text) if default is not None else text


def arch_by_name(text: str) -> Arch:
    """The target of that name ('cpu' is the host's), in letters of either case; ValueError if there is none."""
    name = text.strip().lower()
    name = {"cpu": host_arch().name, "x86_64": "x64"}.get(name, name)
    if name not in Arch.__members__:
        raise ValueError(f"{text!r} is not a target; there are cpu, gpu, {', '.join(Arch.__members__)}")
    return Arch[name]


def archs_by_name(text: str) -> tuple[Arch, ...]:
    """The targets of names with commas between them ('gpu' is each of `GPUS`); ValueError if one is none."""
    names = text.split(",")
    return tuple(arch for name in names for arch in (GPUS if name.strip().lower() == "gpu" else (arch_by_name(name),)))


def host_arch() -> Arch:
    """The target of this machine's CPU."""
    import platform

    return Arch.arm64 if platform.machine().lower() in ("arm64", "aarch64") else Arch.x64


def read_environment() -> dict[str, Any]:
    """The options that the environment sets, converted; ValueError names a variable that does not convert."""
    found: dict[str, Any] = {}
    given = {name: text for name, text in os.environ.items() if name.startswith("QD_")}
    for name in [*Options.fields(), *INERT]:
        text = given.get(f"QD_{name.upper()}", "")
        if text:
            try:
                found[name] = _parse_text(name, text)
            except ValueError as error:
                raise ValueError(f"environment variable QD_{name.upper()}={text}: {error}") from None
    return found


class State(Options):
    """The options in force, and what follows from them.

    `initialised` is False before `qd.init` and after `qd.reset`; `default_int` and `default_float` are the types of
    weak numbers (Python's widths until `qd.init`; the language layer sets them), and `widest_float` is what a kernel is
    given Python's floats as, f64 where the target has it. `wished` are the targets that QD_ARCH asks
    for, until one is chosen (lang/arch.py). `epoch` grows at every reset: what was compiled or allocated under
    an older epoch is gone. `inert` holds the accepted options without effect.
    """

    def __init__(self) -> None:
        self.epoch = -1
        self.initialised = False
        self.inert: dict[str, Any] = {}
        self.default_int: Any
        self.default_float: Any
        self.widest_float: Any
        self.wished: tuple[Arch, ...] = ()
        self.restore({})

    def restore(self, settings: Mapping[str, Any]) -> None:
        """Set every option to its default, then apply the environment and `settings`, and begin a new epoch."""
        Options.__init__(self)
        self.initialised = False
        self.inert = {name: entry.default for name, entry in INERT.items()}
        environment = read_environment()
        for name in environment.keys() & settings.keys():
            if environment[name] != settings[name]:
                warnings.warn(f"qd.init({name}={settings[name]!r}) wins over QD_{name.upper()}", stacklevel=4)
        self.wished = environment.pop("arch", ())
        for name, value in {**environment, **settings}.items():
            self.assign(name, value)
        self.check_out_of_bound = self.check_out_of_bound or self.debug
        self.epoch += 1

    def assign(self, name: str, value: Any) -> None:
        """Set one option after checking its type; KeyError for a name that is none, TypeError or ValueError for a
        value that does not fit."""
        if name in INERT:
            self.inert[name] = value
        elif name in _OPTION_NAMES:
            setattr(self, name, _checked(name, value))
        else:
            raise KeyError(f"Unrecognized keyword argument(s) for qd.init: {name}")

    def __getattr__(self, name: str) -> Any:
        inert = self.__dict__.get("inert", {})
        if name in inert:
            return inert[name]
        raise AttributeError(f"there is no option {name!r}")


_OPTION_NAMES = frozenset(Options.fields())
_CHOICES: dict[str, tuple[str, ...]] = {
    "log_level": ("trace", "debug", "info", "warn", "error", "critical", "off"),
    "offline_cache_cleaning_policy": ("lru", "fifo", "never", "version"),
}


def _checked(name: str, value: Any) -> Any:
    default = getattr(Options(), name)
    if name in ("arch", "default_fp", "default_ip", "print_ir"):
        return value
    if isinstance(default, tuple):
        return (value,) if isinstance(value, str) else tuple(value)
    if isinstance(default, bool) and isinstance(value, int):
        return bool(value)
    if isinstance(default, float) and isinstance(value, int):
        return float(value)
    if isinstance(default, str) and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, type(default)):
        raise TypeError(f"qd.init({name}=…) takes {type(default).__name__}, not {value!r}")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ValueError(f"qd.init({name}={value!r}): one of {', '.join(_CHOICES[name])} is expected")
    if name == "lanes" and value and not are_lanes(value):
        raise ValueError(f"qd.init(lanes={value}): 0 or a power of two up to {MOST_LANES} is expected")
    if name == "subgroup_size" and value not in (8, 16, 32, 64):
        raise ValueError(f"qd.init(subgroup_size={value}): 8, 16, 32 or 64 is expected")
    if name == "cpu_max_num_threads" and value < 1:
        raise ValueError("qd.init(cpu_max_num_threads=…) must be at least 1")
    return value


def is_known(name: str) -> bool:
    """Whether `name` is an option, with or without effect."""
    return name in INERT or name in _OPTION_NAMES


def option_names() -> list[str]:
    """The names of all options, with and without effect, sorted."""
    return sorted({*INERT, *_OPTION_NAMES})


def describe(name: str) -> str:
    """What option `name` does, or why it does nothing; KeyError if there is no such option."""
    if name in INERT:
        return f"Accepted without effect. {INERT[name].reason}"
    return Options.fields()[name].doc


current = State()

_reset_callbacks: list[Callable[[], None]] = []


def on_reset(callback: Callable[[], None]) -> Callable[[], None]:
    """Have `callback` called at every `qd.reset` and `qd.init`, before the options change; usable as a decorator."""
    _reset_callbacks.append(callback)
    return callback


def run_reset_callbacks() -> None:
    """Call what `on_reset` registered, in that order."""
    for callback in _reset_callbacks:
        callback()
