"""What is missing or uncertain: warnings, small groups, what was not measured, notes."""

from __future__ import annotations

from typing import Any

from page_blocks import page
from page_examples import run_documents

from evenhand.tasks.pages.page_model import Items


def statements(documents: dict[str, Any]) -> list[str]:
    (block,) = page("run", documents)["missing"].blocks
    assert isinstance(block, Items)
    return list(block.entries)


def test_metrics_without_evidence_and_what_was_not_measured() -> None:
    found = statements(run_documents())
    assert found[0] == (
        "Not enough evidence for Equal opportunity difference by age: age: 1 cell of 6 has fewer "
        "than 25 rows."
    )
    assert found[1].startswith("Not measured: certificates of comparable treatment")
    assert "counterfactual" not in found[1]
    assert "The model was not compared with controls." in found


def test_warnings_come_first() -> None:
    documents = run_documents()
    documents["leaks"] = {"columns": [{"name": "a_b"}], "stand_ins": {}}
    documents["leaks"]["columns"][0] |= {"kind": "label", "auc": 1.0}
    outcome = {"column": "paid", "code": 1, "favourable": "1", "adverse": "0", "stated": False}
    documents["metrics"]["settings"]["outcome"] = outcome
    found = statements(documents)
    assert found[0].startswith("**1 model input may leak the label or a sensitive column**: `a_b`")
    assert "`favourable` of the label `paid`" in found[1]


def test_small_groups_and_wide_intervals_are_named() -> None:
    documents = run_documents()
    documents["metrics"]["counts"]["sex"] += [
        {"group": "diverse", "label": 0, "n": 20, "predicted_positive": 8},
        {"group": "diverse", "label": 1, "n": 10, "predicted_positive": 6},
    ]
    left_out = {"group": "diverse", "n": 30, "fewest": 10, "reason": "too_few"}
    groups = {"measured": ["Female", "Male"], "left_out": [left_out]}
    documents["metrics"]["groups"] = {"gap_max.sex": groups}
    found = statements(documents)
    assert found[0].startswith("By sex, no comparison of groups includes diverse (30 rows")
    assert found[1] == (
        "The share predicted for “sex: diverse” (30 rows) is uncertain by more than 20 percentage "
        "points."
    )


def test_notes_of_the_run_are_sentences_and_not_repeated() -> None:
    documents = run_documents(notes=["no policy guards this model", "no policy guards this model."])
    found = statements(documents)
    assert found.count("No policy guards this model.") >= 1
    assert all(text.endswith(".") for text in found)


def test_a_run_without_groups_says_so() -> None:
    documents = run_documents()
    documents["metrics"]["counts"] = {}
    assert "No groups were compared: the data has no sensitive attribute." in statements(documents)
