"""The section on how a model was made: steps, times, and all that was recorded."""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import headings, page, rows, table
from page_examples import run_documents


@pytest.fixture
def documents() -> dict[str, Any]:
    return run_documents()


# how it was made


def test_steps_have_times_and_what_was_reused(documents: dict[str, Any]) -> None:
    found = rows(table(page("run", documents)["made"], "Time of each step"))
    assert found == {
        "ingest": ["1.8 s, reused from the cache"],
        "train": ["2 min 41 s"],
        "gate": ["0.02 s"],
        "All": ["2 min 43 s"],
    }


def test_everything_recorded_stands_in_tables(documents: dict[str, Any]) -> None:
    section = page("run", documents)["made"]
    job = rows(table(section, "The job"))
    assert job["Method"][0].startswith("budro: gradient-boosted trees")
    assert (job["Seed"], job["boosting.eta"], job["solver"]) == (["7"], ["0.005"], ["dual"])
    assert rows(table(section, "The table"))["Fingerprint (SHA-256)"] == ["9b" * 32]
    assert rows(table(section, "The evaluation")) == {
        "Rows evaluated": ["9,045"],
        "Level of the intervals": ["95%"],
        "Bootstrap draws": ["1,000"],
        "Rows that a rate needs": ["25"],
    }
    machine = rows(table(section, "The machine"))
    assert machine["Git commit"] == ["4f1c2d9b6a7e, with changes not committed"]
    assert machine["xgboost"] == ["3.2.0"]
    files = table(section, "Files next to this page").rows
    assert [(row[0].text, row[0].href) for row in files] == [("metrics", "metrics.json")]
    documents["run"]["job"]["seed"] = None
    documents["run"] |= {"files": [], "environment": {"python": "3"}}
    section = page("run", documents)["made"]
    assert rows(table(section, "The job"))["Seed"] == ["not set"]
    assert rows(table(section, "The machine"))["Git commit"] == ["not recorded"]
    assert not headings(section)
