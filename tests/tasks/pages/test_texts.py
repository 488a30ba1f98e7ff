"""Sentences that several pages share."""

from __future__ import annotations

from typing import Any

import pytest
from page_examples import gate

from evenhand.tasks.pages.texts import (
    gate_findings,
    overall_rates,
    positive_means,
    selected_as,
    treatment,
)


def test_findings_name_refusals_first_and_metrics_by_title() -> None:
    results = [
        gate("auc", "min", 0.8, None),
        gate("accuracy", "max", 0.8, 0.9),
        gate("brier", "max", 1, 0),
    ]
    assert gate_findings(results, "It does not pass, because") == [
        "It does not pass, because 1 of 3 gates refused it.",
        "Accuracy in one line.",
        "Area under the ROC curve in one line.",
    ]
    assert gate_findings(results[:1], "No:")[0] == "No: there is not enough evidence to decide."


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (None, "predicted positive"),
        (
            {"column": "denied", "favourable": "0", "adverse": "1", "stated": True},
            "predicted denied = 0, the favourable outcome",
        ),
        (
            {"column": "y", "favourable": "1", "adverse": "0", "stated": False},
            "predicted y = 1, taken as the favourable outcome",
        ),
        (
            {"column": "y", "favourable": None, "adverse": "bad", "stated": True},
            "predicted other than y = bad, the favourable outcome",
        ),
        (
            {"column": "y", "favourable": "hired", "name": "hired", "adverse": "0", "stated": True},
            "predicted “hired”, the favourable outcome",
        ),
    ],
)
def test_the_favourable_outcome_is_said_in_words(outcome: Any, words: str) -> None:
    settings = {} if outcome is None else {"outcome": outcome}
    assert selected_as(settings) == words


def test_what_positive_means_is_said_where_it_is_adverse() -> None:
    adverse = {"column": "denied", "code": 0, "favourable": "0", "adverse": "1", "stated": True}
    assert positive_means({"outcome": adverse}) == ", where positive means denied = 1"
    assert positive_means({"outcome": {**adverse, "code": 1}}) == ""
    assert positive_means({}) == ""


@pytest.mark.parametrize(
    ("outcome", "positive"),
    [
        ({"column": "denied", "code": 0, "favourable": "no", "adverse": "yes"}, "denied = yes"),
        ({"column": "hired", "code": 1, "favourable": "1", "adverse": "0"}, "hired = 1"),
        ({"column": "hired", "code": 1, "favourable": "hired", "adverse": "not"}, "hired"),
        ({"column": "x", "code": 0, "favourable": "b", "adverse": None}, "positive value of x"),
        (None, "positive label"),
    ],
)
def test_overall_rates_name_the_positive_label(outcome: Any, positive: str) -> None:
    metrics = {"settings": {"outcome": outcome}, "rates": {"predicted": 0.126, "observed": 0.12}}
    assert overall_rates(metrics) == (
        f"The prediction is “{positive}” for 12.6% of people; 12.0% have it in the data."
    )
    assert overall_rates({"settings": {}}) == ""


def test_a_tiny_group_is_no_named_extreme() -> None:
    def group(name: str, n: int, selected: int) -> list[dict[str, Any]]:
        half = n // 2
        return [
            {"group": name, "label": 0, "n": n - half, "predicted_positive": 0},
            {"group": name, "label": 1, "n": half, "predicted_positive": selected},
        ]

    cells = [*group("women", 200, 50), *group("men", 200, 80), *group("diverse", 12, 6)]
    evaluated = {
        "settings": {"min_cell": 5, "level": 0.95},
        "metrics": {
            "demographic_parity_difference.gender": {"value": 0.25, "low": 0.0, "high": 0.6}
        },
        "counts": {"gender": cells},
        "groups": {},
    }
    (sentence,) = treatment(evaluated)
    assert "40.0% of “men” and 25.0% of “women”" in sentence
    assert "not named, with fewer than 20 rows: “diverse” (12)" in sentence
    # the interval is of all groups, and not of these two
    assert "interval" not in sentence
