"""Messages to the user, by level. Functions are looked up at each use, so that a program may replace them."""

from __future__ import annotations

import sys

from quadrants import knobs

__all__ = [
    "CRITICAL",
    "DEBUG",
    "ERROR",
    "INFO",
    "TRACE",
    "WARN",
    "critical",
    "debug",
    "error",
    "info",
    "is_logging_effective",
    "set_logging_level",
    "trace",
    "warn",
]

TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL = "trace", "debug", "info", "warn", "error", "critical"
_LEVELS = (TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL, "off")


def set_logging_level(level: str) -> None:
    """Show messages of `level` and above: trace, debug, info, warn, error, critical or off; ValueError else."""
    knobs.current.assign("log_level", level)


def is_logging_effective(level: str) -> bool:
    """Whether messages of `level` (trace, debug, info, warn, error, critical) are shown; ValueError for another name."""
    return _LEVELS.index(level) >= _LEVELS.index(knobs.current.log_level)


def _write(level: str, message: str) -> None:
    if is_logging_effective(level):
        stream = sys.stdout if level in (TRACE, DEBUG, INFO) else sys.stderr
        print(f"[Quadrants] {message}", file=stream)


def trace(message: str) -> None:
    """Show a message of level trace."""
    _write(TRACE, message)


def debug(message: str) -> None:
    """Show a message of level debug."""
    _write(DEBUG, message)


def info(message: str) -> None:
    """Show a message of level info."""
    _write(INFO, message)


def warn(message: str) -> None:
    """Show a message of level warn."""
    _write(WARN, message)


def error(message: str) -> None:
    """Show a message of level error."""
    _write(ERROR, message)


def critical(message: str) -> None:
    """Show a message of level critical."""
    _write(CRITICAL, message)
