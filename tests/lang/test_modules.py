"""The modules among the public names can be imported by name, and are one object each."""

from __future__ import annotations

import subprocess
import sys

import pytest

import quadrants as qd

NAMES = ["algorithms", "graph", "math", "profiler", "simt", "types"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_modules_are_one_object(name: str) -> None:
    first = next(part for part in dir(getattr(qd, name)) if part[0] != "_")
    scope: dict[str, object] = {}
    exec(f"import quadrants.{name} as module\nfrom quadrants.{name} import {first} as found", scope)
    assert scope["module"] is getattr(qd, name) and scope["found"] is getattr(getattr(qd, name), first)


def test_modules_are_imported_before_they_are_used() -> None:
    lines = [f"import quadrants.{name} as a\nfrom quadrants import {name} as b\nassert a is b" for name in NAMES]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


def test_functions_of_imported_modules_in_kernels() -> None:
    import quadrants.math as qm
    from quadrants.types import vector

    @qd.kernel
    def length(x: vector(3, float)) -> float:
        return qm.length(qm.vec3(x[0], x[1], x[2])) + qm.pi

    assert length(qd.Vector([1.0, 2.0, 2.0])) == 3.0 + qm.pi
