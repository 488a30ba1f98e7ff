"""Results that were written down once, so that no change of them goes unnoticed.

``EVENHAND_WRITE_RESULTS=1 pytest FILE`` writes the results of a file's tests anew, for a change
that is meant; the changed numbers are then read in the commit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Other versions of LAPACK round otherwise.
RELATIVE = 1e-6
ABSOLUTE = 1e-9


def plain(value: Any) -> Any:
    """A result as JSON has it: lists for arrays, and text for numbers that JSON lacks."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.10g}") if np.isfinite(value) else str(value)
    return value


def check_written(test_file: str, name: str, results: Any, relative: float = RELATIVE) -> None:
    """Compare results with those written down beside a test file, under a name."""
    path = Path(test_file).with_suffix(".json")
    written: dict[str, Any] = {}
    if path.exists():
        written = json.loads(path.read_text())
    computed = plain(results)
    if os.environ.get("EVENHAND_WRITE_RESULTS"):
        written[name] = computed
        lines = [f"{json.dumps(key)}: {json.dumps(written[key])}" for key in sorted(written)]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return
    _compare(computed, written[name], name, relative)


def _compare(computed: Any, written: Any, place: str, relative: float) -> None:
    if isinstance(written, dict):
        assert list(computed) == list(written), place
        for key, value in written.items():
            _compare(computed[key], value, f"{place}.{key}", relative)
    elif isinstance(written, list):
        assert len(computed) == len(written), place
        for number, value in enumerate(written):
            _compare(computed[number], value, f"{place}[{number}]", relative)
    elif isinstance(written, float):
        assert computed == pytest.approx(written, rel=relative, abs=ABSOLUTE), place
    else:
        assert computed == written, place
