"""Trade-offs: intervals by hand and against scipy, fronts against brute force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evenhand.fairlib.catalogue import better, direction, names_of
from evenhand.fairlib.evaluation.comparison import FRONT_BLOCK, pareto_front, summarise
from evenhand.fairlib.evaluation.metrics import GROUP_METRICS

# few distinct numbers, so that ties are common
COARSE = st.one_of(st.none(), st.integers(0, 4).map(lambda k: k / 4))
TABLES = st.integers(1, 3).flatmap(
    lambda d: st.tuples(
        st.lists(st.lists(COARSE, min_size=d, max_size=d), min_size=0, max_size=9),
        st.lists(st.sampled_from(["higher", "lower"]), min_size=d, max_size=d),
    )
)
DIFFERENCES = [kind for kind in GROUP_METRICS if kind != "impact_ratio"]


def test_every_metric_of_a_job_has_a_direction_but_the_spread() -> None:
    assert [name for name in names_of("classifier") if direction(name) is None] == [
        "probability_spread"
    ]
    higher = {name for name in names_of("classifier") if direction(name) == "higher"}
    radius = {f"certificate.radius.{end}" for end in ("found", "proved")}
    shares = {"accuracy", "balanced_accuracy", "auc", "log_loss_gain", "consistency.<name>"}
    shares |= {"recall.<class>", "adapted_consistency"}
    shares |= {f"{kind}_auc_min.<name>" for kind in ("subgroup", "bpsn", "bnsp")}
    assert higher == radius | shares | {"impact_ratio.<attr>", "reasons_kept"}
    assert all(better(f"{kind}.sex&race") == "lower" for kind in DIFFERENCES)


def test_which_way_is_better() -> None:
    lower = [*(f"{kind}.sex" for kind in DIFFERENCES), "theil_index", "features_asked"]
    lower += ["certificate.dif", "certificate.drf", "certificate.flips"]
    assert {name: better(name) for name in lower} == dict.fromkeys(lower, "lower")
    higher = ["impact_ratio.sex", "accuracy", "balanced_accuracy", "auc", "consistency.spouse"]
    assert {name: better(name) for name in higher} == dict.fromkeys(higher, "higher")


def test_every_metric_of_a_proxy_has_a_direction_but_two() -> None:
    """Those to compare with have none."""
    undirected = [name for name in names_of("proxy") if direction(name) is None]
    assert undirected == ["imbalance_before", "imbalance_reduction.possible"]


@pytest.mark.parametrize("name", ["imbalance_before", "imbalance_reduction.possible"])
def test_a_metric_to_compare_with_has_no_direction(name: str) -> None:
    with pytest.raises(ValueError, match="no direction"):
        better(name)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("", None),
        ("acuracy", "accuracy"),
        ("gapmax.sex", "gap_max.sex"),
        ("keptt", "kept"),
        ("xgap_max", "gap_max.<attr>"),
        ("zzz", None),
    ],
)
def test_an_unknown_metric_is_told_from_one_without_direction(
    name: str, nearest: str | None
) -> None:
    with pytest.raises(ValueError, match="not known") as caught:
        better(name)
    message = str(caught.value)
    assert message.startswith(f"metric: got {name!r}, ")
    if nearest is None:
        assert "did you mean" not in message
    else:
        assert f"(did you mean {nearest!r}?)" in message


@pytest.mark.parametrize("name", ["difference", "loss", "imbalance_after", "disclosivity_x"])
def test_a_metric_of_no_known_kind_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not known"):
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
    return np.array(
        [[math.nan if x is None else x for x in row] for row in rows], dtype=np.float64
    ).reshape(len(rows), d)


@given(TABLES)
def test_the_front_is_what_brute_force_finds(
    case: tuple[list[list[float | None]], list[str]],
) -> None:
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


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_front_of_many_rows_is_what_all_pairs_say(columns: int) -> None:
    """More rows than are compared at once, many of them equal, some infinite or without a value."""
    rng = np.random.default_rng(columns)
    table = rng.integers(-4, 5, (3 * FRONT_BLOCK, columns)).astype(float)
    table[rng.random(table.shape) < 0.02] = math.nan
    table[rng.random(table.shape) < 0.02] = math.inf
    table[table == 0] *= rng.choice([1.0, -1.0], int((table == 0).sum()))
    no_worse = (table[:, None] <= table[None]).all(axis=2)
    better = (table[:, None] < table[None]).any(axis=2)
    beaten = (no_worse & better).any(axis=0) | np.isnan(table).any(axis=1)
    assert pareto_front(table, ["lower"] * columns) == np.flatnonzero(~beaten).tolist()
    assert pareto_front(-table, ["higher"] * columns) == np.flatnonzero(~beaten).tolist()


def test_a_front_by_hand_keeps_ties() -> None:
    table = [[0.9, 0.3], [0.8, 0.2], [0.8, 0.2], [0.8, 0.25], [0.7, 0.2], [math.nan, 0.0]]
    assert pareto_front(table, ["higher", "lower"]) == [0, 1, 2]


def test_columns_without_directions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(n, 1\)"):
        pareto_front([[1.0, 2.0]], ["higher"])
