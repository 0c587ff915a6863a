"""Makes a Python for Arm64 in FOLDER, with NumPy, llvmlite and pytest, that an emulator runs: FOLDER/python.

    python .ci/arm64_python.py FOLDER

Of Debian's packages for that machine, unpacked and not installed (nobody has to be root), and of the wheels that
requirements.lock pins. It needs apt, pip and `qemu-user`. What is there already is left alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

PACKAGES = ("python3", "libstdc++6")
WHEELS = (
    "numpy",
    "llvmlite",
    "pytest",
    "iniconfig",
    "pluggy",
    "packaging",
    "pygments",
    "hypothesis",
    "sortedcontainers",
)
EMULATORS = ("qemu-aarch64", "qemu-aarch64-static")
LOCK = Path(__file__).parents[1] / "requirements.lock"

APT = """APT::Architecture "arm64";
APT::Architectures "arm64";
APT::Sandbox::User "";
Dir::State::lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}";
Debug::NoLocking "1";
"""

START = """#!/bin/sh
export PYTHONHOME="{root}/usr" PYTHONPATH="{site}${{PYTHONPATH:+:$PYTHONPATH}}"
exec {emulator} -L "{root}" "{root}/usr/bin/{python}" "$@"
"""


def run(*command: object) -> None:
    """Runs a command, quiet unless it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def unpack_debian(folder: Path, root: Path) -> None:
    """Debian's packages and all that they need, below `root`."""
    apt = folder / "apt"
    for part in ("lists/partial", "archives/partial"):
        (apt / part).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    (apt / "configuration").write_text(APT.format(folder=apt))
    options = ("env", f"APT_CONFIG={apt / 'configuration'}", "apt-get", "-q")
    run(*options, "update")
    run(*options, "install", "-y", "--download-only", "--no-install-recommends", *PACKAGES)
    for package in sorted((apt / "archives").glob("*.deb")):
        run("dpkg", "-x", package, root)
    shutil.rmtree(apt)


def pinned(version: str) -> list[str]:
    """The requirements of the lock file that a Python of that version has."""
    lines = [line for line in LOCK.read_text().splitlines() if re.match(r"\w", line)]
    environment = {"python_full_version": f"{version}.0", "python_version": version, "platform_machine": "aarch64"}
    found = [
        f"{wanted.name}{wanted.specifier}"
        for wanted in map(Requirement, lines)
        if wanted.name in WHEELS and (wanted.marker is None or wanted.marker.evaluate(environment))
    ]
    assert len(found) == len(WHEELS), found
    return found


def unpack_wheels(folder: Path, site: Path, version: str) -> None:
    """The wheels' content in one folder."""
    wheels = folder / "wheels"
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(28, 16, -1)]
    run(
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", wheels,
        f"--python-version={version}", *platforms, "--platform=manylinux2014_aarch64", *pinned(version),
    )  # fmt: skip
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as content:
            content.extractall(site)
    shutil.rmtree(wheels)


def main(folder: Path) -> None:
    start = folder / "python"
    if start.exists():
        return
    emulator = next(filter(None, map(shutil.which, EMULATORS)), None)
    for program, found in ((EMULATORS[0], emulator), *((name, shutil.which(name)) for name in ("apt-get", "dpkg"))):
        if found is None:
            sys.exit(f"there is no {program} on this machine")
    shutil.rmtree(folder, ignore_errors=True)
    root, site = folder / "root", folder / "site"
    unpack_debian(folder, root)
    python = next(path.name for path in (root / "usr/bin").iterdir() if re.fullmatch(r"python3\.\d+", path.name))
    unpack_wheels(folder, site, python.removeprefix("python"))
    # Programs that start Python again start the emulator again.
    (site / "sitecustomize.py").write_text(f"import sys\n\nsys.executable = {str(start)!r}\n")
    new = folder / "python.new"
    new.write_text(START.format(root=root, site=site, emulator=emulator, python=python))
    new.chmod(0o755)
    run(new, "-c", "import llvmlite.binding, numpy, pytest")
    new.rename(start)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
