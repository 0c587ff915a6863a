"""Every example and the README's first program run, small, and write their pictures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, readme_example

SMALL = {
    "mpm88": "particles, cells, steps = 512, 32, 4",
    "nbody": "stars, steps = 128, 3",
    "cloth": "n, spacing, steps = 24, 1 / 24, 6",
    "mandelbrot": "width, height = 96, 64",
    "jacobi": "size, tolerance = 48, 1e-3",
}


def run(program: str, folder: Path, *, path: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([path, str(ROOT / "src")]), "MPLBACKEND": "Agg"}
    command = [sys.executable, program]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_has_a_small_size_here_and_at_most_80_lines() -> None:
    helpers = {"picture", "startup"}
    examples = {path.stem: path for path in (ROOT / "examples").glob("*.py") if path.stem not in helpers}
    assert set(examples) == set(SMALL)
    assert all(len(path.read_text().splitlines()) <= 80 for path in examples.values())


@pytest.mark.parametrize("name", sorted(SMALL))
def test_example_writes_its_picture(name: str, tmp_path: Path) -> None:
    """Sizes are set from outside after import: captured globals are live."""
    settings = "\n".join(f"program.{part}" for part in assignments(SMALL[name]))
    program = tmp_path / "run.py"
    program.write_text(
        f"import {name} as program\n{settings}\n"
        "program.print_first_calls = lambda *_: None\n"
        "program.main('picture.png')\n"
    )
    assert "wrote picture.png" in run(str(program), tmp_path, path=str(ROOT / "examples"))
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def assignments(text: str) -> list[str]:
    names, values = (part.split(", ") for part in text.split(" = "))
    return [f"{name} = {value}" for name, value in zip(names, values, strict=True)]


def test_the_readme_example_is_a_dozen_lines_and_draws(tmp_path: Path) -> None:
    lines = [line for line in readme_example().splitlines() if line.strip()]
    assert len(lines) <= 16
    (tmp_path / "readme.py").write_text(readme_example())
    run("readme.py", tmp_path)
    assert (tmp_path / "julia.png").exists()
