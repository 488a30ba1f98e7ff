"""A store's runs as the index gets them: every status, damaged and missing verdicts among them; made up."""

from __future__ import annotations

import datetime
from typing import Any

START = datetime.datetime(2026, 9, 1, tzinfo=datetime.UTC)
JOBS = ("adult-budro", "bank-proxy", "german-faias")
MODEL_METRICS = {
    "accuracy": 0.81,
    "accuracy.low": 0.8,
    "accuracy.high": 0.82,
    "balanced_accuracy": 0.8123,
    "auc": 0.9021,
    "demographic_parity_difference.sex": 0.2,
    "gap_max.sex": 0.1567,
    "consistency.spouse": 0.9441,
    "gap_rms.sex": None,
}
GATES = {"verdict": "passed", "results": [{"metric": "gap_max.sex", "kind": "max", "limit": 0.2}]}
NO_COLUMN = "the table people.csv has no column 'income': add it, or drop it from the contract people 1.0.0."
# suffix of the id, status, exit code, and more of the verdict
RUNS: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("", "published", 0, {"metrics": MODEL_METRICS, "gates": GATES, "model": {"alias": "champion"}}),
    ("", "gated", 1, {"metrics": MODEL_METRICS, "gates": GATES}),
    ("", "gated", 3, {"metrics": MODEL_METRICS, "gates": GATES}),
    ("", "up_to_date", 0, {"model": {"alias": "champion"}, "notes": ["nothing changed"]}),
    ("", "failed", 2, {"error": NO_COLUMN, "seconds": {}}),
    ("-sweep", "evaluated", 0, {}),
    ("-sweep", "evaluated", 1, {"error": "no value keeps auc >= 0.99"}),
    ("-evaluate", "evaluated", 0, {"metrics": MODEL_METRICS, "gates": GATES, "model": {"alias": None}}),
    ("-evaluate", "evaluated", 1, {"metrics": MODEL_METRICS, "gates": GATES, "model": {"alias": None}}),
    ("-filter", "filtered", 0, {"metrics": {"rows_in": 100000.0, "rows_out": 48021.0, "kept": 0.48021}}),
    ("-monitor", "monitored", 1, {"metrics": {"psi_max": 0.31, "unseen_max": 0.0}}),
)


def verdict_of(number: int, name: str) -> tuple[str, dict[str, Any]]:
    """Id and verdict of one run; the version counts the runs."""
    suffix, status, code, more = RUNS[number % len(RUNS)]
    when = START + datetime.timedelta(hours=9 * number)
    run_id = f"{when:%Y%m%d-%H%M%S}-{name}{suffix}-{number:06x}"
    verdict: dict[str, Any] = {
        "run_id": run_id,
        "status": status,
        "exit_code": code,
        "error": None,
        "metrics": {},
        "gates": {},
        "artifacts": {},
        "seconds": {"ingest": 1.5, "train": 10.0 + number},
        "cached": [],
        **more,
    }
    if "model" in more:
        version = str(1 + number // len(RUNS))
        verdict["model"] = {"name": name, "version": version, "uri": f"models:/{name}", **more["model"]}
    return run_id, verdict


def index_context(count: int = 30) -> dict[str, Any]:
    """Build a fresh context; the last two runs left no verdict that can be read."""
    runs = []
    for number in range(count):
        run_id, verdict = verdict_of(number, JOBS[number % len(JOBS)])
        runs.append({"run_id": run_id, "verdict": verdict, "report": f"{run_id}/report.html"})
    for run, damage in zip(runs[-2:], ("missing", "damaged"), strict=True):
        run |= {"verdict": None, "damage": damage, "report": None}
    return {"store": "/srv/evenhand", "created": "2026-11-20T19:42:10+00:00", "runs": runs}
