"""Methods at equal balanced accuracy and as fronts: choices, areas, degenerate models, the page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from benchmarks import common
from benchmarks.page_generators import fronts_section
from benchmarks.studies import method_fronts
from benchmarks.studies.method_fronts import (
    Operating,
    Paired,
    area,
    at_level,
    front,
    is_degenerate,
    paired,
    summarise,
)

GAP = "gap_max.sex"
CONSISTENCY = "consistency.a"


def point(accuracy: float, gap: float, consistency: float = 1.0) -> dict[str, float]:
    """A measured point."""
    return {"balanced_accuracy": accuracy, GAP: gap, CONSISTENCY: consistency}


def operating(held: dict[str, float], candidate: int = 0) -> Operating:
    """A point that is the same on held-out and on test people."""
    return Operating(candidate, "0.5", held, held)


def test_the_best_metric_near_the_level_is_chosen() -> None:
    points = [
        operating(point(0.80, 0.10, 0.9)),
        operating(point(0.804, 0.08, 0.7)),
        operating(point(0.82, 0.01, 1.0)),
        operating(point(0.79, 0.01, 1.0)),
    ]
    assert at_level(points, GAP, 0.8) is points[1]
    assert at_level(points, CONSISTENCY, 0.8) is points[0]
    assert at_level(points, GAP, 0.7) is None


def test_the_area_of_a_front_by_hand() -> None:
    # .5 to .7 with a quality of .9, .7 to .8 with one of .6
    points = [point(0.7, 0.1), point(0.8, 0.4), point(0.6, 0.2), point(0.4, 0.0)]
    assert [points[number][GAP] for number in front(points, GAP)] == [0.4, 0.1, 0.0]
    assert area(points, GAP) == pytest.approx((0.2 * 0.9 + 0.1 * 0.6) / 0.5)
    assert area([point(1.0, 0.0)], GAP) == 1.0
    assert area([point(0.5, 0.0)], GAP) == 0.0


@given(
    st.lists(
        st.tuples(st.floats(0.4, 1.0), st.floats(0.0, 1.0)),
        min_size=1,
        max_size=8,
    )
)
def test_the_area_is_that_of_a_union_of_rectangles(pairs: list[tuple[float, float]]) -> None:
    points = [point(accuracy, gap) for accuracy, gap in pairs]
    grid = (np.arange(4000) + 0.5) / 4000 * 0.5 + 0.5
    best = np.zeros(len(grid))
    for accuracy, gap in pairs:
        best = np.maximum(best, np.where(grid <= accuracy, 1.0 - gap, 0.0))
    assert area(points, GAP) == pytest.approx(best.mean(), abs=3e-3)


def test_no_point_of_a_front_is_beaten() -> None:
    rng = np.random.default_rng(0)
    points = [point(*pair) for pair in rng.random((40, 2))]
    kept = front(points, GAP)
    for number in range(len(points)):
        beaten = any(
            other["balanced_accuracy"] >= points[number]["balanced_accuracy"]
            and other[GAP] <= points[number][GAP]
            and other is not points[number]
            for other in points
        )
        assert (number in kept) != beaten


def test_degenerate_models_are_marked() -> None:
    assert is_degenerate([point(0.51, 0.0)], spread=0.2)
    assert is_degenerate([point(0.7, 0.0)], spread=0.01)
    assert not is_degenerate([point(0.5, 0.0), point(0.53, 0.0)], spread=0.02)


def test_paired_differences_have_the_interval_of_the_t_test() -> None:
    mine = [0.3, 0.5, 0.4, 0.7]
    others = [0.2, 0.3, 0.35, 0.4]
    result = paired(mine, others)
    expected = ttest_rel(mine, others).confidence_interval(0.95)
    assert result.difference - result.half == pytest.approx(expected.low)
    assert result.difference + result.half == pytest.approx(expected.high)
    assert math.isinf(paired([0.3], [0.2]).half)


def seed(budro: dict[str, Any], degenerate: int = 0) -> dict[str, Any]:
    """A judged seed of two families."""
    blind = {"value": 0.2, "balanced_accuracy": 0.8, "settings": {}, "threshold": "0.5"}
    area_of = {CONSISTENCY: 0.4, GAP: 0.5}
    equal = {CONSISTENCY: blind, GAP: blind}
    families = {
        "blind": {"degenerate": 0, "seconds": 1.0, "equal": equal, "area": area_of},
        "budro": {"degenerate": degenerate, "seconds": 2.0, "equal": budro, "area": area_of},
    }
    return {"level": 0.8, "families": families}


def chosen(value: float) -> dict[str, Any]:
    """What a family hands over, with this value of both metrics."""
    item = {"value": value, "balanced_accuracy": 0.79, "settings": {}, "threshold": "0.5"}
    return {CONSISTENCY: item, GAP: item}


def test_a_seed_that_does_not_reach_the_level_is_not_averaged() -> None:
    seeds = {"0": seed(chosen(0.1)), "1": seed({}, degenerate=3), "2": seed(chosen(0.1))}
    summary = summarise({"cases": {"German, trees": {"seeds": seeds}}})
    case = summary["cases"]["German, trees"]
    budro = case["families"]["budro"]
    assert case["metrics"] == [CONSISTENCY, GAP]
    assert budro["degenerate"] == 3
    assert budro["equal"]["seeds"] == [2, 2]
    assert budro["equal"]["difference"] == [-0.1, -0.1]
    assert budro["equal"]["accuracy"] == [-0.01, -0.01]


def test_words_follow_the_interval_and_the_metric() -> None:
    clear = Paired(10, -0.1, 0.01)
    unclear = Paired(10, -0.1, 0.1)
    assert fronts_section.Measured(GAP, clear).text().startswith("gap_max.sex better by 0.100 ± ")
    worse = fronts_section.Measured(CONSISTENCY, clear)
    assert worse.is_worse
    assert "**worse by** 0.100" in worse.text()
    assert fronts_section.Measured(GAP, unclear).text().startswith("(gap_max.sex −0.100 ± ")


def test_the_page_says_what_is_not_measured() -> None:
    seeds = {str(number): seed(chosen(0.1 + 0.001 * number)) for number in range(3)}
    content = summarise({"cases": {"German, trees": {"seeds": seeds}}})
    content["cases"]["German, trees"]["metrics"] = [CONSISTENCY, "gap_max.age"]
    text = fronts_section.section(content)
    assert "Adult, trees" in text.partition("Not measured by this protocol yet")[2]
    assert "German, trees (3 seeds): consistency.a **worse by** 0.099" in text
    assert "gap_max.age better by 0.099" in text
    assert "- `budro` on German, trees" not in text


def test_quantiles_are_thresholds_of_close_probabilities() -> None:
    class Held:
        own = np.linspace(0.4995, 0.5005, 1001)

    values = method_fronts.thresholds("budro", Held(), "sex")  # type: ignore[arg-type]
    assert len(values) == method_fronts.QUANTILES
    assert 0.4995 < min(values) < max(values) < 0.5005


def test_means_without_their_seeds_are_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.common.RESULTS", tmp_path)
    names = ["German, trees", "COMPAS, networks"]
    common.write_result(method_fronts.NAME, {"cases": {"German, trees": {"seeds": 7}}})
    assert method_fronts.cases_to_measure(names, is_again=False) == ["COMPAS, networks"]
    assert "German, trees: 7 seeds" in capsys.readouterr().err
    assert method_fronts.cases_to_measure(names, is_again=True) == names
    # with the whole results a measurement goes on
    whole = {"cases": {"German, trees": {"seeds": {"3": {}}}}}
    common.write_result(method_fronts.NAME, whole, lambda content: {"cases": {}})
    assert method_fronts.cases_to_measure(names, is_again=False) == names
