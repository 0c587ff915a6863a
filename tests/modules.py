"""Modules that tests write."""

from __future__ import annotations

import importlib.util
import linecache
import sys
from pathlib import Path
from types import ModuleType


def written(path: Path, text: str) -> ModuleType:
    """The module of that text, written to that file, as a new process would import it.

    It is compiled from the text: Python takes what it kept of a file (`__pycache__`) for a file's text as long as size and
    second of the last change are the same, and tests write one file twice in a second.
    """
    path.write_text(text)
    linecache.cache.pop(str(path), None)  # size and time of the last change may be the same again
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    return module
