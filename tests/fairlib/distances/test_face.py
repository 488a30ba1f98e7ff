from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from evenhand.fairlib.distances import FACE, load_metric


def projector(metric: FACE) -> np.ndarray:
    return metric.basis_ @ metric.basis_.T


def centred(X: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """All rows minus their group's mean: the definition, group by group."""
    return np.concatenate([X[groups == g] - X[groups == g].mean(axis=0) for g in np.unique(groups)])


def leading(A: np.ndarray, k: int) -> np.ndarray:
    """Projector onto the first right singular vectors."""
    vt = np.linalg.svd(A)[2][:k]
    return vt.T @ vt


def test_a_pair_by_hand() -> None:
    # the copies differ by (3, 4, 0): only the orthogonal part counts
    X = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    metric = FACE(n_directions=1).fit(X, counterfactuals=[X + [3.0, 4.0, 0.0]])
    np.testing.assert_allclose(np.abs(metric.basis_[:, 0]), [0.6, 0.8, 0.0], atol=1e-15)
    np.testing.assert_allclose(metric.explained_variance_ratio_, [1.0])
    # (4, -3) is orthogonal to (3, 4) and of length 5
    np.testing.assert_allclose(
        metric.distance([[0.0, 0.0, 0.0]], [[3.0 + 4.0, 4.0 - 3.0, 12.0]]), [13.0]
    )


def test_a_group_by_hand() -> None:
    # centred: (-2, 0), (2, 0) and (0, -1), (0, 1): shares 8/10 and 2/10; the third group is alone
    X = np.array([[1.0, 5.0], [5.0, 5.0], [7.0, 0.0], [7.0, 2.0], [100.0, 100.0]])
    groups = ["a", "a", "b", "b", "c"]
    both = FACE(n_directions=2).fit(X, groups=groups)
    np.testing.assert_allclose(both.explained_variance_ratio_, [0.8, 0.2])
    for options, rank in (
        ({"n_directions": 1}, 1),
        ({"explained_variance": 0.5}, 1),
        ({"explained_variance": 0.8}, 1),
        ({"explained_variance": 0.81}, 2),
        ({"explained_variance": 1.0}, 2),
    ):
        metric = FACE(**options).fit(X, groups=groups)  # type: ignore[arg-type]
        np.testing.assert_array_equal(np.abs(metric.basis_), np.eye(2)[:, :rank])


@pytest.mark.parametrize(("n", "d"), [(200, 7), (12, 30)])  # more rows than columns, and fewer
@pytest.mark.parametrize("k", [1, 3])
def test_directions_are_singular_vectors_of_the_centred_groups(n: int, d: int, k: int) -> None:
    rng = np.random.default_rng(n)
    X, groups = rng.normal(size=(n, d)) * rng.exponential(size=d), rng.integers(0, n // 3, n)
    metric = FACE(k).fit(X, groups=groups)
    A = centred(X, groups)
    np.testing.assert_allclose(projector(metric), leading(A, k), atol=1e-9)
    np.testing.assert_allclose(metric.basis_.T @ metric.basis_, np.eye(k), atol=1e-12)
    singular = np.linalg.svd(A, compute_uv=False)
    np.testing.assert_allclose(
        metric.explained_variance_ratio_, singular[:k] ** 2 / (singular**2).sum(), rtol=1e-9
    )


@pytest.mark.parametrize(("n", "d"), [(150, 5), (4, 20)])
@pytest.mark.parametrize("number", [1, 3])
def test_copies_are_groups_of_a_row_and_its_copies(n: int, d: int, number: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    copies = [X + rng.normal(size=(n, d)) * rng.exponential(size=d) for _ in range(number)]
    groups = np.tile(np.arange(n), number + 1)
    as_copies = FACE(2).fit(X, counterfactuals=copies)
    as_groups = FACE(2).fit(np.concatenate([X, *copies]), groups=groups)
    np.testing.assert_allclose(projector(as_copies), projector(as_groups), atol=1e-8)
    np.testing.assert_allclose(
        as_copies.explained_variance_ratio_, as_groups.explained_variance_ratio_, rtol=1e-8
    )
    if number == 1:
        np.testing.assert_allclose(projector(as_copies), leading(X - copies[0], 2), atol=1e-8)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_order_names_and_places_of_groups_do_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, groups = rng.normal(size=(40, 4)), rng.integers(0, 8, 40)
    one = FACE(2).fit(X, groups=groups)
    order, names = rng.permutation(40), np.array(list("hgfedcba"))
    moved = X + 100 * rng.normal(size=(8, 4))[groups]  # each group elsewhere
    other = FACE(2).fit(moved[order], groups=names[groups[order]])
    np.testing.assert_allclose(projector(one), projector(other), atol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_planted_subspace_is_found(noise: float) -> None:
    rng = np.random.default_rng(0)
    planted = np.linalg.qr(rng.normal(size=(10, 3)))[0]
    X = rng.normal(size=(400, 10))
    copies = [
        X + rng.normal(size=(400, 3)) @ planted.T + noise * rng.normal(size=(400, 10))
        for _ in range(2)
    ]
    metric = FACE(explained_variance=0.98).fit(X, counterfactuals=copies)
    assert metric.basis_.shape == (10, 3)
    assert subspace_angles(metric.basis_, planted).max() <= max(noise, 1e-7)
    everything = FACE(explained_variance=1.0).fit(X, counterfactuals=copies)
    assert everything.basis_.shape[1] == (3 if noise == 0 else 10)


def test_least_number_of_directions_that_explain_the_share() -> None:
    rng = np.random.default_rng(2)
    X, groups = rng.normal(size=(300, 8)) * np.arange(1, 9), rng.integers(0, 60, 300)
    shares = np.linalg.svd(centred(X, groups), compute_uv=False) ** 2
    shares = np.cumsum(shares) / shares.sum()
    for share in (0.1, 0.5, 0.9, 0.99, 1.0):
        k = FACE(explained_variance=share).fit(X, groups=groups).basis_.shape[1]
        assert shares[k - 1] >= share - 1e-9
        assert k == 1 or shares[k - 2] < share


def test_rounding_costs_no_direction() -> None:
    # eight pairs, each along a column of its own: the first seven have 7/8, or 0.8749999999999999
    # when summed
    X = np.zeros((16, 8))
    X[1::2] = 0.1 * np.eye(8)
    assert FACE(explained_variance=7 / 8).fit(X, groups=np.arange(16) // 2).basis_.shape == (8, 7)


def test_free_columns_project_to_zero_and_others_stay() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    copy = X.copy()
    copy[:, [1, 3]] = rng.normal(size=(100, 2))
    metric = FACE(explained_variance=1.0).fit(X, counterfactuals=[copy])
    np.testing.assert_array_equal(metric.project(X)[:, [1, 3]], 0.0)
    np.testing.assert_array_equal(metric.project(X)[:, [0, 2, 4]], X[:, [0, 2, 4]])
    one = FACE(1).fit(X, counterfactuals=[copy])
    np.testing.assert_array_equal(one.project(X)[:, [0, 2, 4]], X[:, [0, 2, 4]])


def test_groups_of_one_and_rows_that_do_not_change_are_ignored() -> None:
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(30, 4)), np.repeat(np.arange(10), 3)
    loners = np.concatenate([X, 50 * rng.normal(size=(5, 4))])
    one = FACE(2).fit(X, groups=groups)
    other = FACE(2).fit(loners, groups=np.append(groups, np.arange(100, 105)))
    np.testing.assert_allclose(projector(one), projector(other), atol=1e-12)
    copy = X + rng.normal(size=(30, 4))
    more = np.concatenate([X, loners[30:]])
    np.testing.assert_allclose(
        projector(FACE(2).fit(X, counterfactuals=[copy])),
        projector(FACE(2).fit(more, counterfactuals=[np.concatenate([copy, loners[30:]])])),
        atol=1e-9,
    )


def test_single_precision_rows_give_the_same_directions() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6)).astype(np.float32)
    copy = X.copy()
    copy[:, :2] += np.float32(1.0)
    metric = FACE(explained_variance=0.9999).fit(X, counterfactuals=[copy])
    np.testing.assert_allclose(projector(metric)[:2, :2], np.full((2, 2), 0.5), atol=1e-6)
    assert metric.basis_.dtype == np.float64


def test_shares_survive_saving(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    metric = FACE(2).fit(rng.normal(size=(40, 4)), groups=rng.integers(0, 8, 40))
    metric.save(tmp_path)
    loaded = load_metric(tmp_path)
    assert isinstance(loaded, FACE)
    np.testing.assert_array_equal(
        loaded.explained_variance_ratio_, metric.explained_variance_ratio_
    )


ROWS = np.arange(12.0).reshape(6, 2) ** 2
PAIRS = np.repeat(np.arange(3), 2)
INFINITE = np.where(ROWS == 4, np.inf, ROWS)


@pytest.mark.parametrize(
    ("options", "sources", "message"),
    [
        (
            {"n_directions": 1},
            {"groups": np.arange(6)},
            "FACE needs groups of at least two comparable samples",
        ),
        (
            {"n_directions": 1},
            {"counterfactuals": [ROWS, ROWS]},
            "the counterfactual changes nothing",
        ),
        ({"n_directions": 1}, {"counterfactuals": []}, "no copy of the rows"),
        ({"n_directions": 3}, {"groups": PAIRS}, "n_directions is 3, but .* span 2"),
        (
            {"n_directions": 2},
            {"counterfactuals": [ROWS + [1, 0]]},
            "n_directions is 2, but .* span 1",
        ),
        ({}, {"groups": PAIRS}, "give n_directions or explained_variance, got neither"),
        (
            {"n_directions": 1, "explained_variance": 0.5},
            {"groups": PAIRS},
            "explained_variance, got both",
        ),
        ({"n_directions": 0}, {"groups": PAIRS}, "whole number, at least 1 or None, got 0"),
        ({"n_directions": 1.5}, {"groups": PAIRS}, "whole number, at least 1 or None, got 1.5"),
        ({"explained_variance": 0.0}, {"groups": PAIRS}, r"in \(0, 1\] or None, got 0.0"),
        ({"explained_variance": 1.1}, {"groups": PAIRS}, r"in \(0, 1\] or None, got 1.1"),
        ({"explained_variance": np.nan}, {"groups": PAIRS}, r"in \(0, 1\] or None, got nan"),
        ({"n_directions": 1}, {}, "one of groups, counterfactuals; got none"),
        (
            {"n_directions": 1},
            {"groups": PAIRS, "counterfactuals": [ROWS + 1]},
            "got groups and counterfactual",
        ),
        ({"n_directions": 1}, {"groups": PAIRS[:5]}, r"one id per row of X, 6, got shape \(5,\)"),
        (
            {"n_directions": 1},
            {"groups": [1.0, 1.0, np.nan, 2.0, 2.0, 3.0]},
            "lacks the ids of 1 rows",
        ),
        (
            {"n_directions": 1},
            {"counterfactuals": [ROWS[:3]]},
            r"of shape \(6, 2\), got shape \(3, 2\)",
        ),
        ({"n_directions": 1}, {"counterfactuals": [INFINITE]}, "counterfactuals must be finite"),
    ],
)
def test_errors_name_what_is_wrong(
    options: dict[str, Any], sources: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        FACE(**options).fit(ROWS, **sources)


@pytest.mark.parametrize("n", [4, 40])  # both ways to the singular vectors
def test_groups_of_equal_rows_are_refused(n: int) -> None:
    X = np.full((n, 10), 0.1)
    with pytest.raises(ValueError, match="comparable samples of every group are equal"):
        FACE(1).fit(X, groups=np.arange(n) // 3)  # a third of 0.1 + 0.1 + 0.1 is not 0.1


def test_rows_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="infinity"):
        FACE(1).fit(INFINITE, groups=PAIRS)
