"""All steps by name."""

from __future__ import annotations

import importlib

from evenhand.tasks.step import Step

__all__ = ["STEP_NAMES", "get_step"]

STEP_NAMES = (
    "ingest",
    "contract",
    "preprocess",
    "profile",
    "balance",
    "fair_metric",
    "train",
    "evaluate",
    "learn_proxy",
    "measure_proxy",
    "measure_model",
    "measure_drift",
    "gate",
    "publish",
)


def get_step(name: str) -> Step:
    """Import a step's module and give the step; KeyError for an unknown name."""
    if name not in STEP_NAMES:
        raise KeyError(name)
    step: Step = importlib.import_module(f"evenhand.tasks.{name}").STEP
    return step
