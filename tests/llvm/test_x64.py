"""The x86-64 target's surface: record, frame, artifact, other processors, refusals."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from quadrants.errors import QuadrantsInternalError
from quadrants.ir.nodes import Function
from quadrants.ir.text import parse_module
from quadrants.ir.types import array_type, bf16, f16, f32, f64, i8, i64, matrix_type, u1
from quadrants.targets.artifact import Message, PrintFormat, content_id, decode_prints
from quadrants.targets.frame import frame_layout
from quadrants.targets.llvm import optimise
from quadrants.targets.llvm.x64 import target

SUM = """quadrants-ir 1
stage lowered
kernel @total(%x: array<f32, 1, C>, %y: array<f32, 1, C>) -> f32 {
  %0 = constant 0 : i64
  %n = dim %x, 0
  %f = constant 0 : f32
  %s = parallel for %i in %0 .. %n carry (%a = %f) {chunk = 1024, reductions = ("add",)} : f32 {
    %v = load %x[%i]
    %w = load %y[%i]
    %p = mul %v, %w {contract = True}
    %b = add %a, %p {reassociate = True}
    yield %b
  }
  return %s
}
"""


def test_record() -> None:
    record = target.record()
    assert record.name == "x64"
    assert record.lanes(f32) == 2 * record.lanes(f64) >= 4
    assert record.has_dtype(f64) and record.threads
    assert target.host_machine().processor in record.version


def test_frame() -> None:
    kernel = Function(
        "k", (f32, matrix_type(f32, (3,)), array_type(f64, 2), u1), (matrix_type(i8, (3, 3)), f64), "kernel"
    )
    frame = frame_layout(kernel)
    assert frame.parameters == (0, 8, 24, 64)
    assert frame.results == (72, 88)
    assert frame.size == 96
    assert frame.lowered_parameters()[1:4] == [(f32, 8), (f32, 12), (f32, 16)]
    assert [offset for _, offset in frame.lowered_results()] == [*range(72, 81), 88]
    assert frame_layout(Function("k", (), (), "kernel")).size == 0


def test_artifact() -> None:
    artifact = target.compile_module(parse_module(SUM))
    assert artifact.objects[-1][0] == artifact.entry
    assert artifact.entry.startswith("total_")
    assert artifact.externals == ("qd_allocate", "qd_fail", "qd_parallel_for", "qd_release")
    assert f"define i32 @{artifact.entry}(" in artifact.llvm_text
    assert "vfmadd" in target.assembly(artifact)
    again = target.compile_module(parse_module(SUM.replace("1024", "2048")))
    assert again.entry != artifact.entry
    assert pickle.loads(pickle.dumps(artifact)) == artifact


QUARTERS = """quadrants-ir 1
stage lowered
kernel @sums(%x: array<f64, 1, C>, %i: i64) -> f64 {
  %v = load %x[%i]
  %a, %b, %c, %d = call @quarters(%v, %v) : f64, f64, f64, f64
  %e = add %a, %b
  %f = add %c, %d
  %g = add %e, %f
  return %g
}
function @quarters(%x: f64, %y: f64) -> f64, f64, f64, f64 {
  %p = mul %x, %y {contract = True}
  %q = add %x, %y
  %r = sub %x, %p
  return %p, %q, %r, %x
}
"""


@pytest.mark.parametrize("level", [0, 2])
def test_results_of_functions_stay_in_vector_registers(level: int) -> None:
    """C's convention returns a third float on the x87 stack, which LLVM reads with instructions that do not exist."""
    options = target.Options(level=level)
    assembly = target.assembly(target.compile_module(parse_module(QUARTERS), options), options)
    assert "callq" in assembly and re.search(r"\tf(st|ld)", assembly) is None


def test_other_processors() -> None:
    triple = target.host_machine().triple
    avx2 = target.Options(machine=optimise.Machine(triple, "x86-64-v3", "+avx2,+fma,+f16c"))
    assembly = target.assembly(target.compile_module(parse_module(SUM), avx2), avx2)
    assert re.search(r"vfmadd\w+ps\s.*%ymm", assembly) and "zmm" not in assembly
    old = target.Options(machine=optimise.Machine(triple, "x86-64", ""))
    record = target.record(old.machine)
    assert record.maximum_vector_bits == 128 and not record.fused_multiply_add
    assert not record.has_dtype(f16) and record.has_dtype(bf16)
    assembly = target.assembly(target.compile_module(parse_module(SUM), old), old)
    assert "mulps" in assembly and "ymm" not in assembly


def test_effort_follows_the_longest_function() -> None:
    def text(*lines: int) -> str:
        return "".join([f"\ndefine void @f{k}() {{\nentry:{chr(10) * (n - 1)}\n}}\n" for k, n in enumerate(lines)])

    assert optimise.longest_function(text(3, 40, 7)) == 40
    assert optimise.effort(text(100, 100), 2) == (2, True)
    assert optimise.effort(text(100, 1000), 2) == (2, False)
    assert optimise.effort(text(100_000), 2) == (1, False)
    assert optimise.effort(text(100_000), 0) == (0, False)


def test_modules_are_compiled_side_by_side_as_alone() -> None:
    machine = target.host_machine()
    texts = [
        target.emit(parse_module(SUM.replace("1024", str(1024 * k)))).objects[-1].text + "; " + "x" * 9000
        for k in range(1, 6)
    ]
    alone = [optimise.compile_text(text, machine, 2) for text in texts]
    assert optimise.compile_texts(texts, machine, 2) == alone
    texts[3] = "define void @f() {" + texts[3]
    with pytest.raises(QuadrantsInternalError, match="LLVM refuses the emitted text"):
        optimise.compile_texts(texts, machine, 2)


def test_options_of_llvm_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(optimise.binding(), "set_option", lambda name, option: calls.append(option))
    with pytest.raises(QuadrantsInternalError, match="LLVM refuses the emitted text"):
        optimise.compile_text("define void @f() {", target.host_machine(), 2)
    assert calls == ["-disable-lsr=true", "-disable-lsr=false"]


def test_modules_of_other_stages_are_refused() -> None:
    with pytest.raises(QuadrantsInternalError, match="not 'tasks'"):
        target.compile_module(parse_module(SUM.replace("stage lowered", "stage tasks")))


@pytest.mark.parametrize(
    "line, message",
    [
        ("%v = load %x[%0] {wrap = True}", "load with `wrap`"),
        ("%m = load %r[%0] : matrix<f32, 3>", "1 indices into array<f32, 2, 3, C>"),
        ("%m = splat %a : matrix<f32, 3>", "no operation 'splat'"),
    ],
)
def test_what_a_lowered_module_cannot_contain(line: str, message: str) -> None:
    text = f"""quadrants-ir 1
stage lowered
kernel @k(%x: array<f32, 1, C>, %r: array<f32, 2, 3, C>, %a: f32) {{
  %0 = constant 0 : i64
  {line}
}}"""
    with pytest.raises(QuadrantsInternalError, match=re.escape(message)):
        target.compile_module(parse_module(text))


def test_scopes_only_where_arrays_do_not_overlap() -> None:
    text = """quadrants-ir 1
stage lowered
function @shift(%x: array<f32, 1, C>, %y: array<f32, 1, C>) {
  %0 = constant 0 : i64
  %1 = constant 1 : i64
  %n = dim %x, 0
  for %i in %1 .. %n {
    %j = sub %i, %1
    %v = load %y[%j]
    store %v, %x[%i]
  }
}
kernel @k(%a: array<f32, 1, C>, %b: array<f32, 1, C>) {
  call @shift(%a, %b)
}
"""
    module = parse_module(text)
    assert "!noalias" in target.emit(module).objects[0].text
    module.functions["shift"].attributes["may_alias"] = True
    assert "!noalias" not in target.emit(module).objects[0].text


def test_words_of_records() -> None:
    form = PrintFormat(("a ", " b ", "\n"), ("", ".1f"), ("i8", "f32"))
    number = content_id("print", form)
    bits = int(np.float64(np.float32(2.25)).view(np.int64))
    record = np.array([number, -3, bits], np.int64).tobytes()
    assert decode_prints(record * 2, {number: form}) == ["a -3 b 2.2\n"] * 2
    message = Message("{} of {} at {}", "index", None, ("u64", "f16", "u1"))
    assert message.render((-1, bits, 1)) == f"{2**64 - 1} of 2.25 at True"
    assert i64.bytes == 8


def test_compiling_survives_a_fork() -> None:
    import os

    target.compile_module(parse_module(SUM))
    child = os.fork()
    if child == 0:
        artifact = target.compile_module(parse_module(SUM.replace("1024", "4096")))
        os._exit(0 if artifact.objects else 1)
    assert os.waitpid(child, 0)[1] == 0
