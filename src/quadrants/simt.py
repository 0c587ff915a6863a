"""For `import quadrants.simt`: the module that `qd.simt` is."""

from __future__ import annotations

import sys

from quadrants.lang import simt

sys.modules[__name__] = simt
