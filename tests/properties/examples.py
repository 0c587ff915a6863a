"""How Hypothesis makes its examples. Its import takes long: all tests that use it are in this folder, and slow."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

__all__ = ["EXAMPLES"]

EXAMPLES = settings(derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""The same ones in every run, however slow or busy the machine."""
