"""The effect of the mitigation in short: few metrics, the least favourable first."""

from __future__ import annotations

from typing import Any

from page_blocks import by_metric, page, said, tables
from page_examples import evaluation_documents, ok, run_documents

from evenhand.tasks.pages.sections.effect_section import MOST_METRICS, deciding


def control(same_as: str | None, change: float) -> dict[str, Any]:
    """A control from which every metric of the example differs by a change."""
    values = run_documents()["metrics"]["metrics"]
    measured = {name: metric for name, metric in values.items() if metric["value"] is not None}
    return {
        "same_as": same_as,
        "metrics": {name: metric["value"] - change for name, metric in measured.items()},
        "differences": {name: ok(change, 0.001) for name in measured},
    }


def documents(plain: str | None = None) -> dict[str, Any]:
    found = run_documents()
    controls = {
        "majority": control(None, 0.1),
        "plain": control(plain, -0.02),
        "blind": control(None, 0.05),
    }
    found["controls"] = {"rows": 9045, "level": 0.95, "controls": controls}
    return found


def test_the_model_stands_against_each_control() -> None:
    section = page("run", documents())["effect"]
    assert "Compared with blind: better in accuracy (+0.050)" in said(section)
    (table,) = tables(section)
    assert len(table.columns) == 4
    found = by_metric(table)
    assert len(found) == MOST_METRICS
    assert found["accuracy"] == [
        "0.821 | 0.813 to 0.829",
        "\u22120.020 | \u22120.021 to \u22120.019 | \u2715 worse than 0.841",
        "+0.050 | +0.049 to +0.051 | \u2713 better than 0.771",
    ]


def test_a_control_that_is_the_model_has_no_column() -> None:
    (table,) = tables(page("run", documents(plain="method"))["effect"])
    assert [column.partition(":")[0] for column in table.columns[2:]] == ["Against blind"]


def test_the_least_favourable_of_a_kind_comes_first() -> None:
    metrics = {
        "gap_max.a": ok(0.1, 0.01),
        "gap_max.b": ok(0.3, 0.01),
        "gap_max.c": ok(0.2, 0.01),
        "consistency.x": ok(0.9, 0.01),
        "consistency.y": ok(0.8, 0.01),
        "consistency.z": {"value": None},
    }
    assert deciding(list(metrics), metrics) == ["consistency.y", "gap_max.b", "gap_max.c"]


def test_an_evaluation_stands_against_its_baseline() -> None:
    section = page("evaluation", evaluation_documents())["effect"]
    (table,) = tables(section)
    assert table.columns[-1] == "Model less baseline"
    assert by_metric(table)["gap_max.sex"][2].endswith("better")
