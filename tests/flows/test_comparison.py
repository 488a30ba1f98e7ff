"""Methods against the reference method: which is compared with which, on which splits, and what follows."""

from __future__ import annotations

from typing import Any

import pytest

from evenhand.fairlib.evaluation.comparison import corrected_t_test, holm
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


def test_every_method_is_tested_against_the_jobs_own_on_the_same_splits() -> None:
    found = compared("method=reweigh,gbdt,nn", overrides=("split.test=0.25",))
    assert (found["reference"], found["splits"], found["metrics"]) == ("gbdt", 4, ["accuracy", GAP])
    assert [(entry["value"], entry["against"]) for entry in found["values"]] == [(1, None), (0, 1), (2, 1)]
    reference, reweigh, nn = (entry["tests"] for entry in found["values"])
    assert reference == {}
    for name in ("accuracy", GAP):
        tests = [
            corrected_t_test(NUMBERS[method][name], NUMBERS["gbdt"][name], ratio=1 / 3)
            for method in ("reweigh", "nn")
        ]
        for entry, test, p in zip((reweigh, nn), tests, holm([test.p for test in tests]), strict=True):
            expected = {"n": test.n, "difference": test.difference, "t": test.t, "p": test.p, "p_holm": p}
            assert {key: entry[name][key] for key in expected} == expected
    # 0.10 below and 0.14 below: worse in what should be high, better in what should be low
    assert (reweigh["accuracy"]["verdict"], reweigh[GAP]["verdict"]) == ("worse", "better")
    assert (nn["accuracy"]["verdict"], nn[GAP]["verdict"]) == ("not significant", "not significant")
    assert (nn["accuracy"]["n"], nn["accuracy"]["t"], nn["accuracy"]["p_holm"]) == (4, 0.0, 1.0)
    assert nn[GAP]["n"] == 3


def test_holms_correction_counts_the_methods() -> None:
    alone = compared("method=gbdt,reweigh")["values"][1]["tests"][GAP]
    both = compared("method=gbdt,reweigh,nn")["values"][1]["tests"][GAP]
    assert alone["p_holm"] == alone["p"] == both["p"]
    assert both["p_holm"] == pytest.approx(2 * both["p"])


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


def test_where_another_key_is_swept_too_only_like_is_compared_with_like() -> None:
    found = compared("split.test=0.2,0.5", "method=nn,gbdt")
    # the reference stands before what is compared with it
    assert [(entry["value"], entry["against"]) for entry in found["values"]] == [
        (1, None),
        (0, 1),
        (3, None),
        (2, 3),
    ]
    tests = [entry["tests"][GAP] for entry in found["values"] if entry["tests"]]
    expected = [
        corrected_t_test(NUMBERS["nn"][GAP], NUMBERS["gbdt"][GAP], ratio=ratio) for ratio in (0.25, 1.0)
    ]
    assert [test["p"] for test in tests] == [test.p for test in expected]
    assert tests[0]["p"] != tests[1]["p"]


def test_one_split_is_no_test() -> None:
    found = compared("method=gbdt,reweigh", seeds=1)
    tests = found["values"][1]["tests"]
    assert {name: (test["verdict"], test["n"], test["p"]) for name, test in tests.items()} == {
        "accuracy": ("no test", 1, None),
        GAP: ("no test", 1, None),
    }
    assert tests["accuracy"]["difference"] == pytest.approx(-0.1)


def test_a_method_whose_runs_failed_is_not_tested() -> None:
    grid = make_grid("loans-gbdt", ["method=gbdt,nn"], seeds=4)
    found = results(grid)
    for index, point in enumerate(grid.points):
        if point.resolved.method == "nn" and point.seed != grid.seeds[2]:
            found[index] = PointResult(error="disk full")
    test = tradeoffs(grid, found)["comparison"]["values"][1]["tests"]["accuracy"]
    assert (test["n"], test["verdict"], test["p_holm"]) == (1, "no test", None)


@pytest.mark.parametrize("over", ["method.eta=0.1,0.2", "method=gbdt"])
def test_without_two_methods_nothing_is_compared(over: str) -> None:
    assert compared(over) is None


def test_intersections_and_all_attributes_are_compared_and_other_metrics_are_not() -> None:
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
    found = tradeoffs(grid, [PointResult("done", "passed", metrics) for _ in grid.points])["comparison"]
    assert found["metrics"] == [
        "balanced_accuracy",
        GAP,
        "average_odds_difference.group",
        "balanced_accuracy_difference.a&group",
        "theil_index",
    ]


def test_proxies_are_not_compared_as_classifiers() -> None:
    grid = make_grid("bank-proxy", ["method.alpha=0.1,0.2"])
    assert tradeoffs(grid, [PointResult(error="disk full") for _ in grid.points])["comparison"] is None
