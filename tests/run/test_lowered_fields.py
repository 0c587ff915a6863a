"""Every field of the capability record, lowered by itself: programs give what they gave, by other code.

A field that is new needs a line in `LOWERED` or a test of its own: see the last test.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants.errors import QuadrantsUnsupportedError
from quadrants.records import replace
from quadrants.targets import simulated, table
from quadrants.targets.capability import CapabilityRecord
from quadrants.targets.simulated.profiles import PLAIN

COUNT = 203

LOWERED: list[tuple[str, Any]] = [
    ("vector_bits", 128),
    ("vector_bits", 0),
    ("maximum_vector_bits", 128),
    ("vector_registers", 16),
    ("vector_registers", 32),
    ("calling_convention", ""),
    ("lane_convention", ""),
    ("fast_gather", False),
    ("fast_gather", True),
    ("native_scatter", False),
    ("native_scatter", True),
    ("marked_vectors", True),
    ("mask_registers", False),
    ("fused_multiply_add", False),
    ("threads", False),
    ("exact_remainder", False),
]
"""Fields of the host's record with values that are no more than any host has, or that its code can do without."""


def escaping(x, out):
    for i in range(len(out)):
        a, n = x[i], 0
        while a * a < 4.0 and n < 30:
            a, n = a * a - 1.25 + x[i], n + 1
        out[i] = n


def gathered_and_scattered(x, order, out):
    qd.loop_config(vectorize=True)
    for i in range(len(out)):
        k = i
        while x[k] > 0.5:
            k = order[k]
        out[order[i]] = x[k] + k


def fused(x, out):
    for i in range(len(out)):
        out[i] = x[i] * x[i] + 1.0 / 3.0


def remainders(x, out):
    for i in range(len(out)):
        out[i] = (1000.0 * x[i]) % 0.7


def steps(n):
    return 0 if n <= 1 else 1 + (steps(n // 2) if n % 2 == 0 else steps(3 * n + 1))


def calls(x, out):
    for i in range(len(out)):
        out[i] = steps(i + 1) + x[i]


def prefixes(x, numbers):
    total = 0
    for i in range(len(numbers)):
        total += int(100.0 * x[i])
        numbers[i] = total


def products(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def _arguments(function: Callable[..., None], interpreted: bool) -> list[np.ndarray]:
    random = np.random.default_rng(5)
    x = random.uniform(-1.0, 1.0, COUNT)
    if function is products:
        n, m, k = (37, 35, 9) if interpreted else (96, 72, 80)
        return [random.random((n, k)), random.random((k, m)), np.zeros((n, m))]
    if function is gathered_and_scattered:
        x[::3] = 0.25
        return [x, (np.arange(COUNT) + 1) % COUNT, np.zeros(COUNT)]
    return [x, np.zeros(COUNT, np.int64 if function is prefixes else np.float64)]


PROGRAMS = (escaping, gathered_and_scattered, fused, remainders, calls, prefixes, products)


def _outcome(function: Callable[..., None], **options: Any) -> tuple[list[np.ndarray], str]:
    """The arguments behind one run, and the code that ran."""
    qd.init(default_ip=qd.i64, default_fp=qd.f64, offline_cache=False, log_level="error", **options)
    kernel = qd.kernel(function)
    arguments = _arguments(function, "arch" in options)
    kernel(*arguments)
    code = str(kernel.ir())
    artifact = kernel._compiled_last().artifact
    return arguments, code if artifact is None else "\n".join([code, *artifact.texts])


@pytest.fixture(scope="module")
def usual() -> dict[Any, tuple[list[np.ndarray], str]]:
    """What the programs give, and their code, with the record as it is."""
    return {function: _outcome(function, cpu_max_num_threads=4) for function in PROGRAMS}


def _agree(function: Any, found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12, err_msg=function.__name__)


@pytest.mark.slow
@pytest.mark.parametrize(("field", "value"), LOWERED, ids=[f"{field}={value!r}" for field, value in LOWERED])
def test_a_field_of_the_host(field: str, value: Any, usual: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs give the same; the code of one differs at least, unless the host's own field is that already."""
    target: Any = table.find(None)
    own: CapabilityRecord = target.record()
    lowered = replace(own, **{field: value, "version": f"{own.version}/{field}"})
    monkeypatch.setattr(target, "record", lambda machine=None: lowered)
    differ = []
    for function in PROGRAMS:
        found, code = _outcome(function, cpu_max_num_threads=4)
        _agree(function, found, usual[function][0])
        if code != usual[function][1]:
            differ.append(function.__name__)
    assert bool(differ) == (getattr(own, field) != value), f"the code differs of {differ}"


@pytest.mark.slow
def test_functions_are_written_out_where_the_target_has_none() -> None:
    def exponentials(x, out):
        for i in range(len(out)):
            out[i] = qd.exp(x[i])

    expected, code = _outcome(exponentials, arch="simulated")
    assert " = exp " in code
    with simulated.playing(replace(PLAIN, functions=frozenset())):
        found, code = _outcome(exponentials, arch="simulated")
        assert " = exp " not in code and " = fma " in code or " = mul " in code
    np.testing.assert_array_max_ulp(found[1], expected[1], 3)


def test_functions_of_c_are_refused_where_they_cannot_be_called() -> None:
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    library.cbrt.argtypes, library.cbrt.restype = [ctypes.c_double], ctypes.c_double
    cbrt = qd.extern(library.cbrt, pure=True)

    def roots(x, out):
        for i in range(len(out)):
            out[i] = cbrt(x[i])

    assert table.find(None).record().calls_c
    _outcome(roots)
    assert not PLAIN.calls_c
    with pytest.raises(QuadrantsUnsupportedError, match="the target simulated cannot call the C function cbrt"):
        _outcome(roots, arch="simulated")


@pytest.mark.slow
def test_launches_split_a_kernel_into_a_hosts_part_and_tasks() -> None:
    """The reference's record with `launches` is the simulated device's."""
    for function in PROGRAMS:
        expected, _ = _outcome(function, arch="reference")
        _agree(function, _outcome(function, arch="simulated")[0], expected)


IN_BLOCKS = replace(PLAIN, name="blocks", block_threads=256, subgroup_sizes=(32,), shared_memory_bytes=48 * 1024)
LOWERED_BLOCKS: list[tuple[str, Any]] = [
    ("block_threads", 64),
    ("block_threads", 0),
    ("subgroup_sizes", (8,)),
    ("subgroup_sizes", ()),
    ("shared_memory_bytes", 1024),
]


def sums(x, out):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    out[0] = total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "value"), LOWERED_BLOCKS, ids=[f"{field}={value!r}" for field, value in LOWERED_BLOCKS]
)
def test_a_field_of_a_device_with_blocks(field: str, value: Any) -> None:
    differ = []
    for function in (sums, products):
        expected, _ = _outcome(function, arch="simulated")
        with simulated.playing(IN_BLOCKS):
            found, usual_code = _outcome(function, arch="simulated")
            _agree(function, found, expected)
        with simulated.playing(replace(IN_BLOCKS, **{field: value})):
            found, code = _outcome(function, arch="simulated")
            _agree(function, found, expected)
        assert "threads = " in usual_code
        differ.append(code != usual_code)
    assert any(differ)


TEXTS = {"name", "version", "vector_constraint"}
"""Words, not what a target can or cannot do."""

ELSEWHERE = {
    "dtypes": ("run/test_lowered_records.py", "test_a_type_that_is_lacking_is_refused"),
    "float_atomics": (
        "amdgpu/test_assembled.py",
        "test_sums_that_meet_are_single_instructions_where_they_keep_denormals",
    ),
    "tensor_products": (
        "passes/test_stage_tiles.py",
        "test_tensor_cores_are_left_alone_where_they_are_not_there_or_not_wanted",
    ),
    "shared_products": (
        "passes/test_shared_tensor_code.py",
        "test_they_are_left_alone_where_they_are_not_there_or_not_wanted",
    ),
    "asynchronous_copies": ("cuda/test_grids.py", "test_products_load_each_element_once_a_block"),
    "launches": ("run/test_lowered_fields.py", test_launches_split_a_kernel_into_a_hosts_part_and_tasks.__name__),
    "calls_c": ("run/test_lowered_fields.py", test_functions_of_c_are_refused_where_they_cannot_be_called.__name__),
    "task_operations": ("run/test_split_tasks.py", "test_a_loop_is_split_piece_by_piece"),
    "team_barriers": ("webgpu/test_blocks.py", "test_members_of_a_subgroup_wait_with_the_block_or_in_turn"),
    "block_fences": ("webgpu/test_blocks.py", "test_fences_take_blocks_apart"),
    "finds_races": ("errors/test_shared_memory.py", "test_a_target_that_finds_no_races_takes_blocks_apart"),
    "functions": ("run/test_lowered_fields.py", test_functions_are_written_out_where_the_target_has_none.__name__),
}
"""Fields with a test of their own: its file and its name."""


def test_every_field_is_lowered() -> None:
    fields = {*TEXTS, *ELSEWHERE, *(field for field, _ in [*LOWERED, *LOWERED_BLOCKS])}
    assert fields == set(CapabilityRecord.fields())
    for path, name in ELSEWHERE.values():
        assert f"def {name}(" in (Path(__file__).parents[1] / path).read_text()
