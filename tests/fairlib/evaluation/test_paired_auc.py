"""Paired AUC: draws of atoms, whole and merged, against resampled rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from evenhand.fairlib.evaluation import bootstrap
from evenhand.fairlib.evaluation.bootstrap import auc_draws

EXACT, MERGED = 10**9, 200


def paired_draws(
    y_true: np.ndarray,
    model: np.ndarray,
    baseline: np.ndarray,
    draws: int,
    seed: int,
    max_atoms: int = EXACT,
) -> np.ndarray:
    rng = np.random.default_rng(seed)
    first, second = auc_draws(y_true, [model, baseline], draws, rng, max_atoms=max_atoms)
    return np.asarray(first - second)


def scores(n: int, seed: int, ties: bool = False, noise: float = 0.5) -> tuple[np.ndarray, ...]:
    """Labels and two related scores, the second a little worse."""
    rng = np.random.default_rng(seed)
    y_true = (rng.random(n) < 0.3).astype(int)
    common = y_true + rng.standard_normal(n)
    model = common + noise * rng.standard_normal(n)
    baseline = common + 1.3 * noise * rng.standard_normal(n)
    if ties:
        model, baseline = np.round(2 * model), np.round(3 * baseline)
    return y_true, model, baseline


def area(y_true: np.ndarray, score: np.ndarray) -> float:
    """Area by the Mann-Whitney statistic: mean ranks, ties sharing theirs."""
    positive = y_true == 1
    n = int(positive.sum())
    return (rankdata(score)[positive].sum() - n * (n + 1) / 2) / (n * (len(y_true) - n))


@cache
def resampled(ties: bool, draws: int = 1500) -> np.ndarray:
    """Resample whole rows, and find the two areas by ranks."""
    y_true, model, baseline = scores(500, 5, ties)
    assert area(y_true, model) == pytest.approx(roc_auc_score(y_true, model), rel=1e-12)
    rng = np.random.default_rng(99)
    samples = (rng.integers(0, len(y_true), len(y_true)) for _ in range(draws))
    return np.array([area(y_true[i], model[i]) - area(y_true[i], baseline[i]) for i in samples])


@pytest.mark.parametrize("max_atoms", [EXACT, MERGED])
@pytest.mark.parametrize("ties", [False, True])
def test_same_distribution_as_resampling_rows(max_atoms: int, ties: bool) -> None:
    expected = resampled(ties)
    ours = paired_draws(*scores(500, 5, ties), 6000, 1, max_atoms)
    spread = expected.std()
    assert spread > 0.01
    # five standard errors of a mean and of a standard deviation of 1500 draws
    assert abs(ours.mean() - expected.mean()) < 5 * spread / np.sqrt(1200)
    assert ours.std() == pytest.approx(spread, rel=5 / np.sqrt(2 * 1200))
    for q in (0.025, 0.25, 0.5, 0.75, 0.975):
        assert abs(np.quantile(ours, q) - np.quantile(expected, q)) < 0.25 * spread, q


@pytest.mark.parametrize("max_atoms", [EXACT, MERGED])
def test_draws_centre_on_the_exact_difference(max_atoms: int) -> None:
    y_true, model, baseline = scores(4000, 8)
    draws = paired_draws(y_true, model, baseline, 400, 3, max_atoms)
    exact = roc_auc_score(y_true, model) - roc_auc_score(y_true, baseline)
    assert exact > 0.01
    assert abs(draws.mean() - exact) < 5 * draws.std() / 20
    assert exact / draws.std() > 2, "a wrong sign or centre would be seen"


def test_scores_that_hardly_differ_keep_their_small_spread() -> None:
    """Of similar models few atoms are off the diagonal, so that merging leaves more bins of
    them.
    """
    columns = scores(20_000, 10, noise=0.01)
    whole, merged = (paired_draws(*columns, 500, 1, atoms) for atoms in (EXACT, 10_000))
    assert whole.std() < 0.0003
    assert merged.std() == pytest.approx(whole.std(), rel=5 / np.sqrt(500))
    assert abs(merged.mean() - whole.mean()) < 5 * whole.std() / np.sqrt(250)


@pytest.mark.parametrize("max_atoms", [EXACT, MERGED])
def test_scores_that_order_people_alike_do_not_differ(max_atoms: int) -> None:
    y_true, model, _ = scores(300, 11)
    assert_array_equal(paired_draws(y_true, model, np.exp(model), 50, 0, max_atoms), np.zeros(50))


@pytest.mark.parametrize("max_atoms", [EXACT, MERGED])
def test_neither_rows_nor_chunks_change_the_draws(
    max_atoms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = scores(700, 12)
    order = np.random.default_rng(1).permutation(700)
    whole, shuffled = (
        paired_draws(*given, 40, 2, max_atoms)
        for given in (columns, [column[order] for column in columns])
    )
    monkeypatch.setattr(bootstrap, "CHUNK_BYTES", 8 * 700 * 7)
    assert_array_equal(shuffled, whole)
    assert_array_equal(paired_draws(*columns, 40, 2, max_atoms), whole)
    assert len(np.unique(whole)) > 30


def test_draws_without_one_label_are_undefined() -> None:
    y_true = np.array([1, 0, 0, 0, 0])
    model, baseline = np.array([0.9, 0.1, 0.2, 0.3, 0.4]), np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    draws = paired_draws(y_true, model, baseline, 3000, 0)
    # no positive in (4/5)^5 of the draws, no negative in (1/5)^5
    assert np.isnan(draws).mean() == pytest.approx(0.8**5 + 0.2**5, abs=0.045)
    assert_allclose(draws[~np.isnan(draws)], 1.0, atol=1e-12)


@pytest.mark.parametrize("max_atoms", [EXACT, MERGED])
def test_ranks_give_the_draws_of_scores(max_atoms: int) -> None:
    y_true, *sides = scores(300, 2, ties=True)
    ranks = [rankdata(side, "dense").astype(np.int64) - 1 for side in sides]
    assert_array_equal(
        *(paired_draws(y_true, *given, 50, 0, max_atoms) for given in (sides, ranks))
    )
