"""Quadrants: ordinary Python functions, compiled at run time for physics and numerical code."""

from __future__ import annotations

from typing import Any

from quadrants import algorithms as algorithms
from quadrants import lang
from quadrants import library as library
from quadrants.lang import *  # noqa: F403
from quadrants.lang.init import config as _config
from quadrants.library import public as _public
from quadrants.library.public import *  # noqa: F403

__version__ = (0, 1, 0)
__version_str__ = "0.1.0"
__all__: list[str] = []
__all__ += lang.__all__
__all__ += _public.__all__
__all__ += ["algorithms"]


def __getattr__(name: str) -> Any:
    if name == "cfg":
        return _config()
    raise AttributeError(f"module 'quadrants' has no attribute {name!r}")
