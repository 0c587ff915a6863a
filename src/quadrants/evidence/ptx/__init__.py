"""An interpreter of PTX, as LLVM writes it for us: GPU code executed without a GPU.

`parse` reads the text, `translate` makes of each basic block a Python function over NumPy arrays that hold a register of all threads,
`machine` runs threads (those that are least far go first, so that they meet again), `memory` is the GPU's memory, every byte of
which is known to be allocated or not, `driver` is all of it as the CUDA target's driver, `library` puts it behind NVIDIA's binary
interface.

What it shows: that the code computes what the reference computes, touches only memory that is its own, aligned. What it does
not show: speed, races between threads (they run in step), what `ptxas` makes of the code.
"""
