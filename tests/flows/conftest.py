"""Tests of flows in this process."""

from __future__ import annotations

import pytest

from tests.flows.people import SMALL, Bench


@pytest.fixture(autouse=True)
def every_flow(flow_environment: None) -> None:
    """Every test here runs in the environment of flows."""


@pytest.fixture
def reading(publishing: Bench) -> Bench:
    """A job whose model reads age and sex, and pay follows sex."""
    for column in publishing.contract["schema"][0]["properties"]:
        if column["name"] in ("age", "sex"):
            column["customProperties"].append({"property": "use", "value": "feature"})
    sex, paid = publishing.table["sex"].to_pylist(), publishing.table["paid"].to_pylist()
    publishing.set(
        "paid",
        [
            "yes" if s == "M" or (p == "yes" and i % 3) else "no"
            for i, (s, p) in enumerate(zip(sex, paid, strict=True))
        ],
    )
    publishing.job["method"] = {"name": "gbdt", **SMALL}
    publishing.job["evaluate"] |= {
        "min_cell": 2,
        "counterfactuals": {
            "sex": {"sex": "all"},
            "both": {"sex": ["F", "M"], "income": [1000.0, 6000.0]},
        },
    }
    publishing.job["tune"] = {
        "trials": 4,
        "folds": 2,
        "workers": 1,
        "methods": ["gbdt"],
        "confidence": 0.5,
    }
    return publishing
