"""Trade-offs: intervals by hand and against scipy, fronts and goals against brute force."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evenhand.fairlib.catalogue import better, direction, names_of
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS
from evenhand.fairlib.evaluation.tradeoff import (
    Goal,
    Limit,
    best,
    nearest_miss,
    pareto_front,
    parse_goal,
    summarise,
)

# few distinct numbers, so that ties are common
COARSE = st.one_of(st.none(), st.integers(0, 4).map(lambda k: k / 4))
TABLES = st.integers(1, 3).flatmap(
    lambda d: st.tuples(
        st.lists(st.lists(COARSE, min_size=d, max_size=d), min_size=0, max_size=9),
        st.lists(st.sampled_from(["higher", "lower"]), min_size=d, max_size=d),
    )
)
DIFFERENCES = [kind for kind in GROUP_METRICS if kind != "impact_ratio"]
METRICS = ["accuracy", "consistency.a b", "gap_max.sex&race", "certificate.drf"]
NAMES = st.sampled_from(METRICS)
LIMITS = st.builds(Limit, NAMES, st.sampled_from([">=", "<="]), st.integers(-8, 8).map(lambda k: k / 8))
GOALS = st.builds(lambda metric, limits: Goal(metric, tuple(limits)), NAMES, st.lists(LIMITS, max_size=3))


def test_every_metric_that_a_job_can_have_has_a_direction_but_the_spread() -> None:
    assert [name for name in names_of("classifier") if direction(name) is None] == ["probability_spread"]
    higher = {name for name in names_of("classifier") if direction(name) == "higher"}
    radius = {f"certificate.radius.{end}" for end in ("found", "proved")}
    shares = {"accuracy", "balanced_accuracy", "auc", "log_loss_gain", "consistency.<name>"}
    assert higher == radius | shares | {"impact_ratio.<attr>", "reasons_kept"}
    assert all(better(f"{kind}.sex&race") == "lower" for kind in DIFFERENCES)


def test_which_way_is_better() -> None:
    lower = [*(f"{kind}.sex" for kind in DIFFERENCES), "theil_index", "features_asked"]
    lower += ["certificate.dif", "certificate.drf", "certificate.flips"]
    assert {name: better(name) for name in lower} == dict.fromkeys(lower, "lower")
    higher = ["impact_ratio.sex", "accuracy", "balanced_accuracy", "auc", "consistency.spouse"]
    assert {name: better(name) for name in higher} == dict.fromkeys(higher, "higher")


def test_every_metric_of_a_proxy_has_a_direction_but_the_one_to_compare_with() -> None:
    undirected = [name for name in names_of("proxy") if direction(name) is None]
    assert undirected == ["imbalance_before"]


@pytest.mark.parametrize("name", ["imbalance_before", "imbalance_after", "disclosivity_x", "keptt"])
def test_a_goal_must_have_a_better_way(name: str) -> None:
    with pytest.raises(ValueError, match="no direction"):
        parse_goal(f"{name} where disclosivity <= 0.25")


def test_the_least_imbalance_that_tells_little_enough_is_best() -> None:
    rows = [{"imbalance": 0.1, "disclosivity": 0.3}, {"imbalance": 0.3, "disclosivity": 0.0}]
    rows += [{"imbalance": 0.2, "disclosivity": 0.25}]
    assert best(parse_goal("imbalance where disclosivity <= 0.25"), rows) == 2
    assert best(parse_goal("imbalance"), rows) == 0


@pytest.mark.parametrize("name", ["", "acuracy", "gapmax.sex", "difference", "loss", "xgap_max"])
def test_a_metric_of_no_known_kind_has_no_direction(name: str) -> None:
    with pytest.raises(ValueError, match="no direction"):
        better(name)


def test_a_summary_by_hand() -> None:
    found = summarise([1.0, 2.0, None, 3.0, math.nan])
    assert (found.mean, found.sd, found.n) == (2.0, 1.0, 3)
    # t with 2 degrees of freedom at 0.975 is 4.302653 (tables)
    assert found.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-6)
    assert found.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-6)


def test_one_number_keeps_its_own_interval_and_none_has_none() -> None:
    one = summarise([None, 0.7], single=(0.6, 0.9))
    assert (one.mean, one.sd, one.n, one.low, one.high) == (0.7, None, 1, 0.6, 0.9)
    none = summarise([None, math.nan], single=(0.6, 0.9))
    assert (none.mean, none.sd, none.n, none.low, none.high) == (None, None, 0, None, None)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8), st.sampled_from([0.5, 0.9, 0.99]))
def test_the_interval_is_the_one_that_the_t_test_gives(values: list[float], level: float) -> None:
    found = summarise(values, level=level)
    if np.std(values) < 1e-9:  # the t test divides by the spread
        assert found.low == pytest.approx(found.mean, abs=1e-7)
        return
    expected = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(level)
    assert found.low == pytest.approx(expected.low, abs=1e-9)
    assert found.high == pytest.approx(expected.high, abs=1e-9)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, math.nan])
def test_a_level_outside_its_range_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        summarise([1.0, 2.0], level=level)


def table_of(rows: list[list[float | None]], d: int) -> Any:
    return np.array([[math.nan if x is None else x for x in row] for row in rows], dtype=np.float64).reshape(
        len(rows), d
    )


@given(TABLES)
def test_the_front_is_what_brute_force_finds(case: tuple[list[list[float | None]], list[str]]) -> None:
    rows, directions = case

    def beats(one: list[float | None], other: list[float | None]) -> bool:
        gains = [
            (a - b) if way == "higher" else (b - a)  # type: ignore[operator]
            for a, b, way in zip(one, other, directions, strict=True)
        ]
        return min(gains) >= 0 and max(gains) > 0

    whole = [i for i, row in enumerate(rows) if None not in row]
    expected = [i for i in whole if not any(beats(rows[j], rows[i]) for j in whole)]
    assert pareto_front(table_of(rows, len(directions)), directions) == expected  # type: ignore[arg-type]


def test_a_front_by_hand_keeps_ties() -> None:
    table = [[0.9, 0.3], [0.8, 0.2], [0.8, 0.2], [0.8, 0.25], [0.7, 0.2], [math.nan, 0.0]]
    assert pareto_front(table, ["higher", "lower"]) == [0, 1, 2]


def test_columns_without_directions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(n, 1\)"):
        pareto_front([[1.0, 2.0]], ["higher"])


def test_a_goal_by_hand() -> None:
    goal = parse_goal("  balanced_accuracy where consistency.spouse >= 0.94 and gap_max.sex&race <= 1e-1 ")
    assert goal.metric == "balanced_accuracy"
    assert goal.limits == (Limit("consistency.spouse", ">=", 0.94), Limit("gap_max.sex&race", "<=", 0.1))
    assert parse_goal("auc") == Goal("auc")
    assert goal.metrics == ["balanced_accuracy", "consistency.spouse", "gap_max.sex&race"]


@given(GOALS)
def test_a_goal_written_out_reads_back(goal: Goal) -> None:
    assert parse_goal(str(goal)) == goal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "auc where",
        "where auc >= 1",
        "auc >= 0.5",
        "auc where gap_max.sex",
        "auc where gap_max.sex < 0.1",
        "auc where gap_max.sex == 0.1",
        "auc where gap_max.sex <= x",
        "auc where gap_max.sex <= nan",
        "auc where gap_max.sex <= inf",
        "auc where gap_max.sex <= 0.1 and",
        "auc where 0 <= gap_max.sex <= 0.1",
        "speed where auc >= 0.1",
    ],
)
def test_a_goal_of_another_form_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(goal|metric): ") as caught:
        parse_goal(text)
    assert "\n" not in str(caught.value)


ROWS = [
    {"auc": 0.9, "gap_max.sex": 0.30, "consistency.a": 0.90},
    {"auc": 0.8, "gap_max.sex": 0.10, "consistency.a": 0.96},
    {"auc": 0.8, "gap_max.sex": 0.05, "consistency.a": 0.99},
    {"auc": None, "gap_max.sex": 0.00, "consistency.a": 1.00},
]


def test_the_best_row_by_hand() -> None:
    assert best(parse_goal("auc"), ROWS) == 0
    assert best(parse_goal("auc where gap_max.sex <= 0.1"), ROWS) == 1, "the first of equals"
    assert best(parse_goal("auc where gap_max.sex <= 0.1 and consistency.a >= 0.97"), ROWS) == 2
    assert best(parse_goal("gap_max.sex"), ROWS) == 3, "lower is better"
    assert best(parse_goal("auc where gap_max.sex <= 0.01"), ROWS) is None, "no number is no success"
    assert best(parse_goal("auc where theil_index <= 1"), ROWS) is None
    assert best(parse_goal("auc"), []) is None


def test_the_nearest_miss_by_hand() -> None:
    goal = parse_goal("auc where gap_max.sex <= 0.01 and consistency.a >= 0.995")
    miss = nearest_miss(goal, ROWS)
    assert miss is not None
    assert (miss.row, miss.limit.metric, miss.found) == (2, "gap_max.sex", 0.05)
    assert miss.limit.shortfall(miss.found) == pytest.approx(0.04)
    assert nearest_miss(parse_goal("auc where theil_index <= 1"), ROWS) is None
    assert nearest_miss(parse_goal("auc"), []) is None


@given(
    GOALS,
    st.lists(st.fixed_dictionaries({name: COARSE for name in METRICS}), max_size=6),
)
def test_best_and_nearest_miss_are_what_brute_force_finds(goal: Goal, rows: list[dict[str, Any]]) -> None:
    def keeps(row: dict[str, Any], slack: float) -> bool:
        return all(
            row[limit.metric] >= limit.value - slack
            if limit.sign == ">="
            else row[limit.metric] <= limit.value + slack
            for limit in goal.limits
        )

    known = [i for i, row in enumerate(rows) if all(row[name] is not None for name in goal.metrics)]
    allowed = [i for i in known if keeps(rows[i], 0.0)]
    found = best(goal, rows)
    if allowed:
        values = [rows[i][goal.metric] for i in allowed]
        wanted = max(values) if better(goal.metric) == "higher" else min(values)
        assert found == allowed[values.index(wanted)]
        return
    assert found is None
    miss = nearest_miss(goal, rows)
    assert (miss is None) == (not known)
    if miss is not None:
        # all numbers are eighths, so the smallest slack that lets any row pass is found by counting up
        slack = next(k / 8 for k in itertools.count() if any(keeps(rows[i], k / 8) for i in known))
        assert miss.limit.shortfall(miss.found) == slack
        assert keeps(rows[miss.row], slack)
