"""The attacks on the shipped jobs: which are run, their table, and the jobs that say what was
found.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import common
from benchmarks.studies import membership_study
from evenhand.flows.job_file import JOBS


def row(value: float) -> dict[str, Any]:
    auc = {"value": value, "low": value - 0.05, "high": value + 0.05}
    told = [
        {"attribute": "age", "source": source, "group": "<25", "auc": 0.6}
        for source in ("label", "score")
    ]
    attacks = {
        name: {"auc": auc, "true_positive_rate": 0.02}
        for name in ("online", "offline", "threshold")
    }
    return {"shadows": 8, "members": 1200, "attacks": attacks, "attributes": told}


def test_what_is_in_the_file_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def measure(store: Any, job: str, shadows: int) -> dict[str, Any]:
        ran.append(job)
        return row(0.5)

    monkeypatch.setattr(membership_study, "measure", measure)
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    for jobs in (["compas-gbdt", "german-nn"], ["compas-gbdt", "german-gbdt"]):
        monkeypatch.setattr("sys.argv", ["membership", "--jobs", *jobs])
        membership_study.main()
    assert ran == ["compas-gbdt", "german-nn", "german-gbdt"]
    kept = json.loads((tmp_path / "membership.json").read_text())
    assert list(kept["rows"]) == ["german-gbdt", "german-nn", "compas-gbdt"]
    assert kept["command"] == "python -m benchmarks.studies.membership_study --shadows 16"


def test_the_table_names_jobs_above_the_limit_and_unmeasured() -> None:
    content = {"limit": 0.55, "rows": {"german-gbdt": row(0.551), "german-nn": row(0.55)}}
    text = "\n".join(membership_study.sections(content, lambda found: ""))
    (line,) = (line for line in text.splitlines() if line.startswith("| german-gbdt |"))
    assert line.endswith(
        "| 8 | 1,200 | 0.551 | 0.501 to 0.601 | 0.020 | 0.551 | 0.551 | 0.551 | age <25: 0.600 |"
    )
    assert "Above 0.55: german-gbdt. Not measured yet: german-budro, " in text
    assert ", bank-proxy" in text
    assert membership_study.sections({}, lambda found: "") == []


def test_the_file_of_a_job_above_the_limit_says_so() -> None:
    content = json.loads((common.RESULTS / "membership.json").read_text())
    for job in membership_study.attacked():
        value = membership_study.membership_auc(content["rows"].get(job, row(0.5)))
        text = (JOBS / f"{job}.yaml").read_text(encoding="utf-8")
        comment = f"the membership AUC is {value:.2f}, above the limit of 0.55."
        assert (comment in text) == (value > content["limit"]), job
