"""Reliability and decisions: the sentences, tables and charts say what the documents say."""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import charts, headings, rows, said, table, tables
from page_examples import ok

from evenhand.tasks.pages.sections.probabilities_section import build

THRESHOLD = {"kind": "threshold", "threshold": 0.25, "wanted": "the largest balanced accuracy"}
BY_GROUP = {"kind": "groups", "attribute": "sex", "wanted": "equalized odds within 0.05"}


def bin_of(mean: float, share: float, n: int = 100) -> dict[str, Any]:
    return {"mean": mean, "share": share, "low": share - 0.05, "high": share + 0.05, "n": n}


def point(threshold: float, selected: float, accuracy: float, balanced: float) -> dict[str, float]:
    names = ("threshold", "selected", "accuracy", "balanced_accuracy")
    return dict(zip(names, (threshold, selected, accuracy, balanced), strict=True))


CURVE = [point(0.0, 1.0, 0.3, 0.5), point(0.25, 0.4, 0.7, 0.81), point(0.5, 0.2, 0.85, 0.74)]


def rule(chosen: dict[str, Any] = THRESHOLD, **more: Any) -> dict[str, Any]:
    return {
        "rows": 1234,
        "base_rate": 0.3,
        "calibration": "sigmoid",
        "losses": {"isotonic": 0.42, "sigmoid": 0.4, "none": 0.45},
        "shift": 0.0,
        "rule": chosen,
        "curve": CURVE,
        **more,
    }


def documents(**more: Any) -> dict[str, Any]:
    overall = [bin_of(0.1, 0.12), bin_of(0.6, 0.45)]
    groups = {"sex": {"F": [bin_of(0.1, 0.2, 40)], "M": [bin_of(0.2, 0.2, 60)], "X": []}}
    metrics = {"ece": ok(0.031, 0.01), "calibration_gap.sex": ok(0.1, 0.02)}
    return {
        "reliability": {"overall": overall, "groups": groups},
        "metrics": {"metrics": metrics},
        "rule": rule(),
        "run": {"job": {}},
        **more,
    }


def test_reliability_is_drawn_and_written_overall_and_by_group() -> None:
    found, _ = build(documents())
    overall, by_sex = charts(found)
    assert overall.plot == by_sex.plot == "curves.reliability"
    assert [(row["series"], row["mean"], row["share"]) for row in overall.data["rows"]] == [
        ("everybody", 0.1, 0.12),
        ("everybody", 0.6, 0.45),
    ]
    assert overall.description == (
        "everybody: furthest apart where the mean probability is 60.0% and 45.0% are positive."
    )
    assert [row["series"] for row in by_sex.data["rows"]] == ["F", "M"]
    assert headings(found) == ["By sex"]
    by_group = table(found, "groups by sex")
    assert rows(by_group) == {
        "F": ["10.0%", "20.0% | 15.0% to 25.0%", "40"],
        "M": ["20.0%", "20.0% | 15.0% to 25.0%", "60"],
    }
    text = said(found)
    assert "On average they differ by 0.031" in text
    assert "by up to 10.0 percentage points (0.080 to 0.120)" in text


def test_of_many_groups_the_largest_are_drawn() -> None:
    """All are in the table."""
    groups = {f"g{i}": [bin_of(0.1, 0.1, 10 + i)] for i in range(9)}
    found, _ = build(documents(reliability={"overall": [], "groups": {"job": groups}}))
    assert "There are too few people for a chart." in said(found)
    (chart,) = charts(found)
    assert [row["series"] for row in chart.data["rows"]] == [f"g{i}" for i in range(3, 9)]
    assert chart.caption == "The largest groups; 3 more are in the table."
    assert list(rows(table(found, "groups by job"))) == list(groups)


@pytest.mark.parametrize(
    ("of_rule", "words", "absent"),
    [
        (
            rule(),
            "calibrated on 1,234 training rows that the model was not trained on: a sigmoid of the "
            "log-odds "
            "(cross-validated log loss: sigmoid 0.400, isotonic 0.420 and none 0.450).",
            "class weights",
        ),
        (
            rule(losses={"isotonic": 0.39, "sigmoid": 0.4}),
            "An isotonic regression was passed over: it gives so many people the same probability",
            "class weights",
        ),
        (rule(shift=-1.1), "were corrected for first, by 1.100 in log-odds.", "not calibrate them"),
        (
            rule(calibration="none", losses={}),
            "are the model's own, not calibrated.",
            "calibrated on",
        ),
        (
            rule(calibration="none"),
            "no calibration was better than the model's own probabilities (cross-validated",
            "not calibrated",
        ),
        (rule(calibration="beta", losses={}), "a beta calibration.", "cross-validated"),
        (None, "The job does not calibrate them (`calibration: none`).", "training rows"),
    ],
)
def test_what_was_done_to_the_probabilities_is_said(
    of_rule: dict[str, Any] | None, words: str, absent: str
) -> None:
    text = said(build(documents(rule=of_rule))[0])
    assert words in text
    assert absent not in text


def test_missing_measurements_leave_their_sentences_out() -> None:
    text = said(build(documents(metrics={"metrics": {}}))[0])
    assert "On average they differ" not in text
    assert "between the groups" not in text


def test_a_threshold_is_said_marked_and_beside_its_alternatives() -> None:
    _, found = build(documents())
    assert said(found) == (
        "A person is predicted positive from a probability of 25.0% on, chosen for the largest "
        "balanced "
        "accuracy on 1,234 training rows that the model was not trained on; 30.0% of them are "
        "positive."
    )
    (chart,) = charts(found)
    assert (chart.plot, chart.data["marked"]) == ("curves.decision_curve", 0.25)
    assert chart.description == "Balanced accuracy is largest, 81.0%, at a threshold of 25.0%."
    drawn = {(row["series"], row["threshold"]): row["value"] for row in chart.data["rows"]}
    assert len(drawn) == 9
    for one in CURVE:
        assert drawn["predicted positive", one["threshold"]] == one["selected"]
        assert drawn["accuracy", one["threshold"]] == one["accuracy"]
        assert drawn["balanced accuracy", one["threshold"]] == one["balanced_accuracy"]
    (written,) = tables(found)
    assert written.columns == ["Threshold", "Predicted positive", "Accuracy", "Balanced accuracy"]
    assert rows(written)["25.0%"] == ["40.0%", "70.0%", "81.0%"]


def test_other_ways_to_decide_are_said_and_not_marked() -> None:
    _, by_group = build(documents(rule=rule(BY_GROUP)))
    assert "thresholds by group (equalized odds within 0.05)" in said(by_group)
    assert "A user of this model needs to know sex." in said(by_group)
    assert charts(by_group)[0].data["marked"] is None
    _, own = build(documents(rule=rule({"kind": "threshold", "threshold": None, "wanted": "own"})))
    assert said(own) == "The method itself decides, not a threshold on the probability."
    assert charts(own)[0].data["marked"] is None


def test_a_job_without_a_rule_has_no_section_on_decisions() -> None:
    assert [section.id for section in build(documents())] == ["reliability", "decisions"]
    assert [section.id for section in build(documents(rule=None))] == ["reliability"]
