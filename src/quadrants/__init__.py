"""Quadrants: ordinary Python functions, compiled at run time for physics and numerical code."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from quadrants import algorithms as algorithms
from quadrants import lang
from quadrants import library as library
from quadrants.lang import *  # noqa: F403 - the public names are these
from quadrants.lang.absent import absent
from quadrants.lang.init import config as _config
from quadrants.library import public as _public
from quadrants.library.public import *  # noqa: F403 - the public names are these

if TYPE_CHECKING:
    from quadrants.lang import profiler as profiler
    from quadrants.lang import simt as simt

__version__ = (0, 1, 0)
__version_str__ = "0.1.0"
__all__: list[str] = []
__all__ += lang.__all__
__all__ += _public.__all__
__all__ += ["algorithms"]
# `import quadrants.math as qm` and `from quadrants.types import vector` find what `qd.math` and `qd.types` are.
sys.modules |= {f"quadrants.{name}": getattr(lang, name) for name in ("graph", "math", "types")}
_LATER = ("profiler", "simt")
"""What is imported when it is first used: programs without it do not wait for that."""


def __getattr__(name: str) -> Any:
    if name == "cfg":
        return _config()
    if name in _LATER:
        return importlib.import_module(f"quadrants.lang.{name}")
    if name == "outer":
        return importlib.import_module("quadrants.lang.simt.tiles").outer
    raise absent("quadrants", name)


def __dir__() -> list[str]:
    return sorted({*globals(), "outer", *_LATER})
