"""A context as a run of a census table would give it; the numbers are made up but hang together."""

from __future__ import annotations

import math
from typing import Any

EDGES = [i / 20 for i in range(21)]

COUNTS = {
    "sex": [("Female", 2613, 130, 311, 196), ("Male", 4217, 590, 1904, 1498)],
    "race": [("Non-White", 1010, 70, 190, 128), ("White", 5820, 650, 2025, 1566)],
    "age": [("<25", 1350, 4, 21, 6), ("25-59", 4890, 640, 2050, 1600), (">=60", 590, 76, 144, 88)],
}


def counts(attribute: str) -> list[dict[str, Any]]:
    rows = []
    for group, n0, p0, n1, p1 in COUNTS[attribute]:
        rows.append({"group": group, "label": 0, "n": n0, "predicted_positive": p0})
        rows.append({"group": group, "label": 1, "n": n1, "predicted_positive": p1})
    return rows


def ok(value: float, half: float) -> dict[str, Any]:
    return {"value": value, "low": value - half, "high": value + half, "status": "ok", "reason": ""}


def humps(n: int, low: float, high: float, part: float) -> list[int]:
    shape = [
        (1 - part) * math.exp(-(((x + 0.025) - low) ** 2) / 0.02)
        + part * math.exp(-(((x + 0.025) - high) ** 2) / 0.03)
        for x in EDGES[:-1]
    ]
    counts = [math.floor(n * s / sum(shape)) for s in shape]
    counts[2] += n - sum(counts)
    return counts


def example() -> dict[str, Any]:
    """Build a fresh context with every part filled."""
    return {
        "title": "Adult census: who is offered a loan",
        "job": {
            "name": "adult-budro",
            "method": "budro",
            "parameters": {
                "boosting": {"steps": 180, "eta": 0.005, "max_depth": 14},
                "perturbation_budget": 0.4,
                "solver": "dual",
                "split": {"test": 0.2},
            },
            "seed": 7,
            "description": "Predict whether a person's yearly income passes 50,000 dollars.",
        },
        "run_id": "2026-11-20-7f3a9c",
        "created": "2026-11-20T19:42:10+00:00",
        "status": "gated",
        "headline": [],
        "table": {
            "name": "adult",
            "rows": 45222,
            "train_rows": 36177,
            "test_rows": 9045,
            "features": 41,
            "fingerprint": "9b1f0c6f5a6c8d0e2b7a41d3c9e85f7702c4a6b8d1e3f5097a8b6c4d2e0f1a3b",
            "contract_name": "adult",
            "contract_version": "1.0.0",
            "contract_page": "contract.html",
        },
        "evaluation": {
            "n": 9045,
            "settings": {"draws": 1000, "level": 0.95, "min_cell": 25, "seed": 7, "intersections": False},
            "metrics": {
                "accuracy": ok(0.8213, 0.0079),
                "balanced_accuracy": ok(0.8154, 0.0087),
                "auc": ok(0.9021, 0.0066),
                "consistency.spouse": ok(0.9441, 0.0047),
                "consistency.gender_race": ok(0.9572, 0.0041),
                "gap_max.sex": ok(0.1567, 0.0401),
                "gap_rms.sex": ok(0.1246, 0.0302),
                "demographic_parity_difference.sex": ok(0.2296, 0.0171),
                "equal_opportunity_difference.sex": ok(0.1566, 0.0548),
                "average_odds_difference.sex": ok(0.1233, 0.0284),
                "gap_max.race": ok(0.0996, 0.0668),
                "gap_rms.race": ok(0.0791, 0.0446),
                "demographic_parity_difference.race": ok(0.1174, 0.0219),
                "demographic_parity_difference.age": ok(0.3155, 0.0122),
                "equal_opportunity_difference.age": {
                    "value": None,
                    "low": None,
                    "high": None,
                    "status": "insufficient_evidence",
                    "reason": "age: 1 cell of 6 has fewer than 25 rows",
                },
                "theil_index": ok(0.00713, 0.0004),
            },
            "counts": {name: counts(name) for name in COUNTS},
        },
        "paper": {
            "source": "BuDRO, Table 2 (ICLR 2021)",
            "row": {
                "balanced_accuracy": [0.815, 0.005],
                "consistency.spouse": [0.944, 0.013],
                "consistency.gender_race": [0.957, 0.007],
                "gap_max.sex": [0.146, 0.012],
                "gap_rms.sex": [0.114, 0.013],
                "gap_max.race": [0.083, 0.018],
                "gap_rms.race": [0.072, None],
            },
        },
        "gates": {
            "verdict": "refused",
            "results": [
                {
                    "metric": "balanced_accuracy",
                    "kind": "min",
                    "bound": "point",
                    "limit": 0.8,
                    "value": 0.8154,
                    "passed": True,
                    "status": "passed",
                    "shortfall": None,
                    "text": "",
                },
                {
                    "metric": "consistency.spouse",
                    "kind": "min",
                    "bound": "interval",
                    "limit": 0.95,
                    "value": 0.9394,
                    "passed": False,
                    "status": "refused",
                    "shortfall": 0.0106,
                    "text": "",
                },
                {
                    "metric": "gap_max.sex",
                    "kind": "max",
                    "bound": "point",
                    "limit": 0.2,
                    "value": 0.1567,
                    "passed": True,
                    "status": "passed",
                    "shortfall": None,
                    "text": "",
                },
                {
                    "metric": "equal_opportunity_difference.age",
                    "kind": "max",
                    "bound": "point",
                    "limit": 0.3,
                    "value": None,
                    "passed": False,
                    "status": "insufficient_evidence",
                    "shortfall": None,
                    "text": "",
                },
            ],
        },
        "histograms": {
            "sex": {
                "edges": EDGES,
                "groups": {"Female": humps(2924, 0.08, 0.7, 0.12), "Male": humps(6121, 0.2, 0.72, 0.45)},
            },
            "race": {
                "edges": EDGES,
                "groups": {"Non-White": humps(1200, 0.1, 0.7, 0.2), "White": humps(7845, 0.18, 0.72, 0.36)},
            },
            "age": {
                "edges": EDGES,
                "groups": {
                    "<25": None,
                    "25-59": humps(6940, 0.2, 0.7, 0.4),
                    ">=60": humps(734, 0.2, 0.65, 0.3),
                },
            },
        },
        "steps": [
            {"name": "ingest", "seconds": 1.84, "cached": True},
            {"name": "contract", "seconds": 0.07, "cached": True},
            {"name": "split", "seconds": 0.05, "cached": True},
            {"name": "encode", "seconds": 0.09, "cached": True},
            {"name": "fair metric", "seconds": 3.41, "cached": False},
            {"name": "train", "seconds": 161.2, "cached": False},
            {"name": "evaluate", "seconds": 12.6, "cached": False},
            {"name": "gate", "seconds": 0.02, "cached": False},
        ],
        "model": None,
        "sections": [
            {
                "title": "Certificate",
                "html_safe_paragraphs": [
                    "How far the loss can rise when people are exchanged for ones <em>0.4</em> away."
                ],
                "table": {
                    "caption": "Loss before and after the worst exchange",
                    "columns": ["Distance", "Loss", "Worst loss", "Ratio"],
                    "rows": [["0.2", 0.4123, 0.4391, 1.065], ["0.4", 0.4123, 0.4702, 1.1404]],
                },
                "svg": None,
            }
        ],
        "training": {
            "steps": list(range(1, 181)),
            "series": {
                "adversarial_loss": [
                    0.47 + 0.24 * math.exp(-i / 45) + 0.004 * math.sin(i) for i in range(180)
                ],
                "loss": [0.40 + 0.29 * math.exp(-i / 40) for i in range(180)],
            },
        },
        "environment": {
            "python": "3.11.2",
            "packages": {"xgboost": "3.2.0", "numpy": "2.4.6", "scikit-learn": "1.9.1", "prefect": "3.8.8"},
            "git_commit": "4f1c2d9b6a7e",
            "git_dirty": True,
            "machine": "x86_64, 2 cores",
        },
        "files": [
            {"name": "metrics.json", "href": "metrics.json"},
            {"name": "predictions.parquet", "href": "s3://bucket/runs/7f3a9c/predictions.parquet"},
        ],
    }
