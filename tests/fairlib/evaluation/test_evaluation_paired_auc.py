"""Paired AUC: draws of placements and of atoms against resampled rows, and the bounds that are claimed."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from evenhand.fairlib.evaluation import bootstrap, paired
from evenhand.fairlib.evaluation.paired import paired_auc_draws

EXACT, PLACEMENTS = 10**9, 0


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


@pytest.mark.parametrize("max_atoms", [EXACT, PLACEMENTS])
@pytest.mark.parametrize("ties", [False, True])
def test_same_distribution_as_resampling_rows(max_atoms: int, ties: bool) -> None:
    expected = resampled(ties)
    ours = paired_auc_draws(*scores(500, 5, ties), 6000, np.random.default_rng(1), max_atoms=max_atoms)
    spread = expected.std()
    assert spread > 0.01
    # five standard errors of a mean and of a standard deviation of 1500 draws
    assert abs(ours.mean() - expected.mean()) < 5 * spread / np.sqrt(1200)
    assert ours.std() == pytest.approx(spread, rel=5 / np.sqrt(2 * 1200))
    for q in (0.025, 0.25, 0.5, 0.75, 0.975):
        assert abs(np.quantile(ours, q) - np.quantile(expected, q)) < 0.25 * spread, q


def pairwise(y_true: np.ndarray, score: np.ndarray) -> np.ndarray:
    """1, 1/2 or 0 for every positive (row) and negative (column)."""
    return (np.sign(score[y_true == 1][:, None] - score[y_true == 0][None]) + 1) / 2


@pytest.mark.parametrize("ties", [False, True])
def test_placements_by_definition(ties: bool) -> None:
    y_true, model, _ = scores(120, 6, ties)
    ordered = pairwise(y_true, model)
    found = paired._placements(y_true, np.unique(model, return_inverse=True)[1])
    assert_array_equal(found[y_true == 1], 2 * ordered.sum(axis=1))
    assert_array_equal(found[y_true == 0], 2 * ordered.sum(axis=0))


def test_the_omitted_part_is_within_its_bound() -> None:
    """The docstring's equation: mean zero, uncorrelated with what is kept, variance as given, below q."""
    y_true, model, baseline = scores(90, 7)
    d = pairwise(y_true, model) - pairwise(y_true, baseline)
    rows, columns, mean = d.mean(axis=1), d.mean(axis=0), d.mean()
    r = d - rows[:, None] - columns[None] + mean
    n1, n0 = d.shape
    rng = np.random.default_rng(0)
    positive = rng.multinomial(n1, np.full(n1, 1 / n1), 20_000)
    negative = rng.multinomial(n0, np.full(n0, 1 / n0), 20_000)
    whole = np.einsum("bi,ij,bj->b", positive, d, negative, optimize=True) / (n1 * n0)
    kept = positive @ rows / n1 + negative @ columns / n0 - mean
    left = whole - kept
    variance = (r**2).mean() / (n1 * n0)
    assert abs(left.mean()) < 5 * np.sqrt(variance / 20_000)
    assert abs(np.corrcoef(left, kept)[0, 1]) < 5 / np.sqrt(20_000)
    assert left.var() == pytest.approx(variance, rel=0.08)
    assert variance <= (d != 0).mean() / (n1 * n0)


@pytest.mark.parametrize("max_atoms", [EXACT, PLACEMENTS])
def test_draws_centre_on_the_exact_difference(max_atoms: int) -> None:
    y_true, model, baseline = scores(4000, 8)
    draws = paired_auc_draws(y_true, model, baseline, 400, np.random.default_rng(3), max_atoms=max_atoms)
    exact = roc_auc_score(y_true, model) - roc_auc_score(y_true, baseline)
    assert exact > 0.01
    assert abs(draws.mean() - exact) < 5 * draws.std() / 20
    assert exact / draws.std() > 2, "a wrong sign or centre would be seen"


def test_bins_keep_the_mean_and_nearly_all_of_the_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    values = (1000 * rng.standard_normal(3000)).astype(np.int64)
    means, counts = paired._bin_means(values)
    assert_array_equal(np.repeat(means, counts), np.sort(values)), "few enough values: each its own bin"
    monkeypatch.setattr(paired, "PLACEMENT_BINS", 100)
    means, counts = paired._bin_means(values)
    assert len(means) <= 100
    assert counts.sum() == 3000
    assert_allclose(means @ counts, values.sum(), rtol=1e-12)
    binned = np.repeat(means, counts)
    lost = 1 - binned.var() / values.var()
    assert 0 < lost <= 3000 / (2 * 100**2)


def test_few_bins_of_placements_change_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = scores(3000, 10)
    fine = paired_auc_draws(*columns, 3000, np.random.default_rng(1), max_atoms=PLACEMENTS)
    monkeypatch.setattr(paired, "PLACEMENT_BINS", 200)
    coarse = paired_auc_draws(*columns, 3000, np.random.default_rng(2), max_atoms=PLACEMENTS)
    assert_allclose(coarse.std(), fine.std(), rtol=5 / np.sqrt(3000))
    assert abs(coarse.mean() - fine.mean()) < 5 * fine.std() / np.sqrt(1500)


@pytest.mark.parametrize("max_atoms", [EXACT, PLACEMENTS])
def test_scores_that_order_people_alike_do_not_differ(max_atoms: int) -> None:
    y_true, model, _ = scores(300, 11)
    draws = paired_auc_draws(y_true, model, np.exp(model), 50, np.random.default_rng(0), max_atoms=max_atoms)
    assert_array_equal(draws, np.zeros(50))


@pytest.mark.parametrize("max_atoms", [EXACT, PLACEMENTS])
def test_neither_rows_nor_chunks_change_the_draws(max_atoms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = scores(700, 12)
    order = np.random.default_rng(1).permutation(700)
    whole, shuffled = (
        paired_auc_draws(*given, 40, np.random.default_rng(2), max_atoms=max_atoms)
        for given in (columns, [column[order] for column in columns])
    )
    monkeypatch.setattr(bootstrap, "CHUNK_BYTES", 8 * 700 * 7)
    parts = paired_auc_draws(*columns, 40, np.random.default_rng(2), max_atoms=max_atoms)
    assert_array_equal(shuffled, whole)
    assert_array_equal(parts, whole)
    assert len(np.unique(whole)) > 30


@pytest.mark.parametrize("max_atoms", [EXACT, PLACEMENTS])
def test_draws_without_one_label_are_undefined(max_atoms: int) -> None:
    y_true = np.array([1, 0, 0, 0, 0])
    model, baseline = np.array([0.9, 0.1, 0.2, 0.3, 0.4]), np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    draws = paired_auc_draws(y_true, model, baseline, 3000, np.random.default_rng(0), max_atoms=max_atoms)
    # no positive in (4/5)^5 of the draws, no negative in (1/5)^5
    assert np.isnan(draws).mean() == pytest.approx(0.8**5 + 0.2**5, abs=0.045)
    assert_allclose(draws[~np.isnan(draws)], 1.0, atol=1e-12)


@pytest.mark.parametrize("most", [EXACT, PLACEMENTS])
def test_ranks_give_the_draws_of_scores(most: int) -> None:
    y_true, *sides = scores(300, 2, ties=True)
    ranks = [rankdata(side, "dense").astype(np.int64) - 1 for side in sides]
    found = (
        paired_auc_draws(y_true, *given, 50, np.random.default_rng(0), max_atoms=most)
        for given in (sides, ranks)
    )
    assert_array_equal(*found)
