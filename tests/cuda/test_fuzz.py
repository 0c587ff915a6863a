"""Random programs as PTX, against the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadrants.evidence.fuzz import trial
from quadrants.evidence.fuzz.settings import Settings
from quadrants.evidence.ptx.driver import played

pytestmark = pytest.mark.slow

_CPUS = ("lanes", "cpu_max_num_threads")


@pytest.mark.parametrize("seed", [*range(12), 338])
def test_random_program(seed: int, tmp_path: Path) -> None:
    case, (first, *_) = trial.settings_of(seed)
    options = {name: value for name, value in first.options.items() if name not in _CPUS}
    settings = Settings("cuda", options, first.defaults, eager=first.eager)
    module = trial.load(case.text, tmp_path, f"program_{seed}")
    expected = trial.expectations(module, case.sizes, first.defaults)
    with played():
        assert trial.check(module, expected, settings, case.style) is None
