"""The certificate of invariance: how far a network's outputs can move when people move a little."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.fairlib.distances.base import Metric
from evenhand.fairlib.evaluation.certificates import Certificate, certify
from evenhand.fairlib.methods.networks.base import NetworkMethod
from evenhand.fairlib.progress import Progress
from evenhand.fairlib.randomness import generator
from evenhand.tasks.dataset import Dataset

__all__ = ["certify_model", "write_certificate"]

# The curve shows these multiples of the job's budget; the first of them is the budget itself.
MULTIPLES = (1.0, 0.0, 0.01, 0.03, 0.1, 0.3, 3.0, 10.0, 30.0, 100.0)
# The same where the budget is 0.
BUDGETS = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
# People who are looked at: drawn at random from more.
MOST_PEOPLE = 2000
ODDS = (1.25, 1.5, 2.0, 4.0)


def certify_model(
    model: NetworkMethod,
    data: Dataset,
    metric: Metric,
    budget: float,
    *,
    draws: int,
    level: float,
    seed: int,
    callback: Progress | None = None,
) -> Certificate:
    """
    Certify a network on encoded rows, with the fair metric of the run.

    The first of the certificate's budgets is the job's; the others are around it.
    """
    budgets = [multiple * budget for multiple in MULTIPLES] if budget > 0 else list(BUDGETS)
    people = np.arange(len(data.X))
    if len(people) > MOST_PEOPLE:
        people = np.sort(generator(seed, "people").choice(len(people), MOST_PEOPLE, replace=False))
    return certify(
        model.network_,
        data.X[people],
        metric,
        budgets,
        draws=draws,
        level=level,
        seed=seed,
        callback=callback,
    )


def write_certificate(found: Certificate, folder: Path) -> dict[str, tuple[Path, str]]:
    """Write ``certificate.json``: the curve in the order of budgets, and bounds on how many people."""
    order = np.argsort(found.budgets)
    shares = [{"odds": factor, "share": found.share_bound_of_odds(factor)} for factor in ODDS]
    content: dict[str, Any] = {
        "people": found.people,
        "budget": float(found.budgets[0]),
        "value": float(found.values[0]),
        "multiplier": float(found.multipliers[0]),
        "curve": {
            "budgets": found.budgets[order].tolist(),
            "values": found.values[order].tolist(),
            "low": None if found.low is None else found.low[order].tolist(),
            "high": None if found.high is None else found.high[order].tolist(),
        },
        "shares": shares,
    }
    (folder / "certificate.json").write_text(json.dumps(content, indent=1, allow_nan=False))
    return {"certificate": (folder / "certificate.json", "certificate")}
