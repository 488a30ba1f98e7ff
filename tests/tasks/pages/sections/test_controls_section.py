"""What the method bought, in words: which side is better, what chance explains, and who is whose
control.
"""

from __future__ import annotations

from typing import Any

import pytest
from page_blocks import charts, rows, said, tables

from evenhand.tasks.pages.sections.controls_section import (
    answers,
    build,
    settings_sentence,
    verdict,
)

SAME = {"value": 0.0, "low": 0.0, "high": 0.0}


def difference(
    value: float | None, low: float | None = None, high: float | None = None
) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "status": "ok", "reason": ""}


def control(same_as: str | None = None, **differences: Any) -> dict[str, Any]:
    found = {name.replace("__", "."): ends for name, ends in differences.items()}
    values = dict.fromkeys(found, 0.5)
    return {"same_as": same_as, "metrics": {"accuracy": 0.6, **values}, "differences": found}


def documents(controls: dict[str, Any], **metrics: float) -> dict[str, Any]:
    values = {
        name: {"value": value, "low": None, "high": None, "status": "ok", "reason": ""}
        for name, value in metrics.items()
    }
    return {
        "controls": {"rows": 100, "level": 0.95, "controls": controls},
        "metrics": {
            "metrics": values,
            "settings": {"level": 0.95, "draws": 100, "min_cell": 5},
            "n": 100,
        },
        "run": {"job": {"method": "reweigh"}},
    }


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"accuracy": difference(0.1, 0.05, 0.15)}, "**better** in accuracy (+0.100)"),
        ({"accuracy": difference(-0.1, -0.15, -0.05)}, "**worse** in accuracy (\u22120.100)"),
        # less is better
        ({"log_loss": difference(-0.1, -0.15, -0.05)}, "**better** in log loss (\u22120.100)"),
        (
            {"gap_max.sex": difference(0.1, 0.05, 0.15)},
            "**worse** in largest gap in error rates by sex",
        ),
        ({"accuracy": difference(0.1, -0.01, 0.15)}, "**no significant difference**"),
        ({"accuracy": difference(0.1, 0.0, 0.15)}, "**no significant difference**"),
        ({"accuracy": difference(None)}, "no intervals"),
        ({"accuracy": difference(0.1)}, "no intervals"),
        # an interval of another metric is one: a certificate's difference never has any
        (
            {"accuracy": difference(0.0, -0.1, 0.1), "certificate.drf": difference(-0.5)},
            "**no significant difference**",
        ),
        (
            {"gap_max.sex&race": difference(0.1, 0.05, 0.15), "accuracy": SAME},
            "**no significant difference**",
        ),
    ],
)
def test_a_verdict_is_told_from_the_interval_and_the_direction(
    found: dict[str, Any], words: str
) -> None:
    assert words in verdict(found)


def test_both_sides_are_said() -> None:
    text = verdict(
        {"accuracy": difference(-0.1, -0.2, -0.05), "log_loss": difference(-0.1, -0.2, -0.05)}
    )
    assert text == (
        "**better** in log loss (\u22120.100), and **worse** in accuracy (\u22120.100); "
        "in the other measures no significant difference"
    )


def told(plain: str | None, blind: str | None) -> str:
    shown = {"accuracy": difference(0.1, 0.05, 0.2)}
    return " ".join(
        answers(
            {
                "majority": control(),
                "plain": control(plain, **shown),
                "blind": control(blind, **shown),
            }
        )
    )


def test_who_is_whose_control() -> None:
    better = "**better** in accuracy (+0.100); in the other measures no significant difference"
    assert told(None, None) == f"Compared with blind: {better}. Compared with plain: {better}."
    assert told(None, "plain") == (
        f"Compared with blind and plain: {better}. No sensitive column is a model input, so plain "
        "is blind too."
    )
    assert told("method", None) == (
        f"Compared with blind: {better}. The method has no mitigation: the model is its own plain "
        "control."
    )
    assert told("method", "method") == (
        "The method has no mitigation, and no sensitive column is a model input: "
        "the model is its own control."
    )


def test_the_table_and_the_chart_have_the_same_numbers() -> None:
    ends = {"accuracy": difference(0.1, 0.05, 0.2), "log_loss": difference(-0.2, -0.3, -0.1)}
    controls = {
        "majority": control(accuracy=difference(0.1, 0.05, 0.2)),
        "plain": control(**ends),
        "blind": control(**ends),
    }
    section = build(documents(controls, accuracy=0.7, log_loss=0.4))
    (chart,) = charts(section)
    assert [
        (row["label"], row["value"], row["low"], row["high"]) for row in chart.data["rows"]
    ] == [
        ("Accuracy", 0.1, 0.05, 0.2),
        ("Log loss", 0.2, 0.1, 0.3),  # turned, so that more is better
    ]
    found = rows(tables(section)[0])
    assert "worse" not in " ".join(found["Log loss"])
    assert found["Log loss"][0] == "0.400 | no interval"
    assert "\u22120.200" in " ".join(found["Log loss"])
    assert "right about 70.0% of people, against 50.0%" in said(section)


def test_a_model_that_is_its_own_control_has_no_chart() -> None:
    controls = {
        "majority": control(accuracy=difference(-0.1, -0.2, -0.05)),
        "plain": control("method"),
        "blind": control("method"),
    }
    section = build(documents(controls, accuracy=0.4))
    assert charts(section) == []
    assert "`max_accuracy` makes the fewest errors" in said(section)


def test_settings_from_the_method_are_said() -> None:
    settings = {"eta": {"value": 0.1, "default": 0.05}, "n_steps": {"value": 301, "default": 1000}}
    sentence = settings_sentence(settings, "budro")
    assert "by default: eta 0.1 (0.05) and n_steps 301 (1000)." in sentence
    assert "than a job of gbdt" in sentence
    assert settings_sentence({}, "reweigh") == settings_sentence(None, "reweigh") == ""
