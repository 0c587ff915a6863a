"""torch, eager: its own operations where it has them."""

import os
from typing import Any

import torch

DEVICE = os.environ.get("GPU_CHECK_DEVICE", "cuda")


def start():
    torch.backends.cuda.matmul.allow_tf32 = False
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
        return (self.found.reshape(1).cpu().numpy() if self.found.ndim == 0 else self.found.cpu().numpy(),)


def stencil(u):
    v = u.clone()
    v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return v


def attract(places, masses):
    result = torch.empty_like(places)
    for first in range(0, len(places), 1024):
        d = places[None] - places[first : first + 1024, None]
        square = (d * d).sum(-1) + 0.0025
        result[first : first + 1024] = (d * (masses / (square * square.sqrt()))[..., None]).sum(1)
    return result


PROGRAMS = {
    "launch": lambda x: Program((x,), lambda x: x.add_(1.0)),
    "saxpy": lambda x, y: Program((x, y), lambda x, y: y.add_(x, alpha=0.5)),
    "sum": lambda x: Program((x,), lambda x: x.sum()),
    "stencil": lambda u: Program((u,), stencil),
    "matmul": lambda a, b: Program((a, b), lambda a, b: a @ b),
    "matmul16": lambda a, b: Program((a, b), lambda a, b: a @ b),
    "nbody": lambda p, m: Program((p, m), attract),
}
