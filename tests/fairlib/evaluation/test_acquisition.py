"""What an agent asked: every number against one counted by hand, or by another library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from evenhand.fairlib.evaluation.acquisition import (
    Questions,
    asked_histogram,
    mean_of_people,
    question_report,
)
from evenhand.fairlib.evaluation.closed_intervals import rate_interval

NAMES = ("age", "job", "town", "sex")
ALLOWED = np.array([True, True, True, False])
# six people; sex may not be asked
ORDER = np.array(
    [
        [1, 0, -1, -1],
        [1, 0, 2, -1],
        [0, 1, -1, -1],
        [1, -1, -1, -1],
        [-1, -1, -1, -1],
        [1, 0, -1, -1],
    ]
)
LABEL = np.array([0, 1, 0, 0, 0, 0])
SEX = np.array(["F", "F", "M", "M", "F", "X"], dtype=object)


def questions(repeat: int = 1) -> Questions:
    return Questions(NAMES, np.repeat(ORDER, repeat, axis=0), ALLOWED)


def report(repeat: int = 1, *, min_cell: int = 2) -> dict[str, dict[str, Any]]:
    found = question_report(
        questions(repeat),
        np.repeat(LABEL, repeat),
        {"sex": np.repeat(SEX, repeat)},
        level=0.95,
        min_cell=min_cell,
    )
    assert [entry["name"] for entry in found] == list(NAMES)
    return {entry["name"]: entry for entry in found}


@given(
    st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.floats(0.5, 0.999),
)
def test_the_interval_is_that_of_scipy_and_holds_the_share(
    counted: tuple[int, int], level: float
) -> None:
    count, n = counted
    low, high = rate_interval(count, n, level)
    known = binomtest(count, n).proportion_ci(level, method="exact")
    assert (low, high) == pytest.approx((known.low, known.high), abs=1e-12)
    assert 0.0 <= low <= count / n <= high <= 1.0


@pytest.mark.parametrize(("count", "n"), [(3, 2), (-1, 4), (0, 0)])
def test_an_interval_needs_a_part_of_some_rows(count: int, n: int) -> None:
    with pytest.raises(ValueError, match=f"got {count} of {n}"):
        rate_interval(count, n, 0.95)


def test_shares_and_positions_are_those_counted_by_hand() -> None:
    found = report()
    age, job, town = (found[name] for name in ("age", "job", "town"))
    assert (age["share"], job["share"], town["share"]) == pytest.approx((4 / 6, 5 / 6, 1 / 6))
    # age was second, second, first, second; job first, first, second, first, first
    assert (age["mean_position"], job["mean_position"], town["mean_position"]) == (1.75, 1.2, 3.0)
    assert (age["first_share"], job["first_share"], town["first_share"]) == pytest.approx(
        (1 / 6, 4 / 6, 0)
    )
    assert (age["low"], age["high"]) == rate_interval(4, 6, 0.95)


def test_what_may_not_be_asked_is_certain() -> None:
    sex = report()["sex"]
    assert (sex["allowed"], sex["share"], sex["low"], sex["high"]) == (False, 0.0, 0.0, 0.0)
    assert (sex["mean_position"], sex["first_share"]) == (None, 0.0)
    assert report()["town"]["allowed"]


def test_shares_of_few_people_are_not_told() -> None:
    age = report()["age"]
    # one person has label 1, one is of sex X
    assert age["by_label"] == {"0": pytest.approx(3 / 5), "1": None}
    groups = {
        "F": {"share": pytest.approx(2 / 3), "rows": 3},
        "M": {"share": 0.5, "rows": 2},
        "X": None,
    }
    assert age["by_group"] == {"sex": groups}
    assert report(min_cell=1)["age"]["by_group"]["sex"]["X"] == {"share": 1.0, "rows": 1}


def test_the_histogram_counts_everybody_once() -> None:
    assert asked_histogram(questions()) == [1, 1, 3, 1, 0]
    assert asked_histogram(Questions(NAMES, np.full((3, 4), -1), ALLOWED)) == [3, 0, 0, 0, 0]


def test_the_mean_number_asked_has_the_intervals_of_a_mean() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, 2000)
    found = mean_of_people(counts, draws=4000, level=0.9, min_cell=5, seed=1)
    assert found.value == pytest.approx(counts.mean())
    assert found.low is not None
    assert found.high is not None
    # the normal approximation of the same interval
    half = 1.645 * counts.std() / np.sqrt(2000)
    assert (found.low, found.high) == pytest.approx(
        (counts.mean() - half, counts.mean() + half), abs=0.01
    )
    again = mean_of_people(rng.permutation(counts), draws=4000, level=0.9, min_cell=5, seed=1)
    assert again == found


def test_a_mean_without_draws_or_of_few_people_is_not_shown() -> None:
    """Without draws it has no interval; of few people it has no number."""
    bare = mean_of_people(np.array([1, 2, 6]), draws=0, level=0.95, min_cell=3, seed=0)
    assert (bare.value, bare.low, bare.high) == (3.0, None, None)
    few = mean_of_people(np.array([1, 2]), draws=50, level=0.95, min_cell=3, seed=0)
    assert (few.value, few.status) == (None, "insufficient_evidence")
    assert "only 2 rows" in few.reason
    nobody = mean_of_people(np.zeros(9, np.int64), draws=50, level=0.95, min_cell=3, seed=0)
    # up to a third of people may be asked one: the exact end of 0 of 9
    assert (nobody.value, nobody.low, nobody.high) == (0.0, 0.0, pytest.approx(0.336, abs=1e-3))
