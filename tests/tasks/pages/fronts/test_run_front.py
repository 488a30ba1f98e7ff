"""The page of a run: its front, its headline, and which sections it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from page_blocks import by_metric, page, said, table, tables
from page_examples import LACKING, published_documents, run_documents

from evenhand.tasks.pages import formats
from evenhand.tasks.pages.build import build, write_page
from evenhand.tasks.pages.fronts.run_front import headline

METRICS = run_documents()["metrics"]["metrics"]


@pytest.fixture
def documents() -> dict[str, Any]:
    return run_documents()


def test_sections_come_in_the_order_of_reading(documents: dict[str, Any]) -> None:
    assert list(page("run", documents)) == [
        "who",
        "errors",
        "missing",
        "gates",
        "metrics",
        "rates",
        "scores",
        "training",
        "made",
    ]


@pytest.mark.parametrize(
    ("section", "document", "empty"),
    [
        ("gates", "decision", None),
        ("scores", "histograms", None),
        ("training", "history", None),
        ("training", "history", {"step": [1], "loss": [None]}),
        ("rates", "metrics", {"counts": {}}),
    ],
)
def test_empty_sections_are_left_out(
    documents: dict[str, Any], section: str, document: str, empty: Any
) -> None:
    documents[document] = documents[document] | empty if document == "metrics" else empty
    assert section not in page("run", documents)


def test_a_run_without_steps_has_no_table_of_them(documents: dict[str, Any]) -> None:
    documents["run"]["steps"] = []
    captions = [found.caption for found in tables(page("run", documents)["made"])]
    assert "Time of each step" not in captions


# the front


def test_adapted_copies_are_called_counterparts(documents: dict[str, Any]) -> None:
    documents["metrics"]["settings"]["adapted"] = ["spouse"]
    assert headline(documents)[-2] == (
        "94.4% of people have the same prediction on all their counterparts in the other groups "
        "(“spouse”)."
    )


def test_the_headline_answers_the_questions(documents: dict[str, Any]) -> None:
    found = headline(documents)
    assert found[0] == "Not published, because 1 of 4 gates refused it."
    assert found[1] == "Counterfactual consistency over spouse in one line."
    assert found[2].endswith(" in one line.")
    # the widest difference first; (590 + 1498) / 6121 - (130 + 196) / 2924 = 0.2296
    assert found[3].startswith("By age: 32.3% of “25-59” and 0.7% of “<25” are predicted positive")
    assert found[4] == (
        "By sex: 34.1% of “Male” and 11.1% of “Female” are predicted positive; a difference of "
        "23.0 "
        "percentage points (95% interval 21.2 to 24.7); the impact ratio 0.327 is below four "
        "fifths."
    )
    assert found[-2].startswith(
        "94.4% of people have the same prediction on every counterfactual copy"
    )
    assert found[-2].endswith("differs only in “spouse”.")
    assert found[-1] == (
        "The model, gradient-boosted trees trained on the worst case within a fair-distance budget "
        "(BuDRO), "
        "was trained on 36,177 of the 45,222 rows of the table adult and evaluated on 9,045 rows "
        "that it had "
        "not seen."
    )


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        (0, ": no gate was set, so the model was not held to any limit."),
        (1, ", because it passes its one gate: Balanced accuracy in one line."),
        (
            2,
            ", because it passes both gates: Balanced accuracy in one line; Balanced accuracy in "
            "one line.",
        ),
        (3, ", because it passes all 3 gates."),
    ],
)
def test_the_verdict_of_a_published_model_has_its_reason(results: int, reason: str) -> None:
    documents = published_documents()
    documents["decision"]["results"] = documents["decision"]["results"][:1] * results
    expected = f"Published as version 4 of adult-budro, its champion{reason}"
    assert headline(documents)[0] == expected


def test_groups_are_not_compared_without_evidence(documents: dict[str, Any]) -> None:
    lacking = {**LACKING, "reason": "sex: too few rows"}
    documents["metrics"]["metrics"]["demographic_parity_difference.sex"] = lacking
    found = headline(documents)
    assert "By sex: not enough evidence to compare the groups: sex: too few rows." in found
    assert not any(text.startswith("By sex: ") and "%" in text for text in found)


def test_one_group_has_no_comparison_and_equal_rates_are_named(
    documents: dict[str, Any],
) -> None:
    del documents["metrics"]["metrics"]["demographic_parity_difference.sex"]
    documents["metrics"]["counts"] = {
        "sex": [{"group": "x", "label": 0, "n": 90, "predicted_positive": 3}]
    }
    assert "By sex: not enough evidence to compare the groups." in headline(documents)
    same = [{"group": group, "label": 0, "n": 90, "predicted_positive": 9} for group in "xy"]
    documents["metrics"]["counts"] = {"sex": same}
    assert "By sex: 10.0% of every group are predicted positive." in headline(documents)


def test_attributes_beyond_three_are_counted(
    documents: dict[str, Any],
) -> None:
    """Intersections are not named."""
    sex = documents["metrics"]["counts"]["sex"]
    documents["metrics"]["counts"] |= {"d": sex, "e": sex, "sex&race": sex}
    found = headline(documents)
    assert "2 further attributes with smaller differences: see the tables below." in found
    assert not any("sex and race" in text for text in found)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("published", "Published"),
        ("gated", "Not published: a gate refused"),
        ("insufficient_evidence", "Not published: not enough evidence"),
    ],
)
def test_the_status_is_stated_in_words(documents: dict[str, Any], status: str, words: str) -> None:
    documents["run"]["status"] = status
    documents["run"]["model"] = published_documents()["run"]["model"]
    badge = build("run", documents).front.badge
    assert badge is not None
    assert (badge[0], badge[2]) == (status, words)
    html = write_page(
        "run",
        {"run": documents["run"], "metrics": {**documents["metrics"], "metrics": {}, "counts": {}}},
    )
    assert f": {words}</title>" in html


def test_the_front_names_model_contract_and_purpose(documents: dict[str, Any]) -> None:
    facts = dict(build("run", documents).front.facts)
    assert facts["Model"].text == "No version was published."
    assert (facts["Data contract"].text, facts["Data contract"].href) == (
        "adult, version 1.0.0: what was checked",
        "contract.html",
    )
    assert facts["Purpose"].text == documents["run"]["job"]["description"]
    model = dict(build("run", published_documents()).front.facts)["Model"]
    assert (model.text, model.code) == (
        "adult-budro, version 4, champion",
        "models:/adult-budro@champion",
    )


# gates


def test_failed_gates_come_first_with_the_wanted_and_the_value(
    documents: dict[str, Any],
) -> None:
    found = by_metric(table(page("run", documents)["gates"], "Every gate"))
    assert list(found) == [
        "consistency.spouse",
        "equal_opportunity_difference.age",
        "balanced_accuracy",
        "gap_max.sex",
    ]
    assert found["consistency.spouse"] == ["Refused", "In one line"]
    assert found["balanced_accuracy"] == ["Passed", "In one line"]
    assert found["equal_opportunity_difference.age"] == ["Not enough evidence", "In one line"]


def test_an_evaluation_is_taken_as_the_science_writes_it(documents: dict[str, Any]) -> None:
    from evenhand.fairlib.evaluation.evaluate import evaluate
    from evenhand.fairlib.evaluation.gates import decide, parse_gates
    from evenhand.fairlib.evaluation.outcomes import Outcomes, score_histograms

    rng = np.random.default_rng(3)
    score = rng.random(400)
    y_true = (rng.random(400) < score).astype(np.int64)
    sensitive = {
        "sex": np.where(rng.random(400) < 0.4, "x", "y"),
        "rare": np.array(["p"] * 398 + ["q"] * 2),
    }
    outcomes = Outcomes(
        y_true, (score > 0.5).astype(np.int64), score, sensitive, {"all": score > 0.1}
    )
    found = evaluate(outcomes, draws=20, seed=1, level=0.9)
    decision = decide(found, parse_gates({"accuracy": {"min": 0.99}, "gap_max.rare": {"max": 0.5}}))
    documents |= {
        "metrics": found.to_json(),
        "decision": decision.to_json(),
        "histograms": score_histograms(outcomes),
    }
    parts = page("run", documents)
    shown = by_metric(table(parts["metrics"], "All metrics"))
    assert shown["accuracy"][0].startswith(formats.number(found.metrics["accuracy"].value))
    assert "90% interval" in said(parts["metrics"])
    assert "95%" not in said(parts["metrics"]) + said(parts["rates"])
    assert "Not shown because there are too few rows: q." in said(parts["scores"])
    assert (
        by_metric(table(parts["gates"], "Every gate"))["gap_max.rare"][0] == "Not enough evidence"
    )
