from types import SimpleNamespace

import taichi as ti

ti.init(arch=ti.cpu)


@ti.kernel
def decompose(matrices: ti.template(), values: ti.template(), vectors: ti.template()):
    for e in matrices:
        values[e], vectors[e] = ti.sym_eig(matrices[e])


def make(case):
    s = SimpleNamespace(
        matrices=ti.Matrix.field(3, 3, ti.f32, case.COUNT), values=ti.Vector.field(3, ti.f32, case.COUNT)
    )
    s.vectors = ti.Matrix.field(3, 3, ti.f32, case.COUNT)
    s.matrices.from_numpy(case.inputs())
    return s


def run(s):
    decompose(s.matrices, s.values, s.vectors)
    ti.sync()


def results(s):
    return (s.values.to_numpy(), s.vectors.to_numpy())
