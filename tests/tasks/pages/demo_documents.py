"""Documents of the demonstration: four models on one table."""

from __future__ import annotations

from typing import Any

from page_examples import ok

from evenhand.tasks.pages.fronts.demo_front import CONSISTENCY, GAP

# accuracy, consistency and gap of each model
MODELS = {
    "hiring-gbdt": ("trees", 0.82, 0.70, 0.25),
    "hiring-blind": ("trees that do not see the gender", 0.80, 0.85, 0.12),
    "hiring-blind-club": ("trees that see neither gender nor club", 0.795, None, 0.08),
    "hiring-budro": ("individually fair trees", 0.785, 0.98, 0.02),
}


def demo_documents() -> dict[str, Any]:
    """Fresh documents."""
    models = [
        {
            "name": name,
            "label": label,
            "href": f"{name}/report.html",
            "metrics": {
                "accuracy": ok(accuracy, 0.01),
                GAP: ok(gap, 0.03),
                # who reads none of the changed columns has no such metric
                **({} if consistency is None else {CONSISTENCY: ok(consistency, 0.02)}),
            },
        }
        for name, (label, accuracy, consistency, gap) in MODELS.items()
    ]
    return {"models": models, "run": {"rows": 1000, "created": "2026-11-22T10:00:00+00:00"}}
