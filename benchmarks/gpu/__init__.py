"""Checks and measurements on a machine with an NVIDIA GPU; `scripts/gpu_check` runs them."""
