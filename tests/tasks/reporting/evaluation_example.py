"""Contexts as an evaluation of a census model beside its predecessor would give them; numbers are made up."""

from __future__ import annotations

from typing import Any

from report_example import EDGES, counts, example, humps, ok

DIFFERENCES: dict[str, tuple[float | None, float]] = {
    "accuracy": (0.0061, 0.0042),
    "balanced_accuracy": (0.0031, 0.0048),
    "auc": (-0.0124, 0.0051),
    "consistency.spouse": (0.0212, 0.0040),
    "consistency.gender_race": (0.0, 0.0),
    "gap_max.sex": (-0.0411, 0.0163),
    "gap_rms.sex": (-0.0290, 0.0121),
    "demographic_parity_difference.sex": (0.0172, 0.0088),
    "equal_opportunity_difference.sex": (-0.0101, 0.0312),
    "average_odds_difference.sex": (-0.0214, 0.0130),
    "gap_max.race": (0.0043, 0.0320),
    "gap_rms.race": (0.0022, 0.0202),
    "demographic_parity_difference.race": (0.0051, 0.0096),
    "demographic_parity_difference.age": (0.0012, 0.0065),
    "equal_opportunity_difference.age": (None, 0.0),
    "theil_index": (-0.00021, 0.00019),
}
LACKING = {
    "value": None,
    "low": None,
    "high": None,
    "status": "insufficient_evidence",
    "reason": "age: 1 cell of 6 has fewer than 25 rows",
}


def judged(name: str, version: str | None, method: str) -> dict[str, Any]:
    return {
        "name": name,
        "version": version,
        "uri": f"models:/{name}/{version}" if version else f"/models/{name}",
        "method": method,
        "contract": {"name": "adult", "version": "1.0.0"},
        "content": "4c" * 32,
    }


def gate(metric: str, kind: str, limit: float, value: float | None, bound: str = "point") -> dict[str, Any]:
    """Build a result as ``GateResult`` has it."""
    missing = None if value is None else (limit - value if kind == "min" else value - limit)
    passed = missing is not None and missing <= 0
    return {
        "metric": metric,
        "kind": kind,
        "bound": bound,
        "limit": limit,
        "value": value,
        "passed": passed,
        "status": "insufficient_evidence" if value is None else "ok",
        "shortfall": None if missing is None else max(missing, 0.0),
        "text": f"{metric} in one line",
    }


def evaluation_context(**changes: Any) -> dict[str, Any]:
    """Build a fresh context with every part filled."""
    run = example()
    evaluation = run["evaluation"]
    differences = {
        name: dict(LACKING) if value is None else ok(value, half)
        for name, (value, half) in DIFFERENCES.items()
    }
    metrics = {
        name: dict(LACKING)
        if metric["value"] is None
        else ok(metric["value"] - DIFFERENCES[name][0], (metric["high"] - metric["low"]) / 2)
        for name, metric in evaluation["metrics"].items()
    }
    before = {name: counts(name) for name in evaluation["counts"]}
    for cells in before.values():
        for cell in cells:
            cell["predicted_positive"] = int(cell["predicted_positive"] * 0.9)
    results = [
        gate("balanced_accuracy", "min", 0.8, 0.8154),
        gate("auc", "no_worse_than_baseline", 0.01, 0.0175, "interval"),
        gate("gap_max.sex", "no_worse_than_baseline", 0.0, -0.0411),
        gate("equal_opportunity_difference.age", "max", 0.3, None),
    ]
    context = {
        "run_id": "20261120-194210-adult-budro-evaluate-7f3a9c",
        "created": "2026-11-20T19:42:10+00:00",
        "status": "refused",
        "model": judged("adult-budro", "4", "budro"),
        "baseline": judged("adult-budro", "3", "gbdt"),
        "data": {
            "shown": "/data/census/2026-q4.parquet",
            "rows": 9057,
            "rows_set_aside": 12,
            "fingerprint": "9b" * 32,
        },
        "label": {"name": "income", "positive": ">50K", "negative": "<=50K"},
        "evaluation": evaluation,
        "baseline_evaluation": {**evaluation, "metrics": metrics, "counts": before},
        "comparison": {"differences": differences, "n": 9045, "settings": evaluation["settings"]},
        "gates": {"passed": False, "verdict": "refused", "note": "", "results": results},
        "histograms": {
            "sex": {
                "edges": EDGES,
                "groups": {"Female": humps(2924, 0.08, 0.7, 0.12), "Male": humps(6121, 0.2, 0.72, 0.45)},
            }
        },
        "notes": ["the model learned from rows of this very table"],
        "seconds": {"ingest": 0.3, "contract": 1.2, "predict": 2.5, "evaluate": 12.2, "gate": 0.01},
        "cached": ["ingest", "contract"],
        "environment": run["environment"],
        "files": [{"name": "metrics", "href": "metrics.json"}],
    }
    return {**context, **changes}


def alone(**changes: Any) -> dict[str, Any]:
    """Build a context without a baseline and without gates, of a model that is in no registry."""
    context = evaluation_context()
    context.update(baseline=None, baseline_evaluation=None, comparison=None, gates=None, status="no_gates")
    context.update(model=judged("adult-folder", None, "gbdt"), notes=[], cached=[])
    context["data"]["rows_set_aside"] = 0
    return {**context, **changes}
