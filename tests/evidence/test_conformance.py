"""The reports of targets and a sample of the conformance runs, on every target that is here or is played."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quadrants.__main__ import main
from quadrants.evidence import capabilities, emulation
from quadrants.evidence.conformance import parts, record, suite
from quadrants.evidence.conformance.run import conform
from quadrants.evidence.conformance.worker import Outcome, outcomes, without_place
from quadrants.knobs import Arch
from quadrants.targets import table
from quadrants.targets.capability import IEEE, CapabilityRecord


@pytest.mark.slow
def test_every_target_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == capabilities.FORMAT
    assert [target["name"] for target in found["targets"]] == [arch.name for arch in table.TARGETS]
    for target in found["targets"]:
        assert set(target) == set(found["fields"]["target"])
        assert target["usable"] != bool(target["reason"]) and target["checked"] and target["how"] and target["what"]
        if target["record"] is None:
            assert not target["usable"] and not target["played"]
            continue
        assert target["played"] != target["usable"]
        assert set(target["record"]) == set(found["fields"]["record"])
        assert set(IEEE) == set(target["floats"]) and all(target[name] for name in ("atomics", "limits", "toolchain"))
        assert set(target["lanes"]) == set(target["record"]["dtypes"] if target["record"]["vector_bits"] else [])


def test_the_form_of_reports_has_a_version() -> None:
    """What changes the names or the kinds of the fields gets a new number in `FORMAT`, and this list with it."""
    fields = {name: type(value).__name__ for name, value in capabilities.describe(table.default()).items()}
    assert (capabilities.FORMAT, fields) == (
        "quadrants-targets 2",
        {
            **dict.fromkeys(("name", "what", "reason", "checked", "how"), "str"),
            **dict.fromkeys(("usable", "played"), "bool"),
            **dict.fromkeys(("record", "lanes", "floats", "atomics", "limits", "toolchain"), "dict"),
        },
    )
    for name, field in CapabilityRecord.fields().items():
        assert len(field.doc) > 20, name


@pytest.mark.slow
def test_the_table_has_a_line_a_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [arch.name for arch in table.TARGETS]


@pytest.mark.slow
@pytest.mark.parametrize("arch", list(table.TARGETS), ids=str)
def test_a_sample_conforms(arch: Arch, tmp_path: Path) -> None:
    if reason := emulation.missing(arch):
        pytest.skip(reason)
    out = tmp_path / "evidence.json"
    assert conform(arch, out, ["operations", "conversions", "programs"], 0, every=41) == 0
    assert conform(arch, out, ["fuzz"], 2) == 0
    evidence = record.read(out)
    assert evidence is not None and sorted(evidence["parts"]) == ["conversions", "fuzz", "operations", "programs"]
    counts = record.counts(evidence["parts"]["operations"])
    assert counts["passed"] + counts["assembled"] >= 10


def test_cases_have_names_of_their_own() -> None:
    for part, made in parts.CASES.items():
        names = [case.name for case in made(5)]
        assert len(names) == len(set(names)) > 0, part


@pytest.mark.slow
def test_a_case_that_ends_the_process_fails_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = [case.name for case in parts.CASES["fuzz"](3)]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, os\n"
        "if 'fuzz' in sys.argv:\n"
        "    import quadrants.evidence.conformance.parts as parts\n"
        "    kept = parts._random_program\n"
        "    parts._random_program = lambda seed, target: os._exit(3) if seed == 1 else kept(seed, target)\n"
    )
    found = list(outcomes("reference", "fuzz", 3))
    assert [outcome.name for outcome in found] == names
    assert [outcome.status for outcome in found] == ["passed", "failed", *["passed"] * (len(names) - 2)]
    assert "status 3" in found[1].reason


@pytest.mark.slow
def test_a_case_that_loses_the_device_is_the_last_of_its_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys, types\n"
        "if 'fuzz' in sys.argv:\n"
        "    import quadrants.evidence.conformance.parts as parts\n"
        "    kept, lost, driver = parts._random_program, [], types.SimpleNamespace(is_lost=True)\n"
        "    def program(seed, target):\n"
        "        assert not lost, 'the device is lost'\n"
        "        lost.extend([seed] if seed == 1 else [])\n"
        "        assert not lost, 'a fault'\n"
        "        kept(seed, target)\n"
        "    parts._random_program = program\n"
        "    from quadrants.targets import reference\n"
        "    reference.shared_device = lambda: types.SimpleNamespace(driver=driver)\n"
    )
    found = list(outcomes("reference", "fuzz", 3))
    assert [outcome.status for outcome in found] == ["passed", "failed", *["passed"] * (len(found) - 2)]
    assert "a fault" in found[1].reason and len(found) > 3


def test_a_refusal_is_told_without_its_place() -> None:
    assert without_place("/a/b.py:3:7: no such thing\n  more") == "no such thing"
    assert without_place("no such thing: not here") == "no such thing: not here"


def test_evidence_is_written_and_read(tmp_path: Path) -> None:
    part = record.evidence_of(
        [
            Outcome("a", "passed"),
            Outcome("b", "refused", "why"),
            Outcome("c", "refused", "why"),
            Outcome("d", "failed", "x"),
            Outcome("e", "assembled"),
        ]
    )
    assert record.counts(part) == {"passed": 1, "assembled": 1, "refused": 2, "failed": 1, "not run": 0}
    evidence = {"format": record.FORMAT, "target": {"name": "t"}, "made_with": {}, "parts": {"one": part}}
    path = tmp_path / "t.json"
    record.write(path, evidence)
    assert record.read(path) == evidence and record.failed(evidence) == 1
    other = {**evidence, "parts": {"two": part}}
    assert sorted(record.merged(evidence, other)["parts"]) == ["one", "two"]
    assert sorted(record.merged({**evidence, "made_with": {"x": 1}}, other)["parts"]) == ["two"]
    path.write_text("{")
    assert record.read(path) is None


def test_reports_of_pytest_are_read(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(
        "<testsuite><testcase classname='tests.run.test_a' name='test_x[v-O0]'/>"
        "<testcase classname='tests.run.test_a' name='test_y[v-O0]'><failure message='bad'/></testcase>"
        "<testcase classname='tests.run.test_a' name='test_z[v-O0]'>"
        "<skipped message='refused on v: /f.py:1:2: no'/></testcase></testsuite>"
    )
    found = [(outcome.name, outcome.status, outcome.reason) for outcome in suite.read_report(path, "v")]
    assert found == [("a: x[v-O0]", "passed", ""), ("a: y[v-O0]", "failed", "bad"), ("a: z[v-O0]", "refused", "no")]
