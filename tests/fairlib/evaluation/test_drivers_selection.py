"""Selection probabilities over people: by hand, nothing of single rows, and what a selector must
keep to.
"""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.fairlib.evaluation.drivers import MIN_ROWS, selection_report

NAMES = ["sex", "job", "savings"]


def report(table: object, *, dependent: bool = True, min_cell: int = 5) -> list[dict[str, object]]:
    return selection_report(table, NAMES, ["sex"], data_dependent=dependent, min_cell=min_cell)


def rows(n: int) -> np.ndarray:
    job = np.linspace(0.0, 1.0, n)
    return np.column_stack([np.zeros(n), job, np.full(n, 0.25)])


def test_by_hand() -> None:
    sex, job, savings = report(rows(101))
    assert sex == {"name": "sex", "sensitive": True} | dict.fromkeys(
        ("mean", "sd", "q1", "median", "q3"), 0.0
    )
    assert (job["name"], job["sensitive"]) == ("job", False)
    assert [job[key] for key in ("mean", "q1", "median", "q3")] == pytest.approx(
        [0.5, 0.25, 0.5, 0.75]
    )
    # of n equal steps over [0, 1]: (n + 1) / (12 (n - 1))
    assert job["sd"] == pytest.approx((102 / 1200) ** 0.5)
    assert savings["sd"] == pytest.approx(0.0)
    assert savings["mean"] == pytest.approx(0.25)


@pytest.mark.parametrize("n", [MIN_ROWS - 1, MIN_ROWS])
def test_of_few_people_there_are_no_quartiles(n: int) -> None:
    _, job, _ = report(rows(n))
    assert job["mean"] == pytest.approx(0.5)
    assert [job[key] is None for key in ("sd", "q1", "median", "q3")] == [n < MIN_ROWS] * 4


def test_of_fewer_than_the_least_cell_there_is_no_mean() -> None:
    assert [entry["mean"] for entry in report(rows(4))] == [None] * 3


def test_equal_probabilities_describe_no_person() -> None:
    one = np.array([[0.0, 0.125, 0.5]])
    assert report(one, dependent=False) == report(np.repeat(one, 50, axis=0), dependent=False)
    _, job, _ = report(one, dependent=False)
    assert [job[key] for key in ("mean", "sd", "q1", "median", "q3")] == [
        0.125,
        0.0,
        0.125,
        0.125,
        0.125,
    ]


@pytest.mark.parametrize(
    ("table", "dependent", "words"),
    [
        (np.zeros((5, 2)), True, r"got shape \(5, 2\), expected \(n, 3\)"),
        (np.zeros(3), True, r"got shape \(3,\)"),
        (np.zeros((0, 3)), True, r"got shape \(0, 3\)"),
        ([[0.0, 1.01, 0.5]], True, r"outside \[0, 1\]"),
        ([[0.0, np.nan, 0.5]], True, r"outside \[0, 1\], or NaN"),
        ([[0.0, 0.5, 0.5], [1e-9, 0.5, 0.5]], True, "sensitive group 'sex' can be selected"),
        ([[0.0, 0.5, 0.5], [0.0, 0.5, 0.6]], False, "rows differ"),
    ],
)
def test_impossible_probabilities_are_refused(table: object, dependent: bool, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        report(table, dependent=dependent)
