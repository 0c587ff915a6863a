"""One module a peer: `PROGRAMS` by the name of the case, each made of the inputs; `run` launches, `wait` waits, `results` are
NumPy arrays. `launch` adds to its array at every run: its results are those of the first."""
