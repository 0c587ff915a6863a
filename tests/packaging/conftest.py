"""The built wheel, and the Python versions that the machine has."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUPPORTED = (10, 11, 12, 13, 14)


def works(python: str, minor: int) -> bool:
    """Whether the command is that version of CPython and can make environments (a version manager's shim may not)."""
    program = "import sys, venv; print(sys.version_info[1], sys.implementation.name)"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.split() == [str(minor), "cpython"]


def find_python(minor: int) -> str | None:
    """An interpreter of Python 3.`minor`: this one, one on the path, or one that pyenv keeps."""
    managed = sorted(Path.home().glob(f".pyenv/versions/3.{minor}*/bin/python3.{minor}"))
    candidates = [sys.executable, shutil.which(f"python3.{minor}"), *map(str, managed)]
    return next((python for python in candidates if python and works(python, minor)), None)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built from the working tree."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def readme_example() -> str:
    """The first Python block of the README: what a newcomer pastes."""
    text = (ROOT / "README.md").read_text()
    start = text.index("```python\n") + len("```python\n")
    return text[start : text.index("```", start)]
