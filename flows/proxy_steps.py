"""What a job that learns a proxy does between its checked table and its gates, and what it publishes."""

from __future__ import annotations

from typing import Any

from evenhand.flows.engine import Measured, Steps
from evenhand.flows.resolved_job import ResolvedJob
from evenhand.tasks.store import Artifact

__all__ = ["more_for_card", "parts", "raw_inputs", "splitting", "train_and_measure"]

# What of the section `evaluate` a proxy has a use for.
MEASURING = {"draws", "level", "min_cell"}


def splitting(resolved: ResolvedJob) -> dict[str, Any]:
    """Parameters of the split, which keeps the groups' shares."""
    job = resolved.job
    return {
        "contract": resolved.contract.to_dict(),
        "split": job.split.model_dump(),
        "strata": "groups",
        "seed": job.seed,
    }


def train_and_measure(resolved: ResolvedJob, steps: Steps) -> Measured:
    """Learn the proxy and measure it; a tree that found no split is a refusal."""
    job, modules = resolved.job, resolved.modules
    steps(
        "learn_proxy",
        {"method": resolved.method, "arguments": resolved.arguments, "seed": job.seed},
        {"train": steps.output("preprocess", "train")},
        modules=modules,
    )
    steps(
        "measure_proxy",
        {"evaluate": job.evaluate.model_dump(include=MEASURING), "method": resolved.method, "seed": job.seed},
        {
            "proxy": steps.output("learn_proxy", "proxy"),
            "train": steps.output("preprocess", "train"),
            "test": steps.output("preprocess", "test"),
        },
        modules=modules,
    )
    return Measured(steps.output("measure_proxy", "metrics"), steps.facts("learn_proxy")["refusal"])


def parts(steps: Steps) -> dict[str, Artifact]:
    """What is published beside encoder, metrics and decision."""
    return {
        "model": steps.output("learn_proxy", "proxy"),
        "balance": steps.output("measure_proxy", "balance"),
        "reference": steps.output("profile", "reference"),
    }


def raw_inputs(resolved: ResolvedJob, steps: Steps) -> dict[str, Any]:
    """What a published proxy must know of the table; its contract is for whoever filters with it."""
    contract = resolved.contract
    return {
        "features": [column.name for column in contract.features],
        "booleans": [column.name for column in contract.features if column.logical_type == "boolean"],
        "sensitive": [column.name for column in contract.sensitive],
        "contract": resolved.table_contract.to_dict(),
    }


def more_for_card(steps: Steps) -> dict[str, Any]:
    """What the card learns from the run."""
    return {"kind": "proxy"}
