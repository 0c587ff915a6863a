"""Any module of the package can be the first that a program reaches: which one it is depends on the program."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, pkgutil, sys
import quadrants.frontend

names = [module.name for module in pkgutil.iter_modules(quadrants.frontend.__path__, "quadrants.frontend.")]
failed = []
for name in names:
    for loaded in [loaded for loaded in sys.modules if loaded.startswith("quadrants.frontend.")]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed.append(f"{name}: {error}")
print(*failed, sep="\\n")
"""


@pytest.mark.slow
def test_every_module_can_be_imported_first() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert not done.stdout.strip(), done.stdout
