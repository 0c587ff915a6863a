"""For `import quadrants.profiler`: the module that `qd.profiler` is."""

from __future__ import annotations

import sys

from quadrants.lang import profiler

sys.modules[__name__] = profiler
