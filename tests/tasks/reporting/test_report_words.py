"""Sentences and rates: what the front page says must be what the counts say."""

from __future__ import annotations

from typing import Any

import pytest
from report_example import example
from scipy.stats import binomtest

from evenhand.tasks.reporting import words
from evenhand.tasks.reporting.context import Cell, GateResult, parse_context


def cells(*rows: tuple[str, int, int, int]) -> list[Cell]:
    return [Cell(group=g, label=y, n=n, predicted_positive=p) for g, y, n, p in rows]


def gate(**changes: Any) -> GateResult:
    given = {
        "metric": "accuracy",
        "kind": "min",
        "limit": 0.8,
        "value": 0.75,
        "passed": False,
        "status": "ok",
    }
    return GateResult(**{**given, **changes})


def test_rates_by_hand() -> None:
    # a: 10 true negatives of which 2 get it, 20 true positives of which 15 do.
    (a, b) = words.group_rates(cells(("a", 0, 10, 2), ("a", 1, 20, 15), ("b", 1, 5, 0)), 5)
    assert (a.group, a.n) == ("a", 30)
    assert (a.selected.hits, a.selected.value) == (17, 17 / 30)
    assert (a.tpr.hits, a.tpr.n, a.tpr.value) == (15, 20, 0.75)
    assert (a.tnr.hits, a.tnr.n, a.tnr.value) == (8, 10, 0.8)
    assert (b.n, b.tpr.value, b.selected.value) == (5, 0.0, 0.0)
    assert (b.tnr.n, b.tnr.value, b.tnr.low) == (0, None, None)


def test_a_rate_needs_the_minimum_of_rows() -> None:
    (few,) = words.group_rates(cells(("a", 0, 4, 1), ("a", 1, 5, 1)), 5)
    assert few.tnr.value is None
    assert few.tpr.value == 0.2
    assert few.selected.value == 2 / 9


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (7, 7), (3, 11), (450, 1000)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_intervals_are_wilsons(hits: int, n: int, level: float) -> None:
    (group,) = words.group_rates(cells(("a", 1, n, hits)), 1, level)
    expected = binomtest(hits, n).proportion_ci(level, method="wilson")
    assert group.tpr.low == pytest.approx(expected.low, abs=1e-12)
    assert group.tpr.high == pytest.approx(expected.high, abs=1e-12)


def test_headline_answers_the_questions() -> None:
    said = words.headline(parse_context(example()))
    assert said[0] == (
        "The model, gradient-boosted trees held against a fair-distance adversary (BuDRO), learned from "
        "36,177 of the 45,222 rows of the table adult and was judged on 9,045 rows that it had not seen."
    )
    assert said[1] == "It is not published: 1 of 4 gates refused it."
    assert said[2] == (
        "Same answer for copies differing in spouse: the lower end of the 95% interval is 0.939, where at "
        "least 0.950 was asked: 0.011 too low."
    )
    assert "not enough evidence to judge (at most 0.300 was asked); age: 1 cell" in said[3]
    # The widest gap first; (590 + 1498) / 6121 - (130 + 196) / 2924 = 0.2296.
    assert said[4].startswith("By age: 32.3% of “25-59” get the positive answer and 0.7% of “<25”")
    assert said[5] == (
        "By sex: 34.1% of “Male” get the positive answer and 11.1% of “Female”, a difference of 23.0 "
        "percentage points (95% interval 21.2 to 24.7)."
    )
    assert said[-1].startswith("95.7% of people get the same answer")


def test_headline_of_a_published_model() -> None:
    context = example()
    context["status"] = "published"
    context["model"] = {"name": "m", "version": "4", "alias": "champion", "uri": "models:/m@champion"}
    for results, expected in (
        (
            0,
            "No gate was set; the model was not held to any limit and is published as version 4 of m, "
            "as its champion.",
        ),
        (1, "It passes its one gate and is published as version 4 of m, as its champion."),
        (2, "It passes both gates and is published as version 4 of m, as its champion."),
        (3, "It passes all 3 gates and is published as version 4 of m, as its champion."),
    ):
        context["gates"] = {"verdict": "passed", "results": [example()["gates"]["results"][0]] * results}
        assert words.headline(parse_context(context))[1] == expected


def test_headline_never_compares_groups_without_evidence() -> None:
    context = example()
    context["evaluation"]["metrics"]["demographic_parity_difference.sex"] = {
        "value": None,
        "low": None,
        "high": None,
        "status": "insufficient_evidence",
        "reason": "sex: too few rows",
    }
    said = words.headline(parse_context(context))
    assert "By sex: not enough evidence to compare the groups: sex: too few rows." in said
    assert not any(text.startswith("By sex: ") and "%" in text for text in said)


def test_headline_of_one_group_and_of_no_evaluation() -> None:
    context = example()
    context["evaluation"]["counts"] = {"sex": [{"group": "x", "label": 0, "n": 90, "predicted_positive": 3}]}
    del context["evaluation"]["metrics"]["demographic_parity_difference.sex"]
    assert "By sex: not enough evidence to compare the groups." in words.headline(parse_context(context))
    context.update(status="failed", evaluation=None, gates=None)
    assert words.headline(parse_context(context)) == [
        "The job was to train gradient-boosted trees held against a fair-distance adversary (BuDRO), on "
        "36,177 of the 45,222 rows of the table adult.",
        "The run did not finish, and nothing was published.",
    ]


def test_headline_counts_the_attributes_that_it_leaves_out() -> None:
    context = example()
    sex = context["evaluation"]["counts"]["sex"]
    context["evaluation"]["counts"].update({"d": sex, "e": sex, "sex&race": sex})
    said = words.headline(parse_context(context))
    assert "2 further attributes differ less; the tables below have all." in said
    assert not any("sex and race" in text for text in said)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "Accuracy: 0.750, where at least 0.800 was asked: 0.050 too low."),
        ({"kind": "max", "value": 0.9}, "Accuracy: 0.900, where at most 0.800 was asked: 0.100 too high."),
        ({"value": 0.9, "passed": True}, "Accuracy: 0.900, where at least 0.800 was asked."),
        ({"value": 0.79999}, "Accuracy: 0.79999, where at least 0.80000 was asked: 1.00e-05 too low."),
        (
            {"kind": "max", "bound": "interval", "value": 0.9},
            "Accuracy: the upper end of the 95% interval is 0.900, where at most 0.800 was asked: "
            "0.100 too high.",
        ),
        (
            {"status": "insufficient_evidence", "value": None},
            "Accuracy: not enough evidence to judge (at least 0.800 was asked).",
        ),
    ],
)
def test_gate_sentences(changes: dict[str, Any], expected: str) -> None:
    assert words.gate_sentence(gate(**changes)) == expected


def test_margin_has_the_sign_of_the_right_side() -> None:
    assert words.margin(gate()) == pytest.approx(-0.05)
    assert words.margin(gate(kind="max", value=0.75)) == pytest.approx(0.05)
    assert words.margin(gate(value=None, shortfall=0.2)) == -0.2
    assert words.margin(gate(value=None, status="insufficient_evidence")) is None


def test_every_metric_of_the_project_has_words() -> None:
    stems = (
        "accuracy balanced_accuracy auc consistency.x gap_max.x gap_rms.x demographic_parity_difference.x "
        "equal_opportunity_difference.x average_odds_difference.x balanced_accuracy_difference.x theil_index "
        "certificate.dif certificate.drf"
    )
    higher = ("accuracy", "balanced_accuracy", "auc", "consistency.x")
    for name in stems.split():
        known = words.metric(name)
        assert known.better == ("higher" if name in higher else "lower")
        assert "{" not in known.meaning
        assert known.meaning.endswith(".")
    assert words.metric("made.up").label == "made.up"
    assert words.metric("made.up").better is None


def test_glossary_explains_a_kind_once_for_all_its_attributes() -> None:
    entries = words.glossary(
        ["auc", "gap_max.sex", "gap_max.race", "gap_max.sex&race", "consistency.a", "consistency.b"]
    )
    assert [entry.label for entry in entries] == [
        "Ranking (AUC)",
        "Largest gap in right answers",
        "Same answer for copies",
    ]
    assert "by sex, race or sex and race;" in entries[1].meaning
    assert "only in “a” or “b”," in entries[2].meaning
