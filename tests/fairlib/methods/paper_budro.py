"""BuDRO with the constants of the paper's tables, which were its defaults once."""

from __future__ import annotations

from typing import Any

from evenhand.fairlib.methods.budro import BudroClassifier

PAPER: dict[str, Any] = {
    "perturbation_budget": 1.0,
    "n_steps": 100,
    "max_depth": 4,
    "eta": 0.005,
    "reg_lambda": 1.0,
    "min_child_weight": 0.0125,
    "base_score": 0.5,
    "balance_classes": True,
    "neighbours": None,
    "n_iter_no_change": None,
    "validation_fraction": 0.1,
    "validation_metric": "balanced_accuracy",
}


def paper_budro(*metric: Any, **arguments: Any) -> BudroClassifier:
    """BuDRO with these constants where nothing else is given."""
    return BudroClassifier(*metric, **PAPER | arguments)
