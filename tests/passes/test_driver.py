"""The driver: what it runs, leaves out, times, dumps and verifies, and how it names what goes wrong."""

from __future__ import annotations

import pytest

from quadrants import knobs
from quadrants.errors import QuadrantsInternalError, QuadrantsTypeError
from quadrants.ir.nodes import Module, Op
from quadrants.ir.text import parse_module
from quadrants.passes.context import PassContext
from quadrants.passes.driver import Guilt, find_guilty, run_pipeline
from quadrants.passes.pipeline import CONSTRAINTS, PIPELINE, STRETCHES, Constraint, Pass, check_pipeline
from quadrants.records import replace

TEXT = """quadrants-ir 1
stage kernel
kernel @scale(%a: array<f32, 1, C>, %x: f32) {
  %zero = constant 0 : i64
  %n = dim %a, 0 : i64
  for %i in %zero .. %n {
    %v = load %a[%i] : f32
    %y = mul %v, %x : f32
    %same = mul %v, %x : f32
    %sum = add %y, %same : f32
    store %sum, %a[%i]
  }
}
"""


def options(**settings: object) -> knobs.Options:
    return replace(knobs.Options(), **settings)


def test_the_whole_pipeline_gives_a_lowered_module() -> None:
    context = PassContext(options(verify=True), count_ops=True)
    module = run_pipeline(parse_module(TEXT), context=context)
    assert module.stage == "lowered"
    assert context.executed == [step.name for step in PIPELINE if step.wanted(context.options)]
    assert set(context.times) == set(context.executed)
    assert context.sizes["cse"] == context.sizes["simplify"] - 1


def test_only_required_passes_run_at_level_0() -> None:
    context = PassContext(options(opt_level=0))
    assert run_pipeline(parse_module(TEXT), context=context).stage == "lowered"
    assert context.executed == [step.name for step in PIPELINE if step.required and step.wanted(context.options)]


def test_passes_can_be_left_out_and_stopped_after() -> None:
    context = PassContext(options(disable_passes=("cse", "inline"), stop_after="dead_code"))
    assert run_pipeline(parse_module(TEXT), context=context).stage == "kernel"
    assert context.executed[-1] == "dead_code"
    assert "cse" not in context.executed and "inline" not in context.executed


def test_names_are_checked() -> None:
    with pytest.raises(ValueError, match="there is no pass 'csd'; there are .*cse"):
        run_pipeline(parse_module(TEXT), options(disable_passes=("csd",)))
    with pytest.raises(ValueError, match="there is no pass 'x'"):
        run_pipeline(parse_module(TEXT), options(stop_after="x"))
    with pytest.raises(ValueError, match="'lower_matrices' cannot be left out: targets have scalars"):
        run_pipeline(parse_module(TEXT), options(disable_passes=("lower_matrices",)))


def test_dumps(capsys: pytest.CaptureFixture[str]) -> None:
    shown: dict[str, str] = {}
    run_pipeline(parse_module(TEXT), context=PassContext(options(print_ir="cse"), dump=shown.__setitem__))
    assert list(shown) == ["cse"] and shown["cse"].startswith("quadrants-ir 1") and "%same" not in shown["cse"]
    run_pipeline(parse_module(TEXT), options(print_ir=True, stop_after="cse"))
    assert capsys.readouterr().err.count("// after ") == 1 + [step.name for step in PIPELINE].index("cse")


def _breaks(module: Module, context: PassContext) -> None:
    module.kernel.body.ops.insert(0, Op("yield"))


def _crashes(module: Module, context: PassContext) -> None:
    raise KeyError("lost")


def _refuses(module: Module, context: PassContext) -> None:
    raise QuadrantsTypeError("the user's mistake")


def test_a_crash_names_pass_and_kernel() -> None:
    with pytest.raises(QuadrantsInternalError, match="pass bad failed on kernel scale: KeyError: 'lost'"):
        run_pipeline(parse_module(TEXT), options(), passes=[Pass("bad", "kernel", "", run=_crashes)])
    with pytest.raises(QuadrantsTypeError, match="the user's mistake"):
        run_pipeline(parse_module(TEXT), options(), passes=[Pass("bad", "kernel", "", run=_refuses)])


def test_verification_names_the_pass() -> None:
    passes = [Pass("bad", "kernel", "", run=_breaks)]
    run_pipeline(parse_module(TEXT), options(), passes=passes)
    with pytest.raises(QuadrantsInternalError, match="pass bad left kernel scale malformed"):
        run_pipeline(parse_module(TEXT), options(verify=True), passes=passes)


def _sabotage(at: int):
    """A pass that makes three rewrites, of which one is wrong."""

    def run(module: Module, context: PassContext) -> None:
        for number in range(1, 4):
            if context.permit() and number == at:
                module.kernel.attributes["wrong"] = True

    return run


@pytest.mark.parametrize("at", [1, 2, 3])
def test_bisection_finds_pass_and_rewrite(at: int) -> None:
    passes = [*PIPELINE[:3], Pass("wrong", "kernel", "", run=_sabotage(at)), *PIPELINE[3:]]

    def is_bad(module: Module) -> bool:
        return bool(module.kernel.attributes.get("wrong"))

    def make() -> Module:
        return parse_module(TEXT)

    assert find_guilty(make, is_bad, options(), passes=passes) == Guilt("wrong", at)
    assert find_guilty(make, is_bad, options()) is None


def test_bisection_finds_a_crash() -> None:
    passes = [*PIPELINE[:3], Pass("crash", "kernel", "", run=_crashes), *PIPELINE[3:]]
    assert find_guilty(lambda: parse_module(TEXT), lambda module: False, options(), passes=passes) == Guilt("crash", 0)


def test_bisection_refuses_what_is_bad_anyway() -> None:
    with pytest.raises(ValueError, match="bad without any optional pass"):
        find_guilty(lambda: parse_module(TEXT), lambda module: True, options())


def test_the_pipeline_is_checked() -> None:
    check_pipeline()
    one, two = Pass("one", "kernel", "", run=_breaks), Pass("two", "kernel", "", run=_breaks)
    with pytest.raises(ValueError, match="pass one must stand before two: because"):
        check_pipeline([two, one], [Constraint("one", "two", "because")])
    with pytest.raises(ValueError, match="one name"):
        check_pipeline([one, one], [])
    with pytest.raises(ValueError, match="there is no such pass"):
        check_pipeline([one], [Constraint("one", "three", "")])
    with pytest.raises(ValueError, match="takes stage tasks"):
        check_pipeline([Pass("late", "tasks", "", run=_breaks)], [])


def test_every_pass_and_constraint_has_a_reason() -> None:
    assert all(step.reason for step in PIPELINE) and all(constraint.reason for constraint in CONSTRAINTS)


def test_stretches_are_passes_in_a_row() -> None:
    names = [step.name for step in PIPELINE]
    for stretch in STRETCHES:
        first = names.index(stretch[0])
        assert tuple(names[first : first + len(stretch)]) == stretch


def test_a_stretch_takes_each_function_through_all_its_passes() -> None:
    seen: list[tuple[str, str]] = []

    def watching(name: str) -> Pass:
        def run(module: Module, context: PassContext) -> None:
            seen.extend((name, function.name) for function in context.functions(module))

        return Pass(name, "kernel", "", run=run)

    module = parse_module(TEXT + "function @other() {\n}\n")
    run_pipeline(module, options(verify=False), passes=[watching("simplify"), watching("cse"), watching("inline")])
    assert seen == [
        *(("simplify", "scale"), ("cse", "scale"), ("simplify", "other"), ("cse", "other")),
        *(("inline", "scale"), ("inline", "other")),
    ]
