"""Changed decisions: by hand, against brute force, and what they must not depend on."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from evenhand.fairlib.evaluation.flips import flips

WHOLE = st.integers(-4, 4)
TABLES = st.lists(st.tuples(WHOLE, WHOLE, st.integers(0, 1)), min_size=1, max_size=9)
BUDGETS = st.integers(0, 80).map(lambda k: k / 8)


def nearest_by_hand(points: np.ndarray, decision: np.ndarray) -> np.ndarray:
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    return np.where(decision[:, None] != decision[None], squared, np.inf).min(axis=1)


def share_by_hand(nearest: np.ndarray, budget: float) -> float:
    """Try every set of people."""
    n = len(nearest)
    sets = chain.from_iterable(combinations(range(n), size) for size in range(n + 1))
    return max(len(each) for each in sets if nearest[list(each)].sum() <= n * budget) / n


def test_by_hand() -> None:
    points = [[0.0], [1.0], [3.0], [10.0]]
    # nearest rows with the other decision: 1 away from the first two, 2 and 9 away from the others
    for budget, share, radius in (
        (0.0, 0.0, 0.0),
        (0.25, 0.25, 0.0),
        (0.5, 0.5, 0.0),
        (1.0, 0.5, 0.5),
        (1.5, 0.75, 0.5),
        (4.0, 0.75, 0.75),
        (21.75, 1.0, 0.75),
    ):
        found = flips(points, [0, 1, 0, 0], budget, draws=0)
        assert_array_equal(found.nearest, [1.0, 1.0, 4.0, 81.0])
        assert (found.share, found.radius_share) == (share, radius), budget
        assert (found.low, found.high) == (None, None)


@settings(max_examples=150, deadline=None)
@given(rows=TABLES, budget=BUDGETS)
def test_against_every_set_of_people(rows: list[tuple[int, int, int]], budget: float) -> None:
    *columns, decision = (np.array(part) for part in zip(*rows, strict=True))
    points = np.stack(columns, axis=1).astype(float)
    found = flips(points, decision, budget, draws=20)
    expected = nearest_by_hand(points, decision)
    assert_array_equal(found.nearest, expected)
    assert found.share == share_by_hand(expected, budget)
    assert found.radius_share == (expected <= budget).mean()
    assert found.low is not None
    assert found.high is not None
    assert 0.0 <= found.low <= found.share <= found.high <= 1.0


def test_against_brute_force_of_many_columns_far_from_the_origin() -> None:
    rng = np.random.default_rng(0)
    points, decision = rng.normal(size=(400, 30)) + 1e4, rng.integers(0, 2, 400)
    expected = nearest_by_hand(points, decision)
    found = flips(points, decision, 2.0, draws=0)
    assert_array_equal(found.nearest, expected)
    spent = np.cumsum(np.sort(expected))
    assert found.share == np.sum(spent <= 800.0) / 400 > 0


def test_equal_points_with_other_decisions_cost_nothing() -> None:
    found = flips([[1.0], [1.0], [5.0]], [0, 1, 1], 0.0, draws=50)
    assert found.share == found.radius_share == pytest.approx(2 / 3)


@pytest.mark.parametrize("decision", [0, 1])
def test_one_decision_cannot_change(decision: int) -> None:
    found = flips(np.arange(6.0)[:, None], [decision] * 6, 1e300, draws=50)
    assert (found.share, found.low, found.radius_share) == (0.0, 0.0, 0.0)
    # the exact end of 0 of 6
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 6))
    assert np.isinf(found.nearest).all()


def test_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    points, decision = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    order = rng.permutation(200)
    one, other = flips(points, decision, 0.05), flips(points[order], decision[order], 0.05)
    assert (one.share, one.low, one.high, one.radius_share) == (
        other.share,
        other.low,
        other.high,
        other.radius_share,
    )
    assert_array_equal(one.nearest[order], other.nearest)


def test_interval_is_that_of_resampled_people() -> None:
    rng = np.random.default_rng(2)
    points, decision = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    found = flips(points, decision, 0.01, draws=4000, level=0.9)
    shares = []
    for _ in range(1500):
        costs = np.sort(found.nearest[rng.integers(0, 300, 300)])
        shares.append(np.sum(np.cumsum(costs) <= 3.0) / 300)
    low, high = np.quantile(shares, [0.05, 0.95])
    assert found.low == pytest.approx(low, abs=0.012)
    assert found.high == pytest.approx(high, abs=0.012)
    assert 0.02 < found.high - found.low < 0.2
    again = flips(points, decision, 0.01, draws=4000, level=0.9, seed=3)
    assert (again.low, again.high) == (
        pytest.approx(found.low, abs=0.01),
        pytest.approx(found.high, abs=0.01),
    )


def test_more_distances_than_are_kept_change_the_interval_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(4)
    points, decision = rng.normal(size=(2000, 2)), rng.integers(0, 2, 2000)
    exact = flips(points, decision, 0.002, draws=500)
    monkeypatch.setattr("evenhand.fairlib.evaluation.flips.MAX_DISTANCES", 300)
    merged = flips(points, decision, 0.002, draws=500)
    assert merged.share == exact.share
    width = exact.high - exact.low
    assert merged.low == pytest.approx(exact.low, abs=0.3 * width)
    assert merged.high == pytest.approx(exact.high, abs=0.3 * width)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget": -1.0}, "budget must be finite"),
        ({"budget": float("nan")}, "budget must be finite"),
        ({"points": [1.0, 2.0]}, "points must be a table"),
        ({"points": [[1.0], [float("inf")]]}, "points must be a table"),
        ({"points": np.zeros((0, 2)), "decision": []}, "points must be a table"),
        ({"decision": [0, 2]}, "decision must hold 2 values"),
        ({"decision": [0]}, "decision must hold 2 values"),
        ({"draws": 5}, "draws: got 5"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        flips(**({"points": [[0.0], [1.0]], "decision": [0, 1], "budget": 1.0} | changes))  # type: ignore[arg-type]
