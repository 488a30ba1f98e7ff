"""Documents of a study, as the flow writes them; the numbers are made up but fit together."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from page_blocks import RUN
from page_examples import ENVIRONMENT

from evenhand.tasks.pages.fronts.tune_front import label_of


def estimate(value: float, half: float) -> dict[str, float]:
    """A value with its interval."""
    return {"value": value, "low": round(value - half, 6), "high": round(value + half, 6)}


def trial(
    number: str, kind: str, values: tuple[float, float] | None, **more: Any
) -> dict[str, Any]:
    """A trial with its balanced accuracy and its gap; its number is MODEL or MODEL.RULE."""
    model, _, rule = number.partition(".")
    metrics = (
        {}
        if values is None
        else {
            "balanced_accuracy": estimate(values[0], 0.02),
            "gap_max.sex": estimate(values[1], 0.05),
        }
    )
    row = {
        "number": number,
        "kind": kind,
        "state": "judged",
        "method": None,
        "arguments": {},
        "decision": "job",
        "tolerance": None,
        "metrics": metrics,
        "seconds": 1.5,
        "error": None,
        "model": int(model),
        "rule": int(rule or 0),
        **more,
    }
    miss = None if values is None else max(0.0, values[1] + 0.05 - 0.2)
    return {**row, "label": label_of(row), "miss": miss}


def standing(kept_by: str | None, value: float = 0.1, end: float = 0.15) -> dict[str, Any]:
    """How the chosen trial stands to the limit."""
    text = f"gap_max.sex <= 0.2: value {value}"
    content = {"limit": "gap_max.sex <= 0.2", "metric": "gap_max.sex", "value": value, "end": end}
    return {
        **content,
        "chance": 0.97,
        "kept_by": kept_by,
        "missed_by": max(0.0, round(value - 0.2, 6)),
        "text": text,
    }


def tune_documents(*, winner: str | None = "3", more: int = 0, rules: int = 1) -> dict[str, Any]:
    """Documents of a study's page, with `more` random trials: of each model so many `rules` of
    decisions.
    """
    odds = {"decision": "equalized_odds by sex", "tolerance": 0.03}
    trials = [
        trial("0", "majority", (0.5, 0.0)),
        trial("1", "plain", (0.78, 0.3)),
        trial("2", "blind", (0.76, 0.2)),
        trial(
            "3", "default", (0.76, 0.1), method="reweigh", arguments={"eta": 0.1, "max_depth": None}
        ),
        trial("4", "search", (0.8, 0.25), method="gbdt", arguments={"eta": 0.05}),
        trial("4.1", "search", (0.7, 0.12), method="gbdt", arguments={"eta": 0.05}, **odds),
        trial("5", "search", (0.6, 0.4), method="gbdt", arguments={"eta": 0.2}, state="pruned"),
        trial(
            "5.1",
            "search",
            None,
            method="gbdt",
            arguments={"eta": 0.2},
            state="failed",
            error="too few rows",
            **odds,
        ),
    ]
    rng, eta = np.random.default_rng(0), 0.0
    for count in range(more):
        values = (float(rng.uniform(0.5, 0.75)), float(rng.uniform(0.1, 0.5)))
        model, place = 6 + count // rules, count % rules
        eta = float(rng.random()) if place == 0 else eta
        rule = {"decision": "equalized_odds by sex", "tolerance": place / 100} if place else {}
        number = f"{model}.{place}" if place else str(model)
        trials.append(
            trial(number, "search", values, method="gbdt", arguments={"eta": eta}, **rule)
        )
    test = {"balanced_accuracy": estimate(0.74, 0.04), "gap_max.sex": estimate(0.15, 0.08)}
    repeats = [
        {"seed": seed, "metrics": {**test, "balanced_accuracy": estimate(value, 0.04)}}
        for seed, value in ((1, 0.75), (2, 0.73))
    ]
    study = {
        "job": "people",
        "study": "people-0123456789",
        "aim": "balanced_accuracy where gap_max.sex <= 0.2",
        "objectives": ["balanced_accuracy"],
        "prefer": "balanced_accuracy",
        "limits": [
            {"metric": "gap_max.sex", "sign": "<=", "value": 0.2, "text": "gap_max.sex <= 0.2"}
        ],
        "confidence": 0.9,
        "confidence_asked": 0.9,
        "level": 0.95,
        "methods": ["gbdt", "reweigh"],
        "decisions": ["job", "equalized_odds by sex"],
        "halving": True,
        "trials": trials,
        "front": ["3"],
        "winner": winner,
        "nearest": "3",
        "within_limits": winner is not None,
        "standings": [standing("chance" if winner is not None else "value")],
        "unmeasured": None,
        "interrupted": False,
        "first_answer_seconds": 4.0,
        "first_answer_cpu_seconds": 5.0,
        "first_within_seconds": 4.5,
        "first_within_cpu_seconds": 6.0,
        "unrepeated": None,
        "costs": [{"limit": "gap_max.sex <= 0.2", "with": 0.76, "without": 0.8}],
        "test": None if winner is None else test,
        "test_rows": None if winner is None else 200,
        "test_controls": {}
        if winner is None
        else {"plain": {"balanced_accuracy": 0.77, "gap_max.sex": 0.28}},
        "repeats": [] if winner is None else repeats,
        "notes": [] if winner is None else ["the blind control does no worse"],
        "seconds": 12.0,
    }
    run = {
        **copy.deepcopy(RUN),
        "environment": ENVIRONMENT,
        "made": [["The search", [["Job", "people"]]]],
    }
    return {"tuning": study, "run": run}
