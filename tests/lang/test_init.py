from __future__ import annotations

import pytest

import quadrants.lang as qd
from quadrants import knobs
from quadrants.ir import types
from quadrants.lang.init import config
from quadrants.targets import table


def test_without_init_numbers_have_pythons_widths():
    assert not knobs.current.initialised and config() is None
    assert (knobs.current.default_int, knobs.current.default_float) == (types.i64, types.f64)


def test_init_gives_upstreams_widths_and_reset_takes_them_back():
    qd.init()
    assert (knobs.current.default_int, knobs.current.default_float) == (types.i32, types.f32)
    assert config() is knobs.current and config().arch is qd.cpu
    qd.init(default_fp=qd.f64, default_ip=qd.i64)
    assert (knobs.current.default_int, knobs.current.default_float) == (types.i64, types.f64)
    epoch = knobs.current.epoch
    qd.reset()
    assert knobs.current.epoch > epoch and not knobs.current.initialised


def test_unknown_keyword_is_refused_before_anything_changes():
    qd.init(debug=True)
    with pytest.raises(KeyError, match=r"Unrecognized keyword argument\(s\) for qd.init: foo"):
        qd.init(foo=1)
    with pytest.raises(KeyError, match="default_up"):
        qd.init(default_up=qd.u32)
    assert config().debug


@pytest.mark.parametrize("lanes", [-1, 3, 128])
def test_lanes_are_a_power_of_two(lanes: int) -> None:
    with pytest.raises(ValueError, match="0 or a power of two up to 64"):
        qd.init(lanes=lanes)


def test_failed_init_leaves_no_half_state():
    with pytest.raises(ValueError, match="default_fp must be one of"):
        qd.init(debug=True, default_fp=qd.i32)
    assert not knobs.current.debug and not knobs.current.initialised
    with pytest.raises(TypeError, match="opt_level"):
        qd.init(opt_level="fast")
    with pytest.raises(ValueError, match="log_level"):
        qd.init(log_level="loud")
    with pytest.raises(ValueError, match="at least 1"):
        qd.init(cpu_max_num_threads=0)


@pytest.mark.slow
def test_archs(capsys):
    assert qd.x86_64 is qd.x64 and int(qd.x64) == 0 and str(qd.x64) == "Arch.x64"
    qd.init(arch=qd.reference)
    assert knobs.current.arch is qd.reference
    assert "[Quadrants] Starting on arch=reference" in capsys.readouterr().out
    qd.init(arch=qd.gpu)
    assert knobs.current.arch is next((arch for arch in qd.gpu if not table.missing(arch)), qd.cpu)
    capsys.readouterr()
    qd.init(arch=qd.metal)
    assert knobs.current.arch is qd.cpu
    assert "not supported, falling back to" in capsys.readouterr().err
    qd.init(arch=[qd.metal, qd.reference], log_level="error")
    assert knobs.current.arch is qd.reference and capsys.readouterr().out == ""
    with pytest.raises(RuntimeError, match=r"Arch=\[Arch.metal\] is not supported"):
        qd.init(arch=qd.metal, enable_fallback=False)


def test_debug_implies_bounds_checks_and_inert_options_are_kept():
    qd.init(debug=True, fast_math=False, advanced_optimization=False)
    assert config().check_out_of_bound and config().fast_math is False and config().advanced_optimization is False
    assert "IEEE" in knobs.describe("fast_math")
    with pytest.raises(AttributeError):
        config().nonsense


def test_every_option_is_documented():
    for name in knobs.option_names():
        assert len(knobs.describe(name)) > 10


def test_environment(monkeypatch):
    monkeypatch.setenv("QD_DEBUG", "1")
    monkeypatch.setenv("QD_ARCH", "reference")
    monkeypatch.setenv("QD_DEFAULT_FP", "64")
    monkeypatch.setenv("QD_DISABLE_PASSES", "hoist, fuse")
    monkeypatch.setenv("QD_PRINT_IR", "promote")
    monkeypatch.setenv("QD_OPT_LEVEL", "")
    qd.init(arch=qd.cpu)
    state = knobs.current
    assert state.debug and state.arch is qd.reference and state.default_float is types.f64
    assert state.disable_passes == ("hoist", "fuse") and state.print_ir == "promote" and state.opt_level == 1
    with pytest.warns(UserWarning, match="wins over QD_DEBUG"):
        qd.init(debug=False)
    assert not knobs.current.debug
    monkeypatch.setenv("QD_DEFAULT_IP", "16")
    with pytest.raises(ValueError, match="QD_DEFAULT_IP"):
        qd.init()
    monkeypatch.delenv("QD_DEFAULT_IP")


def test_reset_calls_back(monkeypatch):
    calls = []
    monkeypatch.setattr(knobs, "_reset_callbacks", [lambda: calls.append(1)])
    qd.reset()
    assert calls == [1]


def test_dump_and_logging(capsys):
    qd.init(log_level="warn")
    qd.dump_compile_config()
    lines = capsys.readouterr().out.splitlines()
    assert lines == sorted(lines) and "debug=False" in lines
    assert qd.is_logging_effective(qd.ERROR) and not qd.is_logging_effective(qd.INFO)
    qd.set_logging_level(qd.TRACE)
    assert qd.is_logging_effective("info")


def test_extensions():
    assert qd.is_extension_enabled(qd.extension.data64) and not qd.is_extension_enabled(qd.extension.sparse)
    with pytest.raises(ValueError):
        qd.is_extension_enabled("nonsense")


def test_the_runtime_gets_its_options(monkeypatch):
    from quadrants.runtime import threads

    qd.init(cpu_max_num_threads=3)
    assert threads.count() == 3
    qd.reset()
    assert threads.count() == threads.default_count()
    monkeypatch.setenv("QD_CPU_MAX_NUM_THREADS", "2")
    qd.reset()
    assert threads.count() == 2
    monkeypatch.delenv("QD_CPU_MAX_NUM_THREADS")
    qd.init(cpu_max_num_threads=100_000)
    assert threads.count() == threads.LARGEST_COUNT
