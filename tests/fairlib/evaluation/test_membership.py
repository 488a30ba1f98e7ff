"""Membership inference: hand-computed scores, models that memorise and models that cannot, and
symmetries.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from evenhand.fairlib.evaluation.closed_intervals import auc_interval
from evenhand.fairlib.evaluation.membership import (
    MANY_MODELS,
    balanced_pool,
    confidences,
    likelihood_ratios,
    measure_attack,
    random_halves,
    true_positive_rate,
)

SETTINGS = {"draws": 200, "level": 0.95, "min_cell": 5, "seed": 0}
SEEDS = st.integers(0, 2**31 - 1)


def game(
    strength: float, models: int = 16, n: int = 400, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Confidences of an attacked model and of shadows, larger by `strength` for rows that they had;
    members.

    Rows differ by far more than `strength`, so no common threshold finds the members.
    """
    rng = np.random.default_rng(seed)
    member = random_halves(np.zeros(n, int), 2, rng)[0]
    included = random_halves(np.zeros(n, int), models, rng)
    level = rng.normal(scale=10.0, size=n)
    trained = np.vstack([member, included])
    found = level + strength * trained + rng.normal(scale=0.5, size=trained.shape)
    return found[0], found[1:], included, member


def test_confidence_is_the_log_odds_of_the_true_label() -> None:
    found = confidences([0.8, 0.8, 0.5], [1, 0, 1])
    assert_allclose(found, [math.log(4), -math.log(4), 0.0], atol=1e-12)
    certain = confidences([1.0, 0.0], [1, 1])
    assert_allclose(certain, [15.942385, -15.942385], atol=1e-5)  # ln(2**23 - 1)


def test_scores_by_hand() -> None:
    # row 0: models 0 and 1 were trained on it; row 1: models 0 and 2
    included = np.array([[True, True], [True, False], [False, True], [False, False]])
    shadows = np.array([[3.0, 2.0], [1.0, 1.0], [0.0, 4.0], [2.0, 1.0]])
    # means with 2 and 3, without 1 and 1; common variances (2 + 2) / 2 = 2 and (2 + 0) / 2 = 1
    online, offline = likelihood_ratios(np.array([3.0, 1.0]), shadows, included)
    assert_allclose(online, [-1 / 4 + 4 / 2 - math.log(2) / 2, -4 / 4 + 0 - math.log(2) / 2])
    assert_allclose(offline, [2.0, 0.0])


def test_with_many_models_every_row_has_its_own_variances() -> None:
    observed, shadows, included, _ = game(1.0, models=MANY_MODELS, n=6)
    online, offline = likelihood_ratios(observed, shadows, included)
    for row in range(6):
        sides = [shadows[included[:, row] == side, row] for side in (True, False)]
        fitted = [norm(side.mean(), side.std(ddof=1)) for side in sides]
        densities = [side.logpdf(observed[row]) for side in fitted]
        assert_allclose(online[row], densities[0] - densities[1])
        assert_allclose(norm.cdf(offline[row]), fitted[1].cdf(observed[row]))


def test_a_model_that_memorises_is_found_out_by_shadows_alone() -> None:
    observed, shadows, included, member = game(2.0)
    online, offline = likelihood_ratios(observed, shadows, included)
    found = measure_attack(online, member, **SETTINGS)
    assert found["auc"]["value"] == pytest.approx(roc_auc_score(member, online), abs=1e-12)
    assert found["auc"]["value"] > 0.97
    assert found["auc"]["low"] > 0.95
    assert found["true_positive_rate"] > 0.7
    assert roc_auc_score(member, offline) > 0.95
    assert roc_auc_score(member, observed) < 0.62


def test_a_model_that_memorises_nothing_is_at_chance() -> None:
    found = []
    for seed in range(40):
        observed, shadows, included, member = game(0.0, seed=seed)
        attacks = [
            measure_attack(score, member, **{**SETTINGS, "draws": 0})
            for score in likelihood_ratios(observed, shadows, included)
        ]
        found.append([[attack["auc"]["value"], attack["true_positive_rate"]] for attack in attacks])
    (online, tpr), (offline, _) = np.mean(found, axis=0)
    # three standard errors of a mean of 40 areas of 200 rows a side
    assert_allclose([online, offline], 0.5, atol=3 * 0.029 / math.sqrt(40))
    assert 0.005 < tpr < 0.02


@given(seed=SEEDS, models=st.sampled_from([2, 6, 10, MANY_MODELS]), value=st.floats(-15, 15))
def test_a_constant_model_tells_nothing(seed: int, models: int, value: float) -> None:
    rng = np.random.default_rng(seed)
    member, included = rng.permutation(40) < 13, random_halves(np.zeros(40, int), models, rng)
    for score in likelihood_ratios(np.full(40, value), np.full((models, 40), value), included):
        found = measure_attack(score, member, **{**SETTINGS, "draws": 20})
        low, high = auc_interval(0.5, 13, 27, SETTINGS["level"])
        assert found["auc"] == {
            "value": 0.5,
            "low": low,
            "high": high,
            "status": "ok",
            "reason": "",
        }
        assert found["true_positive_rate"] == 0.0


@given(seed=SEEDS, models=st.sampled_from([4, MANY_MODELS]))
def test_symmetries_of_the_scores(seed: int, models: int) -> None:
    rng = np.random.default_rng(seed)
    observed, shadows, included, _ = game(1.0, models=models, n=12, seed=seed)
    online, offline = likelihood_ratios(observed, shadows, included)
    moved = rng.normal(size=12)
    for found, known in zip(
        likelihood_ratios(observed + moved, shadows + moved, included),
        (online, offline),
        strict=True,
    ):
        assert_allclose(found, known, atol=1e-8)
    rows, order = rng.permutation(12), rng.permutation(models)
    again = likelihood_ratios(observed[rows], shadows[order][:, rows], included[order][:, rows])
    assert_allclose(again, (online[rows], offline[rows]), atol=1e-8)
    swapped, _ = likelihood_ratios(observed, shadows, ~included)
    assert_allclose(swapped, -online, atol=1e-8)


@given(seed=SEEDS, rate=st.sampled_from([0.0, 0.01, 0.1, 0.34, 1.0]))
def test_true_positive_rate_by_trying_every_threshold(seed: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    score, member = rng.integers(0, 9, size=60).astype(float), rng.permutation(60) < 21
    best = 0.0
    for threshold in np.append(np.unique(score), np.inf):
        above = score >= threshold
        if above[~member].mean() <= rate:
            best = max(best, above[member].mean())
    assert true_positive_rate(score, member, rate) == pytest.approx(best)


def test_one_percent_of_a_hundred_rows_is_one_row() -> None:
    member = np.arange(110) < 10
    # three members above all others, one between the first and the second other, six at the bottom
    score = np.concatenate([[9, 9, 9, 7], np.zeros(6), [8], [6], np.ones(98)])
    assert true_positive_rate(score, member) == pytest.approx(0.4)
    score[4] = 6.0  # ties with the second other
    assert true_positive_rate(score, member) == pytest.approx(0.4)


def test_too_few_rows_are_no_evidence() -> None:
    found = measure_attack(np.arange(9.0), np.arange(9) < 4, **SETTINGS)
    assert found["auc"]["status"] == "insufficient_evidence"
    assert "4 members or others" in found["auc"]["reason"]
    assert found["true_positive_rate"] is None


@given(seed=SEEDS, n=st.integers(4, 60), models=st.integers(1, 8).map(lambda k: 2 * k))
def test_halves_have_every_row_in_half_of_the_models(seed: int, n: int, models: int) -> None:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, size=n)
    included = random_halves(label, models, rng)
    assert_array_equal(included.sum(axis=0), models // 2)
    assert np.ptp(included.sum(axis=1)) <= 1
    for value in (0, 1):
        counts = included[:, label == value].sum(axis=1)
        assert np.abs(2 * counts - (label == value).sum()).max(initial=0) <= 1


@pytest.mark.parametrize("models", [0, 3])
def test_halves_come_in_pairs(models: int) -> None:
    with pytest.raises(ValueError, match="even number"):
        random_halves(np.zeros(4, int), models, np.random.default_rng(0))


@given(seed=SEEDS, share=st.floats(0.1, 0.9))
def test_the_pool_has_as_many_members_as_others_of_each_label(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    label, member = rng.integers(0, 2, size=50), rng.random(50) < share
    pool = balanced_pool(label, member, rng)
    assert_array_equal(pool, np.unique(pool))
    for value in (0, 1):
        available = [((label == value) & (member == side)).sum() for side in (True, False)]
        drawn = [((label[pool] == value) & (member[pool] == side)).sum() for side in (True, False)]
        assert drawn == [min(available)] * 2


def test_wrong_shapes_and_rows_without_a_model_are_refused() -> None:
    """Each row needs models of both kinds."""
    observed, shadows, included, _ = game(1.0, models=4, n=6)
    with pytest.raises(ValueError, match="shape"):
        likelihood_ratios(observed[1:], shadows, included)
    for every in (True, False):
        included[:, 2] = every
        with pytest.raises(ValueError, match="every row in one shadow model at least"):
            likelihood_ratios(observed, shadows, included)
