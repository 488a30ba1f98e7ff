"""Documents of a page as a run of a census table writes them; the numbers are made up but fit
together.
"""

from __future__ import annotations

import copy
import datetime
import math
from typing import Any

from page_blocks import RUN

HOSTILE = '<script>alert("1")</script>\'&"><img src=x onerror=alert(1)>'
EDGES = [i / 20 for i in range(21)]
COUNTS = {
    "sex": [("Female", 2613, 130, 311, 196), ("Male", 4217, 590, 1904, 1498)],
    "race": [("Non-White", 1010, 70, 190, 128), ("White", 5820, 650, 2025, 1566)],
    "age": [("<25", 1350, 4, 21, 6), ("25-59", 4890, 640, 2050, 1600), (">=60", 590, 76, 144, 88)],
}
LACKING = {
    "value": None,
    "low": None,
    "high": None,
    "status": "insufficient_evidence",
    "reason": "age: 1 cell of 6 has fewer than 25 rows",
}
ENVIRONMENT = {
    "python": "3.11.2",
    "packages": {"xgboost": "3.2.0", "numpy": "2.4.6"},
    "git_commit": "4f1c2d9b6a7e",
    "git_dirty": True,
    "machine": "x86_64, 2 cores",
}
STEPS = [
    {"name": "ingest", "seconds": 1.84, "cached": True},
    {"name": "train", "seconds": 161.2, "cached": False},
    {"name": "gate", "seconds": 0.02, "cached": False},
]


def ok(value: float, half: float) -> dict[str, Any]:
    """A metric with its interval."""
    return {"value": value, "low": value - half, "high": value + half, "status": "ok", "reason": ""}


def counts(attribute: str) -> list[dict[str, Any]]:
    """Counts by group and label."""
    rows = []
    for group, n0, p0, n1, p1 in COUNTS[attribute]:
        rows.append({"group": group, "label": 0, "n": n0, "predicted_positive": p0})
        rows.append({"group": group, "label": 1, "n": n1, "predicted_positive": p1})
    return rows


def gate(
    metric: str, kind: str, limit: float, value: float | None, bound: str = "point"
) -> dict[str, Any]:
    """A gate's result as the decision has it."""
    missing = None if value is None else (limit - value if kind == "min" else value - limit)
    return {
        "metric": metric,
        "kind": kind,
        "bound": bound,
        "limit": limit,
        "value": value,
        "passed": missing is not None and missing <= 0,
        "status": "insufficient_evidence" if value is None else "ok",
        "shortfall": None if missing is None else max(missing, 0.0),
        "text": f"{metric} in one line",
    }


def scores(n: int, middle: float) -> list[int]:
    """A histogram of `n` scores about a middle."""
    shape = [math.exp(-((x + 0.025 - middle) ** 2) / 0.02) for x in EDGES[:-1]]
    found = [math.floor(n * s / sum(shape)) for s in shape]
    found[2] += n - sum(found)
    return found


def run_documents(**changes: Any) -> dict[str, Any]:
    """Every document of a refused run; `changes` are of the facts about the run."""
    run = {
        **RUN,
        "title": "Adult census: who is offered a loan",
        "status": "gated",
        "model": None,
        "refusal": None,
        "job": {
            "name": "adult-budro",
            "method": "budro",
            "parameters": {"boosting": {"steps": 180, "eta": 0.005}, "solver": "dual"},
            "seed": 7,
            "description": "Predict whether a person's yearly income passes 50,000 dollars.",
        },
        "table": {
            "name": "adult",
            "rows": 45222,
            "train_rows": 36177,
            "test_rows": 9045,
            "features": 41,
            "fingerprint": "9b" * 32,
            "contract_name": "adult",
            "contract_version": "1.0.0",
            "contract_page": "contract.html",
        },
        "paper": {
            "source": "Vargo et al. 2021, table 2",
            "row": {
                "balanced_accuracy": [0.815, 0.005],
                "gap_max.sex": [0.146, 0.012],
                "gap_rms.race": [0.072, None],
                "equal_opportunity_difference.age": [0.3, 0.1],
            },
        },
        "steps": STEPS,
        "environment": ENVIRONMENT,
        "files": [{"name": "metrics", "href": "metrics.json"}],
    }
    return {
        "run": {**run, **changes},
        "metrics": {
            "n": 9045,
            "settings": {
                "draws": 1000,
                "level": 0.95,
                "min_cell": 25,
                "seed": 7,
                "intersections": False,
            },
            "metrics": {
                "accuracy": ok(0.8213, 0.0079),
                "balanced_accuracy": ok(0.8154, 0.0087),
                "auc": ok(0.9021, 0.0066),
                "consistency.spouse": ok(0.9441, 0.0047),
                "gap_max.sex": ok(0.1567, 0.0401),
                "gap_max.race": ok(0.0996, 0.0668),
                "demographic_parity_difference.sex": ok(0.2296, 0.0171),
                "demographic_parity_difference.race": ok(0.1174, 0.0219),
                "demographic_parity_difference.age": ok(0.3155, 0.0122),
                "equal_opportunity_difference.age": dict(LACKING),
                "theil_index": ok(0.00713, 0.0004),
            },
            "counts": {name: counts(name) for name in COUNTS},
        },
        "decision": {
            "verdict": "refused",
            "results": [
                gate("balanced_accuracy", "min", 0.8, 0.8154),
                gate("consistency.spouse", "min", 0.95, 0.9394, "interval"),
                gate("gap_max.sex", "max", 0.2, 0.1567),
                gate("equal_opportunity_difference.age", "max", 0.3, None),
            ],
        },
        "histograms": {
            "sex": {
                "edges": EDGES,
                "groups": {"Female": scores(2924, 0.1), "Male": scores(6121, 0.3)},
            },
            "age": {
                "edges": EDGES,
                "groups": {"<25": None, "25-59": scores(6940, 0.2), ">=60": scores(734, 0.3)},
            },
        },
        "history": {
            "step": list(range(1, 181)),
            "adversarial_loss": [0.47 + 0.24 * math.exp(-i / 45) for i in range(180)],
            "loss": [0.40 + 0.29 * math.exp(-i / 40) for i in range(180)],
        },
    }


def published_documents(version: str = "4") -> dict[str, Any]:
    """Documents of a run that published its model."""
    model = {
        "name": "adult-budro",
        "version": version,
        "alias": "champion",
        "uri": "models:/adult-budro@champion",
    }
    documents = run_documents(status="published", model=model)
    results = [result for result in documents["decision"]["results"] if result["passed"]]
    return {**documents, "decision": {"verdict": "passed", "results": results}}


def with_champion(documents: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Documents of a run that may replace a champion; `changes` are of the champion."""
    documents = run_documents() if documents is None else documents
    before = copy.deepcopy(documents["metrics"]["metrics"])
    for name, shift in (("balanced_accuracy", -0.05), ("consistency.spouse", 0.008)):
        for end in ("value", "low", "high"):
            before[name][end] += shift
    del before["gap_max.race"]
    champion = {
        "version": "3",
        "uri": "models:/adult-budro/3",
        "alias": "champion",
        "metrics": {
            name: {end: entry[end] for end in ("value", "low", "high")}
            for name, entry in before.items()
        },
        "data_fingerprint": documents["run"]["table"]["fingerprint"],
        "method": "budro",
        "parameters": {"boosting": {"steps": 180, "eta": 0.01}},
        "seed": 7,
        "contract_version": "1.0.0",
    }
    return {**documents, "champion": {**champion, **changes}}


# evaluations

DIFFERENCES: dict[str, tuple[float | None, float]] = {
    "accuracy": (0.0061, 0.0042),
    "balanced_accuracy": (0.0031, 0.0048),
    "auc": (-0.0124, 0.0051),
    "consistency.spouse": (0.0212, 0.0040),
    "gap_max.sex": (-0.0411, 0.0163),
    "gap_max.race": (0.0, 0.0),
    "demographic_parity_difference.sex": (0.0172, 0.0088),
    "demographic_parity_difference.race": (-0.0411, 0.0163),
    "demographic_parity_difference.age": (0.0012, 0.0065),
    "equal_opportunity_difference.age": (None, 0.0),
    "theil_index": (-0.00031, 0.00019),
}


def judged(name: str, version: str | None, method: str) -> dict[str, Any]:
    """A published model, or one in a folder."""
    return {
        "name": name,
        "version": version,
        "uri": f"models:/{name}/{version}" if version else f"/models/{name}",
        "method": method,
        "contract": {"name": "adult", "version": "1.0.0"},
        "content": "4c" * 32,
    }


def evaluation_documents(**changes: Any) -> dict[str, Any]:
    """Every document of an evaluation beside a baseline; `changes` are of the facts about
    the run.
    """
    metrics = run_documents()["metrics"]
    differences, baseline = {}, copy.deepcopy(metrics)
    for name, (value, half) in DIFFERENCES.items():
        differences[name] = dict(LACKING) if value is None else ok(value, half)
        if value is not None:
            for end in ("value", "low", "high"):
                baseline["metrics"][name][end] -= value
    for cells in baseline["counts"].values():
        for cell in cells:
            cell["predicted_positive"] = int(cell["predicted_positive"] * 0.9)
    run = {
        "id": "20261120-194210-adult-budro-evaluate-7f3a9c",
        "created": "2026-11-20T19:42:10+00:00",
        "status": "refused",
        "judged": judged("adult-budro", "4", "budro"),
        "baseline": judged("adult-budro", "3", "gbdt"),
        "data": {
            "shown": "/data/census/2026-q4.parquet",
            "rows": 9057,
            "rows_set_aside": 12,
            "fingerprint": "9b" * 32,
            "label": {"name": "income", "positive": ">50K", "negative": "<=50K"},
        },
        "notes": ["the model learned from rows of this very table"],
        "steps": STEPS,
        "environment": ENVIRONMENT,
        "files": [{"name": "metrics", "href": "metrics.json"}],
    }
    results = [
        gate("balanced_accuracy", "min", 0.8, 0.8154),
        gate("auc", "no_worse_than_baseline", 0.01, 0.0175, "interval"),
        gate("gap_max.sex", "no_worse_than_baseline", 0.0, -0.0411),
        gate("equal_opportunity_difference.age", "max", 0.3, None),
    ]
    return {
        "run": {**run, **changes},
        "metrics": metrics,
        "baseline": baseline,
        "comparison": {"differences": differences, "n": 9045, "settings": metrics["settings"]},
        "decision": {"verdict": "refused", "results": results},
        "histograms": {"sex": run_documents()["histograms"]["sex"]},
    }


def alone_documents() -> dict[str, Any]:
    """Documents of an evaluation without a baseline and without gates, of a model in no
    registry.
    """
    documents = evaluation_documents(
        status="no_gates", baseline=None, notes=[], judged=judged("adult-folder", None, "gbdt")
    )
    documents["run"]["data"]["rows_set_aside"] = 0
    return {key: documents[key] for key in ("run", "metrics", "histograms")}


# drift


def drifted_column(psi: float, bins: list[tuple[str, float, float]], **more: Any) -> dict[str, Any]:
    """A column as the drift document has it."""
    return {
        "kind": "number",
        "sensitive": False,
        "psi": ok(psi, psi / 2),
        "expected_psi": 0.012,
        "p_value": 0.0001,
        "bins_compared": len(bins),
        "bins": [{"name": name, "then": then, "now": now} for name, then, now in bins],
        "missing": {"then": 0.0, "now": 0.01, "change": ok(0.01, 0.01)},
        "unseen": None,
        "outside_contract": ok(0.0, 0.01),
        "broken": [],
        **more,
    }


def drift_documents() -> dict[str, Any]:
    """Every document of a monitoring run that found drift."""
    few = {**LACKING, "reason": "30 rows are too few"}
    bins = [("below 10", 0.5, 0.2), ("10 to below 20", 0.25, 0.4), ("20 and above", 0.25, 0.4)]
    letters = [("a", 0.4, 0.41), ("b", 0.6, 0.59)]
    broken = [{"rule": "at least 0", "rows": 3}]
    columns = {
        "calm": drifted_column(0.01, letters, kind="category", unseen=ok(0.0, 0.0), sensitive=True),
        "income": drifted_column(0.42, bins, broken=broken),
    }
    # (group, share then, share now, too few people now)
    people = [("F", 0.4, 0.6, False), ("M", 0.6, None, True)]
    groups = [
        {
            "group": group,
            "then": then,
            "now": now,
            "few": hidden,
            "label_then": 0.3,
            "label_now": None,
        }
        for group, then, now, hidden in people
    ]
    moments = {"then": ok(0.02, 0.01), "now": ok(0.07, 0.02), "change": ok(0.05, 0.02)}
    exchanged = [{"name": "token_gap.identity", **moments}]
    return {
        "run": {
            "id": "20260101-000000-people-monitor-abc",
            "created": "2026-01-01T00:00:00+00:00",
            "status": "refused",
            "judged": judged("people", "3", "gbdt"),
            "data": {"shown": "new.csv", "fingerprint": "cd" * 32},
            "default_gates": True,
            "notes": [],
            "steps": STEPS,
            "environment": ENVIRONMENT,
            "files": [{"name": "metrics", "href": "metrics.json"}],
        },
        "drift": {
            "tokens": {"identity": {"column": "comment", "sentences": 90, "metrics": exchanged}},
            "rows": 1200,
            "reference_rows": 5000,
            "ignored_columns": 2,
            "settings": {"draws": 100, "level": 0.9, "min_cell": 5},
            "columns": columns,
            "groups": {
                "sex": {"share_change": ok(0.2, 0.05), "label_rate_change": few, "rows": groups}
            },
            "label": {"name": "paid", "then": 0.3, "now": None, "change": few},
            "prediction": {
                "rows": 1190,
                "unanswered": 10,
                "rate": ok(0.5, 0.03),
                "then": 0.3,
                "now": 0.5,
                "change": ok(0.2, 0.05),
            },
        },
        "metrics": {
            "settings": {"draws": 100, "level": 0.9, "min_cell": 5},
            "metrics": {},
            "counts": {},
            "n": 1200,
        },
        "decision": {
            "verdict": "refused",
            "results": [gate("psi.calm", "max", 0.2, 0.01), gate("psi.income", "max", 0.2, 0.42)],
        },
    }


# the index

JOBS = ("adult-budro", "bank-proxy", "german-faias")
MODEL_METRICS = {
    "accuracy": 0.81,
    "accuracy.low": 0.8,
    "balanced_accuracy": 0.8123,
    "gap_max.sex": 0.1567,
    "consistency.spouse": 0.9441,
    "gap_rms.sex": None,
}
GATES = {"verdict": "passed", "results": [{"metric": "gap_max.sex", "kind": "max", "limit": 0.2}]}
# suffix of the id, status, exit code, and more of the verdict
RUNS: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    (
        "",
        "published",
        0,
        {"metrics": MODEL_METRICS, "gates": GATES, "model": {"alias": "champion"}},
    ),
    ("", "gated", 1, {"metrics": MODEL_METRICS, "gates": GATES}),
    ("", "gated", 3, {"metrics": MODEL_METRICS, "gates": GATES}),
    ("", "up_to_date", 0, {"model": {"alias": "champion"}, "notes": ["nothing changed"]}),
    ("", "failed", 2, {"error": "the table people.csv has no column 'income'", "seconds": {}}),
    ("-sweep", "evaluated", 0, {}),
    ("-sweep", "evaluated", 1, {"error": "no value keeps auc >= 0.99"}),
    (
        "-evaluate",
        "evaluated",
        0,
        {"metrics": MODEL_METRICS, "gates": GATES, "model": {"alias": None}},
    ),
    (
        "-evaluate",
        "evaluated",
        1,
        {"metrics": MODEL_METRICS, "gates": GATES, "model": {"alias": None}},
    ),
    (
        "-filter",
        "filtered",
        0,
        {"metrics": {"rows_in": 100000.0, "rows_out": 48021.0, "kept": 0.48021}},
    ),
    ("-monitor", "monitored", 1, {"metrics": {"psi_max": 0.31, "unseen_max": 0.0}}),
)


def indexed(run_id: str, verdict: Any = None, **more: Any) -> dict[str, Any]:
    """A run as the index gets it."""
    return {"run_id": run_id, "verdict": verdict, "damage": None, "report": None, **more}


def index_documents(count: int = 33) -> dict[str, Any]:
    """A store's runs of every status; the last two have no verdict that can be read."""
    start, runs = datetime.datetime(2026, 9, 1, tzinfo=datetime.UTC), []
    for number in range(count):
        (suffix, status, code, more), name = RUNS[number % len(RUNS)], JOBS[number % len(JOBS)]
        when = start + datetime.timedelta(hours=9 * number)
        run_id = f"{when:%Y%m%d-%H%M%S}-{name}{suffix}-{number:06x}"
        verdict = {"status": status, "exit_code": code, "seconds": {"train": 10.0 + number}, **more}
        if "model" in more:
            version = str(1 + number // len(RUNS))
            verdict["model"] = {
                "name": name,
                "version": version,
                "uri": f"models:/{name}",
                **more["model"],
            }
        runs.append(indexed(run_id, verdict, report=f"{run_id}/report.html"))
    for run, damage in zip(runs[-2:], ("missing", "damaged"), strict=True):
        run |= {"verdict": None, "damage": damage, "report": None}
    return {
        "run": {"store": "/srv/evenhand", "created": "2026-11-20T19:42:10+00:00"},
        "runs": runs,
        "aliases": None,
    }
