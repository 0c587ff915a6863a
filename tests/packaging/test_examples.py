"""Every example and the README's first program run, small, and write their pictures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, readme_example

pytestmark = pytest.mark.slow

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


DRIFT = """
@qd.kernel
def drift(pos, vel, dt):
    for i in range(len(pos)):
        wind = qd.Vector([0.3, 0.1])
        pos[i] += dt * (vel[i] + wind)
"""


def test_the_readme_shows_a_real_error_message(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    start = text.index("```text\n") + len("```text\n")
    shown = text[start : text.index("```", start)].strip()
    call = "drift(np.zeros((9, 3), np.float32), np.ones((9, 3), np.float32), 0.1)"
    program = (
        f"import numpy as np, quadrants as qd{DRIFT}\ntry:\n    {call}\nexcept TypeError as error:\n    print(error)\n"
    )
    (tmp_path / "drift.py").write_text(program)
    assert run("drift.py", tmp_path).strip().replace(f"{tmp_path}/", "").splitlines()[1:] == shown.splitlines()[1:]


def test_every_picture_and_file_that_the_readme_names_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
