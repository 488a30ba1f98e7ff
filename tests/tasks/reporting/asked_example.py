"""What an agent of synthetic loans would ask; the numbers are made up but hang together."""

from __future__ import annotations

from typing import Any

# share, mean place, asked first, AUC of the outcome and of the group from it alone
FEATURES: dict[str, tuple[float, float | None, float, float, float]] = {
    "X1": (0.99, 1.2, 0.8, 0.561, 0.501),
    "X2": (0.96, 2.4, 0.15, 0.559, 0.497),
    "X5": (0.02, 5.5, 0.0, 0.558, 0.761),
    "X6": (0.0, None, 0.0, 0.557, 0.752),
    "X9": (0.97, 3.1, 0.05, 0.583, 0.502),
    "X10": (0.58, 4.0, 0.0, 0.556, 0.638),
}
SHARES_OF_X10 = {"0": 0.93, "1": 0.59, "2": 0.22}


def feature(name: str, rows: dict[str, int]) -> dict[str, Any]:
    share, place, first, outcome, group = FEATURES[name]
    varies: dict[str, Any] | None = {"feature": "X9", "shares": {"0": share, "2": share}, "spread": 0.0}
    if name == "X10":
        varies = {"feature": "X9", "shares": dict(SHARES_OF_X10), "spread": 0.71}
    if name == "X9":
        varies = None
    return {
        "name": name,
        "allowed": True,
        "share": share,
        "low": max(share - 0.01, 0.0),
        "high": min(share + 0.01, 1.0),
        "mean_position": place,
        "first_share": first,
        "by_label": {"0": share, "1": min(share + 0.005, 1.0)},
        "by_group": {
            "group": {
                value: {"share": min(share + 0.004 * i, 1.0), "rows": count} if count >= 25 else None
                for i, (value, count) in enumerate(rows.items())
            }
        },
        "varies_with": varies,
        "classifier_auc": outcome,
        "adversary_auc": group,
    }


def acquisition_example(rows: dict[str, int] | None = None) -> dict[str, Any]:
    """Build a fresh ``acquisition.json``."""
    counts = rows if rows is not None else {"a": 4990, "b": 5010}
    histogram = [0, 40, 260, 3900, 5700, 100, 0]
    return {
        "gamma": 0.5,
        "criterion": "demographic_parity",
        "attributes": ["group"],
        "groups": [feature(name, counts) for name in FEATURES],
        "asked": {"mean": 3.556, "low": 3.541, "high": 3.571, "histogram": histogram},
        "sequences": [
            {"groups": ["X1", "X2", "X9", "X10"], "share": 0.512, "rows": 5120},
            {"groups": ["X2", "X1", "X9"], "share": 0.123, "rows": 1230},
            {"groups": [], "share": 0.004, "rows": 40},
        ],
        "auc": {
            "all": {"classifier_auc": 0.679, "adversary_auc": 0.881},
            "acquired": {"classifier_auc": 0.651, "adversary_auc": 0.523},
        },
        "full_information": {
            "accuracy": 0.631,
            "auc": 0.682,
            "gap_max.group": None,
            "demographic_parity_difference.group": 0.187,
            "demographic_parity_difference.group&sex": 0.3,
        },
    }


def measured(value: float | None, half: float = 0.01) -> dict[str, Any]:
    if value is None:
        return {"value": None, "low": None, "high": None, "status": "insufficient_evidence", "reason": "few"}
    return {"value": value, "low": value - half, "high": value + half, "status": "ok", "reason": ""}


def evaluation_example() -> dict[str, Any]:
    """Build the ``metrics.json`` beside it."""
    return {
        "n": 10000,
        "settings": {"draws": 200, "level": 0.9, "min_cell": 25, "seed": 0, "intersections": False},
        "counts": {},
        "metrics": {
            "accuracy": measured(0.604),
            "auc": measured(0.648),
            "gap_max.group": measured(0.05),
            "demographic_parity_difference.group": measured(0.021),
            "demographic_parity_difference.group&sex": measured(0.022),
            "features_asked": {
                "value": 3.556,
                "low": 3.541,
                "high": 3.571,
                "status": "ok",
                "reason": "",
            },
        },
    }
