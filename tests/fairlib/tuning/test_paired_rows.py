"""The chance that one model is no worse than another, by their decisions about the same people."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.fairlib.tuning.paired_rows import chance_no_worse

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 3000)
REFERENCE = np.where(RNG.random(3000) < 0.75, Y, 1 - Y) == 1


def chance(other: np.ndarray, metric: str = "balanced_accuracy", **changes: float) -> float | None:
    settings = {"by": 0.005, "unseen": 0.4, "favourable": 1} | changes
    kept = {metric: settings.pop("by")}
    rng = np.random.default_rng(1)
    return chance_no_worse(Y, REFERENCE, other, kept, rng=rng, **settings)  # type: ignore[arg-type]


def spoiled(share: float) -> np.ndarray:
    """The decisions, of which a share of the right ones becomes wrong."""
    is_right = (Y == 1) == REFERENCE
    return np.where(is_right & (np.random.default_rng(2).random(3000) < share), Y == 0, REFERENCE)


def test_the_same_decisions_are_no_worse_and_many_wrong_ones_are() -> None:
    chances = [chance(spoiled(share)) for share in (0.0, 0.01, 0.02, 0.1)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.9
    assert chances[-1] < 0.01
    assert chance(spoiled(0.1), by=0.2) > 0.99


def test_noise_that_both_share_cancels() -> None:
    """Unlike that of two models which are right about other people."""
    other = np.where(np.random.default_rng(3).random(3000) < 0.75, Y, 1 - Y) == 1
    assert chance(other, by=0.01) < 0.9 < chance(REFERENCE, by=0.01)


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy"])
def test_it_does_not_matter_which_label_is_favourable(metric: str) -> None:
    other = spoiled(0.01)
    assert chance(other, metric, favourable=0) == pytest.approx(chance(other, metric), abs=0.03)


def test_a_metric_of_probabilities_is_not_counted() -> None:
    assert chance(REFERENCE, "auc") is None


def test_several_metrics_are_kept_together() -> None:
    """By no less than both chances leave, and by no more than the smaller one."""
    other = spoiled(0.01)
    both = {"accuracy": 0.005, "theil_index": 0.01, "auc": 0.0}
    rng = np.random.default_rng(1)
    joint = chance_no_worse(Y, REFERENCE, other, both, unseen=0.4, favourable=1, rng=rng)
    single = [chance(other, "accuracy"), chance(other, "theil_index", by=0.01)]
    assert max(0.0, sum(single) - 1.0) - 0.02 <= joint <= min(single) + 0.02


# with few unseen rows their number decides over the chance, with many that of the validation rows
@pytest.mark.parametrize("unseen", [0.4, 4.0])
def test_rows_of_a_person_count_once(unseen: float) -> None:
    """Ten alike rows of a person are no more evidence than one of them."""
    first = np.arange(300)
    repeated = np.repeat(first, 10)
    rng = np.random.default_rng(4)
    other = np.where(rng.random(3000) < 0.1, ~REFERENCE, REFERENCE)
    once = chance_no_worse(
        Y[first],
        REFERENCE[first],
        other[first],
        {"accuracy": 0.08},
        unseen=unseen,
        favourable=1,
        rng=np.random.default_rng(1),
    )
    whole = chance_no_worse(
        Y[repeated],
        REFERENCE[repeated],
        other[repeated],
        {"accuracy": 0.08},
        unseen=unseen,
        favourable=1,
        people=repeated,
        rng=np.random.default_rng(1),
    )
    assert 0.5 < once < 0.8
    assert whole == pytest.approx(once, abs=0.06)


def test_it_is_kept_as_often_as_stated() -> None:
    """Validation and unseen rows of a model that is a little worse, without training."""
    stated = []
    kept = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, 1400)
        reference = np.where(rng.random(1400) < 0.75, y, 1 - y)
        other = np.where(rng.random(1400) < 0.05, 1 - reference, reference)
        value = chance_no_worse(
            y[:1000],
            reference[:1000] == 1,
            other[:1000] == 1,
            {"accuracy": 0.03},
            unseen=0.4,
            favourable=1,
            rng=rng,
        )
        stated.append(value)
        kept.append(
            np.mean(other[1000:] == y[1000:]) >= np.mean(reference[1000:] == y[1000:]) - 0.03
        )
    assert abs(np.mean(stated) - np.mean(kept)) < 0.2


@pytest.mark.parametrize("kind", ["both", "other"])
def test_chances_are_those_of_unseen_places(kind: str) -> None:
    """Where a place adds to the errors of `both` models, their difference is that of independent
    rows; where the `other` alone is worse in some places, it is not.
    """

    def places(count: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        place = np.repeat(np.arange(count), 50)
        y = rng.integers(0, 2, len(place))
        right = rng.choice([0.55, 0.95], count)
        worse = np.full(count, 0.06)
        if kind == "other":
            right = np.full(count, 0.75)
            worse = rng.choice([0.0, 0.3], count, p=[0.8, 0.2])
        reference = np.where(rng.random(len(place)) < right[place], y, 1 - y)
        other = np.where(rng.random(len(place)) < worse[place], 1 - reference, reference)
        return y, reference == 1, other == 1, place

    of_rows = []
    stated = []
    kept = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y, reference, other, place = places(60, rng)
        settings = {"unseen": 0.25, "favourable": 1}
        by = {"accuracy": 0.045}
        of_rows.append(chance_no_worse(y, reference, other, by, rng=rng, **settings))
        stated.append(chance_no_worse(y, reference, other, by, people=place, rng=rng, **settings))
        for _ in range(10):
            y, reference, other, _ = places(15, rng)
            loss = np.mean((reference == 1) == y) - np.mean((other == 1) == y)
            kept.append(loss <= 0.045)
    assert np.mean(stated) == pytest.approx(np.mean(kept), abs=0.09)
    if kind == "other":
        assert np.mean(of_rows) > np.mean(stated) + 0.05
