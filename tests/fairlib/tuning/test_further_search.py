"""Bounds on what a longer search could gain, and decisions of equally good models."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.fairlib.execution import generator
from evenhand.fairlib.tuning import further_search
from evenhand.fairlib.tuning.further_search import (
    PILED_UP,
    failure_chance,
    gain_bound,
    mean_gain_bound,
    multiplicity,
    share_bound,
)

# the bound on the share of better settings


def test_the_first_failure_by_hand() -> None:
    """Of two epochs that begin at 1 and 2: the first number is above .5, or it is in (.3, .5] and
    the second above .3.
    """
    chance = failure_chance(np.array([0.5, 0.3]), np.array([1.0, 2.0]))
    assert chance == pytest.approx(0.5 + 0.2 * 0.7)


def test_the_bound_fails_at_no_time_in_19_of_20_streams() -> None:
    rng = np.random.default_rng(0)
    lengths = np.arange(1, 1001)
    bounds = np.array([share_bound(length) for length in lengths])
    assert np.all(np.diff(bounds) <= 0)
    smallest = np.minimum.accumulate(rng.random((2000, 1000)), axis=1)
    failures = (smallest > bounds).any(axis=1).mean()
    # its chance of failing up to a million settings is .05, and most of that is soon
    assert 0.02 < failures < 0.05


def test_the_bound_is_not_far_from_that_of_a_fixed_number() -> None:
    for length in (100, 1000, 10_000):
        fixed = 1 - 0.05 ** (1 / length)
        assert fixed < share_bound(length) < 3 * fixed
    assert share_bound(7) == 1.0
    assert share_bound(300, 0.99) > share_bound(300, 0.9)


def test_a_level_that_is_no_chance_is_refused() -> None:
    with pytest.raises(ValueError, match="level: got 1.0"):
        share_bound(100, 1.0)


# the bound on the mean gain of one further setting


@pytest.mark.parametrize("name", ["uniform", "two values", "near the end"])
def test_the_bound_on_the_mean_gain_covers(name: str) -> None:
    """Whatever the distribution: in 19 of 20 streams the true mean gain is below it at all times."""
    rng = generator(3, name)
    draws = {
        "uniform": lambda size: rng.random(size),
        "two values": lambda size: (rng.random(size) < 0.02).astype(float),
        "near the end": lambda size: 1.0 - rng.random(size) ** 4,
    }[name]
    values = np.sort(draws(20_000))
    lengths = np.arange(8, 400)
    failures = 0
    for _ in range(300):
        best = np.maximum.accumulate(rng.choice(values, 400))[lengths - 1]
        gain = np.array([np.maximum(values - item, 0.0).mean() for item in np.unique(best)])
        gains = gain[np.searchsorted(np.unique(best), best)]
        bounds = [
            mean_gain_bound(int(n), 1.0 - item) for n, item in zip(lengths, best, strict=True)
        ]
        failures += bool((gains > np.array(bounds) + 1e-12).any())
    assert failures <= 15 + 10


def test_the_bound_on_the_mean_gain_by_hand() -> None:
    assert mean_gain_bound(100, 0.0) == 0.0
    assert mean_gain_bound(3, 0.2) == 0.2  # too few to exclude anything
    assert mean_gain_bound(300, 0.2) == 0.2 * share_bound(300)
    for most in (-0.1, np.inf, np.nan):
        with pytest.raises(ValueError, match="most: got"):
            mean_gain_bound(300, most)


# the bound on the gain


@pytest.mark.parametrize("name", ["beta", "uniform", "normal"])
def test_the_bound_on_the_gain_covers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(further_search, "SIMULATIONS", 100)
    rng = generator(1, name)
    draws = {
        "beta": lambda size: rng.beta(3, 2, size),
        "uniform": rng.random,
        "normal": lambda size: rng.normal(size=size),
    }
    covered = []
    for seed in range(40):
        merits = draws[name](200)
        bound = gain_bound(merits, merits.max(), 10.0, seed=seed)
        if bound.gain is not None:
            further = draws[name](1800).max()
            covered.append(further - merits.max() <= bound.gain)
    assert len(covered) >= 25
    assert np.mean(covered) >= 0.8


def test_a_tail_that_is_too_heavy_has_no_bound() -> None:
    merits = np.random.default_rng(2).standard_cauchy(1000)
    bound = gain_bound(merits, merits.max())
    assert bound.gain is None
    assert "wider than those of a bounded metric" in bound.reason


def test_few_or_equal_settings_have_no_bound() -> None:
    rng = np.random.default_rng(3)
    few = np.concatenate([rng.random(20), np.full(80, np.nan)])
    assert gain_bound(few, 1.0).reason == "20 random settings are as good, and 50 are needed"
    equal = np.round(rng.random(400), 1)
    assert "equal" in gain_bound(equal, 1.0).reason


def test_settings_that_pile_up_have_no_bound() -> None:
    merits = np.random.default_rng(0).random(300)
    merits[:4] = merits.max() + 0.001
    assert "equal" in gain_bound(merits, merits.max()).reason
    # most of the largest values are just below 1
    piled = 1.0 - np.random.default_rng(0).random(300) ** 3
    assert gain_bound(piled, piled.max()).reason == PILED_UP


def test_no_more_can_be_gained_than_is_possible() -> None:
    merits = np.random.default_rng(0).random(300)
    best = float(merits.max())
    assert gain_bound(merits, best, most=1e-6).gain == 1e-6
    # the best value is perfect: whatever the distribution
    assert gain_bound(np.full(10, best), best, most=0.0).gain == 0.0


def test_a_better_answer_of_the_search_leaves_less_to_gain() -> None:
    merits = np.random.default_rng(4).beta(3, 2, 300)
    by_stream = gain_bound(merits, merits.max()).gain
    assert by_stream is not None
    assert gain_bound(merits, merits.max() + by_stream / 2).gain == pytest.approx(by_stream / 2)
    assert gain_bound(merits, 2.0).gain == 0.0


# equally good models


def test_decisions_that_depend_on_the_model_by_hand() -> None:
    reference = np.array([True, True, False, False, False])
    first = [True, False, False, False, False]
    second = [True, False, False, True, False]
    third = [True, True, False, False, False]
    groups = {"sex": np.array(["f", "f", "f", "m", "x"])}
    result = multiplicity(reference, np.array([first, second, third]), groups, min_cell=2)
    assert (result.models, result.ambiguity, result.discrepancy) == (3, 0.4, 0.4)
    assert result.mean == pytest.approx((2 + 1) / 15)
    assert result.by_group["sex"]["m"] is None
    assert result.by_group["sex"]["x"] is None
    women = result.by_group["sex"]["f"]
    assert women is not None
    assert women["people"] == 3
    assert women["ambiguity"] == pytest.approx(1 / 3)
    assert women["mean"] == pytest.approx(2 / 9)


def test_the_share_of_a_small_group_does_not_follow() -> None:
    """Two groups of one person each are hidden: what is left of all would be of these two."""
    reference = np.zeros(11, dtype=bool)
    others = np.ones((1, 11), dtype=bool)
    names = np.array(list("aaaaaa" + "bbb" + "cd"))
    few = multiplicity(reference, others, {"team": names}, min_cell=3)
    assert few.by_group["team"]["b"] is None
    assert few.by_group["team"]["a"] is not None
    enough = multiplicity(reference, others, {"team": names}, min_cell=2)
    assert enough.by_group["team"]["b"] is not None


def test_shares_are_of_people_where_a_person_has_several_rows() -> None:
    reference = np.array([True, True, True, False, False, False])
    person = np.array([7, 3, 7, 7, 3, 5])
    # the first decides otherwise about two rows of person 7, the second about one of 3 and of 5
    others = np.array(
        [[False, True, False, False, False, False], [True, True, True, False, True, True]]
    )
    groups = {"team": np.array(["a", "a", "a", "a", "b", "b"])}
    result = multiplicity(reference, others, groups, 1, person)
    assert (result.ambiguity, result.discrepancy) == (1.0, pytest.approx(2 / 3))
    assert result.mean == pytest.approx(3 / 6)
    # person 3 has a row in either group, and only that of b is decided otherwise
    first = result.by_group["team"]["a"]
    assert first == {"people": 2.0, "ambiguity": 0.5, "mean": 0.25}
    second = result.by_group["team"]["b"]
    assert second == {"people": 2.0, "ambiguity": 1.0, "mean": 0.5}


def test_without_other_models_there_is_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="got no model"):
        multiplicity(np.array([True]), np.empty((0, 1), dtype=bool), {}, 1)
