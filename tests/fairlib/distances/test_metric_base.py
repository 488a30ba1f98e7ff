"""Common behaviour of all fair metrics: numpy and torch, bounds of the training rows, saving."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenhand.fairlib.distances import (
    EXPLORE,
    FACE,
    METRICS,
    FeatureBounds,
    Metric,
    SensitiveSubspace,
    load_metric,
)
from tests.fairlib import estimator_checks as checks

WIDTH = 6
KINDS = sorted(METRICS)


def fitted(kind: str) -> Metric:
    """A metric with free directions and others: none of them a coordinate axis for FACE and
    EXPLORE.
    """
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, WIDTH))
    copies = X + rng.normal(size=(200, 2)) @ rng.normal(size=(2, WIDTH))
    if kind == "sensitive-subspace":
        return SensitiveSubspace(indicators=[1]).fit(
            X, sensitive_features={"g": X[:, 0] + X[:, 2] > 0}
        )
    if kind == "face":
        return FACE(n_directions=2).fit(X, counterfactuals=[copies])
    return EXPLORE(0.02).fit(X, counterfactuals=[copies])


def sigma_of(metric: Metric) -> np.ndarray:
    """The dense matrix of a metric."""
    if isinstance(metric, EXPLORE):
        return metric.factor_ @ metric.factor_.T
    return np.eye(WIDTH) - metric.basis_ @ metric.basis_.T


@pytest.fixture(scope="module", params=KINDS)
def metric(request: pytest.FixtureRequest) -> Metric:
    return fitted(request.param)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(9, WIDTH))


def test_every_method_is_the_dense_formula(metric: Metric, rows: np.ndarray) -> None:
    sigma, other = sigma_of(metric), rows[::-1]
    apart = rows - other
    squared = np.einsum("ij,jk,ik->i", apart, sigma, apart)
    np.testing.assert_allclose(metric.squared(rows, other), squared, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(metric.distance(rows, other) ** 2, squared, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(metric.weigh(rows), rows @ sigma, atol=1e-13)
    np.testing.assert_allclose(
        metric.unweigh(rows), rows @ np.linalg.pinv(sigma, rcond=1e-6), rtol=1e-8, atol=1e-12
    )
    projected = metric.project(rows)
    np.testing.assert_allclose(projected @ projected.T, rows @ sigma @ rows.T, atol=1e-12)


def test_pairs_are_the_paired_distances(metric: Metric, rows: np.ndarray) -> None:
    i, j = np.indices((9, 9)).reshape(2, -1)
    paired = metric.distance(rows[i], rows[j]).reshape(9, 9)
    np.testing.assert_allclose(metric.pairwise(rows), paired, atol=1e-7)
    np.testing.assert_allclose(metric.pairwise(rows, rows[:4]), paired[:, :4], atol=1e-7)
    np.testing.assert_allclose(metric.pairwise(rows, squared=True), paired**2, atol=1e-12)


def pairwise_squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances of all pairs, by a metric without free directions."""
    found: np.ndarray = SensitiveSubspace().fit(b).pairwise(a, b, squared=True)
    return found


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_distances_agree_with_scipy(offset: float) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 7)) + offset, rng.normal(size=(30, 7)) + offset
    got = pairwise_squared(a, b)
    np.testing.assert_allclose(got, cdist(a, b, "sqeuclidean"), rtol=1e-8 if offset else 1e-11)


@pytest.mark.parametrize("d", [1, 7, 62, 400])
def test_equal_points_are_at_distance_exactly_zero(d: int) -> None:
    rng = np.random.default_rng(d)
    points = rng.normal(size=(200, d)) * rng.exponential(20, size=d)
    twins = points[rng.integers(0, 200, 100)]
    same = (twins[:, None, :] == points[None, :, :]).all(axis=2)
    got = pairwise_squared(twins, points)
    assert same.sum() >= 100
    np.testing.assert_array_equal(got[same], 0.0)
    assert (got[~same] > 0).all()


def test_an_outlier_leaves_near_points_apart() -> None:
    points = np.array([[0.0], [1e-3], [1e6]])
    shifted = np.vstack([points, -points])  # mean 0, so that nothing but the outlier is far from it
    got = pairwise_squared(shifted, shifted)
    assert got[0, 1] == pytest.approx(1e-6, rel=1e-9)


def test_free_directions_do_not_count_and_unweigh_undoes_weigh(
    metric: Metric, rows: np.ndarray
) -> None:
    B = metric.basis_
    assert 0 < B.shape[1] < WIDTH
    np.testing.assert_allclose(B.T @ B, np.eye(B.shape[1]), atol=1e-12)
    along = rows[:, : B.shape[1]] @ B.T
    np.testing.assert_allclose(metric.distance(rows + 10 * along, rows), 0.0, atol=1e-12)
    np.testing.assert_allclose(metric.weigh(along), 0.0, atol=1e-12)
    np.testing.assert_allclose(metric.unweigh(along), 0.0, atol=1e-6)
    rest = rows - (rows @ B) @ B.T
    np.testing.assert_allclose(metric.unweigh(metric.weigh(rows)), rest, atol=1e-8)
    np.testing.assert_allclose(metric.weigh(metric.unweigh(rows)), rest, atol=1e-8)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_tensors_give_tensors_of_the_same_numbers(
    metric: Metric, rows: np.ndarray, dtype: torch.dtype, atol: float
) -> None:
    X, other = torch.tensor(rows, dtype=dtype), torch.tensor(rows[::-1].copy(), dtype=dtype)
    found = {
        "project": (metric.project(X), metric.project(rows)),
        "weigh": (metric.weigh(X), metric.weigh(rows)),
        "squared": (metric.squared(X, other), metric.squared(rows, rows[::-1])),
        "distance": (metric.distance(X, other), metric.distance(rows, rows[::-1])),
        "pairwise": (metric.pairwise(X, other), metric.pairwise(rows, rows[::-1])),
        "of itself": (metric.pairwise(X, squared=True), metric.pairwise(rows, squared=True)),
    }
    for name, (tensor, array) in found.items():
        assert tensor.dtype == dtype, name
        np.testing.assert_allclose(
            tensor.numpy(), array, atol=atol * max(1, np.abs(array).max()), err_msg=name
        )
    unweighed, expected = metric.unweigh(X), metric.unweigh(rows)
    assert unweighed.dtype == dtype
    np.testing.assert_allclose(unweighed.numpy(), expected, atol=atol * np.abs(expected).max())


def test_leading_axes_of_tensors_broadcast(metric: Metric, rows: np.ndarray) -> None:
    X = torch.tensor(rows)
    many = torch.stack([X, 2 * X, X.flip(0)])
    squared = metric.squared(many, X)
    assert squared.shape == (3, 9)
    for k in range(3):
        np.testing.assert_allclose(squared[k], metric.squared(many[k].numpy(), rows), atol=1e-12)
        np.testing.assert_allclose(metric.weigh(many)[k], metric.weigh(many[k].numpy()), atol=1e-12)
        np.testing.assert_allclose(
            metric.unweigh(many)[k], metric.unweigh(many[k].numpy()), atol=1e-9
        )
    assert metric.squared(X[0], X[1]).shape == ()


def test_gradient_of_squared_distance_is_twice_the_difference(
    metric: Metric, rows: np.ndarray
) -> None:
    """The difference is weighed by the metric."""
    X = torch.tensor(rows, requires_grad=True)
    other = torch.tensor(rows[::-1].copy())
    metric.squared(X, other).sum().backward()
    np.testing.assert_allclose(X.grad, 2 * metric.weigh(rows - rows[::-1]), atol=1e-12)
    assert torch.autograd.gradcheck(lambda x: metric.pairwise(x, other, squared=True), X)


def test_gradient_of_a_distance_of_zero_is_zero(metric: Metric, rows: np.ndarray) -> None:
    X = torch.tensor(rows, requires_grad=True)
    metric.distance(X, X.detach().clone()).sum().backward()
    np.testing.assert_array_equal(X.grad, np.zeros_like(rows))


def test_a_tensor_made_without_gradients_can_have_them_later() -> None:
    metric = fitted("face")
    with torch.inference_mode():
        metric.project(torch.ones(2, WIDTH))
    X = torch.ones(2, WIDTH, requires_grad=True)
    metric.squared(X, torch.zeros(2, WIDTH)).sum().backward()
    assert X.grad is not None


def test_a_metric_that_is_fitted_again_forgets_its_tensors() -> None:
    metric, X = SensitiveSubspace(indicators=[0]), torch.eye(2)
    assert metric.fit(np.eye(2)).weigh(X).tolist() == [[0, 0], [0, 1]]
    metric.indicators = [1]
    assert metric.fit(np.eye(2)).weigh(X).tolist() == [[1, 0], [0, 0]]


def test_a_library_is_imported_by_what_computes_with_it_alone() -> None:
    code = (
        "import sys, numpy as np; from evenhand.fairlib.methods import budro, gbdt, "
        "preprocessed_gbdt;"
        "from evenhand.fairlib.distances import METRICS, SensitiveSubspace as S;"
        "heavy = ('torch', 'xgboost', 'numba', 'cvxpy', 'safetensors', 'sklearn.linear_model');"
        "found = [name for name in heavy if name in sys.modules];"
        "m = S(indicators=[0]).fit(np.eye(3)); m.pairwise(np.eye(3)); m.weigh(np.eye(3));"
        "sys.exit(', '.join([*found, *({'torch'} & {*sys.modules})]) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# scikit-learn's checks


@parametrize_with_checks(checks.METRICS)
def test_scikit_learns_own_checks(estimator: Metric, check: Any) -> None:
    checks.run_check(estimator, check)


# refused input


@pytest.mark.parametrize(
    "method", ["project", "weigh", "unweigh", "squared", "distance", "pairwise"]
)
@pytest.mark.parametrize("make", [np.zeros, torch.zeros])
def test_another_width_is_refused(metric: Metric, method: str, make: Any) -> None:
    rows = [make((2, 5))] * (2 if method in ("squared", "distance") else 1)
    with pytest.raises(ValueError, match="^X has 5 features, but this metric was fitted on 6\\.$"):
        getattr(metric, method)(*rows)


def test_tensors_of_integers_are_refused(metric: Metric) -> None:
    with pytest.raises(ValueError, match=r"floating-point numbers, got torch\.int64"):
        metric.weigh(torch.zeros((2, WIDTH), dtype=torch.int64))


def test_numbers_that_are_not_finite_are_refused(metric: Metric) -> None:
    rows = np.zeros((2, WIDTH))
    rows[1, 2] = np.nan
    for call in (metric.project, metric.pairwise):
        with pytest.raises(ValueError, match="NaN"):
            call(rows)
    with pytest.raises(ValueError, match="NaN"):
        metric.squared(rows, np.zeros((2, WIDTH)))


@pytest.mark.parametrize("kind", KINDS)
def test_an_unfitted_metric_measures_nothing(kind: str, tmp_path: Path) -> None:
    metric = METRICS[kind]()
    for call in (metric.project, metric.weigh, metric.unweigh, metric.pairwise):
        with pytest.raises(NotFittedError):
            call(np.zeros((2, 3)))
    with pytest.raises(NotFittedError):
        metric.save(tmp_path)


# saving


def test_a_saved_metric_of_any_kind_measures_alike(
    metric: Metric, rows: np.ndarray, tmp_path: Path
) -> None:
    metric.save(tmp_path / "a" / "metric")
    loaded = load_metric(tmp_path / "a" / "metric")
    assert type(loaded) is type(metric)
    assert loaded.n_features_in_ == WIDTH
    np.testing.assert_array_equal(loaded.basis_, metric.basis_)
    for name in ("low", "high", "free_low", "free_high"):
        np.testing.assert_array_equal(
            getattr(loaded.feature_bounds_, name), getattr(metric.feature_bounds_, name)
        )
    np.testing.assert_array_equal(loaded.pairwise(rows), metric.pairwise(rows))
    np.testing.assert_array_equal(loaded.unweigh(rows), metric.unweigh(rows))
    X = torch.tensor(rows)
    assert torch.equal(loaded.weigh(X), metric.weigh(X))
    assert sorted(path.name for path in (tmp_path / "a" / "metric").iterdir()) == [
        "metric.json",
        "metric.safetensors",
    ]
    loaded.save(tmp_path / "b")
    for name in ("metric.json", "metric.safetensors"):
        assert (tmp_path / "a" / "metric" / name).read_bytes() == (
            tmp_path / "b" / name
        ).read_bytes()


def test_an_array_that_is_not_row_major_is_saved_as_it_is(tmp_path: Path) -> None:
    metric = fitted("face")
    basis = metric.basis_.copy()
    metric.basis_ = np.asfortranarray(basis)
    metric.save(tmp_path)
    np.testing.assert_array_equal(load_metric(tmp_path).basis_, basis)


def test_a_kind_or_format_of_another_version_is_refused(tmp_path: Path) -> None:
    metric = fitted("face")
    metric.save(tmp_path)
    with pytest.raises(ValueError, match="holds no sensitive subspace of format 2"):
        SensitiveSubspace.load(tmp_path)
    for change, message in (
        ({"format": 1}, "no FACE metric of format 2"),
        ({"kind": "x"}, "the kind 'x'; known"),
    ):
        written = {"format": 2, "kind": "face", **change}
        (tmp_path / "metric.json").write_text(json.dumps(written))
        with pytest.raises(ValueError, match=message):
            load_metric(tmp_path)


# bounds of the training rows


def bounds_of(*values: float) -> tuple[float, float]:
    domain = FeatureBounds.of(np.array(values, dtype=np.float64)[:, None], np.zeros((1, 0)))
    return float(domain.low[0]), float(domain.high[0])


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ((0.0, 1.0, 1.0), (0.0, 1.0)),  # two values: they identify nobody
        ((0.0, 1.0, 0.5), (-0.1, 1.1)),
        ((-1.0, 1.0), (-1.1, 1.1)),
        ((0.13, 1.07), (0.12, 1.08)),  # a range of 0.94: hundredths
        (
            (0.3, 1.3),
            (0.2, 1.4),
        ),  # 0.3 / 0.1 is 2.9999999999999996: a multiple up to rounding is one
        ((0.1337, 1.2), (0.0, 1.3)),  # a range of 1.07: tenths, outwards, and one more
        ((-2.345, 3.456), (-2.5, 3.6)),
        ((17.0, 93.0), (16.0, 94.0)),  # ages: whole years
        ((17.25, 93.25), (16.0, 95.0)),
        ((-0.04, 1.0), (-0.2, 1.1)),
        ((1234.5, 98765.4), (0.0, 100000.0)),
        ((3.14159, 3.14159), (3.14159, 3.14159)),  # constant: it identifies nobody
        ((0.0, 0.0), (0.0, 0.0)),
        ((7.0, 7.000123), (6.99999, 7.00014)),
    ],
)
def test_bounds_by_hand(values: tuple[float, ...], bounds: tuple[float, float]) -> None:
    assert bounds_of(*values) == bounds


def test_bounds_hold_where_floats_are_no_finer_than_the_range() -> None:
    high = float.fromhex("-0x1.e6bcba34547d4p+0")
    low = high - 31 * math.ulp(high)
    found = bounds_of(low, high)
    assert found[0] <= low
    assert found[1] >= high


def test_zero_is_not_negative() -> None:
    low, _ = bounds_of(0.0, 1.0)
    assert np.copysign(1.0, low) == 1.0


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_rows_lie_within_the_bounds_and_these_are_hardly_wider(values: list[float]) -> None:
    low, high = bounds_of(*values)
    assert low <= min(values)
    assert max(values) <= high
    # in fractions, for the range of floats overflows: at most four tenths of the range more
    width = max(values) / 4 - min(values) / 4
    magnitude = max(abs(value) for value in values)
    rounding = 4 * np.finfo(float).eps * magnitude + 1e-299
    if np.isfinite(low) and np.isfinite(high):
        assert high / 4 - low / 4 <= 1.4 * width + rounding


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(KINDS), st.sampled_from([1e-3, 1.0, 1e4]))
def test_training_rows_lie_in_the_domain_of_every_metric(
    seed: int, kind: str, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 4)) * scale
    X[:, 0] = rng.integers(0, 2, 12)
    X[:, 1] = 0.3
    copies = X + rng.normal(size=(12, 1)) @ rng.normal(size=(1, 4)) * scale
    if kind == "sensitive-subspace":
        metric: Metric = SensitiveSubspace(indicators=[0]).fit(X)
    elif kind == "face":
        metric = FACE(1).fit(X, counterfactuals=[copies])
    else:
        metric = EXPLORE(0.1, max_iter=3, tol=1e9).fit(X, counterfactuals=[copies])
    domain, free = metric.feature_bounds_, X @ metric.basis_
    assert (domain.low <= X).all()
    assert (domain.high >= X).all()
    assert (domain.low[1], domain.high[1]) == (0.3, 0.3)
    slack = 1e-12 * np.abs(X).max()
    assert (domain.free_low <= free + slack).all()
    assert (domain.free_high >= free - slack).all()
    assert domain.free_low.shape == domain.free_high.shape == (metric.basis_.shape[1],)


def test_bounds_give_no_persons_number_away() -> None:
    X = np.random.default_rng(0).normal(size=(500, 3))
    domain = SensitiveSubspace(indicators=[0]).fit(X).feature_bounds_
    bounds = np.concatenate([domain.low, domain.high, domain.free_low, domain.free_high])
    assert not np.isin(bounds, X).any()
    np.testing.assert_array_equal(bounds, np.round(bounds, 1))


def test_a_domain_cannot_be_changed() -> None:
    domain = fitted("face").feature_bounds_
    with pytest.raises(AttributeError):
        domain.low = np.zeros(WIDTH)  # type: ignore[misc]
