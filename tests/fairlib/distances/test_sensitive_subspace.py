from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.linear_model import RidgeCV

from evenhand.fairlib.distances import LearnedDirection, SensitiveSubspace
from evenhand.fairlib.distances.sensitive_subspace import predicts_attribute


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    sex = np.where(X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=300) > 0, "F", "M")
    age = X[:, 2] * 3 + X[:, 3] + rng.normal(size=300)
    region = np.array(["n", "s", "w"])[np.argmax(X[:, 3:6] + rng.normal(size=(300, 3)), axis=1)]
    return X, {"sex": sex, "age": age, "region": region}


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def test_indicator_distances_by_hand() -> None:
    metric = SensitiveSubspace(indicators=[1]).fit(np.zeros((2, 3)) + [[0], [1]])
    a, b = np.array([[1.0, 5.0, 2.0]]), np.array([[4.0, -7.0, 6.0]])
    np.testing.assert_allclose(
        metric.distance(a, b), [5.0], rtol=1e-15
    )  # 3-4-5: column 1 does not count
    np.testing.assert_allclose(metric.pairwise(a, b), [[5.0]], rtol=1e-14)
    np.testing.assert_allclose(metric.pairwise(a, b, squared=True), [[25.0]], rtol=1e-14)
    np.testing.assert_allclose(metric.project(a), [[1.0, 0.0, 2.0]], atol=1e-15)


def test_learned_normal_of_a_symmetric_plane_by_hand() -> None:
    # the attribute is the sign of x + y on a square symmetric about the diagonal: the normal is (1,
    # 1)
    X = np.array([[2.0, 1.0], [1.0, 2.0], [-2.0, -1.0], [-1.0, -2.0]])
    metric = SensitiveSubspace().fit(X, sensitive_features={"g": np.array([1, 1, 0, 0])})
    np.testing.assert_allclose(metric.basis_ @ metric.basis_.T, np.full((2, 2), 0.5), atol=1e-6)
    # (3, 0) - (0, 1) = (3, -1): along (1, -1) / sqrt 2 it is 4 / sqrt 2
    np.testing.assert_allclose(metric.distance([3.0, 0.0], [0.0, 1.0]), [4 / np.sqrt(2)], rtol=1e-6)


def test_projection_is_symmetric_idempotent_and_of_its_rank(
    data: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, groups = data
    metric = SensitiveSubspace(indicators=[0, 5], max_rank=6).fit(X, sensitive_features=groups)
    P = metric.basis_ @ metric.basis_.T
    np.testing.assert_allclose(P @ P, P, atol=1e-14)
    np.testing.assert_array_equal(P, P.T)
    # sex 1, age 1, region 3 (one against the rest), two indicators, in 6 dimensions
    assert round(np.trace(P)) == metric.basis_.shape[1] == 6
    np.testing.assert_allclose(metric.project(X), X @ (np.eye(6) - P), atol=1e-13)


def test_differences_inside_the_subspace_do_not_count(
    data: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, groups = data
    metric = SensitiveSubspace(indicators=[0], learned=[LearnedDirection("sex", (0,))]).fit(
        X, sensitive_features=groups
    )
    rng = np.random.default_rng(1)
    inside = rng.normal(size=(300, 2)) @ metric.basis_.T * 10
    np.testing.assert_allclose(metric.distance(X, X + inside), 0.0, atol=1e-13)
    np.testing.assert_allclose(metric.project(X + inside), metric.project(X), atol=1e-13)
    flipped = X.copy()
    flipped[:, 0] += 1.0
    np.testing.assert_array_equal(np.diag(metric.pairwise(X, flipped)), 0.0)
    assert metric.distance(X, X + np.eye(6)[5]).min() > 0.5


def test_logistic_direction_minimises_the_documented_objective(
    data: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, groups = data
    strength = 0.1
    metric = SensitiveSubspace(learned=[LearnedDirection("sex", (2,))], strength=strength).fit(
        X, sensitive_features=groups
    )
    kept = np.delete(X, 2, axis=1)
    sign = np.where(groups["sex"] == "M", 1.0, -1.0)

    def objective(w: np.ndarray) -> float:
        margins = sign * (kept @ w[:-1] + w[-1])
        return float(np.logaddexp(0.0, -margins).sum() + strength / 2 * w[:-1] @ w[:-1])

    best = minimize(objective, np.zeros(6), method="BFGS", options={"gtol": 1e-5}).x[:-1]
    expected = unit(np.insert(best, 2, 0.0))
    assert metric.basis_.shape == (6, 1)
    assert metric.basis_[2, 0] == pytest.approx(0.0, abs=1e-15)
    assert abs(expected @ metric.basis_[:, 0]) == pytest.approx(1.0, abs=1e-5)


def test_the_penalty_reaches_the_model(data: tuple[np.ndarray, dict[str, np.ndarray]]) -> None:
    X, groups = data
    sex = {"sex": groups["sex"]}
    weak, strong = (
        SensitiveSubspace(strength=s).fit(X, sensitive_features=sex).basis_[:, 0]
        for s in (0.1, 1e6)
    )
    # as the penalty grows, the normal turns to the gradient at 0
    gradient = unit(X.T @ ((groups["sex"] == "M") - (groups["sex"] == "M").mean()))
    assert abs(strong @ gradient) == pytest.approx(1.0, abs=1e-3)
    assert abs(weak @ gradient) < 0.9999


def test_numeric_attribute_gives_the_ridge_coefficients(
    data: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, groups = data
    metric = SensitiveSubspace(learned=[LearnedDirection("age", (1,))]).fit(
        X, sensitive_features=groups
    )
    ridge = RidgeCV().fit(np.delete(X, 1, axis=1), groups["age"])
    expected = unit(np.insert(ridge.coef_, 1, 0.0))
    assert abs(expected @ metric.basis_[:, 0]) == pytest.approx(1.0, abs=1e-12)


def test_each_category_adds_a_direction(data: tuple[np.ndarray, dict[str, np.ndarray]]) -> None:
    X, groups = data
    region = groups["region"]
    metric = SensitiveSubspace().fit(X, sensitive_features={"region": region})
    assert metric.basis_.shape == (6, 3)
    for category in "nsw":
        one = (
            SensitiveSubspace()
            .fit(X, sensitive_features={"region": region == category})
            .basis_[:, 0]
        )
        np.testing.assert_allclose(metric.basis_ @ (metric.basis_.T @ one), one, atol=1e-10)


def test_integers_are_categories_and_two_numbers_are_a_group(
    data: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, groups = data
    sex = groups["sex"] == "M"
    as_text, as_float = (
        SensitiveSubspace().fit(X, sensitive_features={"g": values}).basis_
        for values in (groups["sex"], sex.astype(float))
    )
    np.testing.assert_allclose(np.abs(as_text.T @ as_float), [[1.0]], atol=1e-12)
    codes = np.digitize(groups["age"], [-2.0, 2.0])
    assert SensitiveSubspace().fit(X, sensitive_features={"g": codes}).basis_.shape[1] == 3


@pytest.mark.parametrize(("leftover", "rank"), [(0.0, 1), (1e-17, 1), (1e-6, 2)])
def test_a_normal_along_an_indicator_adds_no_direction(
    leftover: float, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    normal = np.array([3.0, 3.0 * leftover, 0.0])
    monkeypatch.setattr(SensitiveSubspace, "_normals", lambda *_: [normal])
    metric = SensitiveSubspace(indicators=[0]).fit(
        np.eye(3), sensitive_features={"g": np.arange(3.0)}
    )
    assert metric.basis_.shape == (3, rank)
    np.testing.assert_array_equal(metric.project(np.eye(3))[:, 0], 0.0)
    np.testing.assert_array_equal(metric.project(np.eye(3))[2], [0.0, 0.0, 1.0])


def test_no_direction_is_the_euclidean_metric() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    metric = SensitiveSubspace().fit(X)
    assert metric.basis_.shape == (3, 0)
    np.testing.assert_allclose(metric.pairwise(X), cdist(X, X), atol=1e-7)
    np.testing.assert_array_equal(metric.project(X), X)


def test_every_direction_leaves_no_distance() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    metric = SensitiveSubspace(indicators=[0, 1, 2, 1]).fit(X)
    assert metric.basis_.shape == (3, 3)
    np.testing.assert_allclose(metric.distance(X[:10], X[10:]), 0.0, atol=1e-14)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_metric_axioms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 6))
    X = rng.normal(size=(8, d)) * rng.choice([1e-3, 1.0, 1e3])
    metric = SensitiveSubspace(
        indicators=rng.choice(d, size=int(rng.integers(0, d)), replace=False).tolist()
    )
    D = metric.fit(X).pairwise(X)
    scale = np.abs(X).max()
    assert (D >= 0).all()
    np.testing.assert_array_equal(np.diag(D), 0.0)
    np.testing.assert_allclose(D, D.T, atol=1e-7 * scale)
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :] + 1e-6 * scale).all()
    np.testing.assert_allclose(D, metric.pairwise(X, X), atol=1e-7 * scale)
    i, j = np.triu_indices(8)
    np.testing.assert_allclose(metric.distance(X[i], X[j]), D[i, j], atol=1e-6 * scale)
    assert (metric.distance(X[i], X[j]) <= np.linalg.norm(X[i] - X[j], axis=1) + 1e-9 * scale).all()


@pytest.mark.parametrize("indicators", [[], [0], [0, 4], [5, 2, 1]])
def test_saved_metric_measures_alike_and_holds_nothing_else(
    tmp_path: Path, data: tuple[np.ndarray, dict[str, np.ndarray]], indicators: list[int]
) -> None:
    # several indicators and one normal once made a column-major basis, written in the wrong order
    X, groups = data
    metric = SensitiveSubspace(indicators=indicators, learned=[LearnedDirection("sex", (0,))]).fit(
        X, sensitive_features=groups
    )
    metric.save(tmp_path / "metric")
    loaded = SensitiveSubspace.load(tmp_path / "metric")
    np.testing.assert_array_equal(loaded.basis_, metric.basis_)
    np.testing.assert_array_equal(loaded.pairwise(X), metric.pairwise(X))
    assert loaded.n_features_in_ == 6
    assert sorted(path.name for path in (tmp_path / "metric").iterdir()) == [
        "metric.json",
        "metric.safetensors",
    ]
    # a basis and four vectors of bounds, none longer than the width, under a header
    assert (tmp_path / "metric" / "metric.safetensors").stat().st_size < (6 + 4) * 6 * 8 + 400


def test_an_empty_basis_survives_saving(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(5, 3))
    SensitiveSubspace().fit(X).save(tmp_path)
    np.testing.assert_array_equal(SensitiveSubspace.load(tmp_path).project(X), X)


def test_load_refuses_another_kind(tmp_path: Path) -> None:
    (tmp_path / "metric.json").write_text(json.dumps({"format": 1, "kind": "other"}))
    with pytest.raises(ValueError, match="no sensitive subspace"):
        SensitiveSubspace.load(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "groups", "message"),
    [
        ({"indicators": [6]}, {}, "columns of X, 0 to 5"),
        ({"indicators": [-1]}, {}, "names, or positions, which count from 0"),
        ({"learned": [LearnedDirection("sex", (9,))]}, None, "columns of X, 0 to 5"),
        (
            {"learned": [LearnedDirection("height")]},
            None,
            "'height', which sensitive_features lacks",
        ),
        ({"learned": [LearnedDirection("sex", tuple(range(6)))]}, None, "no column is left"),
        ({"strength": 0.0}, {}, "strength must be positive"),
        ({"strength": float("nan")}, {}, "strength must be positive"),
        ({}, {"g": np.zeros(300)}, "'g' is constant"),
        ({}, {"g": np.arange(10.0)}, "one value per row"),
    ],
)
def test_errors_name_the_argument(
    arguments: dict[str, object],
    groups: dict[str, np.ndarray] | None,
    message: str,
    data: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, attributes = data
    with pytest.raises(ValueError, match=message):
        SensitiveSubspace(**arguments).fit(
            X, sensitive_features=attributes if groups is None else groups
        )


def test_other_shapes_are_refused(data: tuple[np.ndarray, dict[str, np.ndarray]]) -> None:
    metric = SensitiveSubspace(indicators=[0]).fit(data[0])
    with pytest.raises(ValueError, match="X has 5 features, but this metric was fitted on 6"):
        metric.project(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="one shape"):
        metric.distance(np.zeros((2, 6)), np.zeros((3, 6)))


def test_the_largest_rank_keeps_the_strongest_directions() -> None:
    """Predictions differ most along these."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(4000, 3))
    groups = {
        "strong": (X[:, 0] + 0.5 * rng.normal(size=4000) > 0).astype(str),
        "weak": (X[:, 1] + 3.0 * rng.normal(size=4000) > 0).astype(str),
        "noise": (rng.random(4000) < 0.5).astype(str),
    }
    every = SensitiveSubspace(max_rank=3).fit(X, sensitive_features=groups)
    assert every.basis_.shape == (3, 3)
    two = SensitiveSubspace(max_rank=2).fit(X, sensitive_features=groups)
    # what is left is near the third axis
    assert np.linalg.norm(two.project([[0.0, 0.0, 1.0]])) > 0.98
    one = SensitiveSubspace(max_rank=1).fit(X, sensitive_features=groups)
    assert np.linalg.norm(one.project([[1.0, 0.0, 0.0]])) < 0.1
    np.testing.assert_allclose(np.linalg.norm(one.basis_, axis=0), [1.0])


def test_indicators_count_to_the_largest_rank(
    data: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, groups = data
    metric = SensitiveSubspace(indicators=[0, 5], max_rank=3).fit(X, sensitive_features=groups)
    assert metric.basis_.shape == (6, 3)
    np.testing.assert_allclose(metric.basis_.T @ metric.basis_, np.eye(3), atol=1e-14)
    assert np.abs(metric.project(np.eye(6)[[0, 5]])).max() == 0.0
    enough = SensitiveSubspace(indicators=[0, 5], max_rank=6).fit(X, sensitive_features=groups)
    learned = [LearnedDirection(name) for name in groups]
    free = SensitiveSubspace(indicators=[0, 5], learned=learned).fit(X, sensitive_features=groups)
    np.testing.assert_array_equal(enough.basis_, free.basis_)
    with pytest.raises(ValueError, match="max_rank must be a whole number, at least 2"):
        SensitiveSubspace(indicators=[0, 5], max_rank=1).fit(X, sensitive_features=groups)


@pytest.mark.parametrize("seed", range(3))
def test_an_attribute_is_predicted_on_other_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 4))
    noise = rng.normal(size=600)
    assert predicts_attribute(X, (X[:, 0] + noise > 0).astype(str))
    assert predicts_attribute(X, X[:, 1] + 2.0 * noise)
    assert not predicts_attribute(X, (noise > 0).astype(str))
    assert not predicts_attribute(X, noise)
    # a wide table fits its training rows, which is not to tell
    assert not predicts_attribute(rng.normal(size=(600, 200)), (noise > 0).astype(str))
    assert not predicts_attribute(X, np.array(["a"] * 597 + ["b"] * 3))


def test_one_of_three_groups_suffices_to_be_told() -> None:
    rng = np.random.default_rng(1)
    region = rng.choice(["n", "s", "w"], 900)
    X = np.column_stack([(region == "w") + 0.7 * rng.normal(size=900), rng.normal(size=900)])
    assert predicts_attribute(X, region)
