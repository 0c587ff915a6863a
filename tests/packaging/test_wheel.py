"""The wheel is complete, pure Python, and works in an empty environment under every Python version at hand."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import quadrants

from .conftest import ROOT, SUPPORTED, find_python, readme_example


def test_the_wheel_is_pure_python_and_holds_every_source_file(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    sources = ROOT / "src"
    wanted = {
        str(path.relative_to(sources))
        for path in (sources / "quadrants").rglob("*")
        if path.suffix in {".py", ".ll", ".typed"}
    }
    assert "quadrants/py.typed" in wanted
    assert wanted <= inside


def test_the_wheel_holds_nothing_but_the_package_and_its_metadata(wheel: Path) -> None:
    folders = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"quadrants"}


def test_the_wheel_has_the_version_that_the_package_tells(wheel: Path) -> None:
    assert wheel.name.split("-")[1] == quadrants.__version_str__ == ".".join(map(str, quadrants.__version__))


def test_numpy_and_llvmlite_are_the_only_requirements(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    metadata = next(archive.read(name).decode() for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert sorted(line.split()[1].split(">")[0].split("<")[0] for line in required) == ["llvmlite", "numpy"]


@pytest.mark.slow
@pytest.mark.parametrize("minor", SUPPORTED)
def test_the_readme_example_runs_from_the_wheel_in_an_empty_environment(
    wheel: Path, tmp_path: Path, minor: int
) -> None:
    base = find_python(minor)
    if base is None:
        pytest.skip(f"no Python 3.{minor} on this machine")
    subprocess.run([base, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    pins = str(ROOT / "requirements.lock")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, "--only-binary", ":all:", "--constraint", pins, str(wheel)], check=True)
    package = next((tmp_path / "venv").glob("lib/python*/site-packages/quadrants"))
    subprocess.run([python, "-m", "compileall", "-q", "-f", str(package)], check=True)  # every file is in its syntax
    program = tmp_path / "example.py"
    lines = [line for line in readme_example().splitlines() if "plt" not in line]  # matplotlib is not required
    program.write_text("\n".join([*lines, "print('pixels', image.min(), image.max())"]))
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([python, str(program)], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-3:] == ["pixels", "2.0", "200.0"]
