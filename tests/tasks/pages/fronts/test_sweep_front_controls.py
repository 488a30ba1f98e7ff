"""A sweep beside the blind control: differences over the seeds, their intervals, and what they
mean.
"""

from __future__ import annotations

from typing import Any

import pytest
import scipy.stats
from page_blocks import by_metric, page, table
from sweep_documents import documents_of, sweep_documents, trained

from evenhand.flows.sweep import make_grid, tradeoffs
from evenhand.tasks.pages.fronts.sweep_front import MOST
from evenhand.tasks.pages.page_model import Section

# by value of eta, one per seed; None where the evidence did not suffice
OVER_BLIND: dict[float, dict[str, list[float | None]]] = {
    0.1: {
        "accuracy": [0.02, 0.03, 0.04],
        "gap_max.sex": [0.05, 0.06, 0.07],
        "theil_index": [1.0, 2.0, 3.0],
    },
    0.2: {"accuracy": [-0.02, 0.03, -0.04], "gap_max.sex": [-0.05, -0.06, -0.07]},
    0.4: {"accuracy": [-0.02, None, None], "gap_max.sex": [None, None, None]},
}


def documents(over: str = "method.eta=0.1,0.2,0.4", seeds: int = 3) -> dict[str, Any]:
    grid = make_grid("adult-gbdt", [over], seeds=seeds)
    results = []
    for point in grid.points:
        eta, result = point.resolved.arguments["eta"], trained(0.1, point.seed)
        found = OVER_BLIND.get(eta, OVER_BLIND[0.1])
        result.over_blind = {name: values[point.seed] for name, values in found.items()}
        results.append(result)
    return documents_of(tradeoffs(grid, results))


def section(found: dict[str, Any]) -> Section:
    return page("sweep", found)["over-blind"]


def differences(found: dict[str, Any]) -> dict[str, list[str]]:
    return by_metric(table(section(found), "Differences from the blind control"))


def test_differences_are_summed_up_over_the_seeds() -> None:
    first, second, third = documents()["tradeoff"]["values"]
    found = first["over_blind"]["accuracy"]
    # a fifth of the rows are test rows: with 3 seeds, 1/3 + 1/4 in place of 1/3
    half = scipy.stats.t.ppf(0.975, 2) * 0.01 * (1 / 3 + 1 / 4) ** 0.5
    assert (found["mean"], found["n"]) == (pytest.approx(0.03), 3)
    assert (found["low"], found["high"]) == pytest.approx((0.03 - half, 0.03 + half))
    assert second["over_blind"]["gap_max.sex"]["mean"] == pytest.approx(-0.06)
    assert (third["over_blind"]["accuracy"]["n"], third["over_blind"]["accuracy"]["low"]) == (
        1,
        None,
    )
    assert "gap_max.sex" not in third["over_blind"]


def test_a_cell_says_better_worse_or_neither() -> None:
    found = differences(documents())
    assert list(found) == ["accuracy", "gap_max.sex"], "the answer is not about other metrics"
    assert found["accuracy"] == [
        "+0.030 | \u22120.00286 to +0.063 | no significant difference",
        "\u22120.010 | \u22120.128 to +0.108 | no significant difference",
        "\u22120.020 | no interval",
    ]
    # a larger gap is worse
    assert found["gap_max.sex"] == [
        "+0.060 | +0.027 to +0.093 | \u2715 worse",
        "\u22120.060 | \u22120.093 to \u22120.027 | \u2713 better",
        "not compared",
    ]


def test_of_many_values_the_first_are_shown_and_all_are_counted() -> None:
    etas = [f"0.0{i}1" for i in range(11, 11 + MOST + 2)]
    many = documents(f"method.eta={','.join(etas)}")
    assert table(section(many), "Differences").columns == ["Metric", *etas[:MOST]]
    assert table(section(many), "Differences").caption.endswith(
        f": the first {MOST} of {MOST + 2} values"
    )
    assert (
        table(section(documents()), "Differences").caption == "Differences from the blind control"
    )


def test_sweeps_without_controls_have_no_such_section() -> None:
    assert "over-blind" not in page("sweep", sweep_documents())
    only_theil = documents()
    for value in only_theil["tradeoff"]["values"]:
        value["over_blind"] = {"theil_index": {"mean": 1.0, "low": None, "high": None}}
    assert "over-blind" not in page("sweep", only_theil)
