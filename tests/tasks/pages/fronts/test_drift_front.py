"""The page of a monitoring run: have the people changed, in which columns, and do predictions
change.
"""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import by_metric, charts, page, rows, said, table
from page_examples import LACKING, drift_documents, gate, ok

from evenhand.tasks.pages.build import build
from evenhand.tasks.pages.fronts.drift_front import headline


@pytest.fixture
def documents() -> dict[str, Any]:
    return drift_documents()


def test_the_headline_answers(documents: dict[str, Any]) -> None:
    assert headline(documents) == [
        "1,200 new rows were compared with the 5,000 training rows of people, version 3.",
        "The people have changed: 1 of 2 default gates refused.",
        "Most changed: “income” (population stability index 0.420; without drift about 0.012).",
        "In “income”, 20.0% of the rows are “below 10”; 50.0% of the training rows were.",
        "Some values break the data contract, in “income”.",
        "By sex: “F” is 60.0% of the new rows and 40.0% of the training rows.",
        "The share predicted positive has changed: 50.0% of the new rows, 30.0% of the test rows; "
        "it cannot "
        "predict 10 rows.",
    ]


def test_no_change_is_claimed_within_chance(documents: dict[str, Any]) -> None:
    drift = documents["drift"]
    drift["groups"]["sex"]["share_change"]["low"] = drift["prediction"]["change"]["low"] = 0.0
    found = headline(documents)
    assert "By sex: no significant change of the groups’ shares." in found
    assert "has not changed beyond chance: 50.0% of the new rows" in found[-1]
    drift["prediction"] |= {"then": None, "unanswered": 0}
    assert headline(documents)[-1] == "The model predicts positive for 50.0% of the new rows."
    drift["label"] |= {"now": 0.5, "change": ok(0.2, 0.05)}
    assert "The share of positive labels is 50.0%; it was 30.0%." in headline(documents)


def test_new_categories_are_named_with_their_share(documents: dict[str, Any]) -> None:
    calm = documents["drift"]["columns"]["calm"]
    calm["unseen"] = ok(0.25, 0.02)
    calm["bins"].append({"name": "never seen in training", "then": 0.0, "now": 0.25})
    assert "Some categories of “calm” (25.0% of rows) are not in the training rows." in headline(
        documents
    )


def test_what_failed_and_what_changed_most_come_first(documents: dict[str, Any]) -> None:
    found = page("drift", documents)
    assert list(found) == ["columns", "shares", "groups", "answers", "cautions", "gates", "made"]
    assert list(by_metric(table(found["gates"], "Every gate"))) == ["psi.income", "psi.calm"]
    columns = rows(table(found["columns"], "Every column with its 90% interval"))
    assert list(columns) == ["income", "calm | sensitive"]
    assert columns["income"] == [
        "0.420 | 0.210 to 0.630",
        "0.012 | 3 bins",
        "below 0.001",
        "a number",
        "0.0% \u2192 1.0%",
        "some | at least 0: 3 rows",
    ]
    assert columns["calm | sensitive"][3:] == ["0.0% | 0.0% to 0.0%", "0.0% \u2192 1.0%", "none"]
    assert "0.1 is a small change and 0.2 a large one" in said(found["columns"])
    first = charts(found["shares"])[0]
    assert first.data["rows"][0] == {"group": "below 10", "before": 0.5, "after": 0.2}
    assert "below 10 from 50.0% to 20.0%" in first.description
    assert rows(table(found["shares"], "Shares of income"))["20 and above"] == ["25.0%", "40.0%"]


def test_small_groups_are_not_shown(documents: dict[str, Any]) -> None:
    section = page("drift", documents)["groups"]
    assert rows(table(section, "Groups by sex")) == {
        "F": ["40.0%", "60.0%"],
        "M": ["60.0%", "too few people"],
    }
    assert "a group of fewer than 5 new rows counts as 4" in said(section)
    assert "Largest change of a group’s share by sex: 20.0% (15.0% to 25.0%)." in said(section)
    documents["drift"]["groups"]["sex"]["rows"][0]["label_now"] = 0.25
    labelled = rows(table(page("drift", documents)["groups"], "Groups by sex"))
    assert labelled["M"] == ["60.0%", "too few people", "30.0%", "too few"]
    assert labelled["F"] == ["40.0%", "60.0%", "30.0%", "25.0%"]


def test_labels_and_predictions_stand_in_a_table(documents: dict[str, Any]) -> None:
    section = page("drift", documents)["answers"]
    head = "Positive predictions | test rows of the training run, and new rows"
    assert rows(table(section, "Shares of positive"))[head] == [
        "30.0%",
        "50.0%",
        "20.0% | 15.0% to 25.0%",
    ]
    documents["drift"]["prediction"] = None
    found = rows(table(page("drift", documents)["answers"], "Shares of positive"))
    (label,) = found.values()
    assert label == ["30.0%", "too few", "not enough evidence | 30 rows are too few"]


def test_no_drift_and_no_evidence_read_so(documents: dict[str, Any]) -> None:
    documents["decision"]["results"] = [gate("psi.calm", "max", 0.2, 0.01)]
    documents["run"] |= {
        "status": "passed",
        "default_gates": False,
        "notes": ["no gates were given"],
    }
    assert headline(documents)[1] == "The rows are within the limits of all gates."
    assert headline(documents)[-1] == "No gates were given."
    assert build("drift", documents).front.badge == (
        "passed",
        "\u2713",
        "No drift beyond the gates",
    )
    documents["decision"]["results"] = [gate("psi.income", "max", 0.2, None)]
    documents["run"]["default_gates"] = True
    few = {
        "psi": {**LACKING, "reason": "30 rows are too few"},
        "expected_psi": None,
        "p_value": None,
        "bins": [],
    }
    few |= {"bins_compared": 0, "missing": {"then": 0.0, "now": None, "change": LACKING}}
    for column in documents["drift"]["columns"].values():
        column |= few
    found = page("drift", documents)
    assert (
        headline(documents)[1]
        == "There are too few rows to decide: 1 of 1 default gate could not be judged."
    )
    assert "shares" not in found
    column = rows(table(found["columns"], "Every column"))["income"]
    assert column[0] == "not enough evidence | 30 rows are too few"
    assert column[2] == "too few rows"


def test_the_page_says_what_it_does_not_show(documents: dict[str, Any]) -> None:
    text = said(page("drift", documents)["cautions"])
    for words in (
        "Each column is compared alone.",
        "not an error of the model.",
        "Many rows make every",
    ):
        assert words in text


def test_exchanged_terms_are_shown_then_and_now(documents: dict[str, Any]) -> None:
    answers = page("drift", documents)["answers"]
    assert "90 sentences of comment with a term were answered again" in said(answers)
    (row,) = rows(table(answers, "Moves of the answers")).values()
    assert [cell.partition(" ")[0] for cell in row] == ["0.020", "0.070", "0.050"]
