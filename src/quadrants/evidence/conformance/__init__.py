"""Conformance: every operation on every dtype, every program and test, random programs, on one target against the
reference, into one evidence file."""
