"""The best of the controls, and over which of them a model gains nothing."""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import said, tables

from evenhand.tasks.pages.best_control import best_control, gain_sentence, without_gain
from evenhand.tasks.pages.sections.controls_section import answers, build, control_columns


def control(
    accuracy: float, gap: float, gain: float = 0.0, same_as: str | None = None, **more: Any
) -> dict[str, Any]:
    """A control whose gap the model lowers by a gain, within .01."""
    unclear = {"value": 0.0, "low": -0.01, "high": 0.01}
    differences = {
        "accuracy": unclear,
        "gap_max.sex": {"value": -gain, "low": -gain - 0.01, "high": -gain + 0.01},
    }
    metrics = {"accuracy": accuracy, "gap_max.sex": gap}
    return {"same_as": same_as, "metrics": metrics, "differences": differences, **more}


def controls(**changed: dict[str, Any]) -> dict[str, Any]:
    names = {
        "majority": control(0.9, 0.0),
        "plain": control(0.80, 0.20, 0.15),
        "blind": control(0.79, 0.15, 0.10),
        "reweigh": control(0.78, 0.05, 0.0),
        "leave_out": control(0.70, 0.04, 0.0, columns=["club"], threshold=0.55),
    }
    return names | changed


def test_the_best_has_the_most_performance_less_disparity() -> None:
    # .60, .64, .73 and .66; the majority-class baseline does not count
    assert best_control(controls()) == "reweigh"
    assert best_control(controls(reweigh=control(0.78, 0.05, same_as="method"))) == "leave_out"
    assert best_control(controls(plain=control(0.95, 0.2))) == "plain"


def test_a_consistency_counts_as_one_less_it() -> None:
    compared = controls()
    for name, value in {"plain": 0.6, "blind": 1.0, "reweigh": 0.5, "leave_out": 0.6}.items():
        compared[name]["metrics"]["consistency.sex"] = value
    # .78 - (.05 + .5) / 2 = .505, .79 - (.15 + 0) / 2 = .715
    assert best_control(compared) == "blind"


def test_metrics_that_a_control_lacks_do_not_count() -> None:
    compared = controls()
    compared["plain"]["metrics"]["demographic_parity_difference.sex"] = 0.0
    compared["blind"]["metrics"]["gap_max.sex&race"] = 0.9
    assert best_control(compared) == "reweigh"


def test_no_gain_is_said_of_all_controls_the_best_first() -> None:
    assert without_gain(controls()) == ["reweigh", "leave_out"]
    assert gain_sentence(controls(), "reweigh (rows)") == (
        "The model **gains nothing** over the best control, reweigh (rows): no metric that decides "
        "is significantly better. Nor does it over leave_out (without `club`)."
    )
    assert without_gain(controls(reweigh=control(0.78, 0.05, 0.02))) == ["leave_out"]
    assert gain_sentence(controls(reweigh=control(0.78, 0.05, 0.02)), "reweigh") == ""


def test_another_control_that_is_better_has_its_figures() -> None:
    """Where plain stands best by its small gap, leaving out may have a far smaller one elsewhere."""
    compared = controls(reweigh=control(0.78, 0.05, 0.02))
    gap = {"value": 0.2, "low": 0.15, "high": 0.25}
    compared["plain"] = control(0.9, 0.02, 0.0)
    compared["leave_out"]["differences"]["gap_max.sex"] = gap
    sentence = gain_sentence(compared, "plain (no mitigation)")
    assert "the best control, plain (no mitigation)" in sentence
    assert sentence.endswith(
        "Nor does it over leave_out (without `club`), which is better in largest gap in error rates "
        "by sex (0.040, the model 0.240)."
    )


def test_two_controls_with_figures_are_two_clauses() -> None:
    compared = controls(blind=control(0.5, 0.04, 0.0))
    gap = {"value": 0.2, "low": 0.15, "high": 0.25}
    compared["leave_out"]["differences"]["gap_max.sex"] = gap
    compared["blind"]["differences"]["gap_max.sex"] = gap
    sentence = gain_sentence(compared, "reweigh (rows)")
    assert "Nor does it over blind, which is better in largest gap" in sentence
    assert "); nor over leave_out (without `club`), which is better in" in sentence


def test_a_loss_and_a_certificate_are_named() -> None:
    compared = controls()
    compared["reweigh"]["differences"]["accuracy"] = {"value": -0.05, "low": -0.07, "high": -0.03}
    compared["reweigh"]["differences"]["certificate.drf"] = {"value": -0.3, "low": None}
    compared["reweigh"]["metrics"]["certificate.drf"] = 0.5
    sentence = gain_sentence(compared, "reweigh")
    assert ", and it is **worse** in accuracy (\u22120.050)" in sentence
    assert "; without an interval, " in sentence
    assert "is 0.200 instead of 0.500" in sentence


def test_without_intervals_nothing_is_claimed() -> None:
    compared = controls()
    for entry in compared.values():
        for difference in entry["differences"].values():
            difference["low"] = difference["high"] = None
    assert without_gain(compared) == []
    assert "there are no intervals" in answers(compared)[0]


def test_the_answer_names_the_best_first() -> None:
    (text,) = answers(controls())
    assert text.startswith("The model **gains nothing** over the best control, reweigh (the same")
    assert text.count("Compared with blind: ") == 1
    (text,) = answers(controls(reweigh=control(0.5, 0.5), leave_out=control(0.79, 0.01, 0.0)))
    assert text.startswith("The model **gains nothing** over the best control, leave_out (without ")
    (text,) = answers(controls(blind=control(0.79, 0.0, 0.2)))
    assert text.startswith("Compared with the best control, blind (the same")
    assert "Compared with blind" not in text


def test_a_method_that_reweighs_says_so() -> None:
    compared = controls(reweigh=control(0.78, 0.05, same_as="method"))
    (text,) = answers(compared)
    assert "The method reweighs the rows itself" in text
    assert list(control_columns(compared)) == ["plain", "blind", "leave_out", "majority"]


@pytest.mark.parametrize("missing", [("reweigh", "leave_out"), ("reweigh",), ("leave_out",)])
def test_documents_of_earlier_versions_still_have_answers(missing: tuple[str, ...]) -> None:
    older = {name: entry for name, entry in controls().items() if name not in missing}
    (text,) = answers(older)
    assert "Compared with plain: " in text
    assert ("best control" in text) == (len(missing) == 1)


def test_simple_mitigations_have_a_table_of_their_own() -> None:
    compared = controls()
    section = build(
        {
            "controls": {"controls": compared, "missing": {}},
            "metrics": {
                "metrics": {"accuracy": {"value": 0.8, "low": None, "high": None}},
                "settings": {"level": 0.95, "draws": 100, "min_cell": 5},
            },
            "run": {"job": {"method": "budro"}},
        }
    )
    first, second = tables(section)
    assert [head.split(":")[0] for head in first.columns] == [
        "Metric",
        "This model",
        "Against plain",
        "Against blind",
        "Majority class",
    ]
    assert [head.split(":")[0] for head in second.columns[2:]] == [
        "Against reweigh",
        "Against leave_out",
    ]
    assert "These are `club`: each predicts a group" in said(section)
