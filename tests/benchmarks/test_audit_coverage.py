"""Coverage of an audit's intervals, on fewer tables than `benchmarks.studies.audit_coverage`."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.common import read_result
from benchmarks.studies.audit_coverage import STUDIES, coverage


# the studies of AUCs sort every simulated table, and take longest
@pytest.mark.parametrize("name", [name for name in STUDIES if "AUC" not in name])
def test_intervals_cover(name: str) -> None:
    covered = [cell["coverage"] for cell in coverage(name, 200, np.random.default_rng(3))]
    assert np.mean(covered) >= 0.94
    # .93 less three standard errors of 200 draws
    assert min(covered) >= 0.88


def test_the_stored_result_holds_for_every_study() -> None:
    studies = read_result("audit_coverage")["studies"]
    assert set(studies) == set(STUDIES)
    for name, study in studies.items():
        assert study["mean"] >= 0.95, name
        assert study["smallest"] >= 0.93, name
