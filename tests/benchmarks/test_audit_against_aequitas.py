"""An audit of COMPAS against what Aequitas says of the same rows (a stored output)."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from benchmarks.common import read_result
from evenhand.fairlib.evaluation.group_audit import GroupAudit, audit

NAMES = {
    "tpr": "true_positive_rate",
    "tnr": "true_negative_rate",
    "fpr": "false_positive_rate",
    "fnr": "false_negative_rate",
    "precision": "precision",
    "npv": "negative_predictive_value",
    "pprev": "selection_rate",
    "prev": "base_rate",
    "group_size": "count",
}


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    return read_result("audit_against_aequitas")


@pytest.fixture(scope="module")
def audited(stored: dict[str, Any]) -> GroupAudit:
    cells = pd.DataFrame(stored["cells"], columns=stored["columns"])
    rows = cells.loc[cells.index.repeat(cells["rows"])].reset_index(drop=True)
    return audit(
        rows["label_value"].astype(int),
        rows["score"].astype(int),
        sensitive_features=rows[["sex", "race", "age_cat"]],
        metrics=list(NAMES.values()),
        min_cell=1,
        draws=0,
    )


@pytest.mark.parametrize("attribute", ["sex", "race", "age_cat"])
def test_every_rate_equals_that_of_aequitas(
    stored: dict[str, Any], audited: GroupAudit, attribute: str
) -> None:
    frame = audited.to_frame()
    ours = frame[frame["attribute"] == attribute].pivot_table(
        index="group", columns="metric", values="value"
    )
    theirs = pd.DataFrame(stored["groups"][attribute]).T
    assert sorted(ours.index) == sorted(theirs.index)
    for name, metric in NAMES.items():
        assert ours[metric].to_dict() == pytest.approx(theirs[name].to_dict()), name


def test_the_ratio_is_the_smallest_disparity_of_any_two_groups(
    stored: dict[str, Any], audited: GroupAudit
) -> None:
    gaps = audited.gaps().set_index(["metric", "attribute", "kind"])
    for attribute, groups in stored["groups"].items():
        disparities = [values["pprev_disparity"] for values in groups.values()]
        smallest = min(disparities) / max(disparities)
        row = gaps.loc[("selection_rate", attribute, "ratio")]
        assert row["value"] == pytest.approx(smallest)


def test_the_best_known_finding_is_the_verdict(audited: GroupAudit) -> None:
    by_race = audited.to_frame().query("metric == 'false_positive_rate' and attribute == 'race'")
    rates = by_race.set_index("group")["value"]
    assert rates["African-American"] == pytest.approx(0.448, abs=0.001)
    assert rates["Caucasian"] == pytest.approx(0.235, abs=0.001)
