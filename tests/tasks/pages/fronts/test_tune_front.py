"""The page of a study: its front, validation beside test, the chart, and what is left out of many
trials.
"""

from __future__ import annotations

from typing import Any

import pytest
from tune_documents import standing, trial, tune_documents

from evenhand.tasks.pages.build import build, cells, write_page
from evenhand.tasks.pages.fronts.tune_front import front, label_of
from evenhand.tasks.pages.page_model import Cell, Chart, Table


def tables(documents: dict[str, Any]) -> dict[str, Table]:
    """All tables of the page by caption."""
    blocks = [block for section in build("tune", documents).sections for block in section.blocks]
    return {block.caption: block for block in blocks if isinstance(block, Table)}


def text_of(value: Any) -> Any:
    return (value.text, *value.below) if isinstance(value, Cell) else value


def test_the_front_names_the_winner_and_its_number_on_test_rows() -> None:
    found = front(tune_documents())
    assert found.badge is not None
    assert found.badge[2] == "A model is within the limits"
    assert found.headline == [
        "The winner is reweigh (eta=0.1, max_depth=null), with balanced accuracy 0.760 on "
        "validation rows.",
        "On 200 test rows, which the search did not see, balanced accuracy is 0.740 (0.700 to "
        "0.780).",
        "On the test rows “gap_max.sex <= 0.2” held too.",
        "The blind control does no worse.",
        "6 models of gbdt and reweigh; 5 were judged on all folds of the training rows. With the "
        "rules of decisions there are 8 trials.",
    ]


def test_a_tick_is_for_limits_that_are_shown_to_hold() -> None:
    """Not where the value alone keeps one, nor where the test rows miss one."""
    documents = tune_documents()
    study = documents["tuning"]
    study["standings"] = [standing("chance", 0.1, 0.15)]
    assert front(documents).badge == ("passed", "\u2713", "A model is within the limits")
    study["standings"] = [standing("value", 0.1, 0.3)]
    assert front(documents).badge == (
        "insufficient_evidence",
        "\u2013",
        "Within the limits by the values, not shown to hold",
    )
    study["test"]["gap_max.sex"] = {"value": 0.25, "low": 0.1, "high": 0.4}
    assert front(documents).badge == (
        "insufficient_evidence",
        "\u2013",
        "Within the limits on validation rows, not on the test rows",
    )
    study["test"]["gap_max.sex"] = {"value": None, "low": None, "high": None}
    study["standings"] = []
    assert front(documents).badge == (
        "insufficient_evidence",
        "\u2013",
        "Within the limits on validation rows; too few test rows to tell",
    )
    # not measured there at all
    study["test"] = None
    assert front(documents).badge == ("passed", "\u2713", "A model is within the limits")


@pytest.mark.parametrize(
    ("gap", "held", "words"),
    [
        (0.0, None, "No less discriminatory alternative was found"),
        (0.1, None, "An alternative on these rows, not shown to be as good on unseen ones"),
        (0.1, {"number": "3"}, "An alternative is no worse on unseen rows, and less"),
    ],
)
def test_the_badge_of_a_search_for_alternatives(gap: float, held: Any, words: str) -> None:
    """Not that a model is within limits that follow from the model itself."""
    documents = tune_documents()
    documents["tuning"]["standings"] = [standing("model", 0.1, 0.15)]
    documents["alternative"] = {"alternative_gap": gap, "held": held}
    badge = front(documents).badge
    assert badge is not None
    assert badge[2].startswith(words)


def test_without_a_winner_the_best_compromise_is_shown() -> None:
    """The page says what it misses."""
    documents = tune_documents(winner=None)
    documents["tuning"]["standings"] = [standing(None, 0.25, 0.3)]
    found = front(documents)
    assert found.badge is not None
    assert found.badge[0] == "refused"
    assert found.headline[0].startswith(
        "No trial is within the limits. The best compromise is reweigh (eta=0.1"
    )
    assert found.headline[0].endswith(": gap_max.sex <= 0.2: value 0.25.")
    assert "The best compromise" in write_page("tune", documents)
    table = tables(documents)["The limits and the chosen trial, on validation rows"]
    assert [text_of(cell) for cell in table.rows[0]] == [
        "gap_max.sex <= 0.2",
        0.25,
        0.3,
        ".97",
        "missed by 0.050",
    ]


@pytest.mark.parametrize(
    ("kept_by", "shown"),
    [
        ("chance", "kept"),
        ("value", "kept by the value; not shown to hold"),
    ],
)
def test_the_page_says_whether_a_kept_limit_is_shown_to_hold(kept_by: str, shown: str) -> None:
    documents = tune_documents()
    documents["tuning"]["standings"] = [standing(kept_by)]
    table = tables(documents)["The limits and the chosen trial, on validation rows"]
    assert text_of(table.rows[0][-1]) == shown


def test_validation_stands_beside_test_with_the_difference() -> None:
    table = tables(tune_documents())["Validation and test of the chosen trial"]
    assert table.columns == [
        "Metric",
        "Validation (95% interval)",
        "Test (95% interval)",
        "Test less validation",
    ]
    assert [text_of(cell) for cell in table.rows[0]] == [
        ("Balanced accuracy",),
        ("0.760", "0.740 to 0.780"),
        ("0.740", "0.700 to 0.780"),
        ("\u22120.020",),
    ]


def test_the_costs_of_limits_and_the_repeats() -> None:
    found = tables(tune_documents())
    costs = found["The best trial with and without each limit"]
    assert [cell.text for cell in cells(costs.rows[0])] == [
        "gap_max.sex <= 0.2",
        "0.760",
        "no trial",
        "0.800",
        "\u22120.040",
    ]
    repeats = found["The winner with several seeds, on the test rows"]
    # of 0.74, 0.75 and 0.73
    assert [cell.text for cell in cells(repeats.rows[0])][1:] == ["0.740", "0.730 to 0.750"]


def test_trials_by_method_and_why_some_failed() -> None:
    found = tables(tune_documents())
    rows = [
        [text_of(cell) for cell in row]
        for row in found["Trials by method and rule of decisions"].rows
    ]
    assert rows == [
        ["reweigh", "the job’s", 1, 0, 0, ("0.760",)],
        ["gbdt", "the job’s", 1, 1, 0, ("none",)],
        ["gbdt", "equalized odds by sex", 1, 0, 1, ("0.700",)],
    ]
    assert [list(row) for row in found["Why trials failed"].rows] == [["too few rows", 1]]


def test_the_chart_marks_the_front_the_winner_and_the_controls() -> None:
    sections = build("tune", tune_documents()).sections
    chart = next(
        block for section in sections for block in section.blocks if isinstance(block, Chart)
    )
    marks = {(row["x"], row["y"]): (row["label"], row["kind"]) for row in chart.data["rows"]}
    assert marks == {
        (0.3, 0.78): ("plain", "other"),
        (0.2, 0.76): ("blind", "other"),
        (0.1, 0.76): ("", "best"),
        (0.25, 0.8): ("", "front"),
        (0.12, 0.7): ("", "other"),
    }
    assert chart.data["x_limits"] == [0.2]
    # the winner is above a trial that decides the same
    assert chart.data["rows"][-1]["kind"] == "best"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kind": "plain"}, "without mitigation"),
        (
            {"kind": "search", "method": "nn", "arguments": {"hidden": [100, 50], "rho": 0.123456}},
            "nn (hidden=[100, 50], rho=0.123)",
        ),
        (
            {
                "kind": "default",
                "method": "logistic",
                "decision": "demographic_parity by sex",
                "tolerance": 0.05,
            },
            "logistic, demographic parity by sex within 0.05",
        ),
        ({"kind": "search", "method": None, "model": 7}, "model 7"),
        ({"kind": "job"}, "the job as it is"),
        (
            {"kind": "job", "decision": "equalized_odds by sex", "tolerance": 0.1},
            "the job as it is, equalized odds by sex within 0.1",
        ),
        (
            {"kind": "default", "method": "gbdt", "arguments": {"eta": 0.1, "leave_out": []}},
            "gbdt (eta=0.1)",
        ),
        (
            {"kind": "search", "method": "gbdt", "arguments": {"leave_out": ["sex"]}},
            "gbdt (leave_out=[sex])",
        ),
    ],
)
def test_a_trial_has_a_name(changes: dict[str, Any], expected: str) -> None:
    base = {"model": 0, "method": None, "arguments": {}, "decision": "job", "tolerance": None}
    assert label_of({**base, **changes}) == expected


def test_the_job_under_other_rules_is_no_control() -> None:
    """It has one place in the table of the controls and one mark, whatever the number of
    its rules.
    """
    documents = tune_documents()
    trials = documents["tuning"]["trials"]
    trials.append(trial("6", "job", (0.75, 0.3)))
    for place in range(1, 6):
        rule = {"decision": "equalized_odds by sex", "tolerance": place / 100}
        trials.append(trial(f"6.{place}", "job", (0.7, 0.15), **rule))
    table = tables(documents)["The controls of the search, on the validation rows"]
    names = [
        "The majority-class baseline",
        "Without mitigation",
        "Without the sensitive columns",
        "The job as it is",
    ]
    assert table.columns == ["Metric", *names]
    sections = build("tune", documents).sections
    chart = next(
        block for section in sections for block in section.blocks if isinstance(block, Chart)
    )
    assert [row["label"] for row in chart.data["rows"]].count("job") == 1


def test_controls_of_the_search_and_of_the_tuned_job_are_apart() -> None:
    """They are other models, so no row has values of both."""
    documents = tune_documents()
    study = documents["tuning"]
    study["test_controls"]["reweigh"] = {"balanced_accuracy": 0.73, "gap_max.sex": 0.09}
    study["trials"][3]["arguments"] = {"leave_out": ["sex"]}
    of_search = tables(documents)["The controls of the search, on the validation rows"]
    assert [row[1:4] for row in of_search.rows] == [[0.5, 0.78, 0.76], [0.0, 0.3, 0.2]]
    of_job = tables(documents)["The controls of the tuned job, on the test rows"]
    assert of_job.columns[1:] == ["Without mitigation", "On rows reweighed by group and label"]
    assert [row[1:] for row in of_job.rows] == [[0.77, 0.73], [0.28, 0.09]]
    page = write_page("tune", documents)
    assert "As the tuned job leaves out sex, none of them sees it." in page
    study["trials"][3]["arguments"] = {}
    assert "As the tuned job leaves out" not in write_page("tune", documents)
    study["trials"][3]["kind"] = "blind"
    assert "leaves out the sensitive columns" in write_page("tune", documents)


def test_the_best_trials_say_whose_model_they_have() -> None:
    (best,) = [
        table for caption, table in tables(tune_documents()).items() if caption.startswith("All 6")
    ]
    rows = {row[0].text: (row[0].below[0], row[-1]) for row in best.rows}  # type: ignore[union-attr]
    assert rows["4"] == ("gbdt (eta=0.05)", "1.5 s")
    assert rows["4.1"] == ("gbdt (eta=0.05), equalized odds by sex within 0.03", "model of 4")


def test_one_partial_trial_is_told_as_one() -> None:
    """The page of a search that had no time for all folds, nor for the test rows."""
    documents = tune_documents()
    study = documents["tuning"]
    study["trials"] = [row for row in study["trials"] if row["number"] == "3"]
    study["trials"][0]["state"] = "partial"
    study["test"] = None
    study["repeats"] = []
    study["notes"] = ["the time ended: `evenhand run` measures it"]
    assert front(documents).headline[-2:] == [
        "The time ended: “evenhand run” measures it.",
        "1 model of gbdt and reweigh; 0 were judged on all folds of the training rows. With the "
        "rules of decisions there is 1 trial.",
    ]
    by_method = tables(documents)["Trials by method and rule of decisions"]
    counts = dict(zip(map(str, by_method.columns), by_method.rows[0], strict=True))
    assert (counts["Judged"], counts["On a part of the rows"]) == (0, 1)
    page = write_page("tune", documents)
    assert "The trial is <strong>reweigh (eta=0.1" in page
    assert "It was not measured on the test rows." in page
    assert "the difference to the test rows" not in page
    study["trials"][0]["state"] = "judged"
    assert "; 1 was judged on all folds" in front(documents).headline[-1]


def test_two_thousand_trials_give_a_small_page() -> None:
    documents = tune_documents(more=2000, rules=8)
    page = write_page("tune", documents)
    assert len(page) < 1_000_000
    assert "The best 100 of 2,006 trials" in page
    assert (
        "256 models of gbdt and reweigh; 255 were judged on all folds of the training rows. With "
        "the" in page
    )
    assert "rules of decisions there are 2,008 trials." in page
    # a row for each method and rule, however many tolerances it was tried with
    table = tables(documents)["Trials by method and rule of decisions"]
    assert [(row[0], row[1], row[2]) for row in table.rows] == [
        ("reweigh", "the job’s", 1),
        ("gbdt", "the job’s", 251),
        ("gbdt", "equalized odds by sex", 1751),
    ]
