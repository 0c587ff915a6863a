"""The fuzzer: random kernels without undefined behaviour, run by the oracle and by the compiler under random options.

`python -m quadrants.evidence.fuzz --programs N` runs it; `make fuzz N=…` does, too.

    generate   a seed to a program's text           settings   a seed to the options that it is compiled with
    trial      one program under one set of options, against the oracle
    reduce     a failing program to a few lines      campaign   many programs, in processes that may crash
"""
