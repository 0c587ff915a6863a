# pyright: reportMissingImports=false, reportInvalidTypeForm=false, reportIndexIssue=false, reportGeneralTypeIssues=false
# (rivals live in environments of their own, and their kernels are no Python functions)
"""Triton: blocks of elements, and the tiled product of its tutorial."""

import os
from typing import Any

import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("GPU_CHECK_DEVICE", "cuda")


@triton.jit
def add_one(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + 1.0, mask=at < n)


@triton.jit
def saxpy(y, a, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(y + at, mask=at < n) + a * tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def partial_sums(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + at, mask=at < n, other=0.0)))


@triton.jit
def stencil(u, v, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) + 1
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK) + 1
    m, at = j < n - 1, i * n + j
    near = tl.load(u + at - n, mask=m) + tl.load(u + at + n, mask=m) + tl.load(u + at - 1, mask=m)
    tl.store(v + at, 0.25 * (near + tl.load(u + at + 1, mask=m)), mask=m)


@triton.jit
def multiply(a, b, c, n, TILE: tl.constexpr, DEPTH: tl.constexpr):
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    s = tl.zeros((TILE, TILE), tl.float32)
    for first in range(0, n, DEPTH):
        k = first + tl.arange(0, DEPTH)
        rows = tl.load(a + i[:, None] * n + k[None], mask=(i[:, None] < n) & (k[None] < n), other=0.0)
        columns = tl.load(b + k[:, None] * n + j[None], mask=(k[:, None] < n) & (j[None] < n), other=0.0)
        s += tl.dot(rows, columns, input_precision="ieee")
    tl.store(c + i[:, None] * n + j[None], s, mask=(i[:, None] < n) & (j[None] < n))


def start():
    torch.zeros(1, device=DEVICE)


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


class Program:
    def __init__(self, arrays, run):
        self.arrays = [torch.from_numpy(array).to(DEVICE) for array in arrays]
        self.function = run
        self.found: Any = None

    def run(self):
        self.found = self.function(*self.arrays)

    def results(self):
        return (self.found.reshape(-1).cpu().numpy() if self.found.ndim == 0 else self.found.cpu().numpy(),)


def launch_one(x):
    add_one[(triton.cdiv(len(x), 1024),)](x, len(x), BLOCK=1024)
    return x


def launch_saxpy(x, y):
    saxpy[(triton.cdiv(len(x), 1024),)](y, 0.5, x, len(x), BLOCK=1024)
    return y


def launch_sum(x):
    parts = torch.empty(triton.cdiv(len(x), 8192), device=DEVICE)
    partial_sums[(len(parts),)](x, parts, len(x), BLOCK=8192)
    return parts.sum()


def launch_stencil(u):
    v, n = u.clone(), len(u)
    stencil[(n - 2, triton.cdiv(n - 2, 1024))](u, v, n, BLOCK=1024)
    return v


def launch_product(a, b):
    c, n = torch.empty_like(a), len(a)
    multiply[(triton.cdiv(n, 64), triton.cdiv(n, 64))](a, b, c, n, TILE=64, DEPTH=32)
    return c


PROGRAMS = {
    "launch": lambda x: Program((x,), launch_one),
    "saxpy": lambda x, y: Program((x, y), launch_saxpy),
    "sum": lambda x: Program((x,), launch_sum),
    "stencil": lambda u: Program((u,), launch_stencil),
    "matmul": lambda a, b: Program((a, b), launch_product),
}
