"""Our workloads against the installed rivals, in one interleaved run: `python -m benchmarks`."""
