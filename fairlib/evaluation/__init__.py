"""Metrics of a classifier with bootstrap intervals, gates, audits, certificates and drift.

Group metrics follow from counts per group, label and prediction. Where a count is too small, a
metric is "insufficient evidence" and has no number. Gates turn an evaluation into one verdict.
Import from the modules: this package imports none of them, so that checking a gate loads no
numerical library; it finds `audit_predictions` when it is asked for.
"""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """Import `audit_predictions` when it is used."""
    if name != "audit_predictions":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # by its name: the keys of steps follow import statements, and every one would depend on it
    return importlib.import_module("evenhand.fairlib.evaluation.predictions").audit_predictions
