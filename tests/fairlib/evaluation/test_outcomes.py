from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from evenhand.fairlib.evaluation.outcomes import (
    Outcomes,
    group_rates,
    list_cells,
    with_intersections,
)


def columns(**changes: Any) -> dict[str, Any]:
    return {
        "y_true": [0, 1, 1],
        "y_pred": [0, 1, 0],
        "score": [0.1, 0.9, 0.4],
        "sensitive": {"sex": ["F", "M", "F"]},
        "consistent": {"spouse": [True, True, False]},
    } | changes


def test_columns_get_their_one_type() -> None:
    frame = pd.DataFrame(
        {"sex": pd.Series(["F", "M", "F"], dtype="str"), "race": pd.Categorical(["a", "b", "a"])}
    )
    outcomes = Outcomes(
        **columns(y_true=np.array([False, True, True]), sensitive=dict(frame.items()))
    )
    assert outcomes.n == 3
    assert outcomes.y_true.dtype == np.int64
    assert outcomes.sensitive["sex"].tolist() == ["F", "M", "F"]
    assert outcomes.sensitive["race"].tolist() == ["a", "b", "a"]
    assert outcomes.consistent["spouse"].dtype == bool


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_true": [], "y_pred": [], "score": []}, r"y_true: got 0 rows"),
        ({"y_true": [0, 1, 2]}, r"y_true: 1 of 3 values are not 0 or 1"),
        ({"y_true": [0, 1, np.nan]}, r"y_true: 1 of 3 values are not 0 or 1"),
        ({"y_pred": ["no", "yes", "no"]}, r"y_pred: 3 of 3 values are not 0 or 1"),
        ({"y_pred": [0, 1]}, r"y_pred: got 2 rows, expected 3"),
        ({"y_pred": [[0, 1, 1]]}, r"y_pred: got 2 dimensions"),
        ({"score": [0.1, np.nan, np.inf]}, r"score: 2 of 3 values are NaN or infinite"),
        ({"score": [0.1, 1.2, -0.1]}, r"score: 2 of 3 values lie outside \[0, 1\]"),
        ({"score": ["a", "b", "c"]}, r"score: got dtype"),
        (
            {"sensitive": {"sex": ["F", None, float("nan")]}},
            r"sensitive\['sex'\]: 2 of 3 group labels are not str",
        ),
        (
            {"sensitive": {"age": [1, 2, 3]}},
            r"sensitive\['age'\]: 3 of 3 group labels are not strings",
        ),
        ({"sensitive": {"sex": ["F"]}}, r"sensitive\['sex'\]: got 1 rows, expected 3"),
        ({"sensitive": {"sex.low": ["F", "M", "F"]}}, r"the name 'sex.low'"),
        (
            {"consistent": {"spouse": [1, 0, 1]}},
            r"consistent\['spouse'\]: got dtype int64, expected bool",
        ),
        ({"groups": {"race": ["a"]}}, r"groups: got attributes \['race'\]"),
        ({"groups": {"sex": ["F"]}}, r"groups\['sex'\]: 1 observed group\(s\) are not listed"),
    ],
)
def test_bad_columns_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Outcomes(**columns(**changes))
    assert "\n" not in str(caught.value)


def test_no_group_label_in_messages() -> None:
    with pytest.raises(ValueError, match="not listed") as caught:
        Outcomes(**columns(sensitive={"sex": ["Secret", "M", "M"]}, groups={"sex": ["M"]}))
    assert "Secret" not in str(caught.value)


def test_intersections_of_three_attributes() -> None:
    sensitive = {"a": ["x", "y", "x"], "b": ["1", "1", "2"], "c": ["p", "q", "q"]}
    result = with_intersections(sensitive)
    assert list(result) == ["a", "b", "c", "a&b", "a&c", "b&c"]
    assert result["a&b"].tolist() == ["x & 1", "y & 1", "x & 2"]
    assert result["b&c"].tolist() == ["1 & p", "1 & q", "2 & q"]


def test_ambiguous_intersections_are_refused() -> None:
    with pytest.raises(ValueError, match="share one joint label"):
        with_intersections({"a": ["x", "x & y"], "b": ["y & z", "z"]})
    with pytest.raises(ValueError, match="both given and an intersection"):
        with_intersections({"a&b": ["x"], "a": ["y"], "b": ["z"]})
    with pytest.raises(ValueError, match="got 1 rows, expected 2"):
        with_intersections({"a": ["x", "x"], "b": ["y"]})


def test_counts_list_every_cell() -> None:
    counts = np.array([[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 0], [0, 0]]])
    rows = list_cells(("F", "M", "X"), counts, 2)
    assert rows[:3] == [
        {"group": "F", "label": 0, "n": 0, "predicted_positive": 0, "rate": None, "enough": False},
        {"group": "F", "label": 1, "n": 2, "predicted_positive": 1, "rate": 0.5, "enough": True},
        {"group": "M", "label": 0, "n": 2, "predicted_positive": 1, "rate": 0.5, "enough": True},
    ]
    assert [row["group"] for row in rows] == ["F", "F", "M", "M", "X", "X"]


def cells_of(*rows: tuple[str, int, int, int]) -> list[dict[str, Any]]:
    return [{"group": g, "label": y, "n": n, "predicted_positive": p} for g, y, n, p in rows]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["25-39", "40-59", "<25", ">=60"], ["<25", "25-39", "40-59", ">=60"]),
        (["0.5 to <1.5", "<0.5", ">=1.5", "missing"], ["<0.5", "0.5 to <1.5", ">=1.5", "missing"]),
        (["-5--1", "<-5", ">=0"], ["<-5", "-5--1", ">=0"]),
        (["10", "2", "9"], ["2", "9", "10"]),
        (["25-39", "old", "<25"], ["25-39", "old", "<25"]),
    ],
)
def test_ranges_of_numbers_are_listed_from_low_to_high(
    groups: list[str], expected: list[str]
) -> None:
    counts = np.arange(4 * len(groups)).reshape(-1, 2, 2)
    cells = list_cells(groups, counts, 2)
    assert [cell["group"] for cell in cells[::2]] == expected
    for cell in cells[::2]:
        assert cell["n"] == counts[groups.index(cell["group"]), 0].sum()


def test_rates_by_hand() -> None:
    # a: 10 true negatives of which 2 are predicted positive, 20 true positives of which 15 are
    (a, b) = group_rates(cells_of(("a", 0, 10, 2), ("a", 1, 20, 15), ("b", 1, 5, 0)), 5)
    assert (a.group, a.n) == ("a", 30)
    assert (a.selected.hits, a.selected.value) == (17, 17 / 30)
    assert (a.tpr.hits, a.tpr.n, a.tpr.value) == (15, 20, 0.75)
    assert (a.tnr.hits, a.tnr.n, a.tnr.value) == (8, 10, 0.8)
    assert (b.n, b.tpr.value, b.selected.value) == (5, 0.0, 0.0)
    assert (b.tnr.n, b.tnr.value, b.tnr.low) == (0, None, None)


def test_a_rate_needs_the_minimum_of_rows() -> None:
    (few,) = group_rates(cells_of(("a", 0, 4, 1), ("a", 1, 5, 1)), 5)
    assert few.tnr.value is None
    assert few.tpr.value == 0.2
    assert few.selected.value == 2 / 9


@pytest.mark.parametrize(
    ("hits", "n", "level"), [(0, 7, 0.9), (7, 7, 0.95), (3, 11, 0.95), (450, 1000, 0.9)]
)
def test_intervals_are_exact(hits: int, n: int, level: float) -> None:
    (group,) = group_rates(cells_of(("a", 1, n, hits)), 1, level)
    expected = binomtest(hits, n).proportion_ci(level, method="exact")
    assert group.tpr.low == pytest.approx(expected.low, abs=1e-12)
    assert group.tpr.high == pytest.approx(expected.high, abs=1e-12)


def test_a_cell_with_more_rows_than_the_minimum_has_enough() -> None:
    rows = list_cells(("F",), np.array([[[1, 1], [4, 1]]]), 2)
    assert [(row["n"], row["enough"]) for row in rows] == [(2, True), (5, True)]
    assert [row["enough"] for row in list_cells(("F",), np.array([[[1, 0], [0, 0]]]), 2)] == [
        False,
        False,
    ]


def test_an_impact_ratio_of_zero_has_an_interval() -> None:
    """This holds even where nobody is selected."""
    # selected 30 of 100 and 60 of 120: the ratio is 0.6, the variance of its logarithm
    # 1/30-1/100+1/60-1/120
    one, most, none = group_rates(
        cells_of(("a", 0, 100, 30), ("b", 1, 120, 60), ("c", 0, 10, 0)), 5, level=0.95
    )
    factor = math.exp(1.959964 * math.sqrt(1 / 30 - 1 / 100 + 1 / 60 - 1 / 120))
    assert one.impact.value == pytest.approx(0.6)
    # near the interval of Katz, which is too narrow for few rows
    assert (one.impact.low, one.impact.high) == pytest.approx(
        (0.6 / factor, 0.6 * factor), rel=0.05
    )
    assert one.impact.low < 0.6 / factor
    assert one.impact.high > 0.6 * factor
    assert (most.impact.value, most.impact.low) == (1.0, None)
    # 0 of 10 has the upper end 0.308, and the ratio of rates an end above 0.308 / 0.5
    assert (none.impact.value, none.impact.low) == (0.0, 0.0)
    assert none.impact.high == pytest.approx(0.627, abs=0.01)
    few, _ = group_rates(cells_of(("a", 0, 4, 1), ("b", 0, 9, 3)), 5)
    assert few.impact.value is None


def test_nobody_selected_has_no_impact_ratio() -> None:
    assert [
        one.impact.value for one in group_rates(cells_of(("a", 0, 9, 0), ("b", 0, 9, 0)), 5)
    ] == [None] * 2


def test_label_0_may_be_the_favourable_one() -> None:
    outcomes = Outcomes(**columns(y_pred=[1, 1, 0], score=[0.9, 0.6, 0.2]), favourable=0)
    turned = outcomes.with_favourable_last()
    assert turned.favourable == 1
    assert turned.y_true.tolist() == [1, 0, 0]
    assert turned.y_pred.tolist() == [0, 0, 1]
    assert turned.score.tolist() == pytest.approx([0.1, 0.4, 0.8])
    assert turned.with_favourable_last() is turned


def test_cells_of_classes_are_enough_from_the_least_rows_on() -> None:
    # true labels in rows: 2, 3 and 4 rows
    counts = np.array([[[1, 1, 0], [0, 3, 0], [1, 2, 1]]])
    cells = list_cells(["a"], counts, 3, ["x", "y", "z"])
    assert [cell["n"] for cell in cells] == [2, 3, 4]
    assert [cell["enough"] for cell in cells] == [False, True, True]
    assert [cell["right"] for cell in cells] == [1, 3, 1]
    assert [cell["predicted"] for cell in cells] == [2, 6, 1]
    # errors are named only where at least three rows have one
    assert [cell["taken_for"] for cell in cells] == [[], [], ["y", "x"]]
