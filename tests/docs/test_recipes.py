"""The recipes of docs/architecture.md, followed to the letter on a copy of the sources, do what they promise.

A block ```diff FILE shows lines of the file that stay (they must be there, once), go (-) and come (+); any other block with
a FILE is a new file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quadrants.evidence import emulation
from quadrants.targets import table

from .conftest import ARCHITECTURE, ROOT, Block, blocks, section

pytestmark = pytest.mark.slow

COPIED = ("src", "tests", "docs", "benchmarks", "pyproject.toml", "README.md", ".importlinter")
IGNORED = shutil.ignore_patterns("__pycache__", "images")


def apply(block: Block, root: Path) -> None:
    """Makes the change that a block shows."""
    path = root / block.title
    if block.language != "diff":
        assert not path.exists(), f"{block.title} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        return
    lines = block.text.splitlines(keepends=True)
    before = "".join([line[1:] or "\n" for line in lines if not line.startswith("+")])
    after = "".join([line[1:] or "\n" for line in lines if not line.startswith("-")])
    text = path.read_text()
    assert text.count(before) == 1, f"line {block.line}: {block.title} does not have these lines, once:\n{before}"
    path.write_text(text.replace(before, after))


class Copy:
    """A copy of the sources with the steps of a recipe applied."""

    def __init__(self, root: Path, recipe: str) -> None:
        self.root = root
        for name in COPIED:
            origin = ROOT / name
            if origin.is_dir():
                shutil.copytree(origin, root / name, ignore=IGNORED)
            else:
                shutil.copy(origin, root / name)
        text = section(ARCHITECTURE.read_text(), recipe)
        parts = re.split(r"^\*\*(\d+)\.\*\*", text, flags=re.MULTILINE)
        self.steps = {int(number): blocks(body) for number, body in zip(parts[1::2], parts[2::2])}
        self.touched: set[str] = set()

    def follow(self, *steps: int) -> None:
        """Applies the blocks of these steps."""
        for step in steps:
            for block in self.steps[step]:
                apply(block, self.root)
                self.touched.add(block.title)

    def run(self, *arguments: str) -> str:
        """What a Python with the copied sources prints."""
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src"), "QD_OFFLINE_CACHE": "0"}
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def program(self, text: str) -> str:
        """What a program that stands in a file prints."""
        path = self.root / "program.py"
        path.write_text(text)
        return self.run("program.py")

    def tests(self, *arguments: str) -> int:
        """How many of these tests passed; all must."""
        shown = self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
        passed = re.search(r"(\d+) passed", shown)
        assert passed is not None, shown
        return int(passed[1])

    def is_in_style(self) -> None:
        """The files touched are formatted and without lint."""
        files = [str(self.root / name) for name in sorted(self.touched) if name.endswith(".py")]
        for command in (["check"], ["format", "--check"]):
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "ruff",
                    *command,
                    "--no-cache",
                    "--config",
                    str(ROOT / "pyproject.toml"),
                    *files,
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr


OPERATION = """
import numpy as np
from quadrants.ir.document import document
from quadrants.ir.interpret import interpret
from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import VerificationError, verify
from quadrants.passes.context import PassContext
from quadrants.passes.driver import run_pipeline

TEXT = '''quadrants-ir 1
stage kernel
kernel @step(%x: array<f32, 1, C>, %y: f32) -> f32 {
  %zero = constant 0 : i64
  %n = dim %x, 0 : i64
  for %i in %zero .. %n {
    %v = load %x[%i] : f32
    %w = heaviside %v, %y : f32
    store %w, %x[%i]
  }
  %a = constant -2.0 : f32
  %b = heaviside %a, %y : f32
  %c = constant 3.0 : f32
  %d = heaviside %c, %c : f32
  %e = add %b, %d : f32
  return %e
}
'''

module = parse_module(TEXT)
assert print_module(parse_module(print_module(module))) == print_module(module)
verify(module)
try:
    verify(parse_module(TEXT.replace("f32", "i32").replace("-2.0", "2").replace("3.0", "3")))
except VerificationError as error:
    assert "takes floats, not i32" in str(error), error
else:
    raise AssertionError("integers were accepted")
given = np.array([-1.5, 0.0, -0.0, 7.0, np.nan, np.inf, -np.inf] * 9, np.float32)
expected = np.heaviside(given, np.float32(0.25))
x = given.copy()
assert interpret(module, [x, np.float32(0.25)]) == (1.0,)
assert np.array_equal(x, expected, equal_nan=True)
run_pipeline(module)
assert print_module(module).count(" = heaviside") == 2, print_module(module)  # that of two constants is folded
assert "| `heaviside` | floats | pure |" in document()
print("done")
"""

ON_EVERY_TARGET = """
import numpy as np
from quadrants import compiler, knobs
from quadrants.evidence.emulation import emulation
from quadrants.frontend.arguments import describe_argument
from quadrants.ir.text import parse_module
from quadrants.ir.types import f32, i64
from quadrants.passes.context import PassContext
from quadrants.program import Program
from quadrants.targets import table
from quadrants.targets.frame import frame_layout

TEXT = '''quadrants-ir 1
stage kernel
kernel @step(%x: array<f32, 1, C>, %y: f32) {
  %zero = constant 0 : i64
  %n = dim %x, 0 : i64
  for %i in %zero .. %n {
    %v = load %x[%i] : f32
    %w = heaviside %v, %y : f32
    store %w, %x[%i]
  }
  return
}
'''
given = np.array([-1.5, 0.0, -0.0, 7.0, np.nan, np.inf, -np.inf] * 9, np.float32)
expected = np.heaviside(given, np.float32(0.25))

def run(target):
    options = knobs.Options()
    module = parse_module(TEXT)
    frame = frame_layout(module.kernel)
    compiler.lower(module, PassContext(options, target.record()))
    built = target.build(module, options)
    arguments = [given.copy(), np.float32(0.25)]
    if hasattr(built, "run"):
        built.run(arguments)
    else:
        program = Program("step", frame, ("sequence", [], False, None), [], [], set(), [], {}, {}, False)
        program.load(built.objects, built.entry, built.externals)
        leaves = [describe_argument(name, value, None, i64, f32) for name, value in zip("xy", arguments)]
        program.run(list(zip(leaves, arguments)))
    return arguments[0]

for arch in table.TARGETS:
    with emulation(arch, always=True) as driver:
        if table.missing(arch):
            continue
        found = run(table.find(arch))
    assert np.array_equal(found, expected, equal_nan=True), (arch, found)
    if arch is knobs.Arch.amdgpu:
        assert driver.made, "no code was made"
    print(arch.name)
"""

HEAVISIDE_KERNEL = """
import numpy as np, quadrants as qd

@qd.kernel
def step(x):
    for i in range(len(x)):
        x[i] = np.heaviside(x[i], 0.5)

x = np.array([-3.0, 0.0, 2.0])
step(x)
print(x)
"""


@pytest.fixture
def operation(tmp_path: Path) -> Copy:
    return Copy(tmp_path, "Recipe 1: an operation")


def test_an_operation_is_two_files(operation: Copy) -> None:
    operation.follow(1, 2)
    assert operation.touched == {"src/quadrants/ir/evaluate.py", "src/quadrants/ir/ops.py"}
    assert operation.program(OPERATION) == "done\n"
    here = [arch.name for arch in table.TARGETS if not emulation.missing(arch)]
    assert operation.program(ON_EVERY_TARGET).split() == here
    operation.run("-m", "quadrants.ir.document", "docs/ops.md")
    manual = (operation.root / "docs/ops.md").read_text()
    assert set(manual.splitlines()) - set((ROOT / "docs/ops.md").read_text().splitlines()) == {
        line for line in manual.splitlines() if "`heaviside`" in line
    }


@pytest.mark.slow
def test_an_operation_with_its_tests_and_its_name(operation: Copy) -> None:
    operation.follow(1, 2, 4, 5)
    operation.is_in_style()
    assert operation.program(HEAVISIDE_KERNEL) == "[0.  0.5 1. ]\n"
    chosen = "heaviside or every_elementwise_row"
    found = operation.tests("tests/ir/test_text.py", "tests/llvm/test_rows.py", "tests/properties", "-k", chosen)
    assert found >= 15


@pytest.mark.slow
def test_a_pass(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "Recipe 2: a pass")
    copy.follow(1, 2, 3)
    copy.is_in_style()
    copy.tests("tests/golden", "--bless", "-k", "remainders")
    blessed = (tmp_path / "tests/golden/remainders.qir").read_text().split("// ---\n")[1]
    assert blessed.count("mod") == 1 and "%r = sub %a" in blessed
    copy.tests("tests/docs/test_architecture.py", "--bless")
    assert "`remainders`" in (tmp_path / "docs/architecture.md").read_text()
    assert copy.tests("tests/golden", "tests/docs/test_architecture.py", "tests/passes/test_driver.py") > 20
    assert copy.tests("tests/llvm/test_random.py", "tests/passes/test_properties.py", "-k", "1") > 5


@pytest.mark.slow
def test_a_target(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "Recipe 3: a target")
    copy.follow(1, 2, 3, 4)
    copy.is_in_style()
    shown = copy.program(TOY)
    assert "[Quadrants] Starting on arch=toy" in shown and "[2. 2. 2.]" in shown
    assert "program.py:13:16: the target toy has no bf16 on this machine" in shown
    assert copy.tests("tests/run/test_control_flow.py", "-k", "toy") > 20


TOY = """
import numpy as np, quadrants as qd

@qd.kernel
def double(x):
    for i in range(len(x)):
        x[i] *= 2

@qd.kernel
def narrow(x):
    for i in range(len(x)):
        y = x[i] + 1
        x[i] = qd.cast(y, qd.bf16)

qd.init(arch="toy")
x = np.ones(3)
double(x)
print(x)
try:
    narrow(x)
except qd.QuadrantsCompilationError as error:
    print(error)
"""
