"""What docs/architecture.md says of the code is so: the passes, the folders, the files that it names."""

from __future__ import annotations

import configparser
import re
import textwrap

from quadrants.ir.text import parse_module, print_module
from quadrants.ir.verify import verify
from quadrants.passes.pipeline import PIPELINE

from .conftest import ARCHITECTURE, ROOT, Generated


def pass_table() -> str:
    """The rows of the passes' table."""
    rows = []
    for step in PIPELINE:
        name = f"**`{step.name}`**" if step.required else f"`{step.name}`"
        stage = f"{step.stage} → {step.leads_to}" if step.leads_to else step.stage
        rows.append(f"| {name} | {stage} | {step.reason} |\n")
    return "".join(rows)


def test_the_table_of_passes_is_up_to_date(bless: bool) -> None:
    Generated(ARCHITECTURE, "passes").check(pass_table(), bless)


def test_the_files_that_it_names_are_there() -> None:
    prose = re.sub(r"^```.*?^```$", "", ARCHITECTURE.read_text(), flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`((?:[\w.]+/)*[\w*]+(?:\.py|/))`", prose))
    assert len(named) > 30
    folders = [ROOT, ROOT / "src" / "quadrants", *(ROOT / "src" / "quadrants").glob("*/")]
    missing = [name for name in sorted(named) if not any(any(folder.glob(name)) for folder in folders)]
    assert missing == []


def test_every_folder_of_the_house_is_in_the_table() -> None:
    text = ARCHITECTURE.read_text()
    house = text[text.index("## The house") : text.index("## The IR on one screen")]
    folders = [path.name for path in (ROOT / "src/quadrants").iterdir() if (path / "__init__.py").exists()]
    assert [name for name in folders if f"`{name}/`" not in house] == []


def test_the_layers_are_those_that_are_enforced() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    layers = parser["importlinter:contract:path"]["layers"]
    names = re.findall(r"\((\w+)\)", layers)
    order = {
        name: line for line, names_of in enumerate(layers.strip().splitlines()) for name in re.findall(r"\w+", names_of)
    }
    assert set(names) >= {"lang", "frontend", "runtime", "targets", "passes", "ir", "library", "evidence"}
    assert order["lang"] < order["frontend"] < order["targets"] < order["passes"] < order["ir"]
    assert order["frontend"] == order["runtime"]


def test_the_program_on_the_screen_is_one() -> None:
    text = ARCHITECTURE.read_text()
    start = text.index("    quadrants-ir 1\n")
    program = textwrap.dedent(text[start : text.index("\n\n", start) + 1])
    module = parse_module(program)
    verify(module)
    again = print_module(module)
    assert print_module(parse_module(again)) == again
    assert module.stage == "tasks" and module.kernel.body.ops[2].attribute("parallel")
