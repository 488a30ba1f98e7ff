"""Methods against the reference method: which is compared with which, on which splits, and what
follows.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from evenhand.fairlib.evaluation.comparison import mean_difference
from evenhand.flows.sweep import Grid, PointResult, make_grid, tradeoffs

GAP = "equal_opportunity_difference.group"
# by method and seed; the gap of nn is not known in one split
NUMBERS: dict[str, dict[str, list[float | None]]] = {
    "gbdt": {"accuracy": [0.70, 0.72, 0.71, 0.70], GAP: [0.20, 0.25, 0.22, 0.24]},
    "reweigh": {"accuracy": [0.60, 0.63, 0.61, 0.60], GAP: [0.05, 0.11, 0.06, 0.10]},
    "nn": {"accuracy": [0.70, 0.72, 0.71, 0.70], GAP: [0.19, None, 0.24, 0.21]},
}


def results(grid: Grid, numbers: Any = NUMBERS) -> list[PointResult]:
    return [
        PointResult(
            "done",
            "passed",
            {
                name: {"value": values[grid.seeds.index(point.seed)], "low": None, "high": None}
                for name, values in numbers[point.resolved.method].items()
            },
        )
        for point in grid.points
    ]


def compared(*over: str, seeds: int = 4, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    grid = make_grid("loans-gbdt", over, seeds=seeds, overrides=overrides)
    found: dict[str, Any] = tradeoffs(grid, results(grid))["comparison"]
    return found


def expected(method: str, metric: str, ratio: float, level: float = 0.95) -> dict[str, Any]:
    pairs = zip(NUMBERS[method][metric], NUMBERS["gbdt"][metric], strict=True)
    apart = [None if a is None or b is None else a - b for a, b in pairs]
    return asdict(mean_difference(apart, ratio=ratio, level=level))


def test_methods_are_compared_with_the_jobs_own_by_split() -> None:
    found = compared("method=reweigh,gbdt,nn", overrides=("split.test=0.25",))
    assert (found["reference"], found["splits"], found["metrics"]) == ("gbdt", 4, ["accuracy", GAP])
    assert [(entry["value"], entry["against"]) for entry in found["values"]] == [
        (1, None),
        (0, 1),
        (2, 1),
    ]
    reference, reweigh, nn = (entry["differences"] for entry in found["values"])
    assert reference == {}
    for name in ("accuracy", GAP):
        # two comparisons hold together
        assert reweigh[name] == expected("reweigh", name, 1 / 3, 0.975)
        assert nn[name] == expected("nn", name, 1 / 3, 0.975)
    # 0.10 below and 0.14 below
    assert reweigh["accuracy"]["high"] < 0 > reweigh[GAP]["high"]
    assert (nn["accuracy"]["low"], nn["accuracy"]["high"]) == (0.0, 0.0)
    assert nn[GAP]["n"] == 3
    assert nn[GAP]["low"] < 0 < nn[GAP]["high"]


def test_intervals_allow_for_the_number_of_methods() -> None:
    alone = compared("method=gbdt,reweigh")["values"][1]["differences"][GAP]
    both = compared("method=gbdt,reweigh,nn")["values"][1]["differences"][GAP]
    assert both["low"] < alone["low"] < alone["high"] < both["high"]


@pytest.mark.parametrize(
    ("over", "reference"),
    [
        ("method=nn,gbdt", "gbdt"),
        ("method={name: gbdt, eta: 0.2},gbdt,nn", "gbdt"),
        ("method=nn,{name: gbdt, eta: 0.2}", "{name: gbdt, eta: 0.2}"),
        ("method=nn,reweigh", "nn"),
    ],
)
def test_the_reference_is_the_jobs_own_method_or_else_the_first(over: str, reference: str) -> None:
    found = compared(over)
    assert found["reference"] == found["values"][0]["method"] == reference
    assert [entry["against"] is None for entry in found["values"]].count(True) == 1


def test_other_swept_keys_divide_the_comparisons() -> None:
    """Only points of equal keys are compared."""
    found = compared("split.test=0.2,0.5", "method=nn,gbdt")
    # the reference stands before what is compared with it
    assert [(entry["value"], entry["against"]) for entry in found["values"]] == [
        (1, None),
        (0, 1),
        (3, None),
        (2, 3),
    ]
    differences = [entry["differences"][GAP] for entry in found["values"] if entry["differences"]]
    assert differences == [expected("nn", GAP, ratio, 0.975) for ratio in (0.25, 1.0)]


def test_one_split_has_no_interval() -> None:
    found = compared("method=gbdt,reweigh", seeds=1)["values"][1]["differences"]
    assert {name: (d["n"], d["low"]) for name, d in found.items()} == {
        "accuracy": (1, None),
        GAP: (1, None),
    }
    assert found["accuracy"]["mean"] == pytest.approx(-0.1)


def test_a_method_whose_runs_failed_has_no_interval() -> None:
    grid = make_grid("loans-gbdt", ["method=gbdt,nn"], seeds=4)
    found = results(grid)
    for index, point in enumerate(grid.points):
        if point.resolved.method == "nn" and point.seed != grid.seeds[2]:
            found[index] = PointResult(error="disk full")
    difference = tradeoffs(grid, found)["comparison"]["values"][1]["differences"]["accuracy"]
    assert (difference["n"], difference["low"]) == (1, None)


@pytest.mark.parametrize("over", ["method.eta=0.1,0.2", "method=gbdt"])
def test_without_two_methods_nothing_is_compared(over: str) -> None:
    assert compared(over) is None


def test_intersections_and_all_attributes_are_compared() -> None:
    """Other metrics are not compared."""
    grid = make_grid("loans-gbdt", ["method=gbdt,nn"], seeds=2)
    names = [
        "theil_index",
        "auc",
        "gap_max.group",
        "average_odds_difference.group",
        GAP,
        "balanced_accuracy_difference.a&group",
        "balanced_accuracy",
    ]
    metrics = {name: {"value": 0.5, "low": None, "high": None} for name in names}
    found = tradeoffs(grid, [PointResult("done", "passed", metrics) for _ in grid.points])[
        "comparison"
    ]
    assert found["metrics"] == [
        "balanced_accuracy",
        GAP,
        "average_odds_difference.group",
        "balanced_accuracy_difference.a&group",
        "theil_index",
    ]


def test_proxies_are_not_compared_as_classifiers() -> None:
    grid = make_grid("bank-proxy", ["method.alpha=0.1,0.2"])
    assert (
        tradeoffs(grid, [PointResult(error="disk full") for _ in grid.points])["comparison"] is None
    )
