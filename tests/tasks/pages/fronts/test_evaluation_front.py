"""The page of an evaluation: does the model pass, and is it better than the baseline."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_blocks import by_metric, charts, headings, page, rows, said, table
from page_examples import DIFFERENCES, LACKING, alone_documents, evaluation_documents, gate, ok

from evenhand.tasks.pages.build import build
from evenhand.tasks.pages.fronts.evaluation_front import headline
from evenhand.tasks.pages.sections.metrics_section import finding


@pytest.fixture
def documents() -> dict[str, Any]:
    return evaluation_documents()


def identical() -> dict[str, Any]:
    """A baseline that predicts as the model does."""
    documents = evaluation_documents(status="passed", notes=[])
    documents["comparison"]["differences"] = {name: ok(0.0, 0.0) for name in DIFFERENCES}
    return documents


def test_every_difference_is_in_the_table_with_its_interval(
    documents: dict[str, Any],
) -> None:
    """The table also says what follows from it."""
    assert list(page("evaluation", documents)) == [
        *("who", "errors", "effect", "missing"),
        *("gates", "metrics", "differences", "rates", "scores", "made"),
    ]
    found = by_metric(table(page("evaluation", documents)["metrics"], "All metrics"))
    assert set(found) == set(DIFFERENCES)
    assert found["auc"] == [
        "0.902 | 0.895 to 0.909",
        "0.914 | 0.908 to 0.921",
        "\u22120.012 | \u22120.018 to \u22120.0073 | \u2715 worse",
    ]
    assert found["accuracy"][2] == "+0.0061 | +0.0019 to +0.010 | \u2713 better"
    assert found["gap_max.sex"][2].endswith("\u2713 better")
    assert found["demographic_parity_difference.sex"][2].endswith("\u2715 worse")
    assert found["balanced_accuracy"][2].endswith("no significant difference")
    assert found["gap_max.race"][2] == "0.000 | 0.000 to 0.000 | the same"
    lacking = found["equal_opportunity_difference.age"]
    assert all(text.startswith("not enough evidence | age: 1 cell of 6") for text in lacking)


def test_intervals_are_warned_of_and_differences_drawn_as_such(
    documents: dict[str, Any],
) -> None:
    found = page("evaluation", documents)
    assert "may overlap although the two differ" in said(found["metrics"])
    section = found["differences"]
    assert "A diamond is a difference whose paired interval contains 0" in said(section)
    assert headings(section) == ["Higher is better", "Lower is better"]
    higher, lower = charts(section)
    assert (higher.data["better"], lower.data["better"]) == ("higher", "lower")
    marks = {row["label"]: (row["finding"], row["limit"]) for row in higher.data["rows"]}
    # a gate allows the AUC to be 0.01 lower
    assert marks["Area under the ROC curve"] == ("difference", -0.01)
    assert marks["Balanced accuracy"] == ("no significant difference", None)
    assert "Area under the ROC curve: \u22120.012, worse" in higher.description
    first = charts(found["metrics"])[0].data["rows"][0]
    assert (first["value"], first["baseline"]) == (0.8213, pytest.approx(0.8152))


def test_rates_are_those_of_the_model_and_of_the_baseline(documents: dict[str, Any]) -> None:
    section = page("evaluation", documents)["rates"]
    assert headings(section)[::3] == ["The model: by sex", "The baseline: by sex"]
    assert rows(table(section, "The model: rates by sex"))["Male"][2].startswith("34.1%")
    assert rows(table(section, "The baseline: rates by sex"))["Male"][2].startswith("30.7%")


def test_without_a_baseline_nothing_is_said_of_one() -> None:
    documents = alone_documents()
    built = build("evaluation", documents)
    assert "differences" not in page("evaluation", documents)
    assert (
        "baseline" not in repr(built).replace("baseline=None", "").replace("'baseline", "").lower()
    )
    found = by_metric(table(page("evaluation", documents)["metrics"], "All metrics"))
    assert found["auc"] == ["0.902 | 0.895 to 0.909"]
    assert rows(table(page("evaluation", documents)["made"], "The model"))["Version"] == [
        "not registered"
    ]


def test_gates_of_all_kinds_have_their_verdict_and_text(documents: dict[str, Any]) -> None:
    found = by_metric(table(page("evaluation", documents)["gates"], "Every gate"))
    results = documents["decision"]["results"]
    assert {name: row[1] for name, row in found.items()} == {
        result["metric"]: result["text"].removeprefix(f"{result['metric']} ").capitalize()
        for result in results
    }
    verdicts = {name: row[0] for name, row in found.items()}
    assert (verdicts["balanced_accuracy"], verdicts["auc"]) == ("Passed", "Refused")
    assert verdicts["equal_opportunity_difference.age"] == "Not enough evidence"


def test_the_headline_answers_in_words(documents: dict[str, Any]) -> None:
    found = headline(documents)
    assert found[-1] == (
        "The model adult-budro, version 4, gradient-boosted trees trained on the worst case within "
        "a "
        "fair-distance budget (BuDRO), was evaluated on 9,045 rows of "
        "/data/census/2026-q4.parquet, compared with "
        "the baseline adult-budro, version 3; 12 rows outside the data contract set aside."
    )
    assert found[0] == "It does not pass, because 1 of 4 gates refused it."
    assert sum(text.startswith("By ") for text in found) == 3
    (text,) = [text for text in found if text.startswith("Compared with the baseline: ")]
    better, worse = text.split(", and worse in ")
    assert "better in accuracy (+0.006)" in better
    assert "largest gap in error rates by sex (\u22120.041)" in better
    assert "area under the ROC curve (\u22120.012)" in worse
    assert "alanced accuracy" not in text
    assert text.endswith("; in the other measures no significant difference.")


@pytest.mark.parametrize(
    ("status", "results", "second"),
    [
        ("no_gates", None, "No gate was set, so the model was not held to any limit."),
        (
            "passed",
            [gate("auc", "min", 0.5, 0.9)],
            "It passes its one gate: Area under the ROC curve in one line.",
        ),
        (
            "insufficient_evidence",
            [gate("auc", "min", 0.5, None)],
            "It does not pass, because there is not enough evidence to decide.",
        ),
    ],
)
def test_the_first_sentence_says_whether_it_passes(status: str, results: Any, second: str) -> None:
    documents = evaluation_documents(status=status)
    documents["decision"] = results and {"verdict": status, "results": results}
    assert headline(documents)[0] == second
    badge = build("evaluation", documents).front.badge
    assert badge is not None
    assert badge[0] == status


def test_what_the_policy_does_not_accept_is_no_pass() -> None:
    results = [gate("auc", "min", 0.5, 0.9)]
    documents = evaluation_documents(status="passed", unmet="it was trained on 80 % of the rows")
    documents["decision"] = {"verdict": "passed", "results": results}
    assert headline(documents)[:2] == [
        "The policy does not accept this evaluation: it was trained on 80 % of the rows.",
        "It passes its one gate: Area under the ROC curve in one line.",
    ]
    badge = build("evaluation", documents).front.badge
    assert badge is not None
    assert badge[0] == "refused"


def test_no_difference_is_claimed_where_none_can_be_told(documents: dict[str, Any]) -> None:
    documents["comparison"]["differences"] = {
        name: ok(0.01, 0.02) for name in ("auc", "gap_max.sex")
    }
    found = headline(documents)
    assert "Compared with the baseline: no significant difference." in found
    assert not any(word in text for word in ("better", "worse") for text in found)
    assert "The model and the baseline have the same value of every metric." in headline(
        identical()
    )
    documents["comparison"] = None
    assert "The model and the baseline were not compared." in headline(documents)
    assert "differences" not in page("evaluation", documents)


@given(
    st.sampled_from(["auc", "gap_max.sex"]), st.floats(-1, 1), st.floats(0, 0.5), st.floats(0, 0.5)
)
def test_findings_turn_round_with_the_sign(
    name: str, value: float, below: float, above: float
) -> None:
    found = finding(name, {"value": value, "low": value - below, "high": value + above})
    swapped = finding(name, {"value": -value, "low": -value - above, "high": -value + below})
    turned = {"better": "worse", "worse": "better"}
    assert swapped == turned.get(found, found)
    outside = value - below > 0 or value + above < 0
    assert (found in turned) == outside
    if outside:
        assert (found == "better") == ((value > 0) == (name == "auc"))


def test_differences_of_unknown_metrics_have_no_side() -> None:
    known = {"value": 0.1, "low": 0.05, "high": 0.2}
    assert finding("made_up", known) == "other"
    assert finding("auc", {"value": 0.1}) == "unclear"
    assert finding("auc", LACKING) == "lacking"


def test_the_front_and_the_tables_say_what_was_evaluated(documents: dict[str, Any]) -> None:
    facts = {
        name: (cell.text, cell.code) for name, cell in build("evaluation", documents).front.facts
    }
    assert facts["Baseline"] == ("adult-budro, version 3", "models:/adult-budro/3")
    assert facts["Positive label"] == ("income: >50K", "")
    assert facts["Data contract"] == ("adult, version 1.0.0", "")
    made = page("evaluation", documents)["made"]
    assert rows(table(made, "The baseline"))["Content (SHA-256)"] == ["4c" * 32]
    assert rows(table(made, "The data"))["Rows set aside"] == ["12"]
    assert rows(table(made, "The evaluation"))["Draws of the paired bootstrap"] == ["1,000"]


def test_documents_are_left_alone(documents: dict[str, Any]) -> None:
    before = json.dumps(documents)
    assert build("evaluation", documents) == build("evaluation", documents)
    assert json.dumps(documents) == before
