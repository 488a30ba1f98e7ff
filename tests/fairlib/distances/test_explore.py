from __future__ import annotations

from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning

from evenhand.fairlib.distances import EXPLORE, load_metric
from evenhand.fairlib.distances.explore import (
    log_likelihood,
    log_likelihood_gradient,
    maximise,
    nearest_psd,
)

Pairs = tuple[np.ndarray, np.ndarray]


def draw(seed: int, d: int = 4, m: int = 60) -> tuple[Pairs, Pairs]:
    """Comparable pairs that differ mostly along one direction, incomparable ones that differ
    anyhow.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    direction = rng.normal(size=d)
    near = X + rng.normal(size=(m, 1)) * direction + 0.1 * rng.normal(size=(m, d))
    return (X, near), (X, rng.normal(size=(m, d)))


def fit(
    seed: int, strength: float = 0.02, **options: Any
) -> tuple[EXPLORE, np.ndarray, np.ndarray]:
    """A metric of such pairs, and their differences."""
    comparable, incomparable = draw(seed)
    metric = EXPLORE(strength, **options).fit(
        comparable[0], comparable=comparable, incomparable=incomparable
    )
    return metric, comparable[0] - comparable[1], incomparable[0] - incomparable[1]


def sigma_of(metric: EXPLORE) -> np.ndarray:
    return metric.factor_ @ metric.factor_.T


# the likelihood


def test_likelihood_by_hand() -> None:
    sigma, near, far = (
        np.diag([1.0, 0.0]),
        np.array([[1.0, 9.0]]),
        np.array([[2.0, -5.0], [0.5, 0.0]]),
    )
    # P = 2 / (1 + e^D): D is 1 for the comparable pair, 4 and 1/4 for the others
    p = [2 / (1 + np.exp(1)), 1 - 2 / (1 + np.exp(4)), 1 - 2 / (1 + np.exp(0.25))]
    assert log_likelihood(sigma, near, far) == pytest.approx(np.log(p).mean(), rel=1e-14)


def test_likelihood_of_very_near_and_very_far_pairs() -> None:
    one = np.ones((1, 1))
    # log 2 / (1 + e^D) is log 2 - D up to e^-D; log tanh(D / 2) is -2 e^-D, and log(D / 2) for
    # small D
    assert log_likelihood([[1e4]], one, one) == pytest.approx((np.log(2) - 1e4) / 2)
    assert log_likelihood([[1e-12]], one, one) == pytest.approx((-0.5e-12 + np.log(0.5e-12)) / 2)
    assert log_likelihood([[40.0]], np.zeros((1, 1)), one) == pytest.approx(-np.exp(-40), rel=1e-9)
    assert log_likelihood([[0.0]], one, one) == -np.inf
    np.testing.assert_allclose(log_likelihood_gradient([[1e4]], one, one), [[-0.5]])
    np.testing.assert_allclose(log_likelihood_gradient([[1e-12]], one, one), [[0.5e12]])


@pytest.mark.parametrize("seed", range(3))
def test_gradient_is_that_of_finite_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(4, 4))
    sigma, near, far = A @ A.T + 0.1 * np.eye(4), rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    found = log_likelihood_gradient(sigma, near, far)
    h = 1e-6
    for i in range(4):
        for j in range(4):
            step = np.zeros((4, 4))
            step[i, j] = h
            up, down = (
                log_likelihood(sigma + step, near, far),
                log_likelihood(sigma - step, near, far),
            )
            assert found[i, j] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1))
def test_likelihood_is_concave(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    near, far = rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    A, B = (M @ M.T * rng.exponential(scale=3.0) for M in rng.normal(size=(2, 3, 3)))
    mixed = log_likelihood(share * A + (1 - share) * B, near, far)
    chord = share * log_likelihood(A, near, far) + (1 - share) * log_likelihood(B, near, far)
    assert mixed >= chord - 1e-9 * (1 + abs(chord))


# the maximum


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strength", [0.5, 0.02, 0.001])
def test_conditions_of_a_maximum_hold(seed: int, strength: float) -> None:
    metric, near, far = fit(seed, strength)
    sigma = sigma_of(metric)
    gradient = log_likelihood_gradient(sigma, near, far) - strength * np.eye(4)
    # no direction into the cone leads up, and none along the matrix itself
    assert metric.converged_
    assert np.linalg.eigvalsh(gradient).max() <= 1e-5
    assert abs((gradient * sigma).sum()) <= 1e-5
    np.testing.assert_allclose(nearest_psd(sigma + gradient), sigma, atol=2e-5)
    assert metric.log_likelihood_ == pytest.approx(log_likelihood(sigma, near, far), abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_another_solver_finds_the_same(seed: int) -> None:
    strength = 0.02
    metric, near, far = fit(seed, strength)
    sigma = cp.Variable((4, 4), PSD=True)

    def lengths(differences: np.ndarray) -> cp.Expression:
        return cp.sum(cp.multiply(differences @ sigma, differences), axis=1)

    comparable = np.log(2) - cp.logistic(lengths(near))
    incomparable = cp.log(1 - cp.exp(-lengths(far))) - cp.logistic(-lengths(far))
    mean = (cp.sum(comparable) + cp.sum(incomparable)) / (len(near) + len(far))
    problem = cp.Problem(cp.Maximize(mean - strength * cp.trace(sigma)))
    problem.solve(solver=cp.CLARABEL)
    found = log_likelihood(sigma_of(metric), near, far) - strength * np.trace(sigma_of(metric))
    assert found == pytest.approx(problem.value, abs=1e-6)
    np.testing.assert_allclose(sigma_of(metric), sigma.value, atol=2e-3 * np.abs(sigma.value).max())


def test_one_feature_is_a_search_along_a_line() -> None:
    near, far = np.array([[0.5], [1.0]]), np.array([[2.0], [3.0], [1.0]])
    metric = EXPLORE(0.1).fit(
        np.eye(3)[:, :1], comparable=(near, 0 * near), incomparable=(far, 0 * far)
    )
    best = minimize_scalar(
        lambda s: 0.1 * s - log_likelihood([[s]], near, far),
        bounds=(1e-6, 50),
        options={"xatol": 1e-9},
    )
    assert metric.factor_[0, 0] ** 2 == pytest.approx(best.x, rel=1e-5)
    assert metric.basis_.shape == (1, 0)
    np.testing.assert_allclose(metric.unweigh(metric.weigh(near)), near, rtol=1e-12)


def test_the_search_restarts_where_its_momentum_leads_astray() -> None:
    # curvatures from 1 to 1e-5: without restarts it circles about the maximum for some 4,000
    # iterations
    curvature = np.logspace(0, -5, 6)
    weights = np.sqrt(np.outer(curvature, curvature))
    target = 2 * np.eye(6)
    found = maximise(
        lambda S: -0.5 * float((weights * np.square(S - target)).sum()),
        lambda S: weights * (target - S),
        np.eye(6),
        step=1.0,
        max_iter=2000,
        tol=1e-9,
    )
    assert found.converged
    np.testing.assert_allclose(found.matrix, target, atol=1e-3)


@pytest.mark.parametrize("penalty", [0.1, 4.0, 300.0])
def test_the_search_stays_where_the_function_is_defined(penalty: float) -> None:
    # log s - p s, at its best for s = 1 / p: a step too far is beyond the logarithm
    found = maximise(
        lambda S: float(np.log(S[0, 0]) - penalty * S[0, 0]) if S[0, 0] > 0 else -np.inf,
        lambda S: 1 / S - penalty,
        np.full((1, 1), 20.0),
        step=1.0,
        max_iter=500,
        tol=1e-10,
    )
    assert found.converged
    np.testing.assert_allclose(found.matrix, [[1 / penalty]], rtol=1e-6)


def test_the_projection_is_what_the_search_finds() -> None:
    target = np.array([[1.0, 2.0], [2.0, -1.0]])
    found = maximise(
        lambda S: -0.5 * float(np.square(S - target).sum()),
        lambda S: target - S,
        np.eye(2) * 100,
        step=0.01,
        max_iter=2000,
        tol=1e-10,
    )
    values, vectors = np.linalg.eigh(target)
    assert found.converged
    np.testing.assert_allclose(
        found.matrix, values[1] * np.outer(vectors[:, 1], vectors[:, 1]), atol=1e-9
    )


def test_a_penalty_lowers_rank_and_size() -> None:
    traces, ranks = [], []
    for strength in (0.001, 0.05, 1.0):
        metric, _, _ = fit(5, strength)
        traces.append(np.square(metric.factor_).sum())
        ranks.append(metric.factor_.shape[1])
        assert metric.basis_.shape == (4, 4 - ranks[-1])
    assert traces[0] > traces[1] > traces[2] > 0
    assert ranks == sorted(ranks, reverse=True)


def test_units_do_not_matter_to_the_search() -> None:
    comparable, incomparable = draw(1)
    one = EXPLORE(0.02).fit(comparable[0], comparable=comparable, incomparable=incomparable)
    scale = 1e4
    near, far = (tuple(rows * scale for rows in pair) for pair in (comparable, incomparable))
    other = EXPLORE(0.02 * scale**2).fit(near[0], comparable=near, incomparable=far)
    np.testing.assert_allclose(sigma_of(other) * scale**2, sigma_of(one), rtol=1e-3, atol=1e-5)
    assert other.n_iter_ == pytest.approx(one.n_iter_, abs=3)


# learned metrics


@pytest.mark.parametrize("form", ["pairs", "groups", "counterfactuals"])
def test_a_planted_subspace_is_free(form: str) -> None:
    rng = np.random.default_rng(0)
    planted = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    X = rng.normal(size=(1500, 6))
    copies = X + 2 * rng.normal(size=(1500, 2)) @ planted.T
    sources: dict[str, dict[str, Any]] = {
        "pairs": {"comparable": (X, copies), "incomparable": (X[1:], X[:-1])},
        "groups": {"groups": np.tile(np.arange(1500), 2)},
        "counterfactuals": {"counterfactuals": [copies]},
    }
    rows = np.concatenate([X, copies]) if form == "groups" else X
    metric = EXPLORE(0.001).fit(rows, **sources[form])
    assert metric.basis_.shape == (6, 2)
    assert subspace_angles(metric.basis_, planted).max() < 0.05
    apart = metric.squared(X, copies).mean() / metric.squared(X[1:], X[:-1]).mean()
    assert apart < 0.01


def test_people_who_differ_as_copies_do_stay_comparable() -> None:
    # two kinds of people, each in two groups: rows differ in nothing else
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 10)
    flipped = X.copy()
    flipped[:, 1] = 1 - flipped[:, 1]
    metric = EXPLORE(0.01).fit(X, counterfactuals=[flipped])
    assert metric.distance(X, flipped).max() < 0.1 * metric.distance([[0.0, 0.0]], [[1.0, 0.0]])[0]
    with pytest.raises(ValueError, match="no two rows are incomparable"):
        EXPLORE().fit(X[:2], counterfactuals=[flipped[:2]])


def test_drawn_pairs_follow_the_seed_and_the_maximum() -> None:
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(200, 3)), rng.integers(0, 50, 200)
    one, again, other = (EXPLORE(random_state=seed).fit(X, groups=groups) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.factor_, again.factor_)
    assert not np.allclose(one.factor_ @ one.factor_.T, other.factor_ @ other.factor_.T, atol=1e-6)
    few = EXPLORE(max_pairs=3).fit(X, groups=groups)
    # three comparable and three incomparable pairs are easily separated
    assert few.log_likelihood_ > one.log_likelihood_ + 0.1


@pytest.mark.parametrize("strength", [0.01, 10.0, 1e4])
def test_a_search_may_go_on_where_heights_no_longer_differ(strength: float) -> None:
    # a slope of 1e-11 is a gain of some 1e-22 of the height, which no float of that size can show
    metric, near, far = fit(0, strength, tol=1e-11)
    assert metric.converged_
    sigma = sigma_of(metric)
    gradient = log_likelihood_gradient(sigma, near, far) - strength * np.eye(4)
    assert abs((gradient * sigma).sum()) <= 1e-9


def test_a_search_that_is_cut_short_says_so() -> None:
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        metric, _, _ = fit(0, max_iter=2)
    assert (metric.n_iter_, metric.converged_) == (2, False)


def test_the_factor_is_saved_and_the_search_is_not(tmp_path: Path) -> None:
    metric, _, _ = fit(0)
    metric.save(tmp_path)
    loaded = load_metric(tmp_path)
    assert isinstance(loaded, EXPLORE)
    np.testing.assert_array_equal(loaded.factor_, metric.factor_)
    assert not hasattr(loaded, "log_likelihood_")


# refused input

A, B = np.eye(3), np.eye(3)[::-1] * 2
PAIR = {"comparable": (A, B), "incomparable": (A, B + 1)}
NAN = np.where(A == 1, np.nan, A)


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({}, "one of comparable, groups, counterfactuals; got none"),
        ({**PAIR, "groups": [0, 0, 1]}, "got comparable and groups"),
        ({"comparable": (A, B)}, "both sorts of pairs: incomparable is missing"),
        ({"incomparable": (A, B)}, "both sorts of pairs: comparable is missing"),
        ({**PAIR, "comparable": (A[:0], B[:0])}, "comparable holds no pair"),
        ({**PAIR, "incomparable": (A[:0], B[:0])}, "incomparable holds no pair"),
        ({**PAIR, "comparable": (A, A)}, "comparable pairs do not differ"),
        (
            {**PAIR, "incomparable": (A, np.vstack([B[:2], A[2:]]))},
            "incomparable holds a pair of equal rows",
        ),
        (
            {**PAIR, "comparable": (A, B[:2])},
            r"comparable must be two arrays of one shape, got \(3, 3\), \(2, 3",
        ),
        ({**PAIR, "comparable": (A, B, A)}, "comparable must be two arrays"),
        (
            {**PAIR, "incomparable": (A[:, :2], B[:, :2])},
            r"pairs of rows with 3 features, got shape \(3, 2\)",
        ),
        ({**PAIR, "incomparable": (A, NAN)}, "incomparable must be finite"),
        ({"groups": [0, 1, 2]}, "no two comparable rows differ"),
        ({"groups": [0, 0, 0]}, "no two rows are incomparable"),
        ({"groups": [0, 0]}, "one id per row of X, 3"),
        ({"counterfactuals": [A]}, "the counterfactual changes nothing"),
        ({"counterfactuals": [NAN]}, "counterfactuals must be finite"),
        ({"counterfactuals": [B[:2]]}, "got shape"),
    ],
)
def test_errors_name_what_is_wrong(sources: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EXPLORE().fit(A, **sources)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strength": 0.0}, "strength must be positive and finite, got 0.0"),
        ({"strength": np.inf}, "strength must be positive and finite, got inf"),
        ({"tol": -1.0}, "tol must be positive"),
        ({"max_iter": 0}, "max_iter must be a whole number, at least 1, got 0"),
        ({"max_pairs": 0}, "max_pairs must be a whole number, at least 1, got 0"),
    ],
)
def test_parameters_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EXPLORE(**options).fit(A, **PAIR)
