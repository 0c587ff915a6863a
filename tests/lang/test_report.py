"""What `kernel.report()` tells, a fact a line."""

from __future__ import annotations

import numpy as np

import quadrants as qd


def scattered(x, index, y, sums):
    for i in range(len(x)):
        y[index[i]] = x[i]
    for i in range(len(x)):
        sums[index[i] % 3] += x[i]
        qd.atomic_max(sums[0], x[i])
    for i in range(len(x)):
        s = 0.0
        while s < x[index[i]]:
            s += 0.5
        y[i] = s


def either(x):
    s, t = 1.0, 2.0
    for i in range(x.shape[0]):
        if x[i] > 2:
            s = s * x[i] - t
        else:
            for k in range(x.shape[0]):
                if k > i:
                    t = s - t * x[k]
    return s + t


def test_a_carried_name_is_told_with_the_line_that_assigns_it() -> None:
    kernel = qd.kernel(either)
    kernel(np.arange(5.0))
    first = either.__code__.co_firstlineno
    told = next(line for line in lines_of(kernel) if "is carried over" in line)
    assert f"`t`, assigned at line {first + 8}, is carried over to the next iteration and read at line" in told


def lines_of(kernel) -> list[str]:
    return [line.strip() for line in kernel.report().splitlines()]


def test_loops_tell_what_was_chosen_why_and_what_would_help() -> None:
    kernel = qd.kernel(scattered)
    assert kernel.report() == ""
    kernel(np.arange(50.0), np.arange(50), np.zeros(50), np.zeros(3))
    lines = lines_of(kernel)
    first = scattered.__code__.co_firstlineno
    assert lines[0] == "kernel scattered"
    assert any(line.startswith(f"parallel loop at line {first + 1}: 1-dimensional; about ") for line in lines)
    assert "no lanes: whether its iterations depend on one another cannot be decided" in lines
    assert "hint: if no two iterations meet, qd.loop_config(vectorize=True) in front of it says so" in lines
    assert f"atomic updates, in which iterations can meet: lines {first + 4}, {first + 5}" in lines
    assert any(line.endswith("lanes: its control flow differs from iteration to iteration") for line in lines)
    assert any(line.startswith("threads: up to ") for line in lines)
    assert lines[-1].startswith("compiled in ")


def test_lanes_that_were_asked_for_and_are_not_possible_name_the_line() -> None:
    def printing(x):
        qd.loop_config(vectorize=8)
        for i in range(len(x)):
            if x[i] > 1:
                print(x[i])

    kernel = qd.kernel(printing)
    kernel(np.zeros(4))
    assert "no lanes: print has no form in lanes" in kernel.report()
    assert f"{__file__}:{printing.__code__.co_firstlineno + 4}" in kernel.report()


def test_loops_of_devices_tell_nothing_of_the_hosts_threads() -> None:
    qd.init(arch="simulated", log_level="error")
    kernel = qd.kernel(scattered)
    kernel(np.arange(50.0), np.arange(50), np.zeros(50), np.zeros(3))
    lines = lines_of(kernel)
    assert "no lanes: its iterations are threads of the device" in lines
    assert not any(line.startswith(("threads: ", "scattered updates: ")) for line in lines)
