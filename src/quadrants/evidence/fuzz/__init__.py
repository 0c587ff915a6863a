"""The fuzzer: random kernels without undefined behaviour, run by the oracle and by the compiler under random options.

`python -m quadrants.evidence.fuzz --programs N` runs it; `make fuzz N=…` does, too.

    generate   a seed to a program's text           settings   a seed to the options that it is compiled with
    trial      one program under one set of options, against the oracle
    reduce     a failing program to a few lines      campaign   many programs, in processes that may crash

Programs of block loops have a second opinion of their own, all threads at once on arrays of NumPy's:

    block_worlds     what threads have, and what they give one another     block_code    statements: text, and what they do
    block_values     random expressions                                    block_trial   a program on a target; campaigns
    block_programs   a seed to a program, free of races by construction
    device_programs  a seed to loops that devices run in ways of their own, with what NumPy gives
    device_sums      reductions, scattered sums, old values, rows
    device_nests     products of matrices, stencils
"""
