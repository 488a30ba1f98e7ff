"""The comparators: predicted groups as proxy groups, kept by the program or in equal numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from evenhand.fairlib.proxies.predicted import PredictedGroupProxy, regression_graph, tree_graph
from evenhand.fairlib.proxies.sampling import nearest_mixture
from tests.oracles.remixed_proxy import remixed

NAMES = np.array(["a", "b", "c", "d", "e"])


def people(seed: int, groups: int = 3, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Rows on a coarse grid, so that many lie on a tree's thresholds, and a group that depends on
    them.
    """
    rng = np.random.default_rng(seed)
    X = (np.round(rng.normal(size=(n, 4)) * 4) / 4).astype(np.float32)
    scores = (
        2 * X @ rng.normal(size=(4, groups))
        - np.linspace(0, 2, groups)
        + rng.gumbel(size=(n, groups))
    )
    group = scores.argmax(axis=1)
    group[:groups] = np.arange(groups)
    return X, group


def fit(X: np.ndarray, group: np.ndarray, **arguments: Any) -> PredictedGroupProxy:
    return PredictedGroupProxy(**arguments).fit(X, sensitive_features={"group": NAMES[group]})


def labels_of(shares: np.ndarray) -> np.ndarray:
    assert set(np.unique(shares)) <= {0.0, 1.0}
    np.testing.assert_array_equal(shares.sum(axis=1), 1)
    return shares.argmax(axis=1)


@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("depth", [1, 3, None])
def test_the_graph_of_a_tree_predicts_what_the_tree_predicts(
    groups: int, depth: int | None
) -> None:
    for seed in range(4):
        X, group = people(seed, groups)
        tree = DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(X, group)
        graph = tree_graph(tree)
        splits = tree.tree_.threshold[tree.tree_.feature >= 0]
        fresh = np.random.default_rng(seed).choice(
            np.concatenate([splits, X.ravel()]), size=(500, 4)
        )
        for rows in (X, fresh.astype(np.float32)):
            np.testing.assert_array_equal(labels_of(graph.shares(rows)), tree.predict(rows))


def test_a_tree_without_a_split_is_one_proxy_group() -> None:
    X, group = np.ones((30, 2)), (np.arange(30) % 3 > 0).astype(int)
    assert len(np.unique(tree_graph(DecisionTreeClassifier().fit(X, group)).shares(X), axis=0)) == 1
    for sampling in ("program", "equal"):
        proxy = fit(X, group, sampling=sampling)
        np.testing.assert_array_equal(proxy.acceptance(X), 1.0)
        np.testing.assert_allclose(proxy.shares_, [1 / 3, 2 / 3])


@pytest.mark.parametrize("sampling", ["program", "equal"])
def test_all_are_kept_where_all_are_in_the_wanted_group(sampling: str) -> None:
    """The groups are predicted."""
    X, group = np.ones((30, 2)), (np.arange(30) % 3 > 0).astype(int)
    proxy = fit(X, group, sampling=sampling, target={"group": {"a": 0.0, "b": 1.0}})
    np.testing.assert_array_equal(proxy.acceptance(X), 1.0)


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_the_graph_of_a_regression_predicts_as_it_does(groups: int) -> None:
    for seed in range(4):
        X, group = people(seed, groups)
        model = LogisticRegression(max_iter=500).fit(X.astype(np.float64), group)
        rows = np.random.default_rng(seed).normal(size=(2000, 4)).astype(np.float32)
        found = labels_of(regression_graph(model).shares(rows))
        np.testing.assert_array_equal(found, model.predict(rows.astype(np.float64)))
        assert len(np.unique(found)) == groups


def test_of_equal_scores_the_first_class_is_predicted() -> None:
    model = LogisticRegression()
    model.classes_ = np.arange(3)
    model.coef_ = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    model.intercept_ = np.zeros(3)
    rows = np.array(
        [[1.0, 1.0], [2.0, 1.0], [1.0, 2.0], [-1.0, -1.0], [0.0, 0.0]], dtype=np.float32
    )
    np.testing.assert_array_equal(
        labels_of(regression_graph(model).shares(rows)), model.predict(rows)
    )


@pytest.mark.parametrize("model", ["tree", "regression"])
def test_as_many_of_each_predicted_group_are_kept(model: str) -> None:
    for seed in range(5):
        X, group = people(seed, groups=2 + seed % 4)
        proxy = fit(X, group, model=model, sampling="equal", max_depth=3)
        kept = proxy.shares(X).T @ proxy.acceptance(X)
        predicted = proxy.masses_ > 0
        # all of the smallest predicted group, and as many of every other
        assert kept[predicted] == pytest.approx(proxy.masses_[predicted].min() * len(X))
        np.testing.assert_array_equal(kept[~predicted], 0)


def test_predicted_groups_are_kept_in_the_targets_proportion() -> None:
    X, group = people(0)
    proxy = fit(
        X, group, sampling="equal", max_depth=4, target={"group": {"a": 0.2, "b": 0.3, "c": 0.5}}
    )
    kept = proxy.shares(X).T @ proxy.acceptance(X)
    np.testing.assert_allclose(kept / kept.sum(), [0.2, 0.3, 0.5])
    # of two predicted ones among three, the target's shares of these two
    few = fit(
        X, group, sampling="equal", max_depth=1, target={"group": {"a": 0.2, "b": 0.3, "c": 0.5}}
    )
    kept = few.shares(X).T @ few.acceptance(X)
    predicted = few.masses_ > 0
    assert predicted.sum() == 2
    wanted = np.array([0.2, 0.3, 0.5])[: len(predicted)][predicted]
    np.testing.assert_allclose(kept[predicted] / kept.sum(), wanted / wanted.sum())


@pytest.mark.parametrize("model", ["tree", "regression"])
def test_the_program_brings_the_shares_nearest_to_the_target(model: str) -> None:
    for seed in range(5):
        X, group = people(seed)
        program = fit(X, group, model=model, max_depth=4)
        naive = fit(X, group, model=model, max_depth=4, sampling="equal")
        seen = program.masses_ > 0
        q = nearest_mixture(program.compositions_[seen], np.full(3, 1 / 3))
        np.testing.assert_allclose(program.shares_, q @ program.compositions_[seen], atol=1e-5)
        imbalance = [np.linalg.norm(proxy.shares_ - 1 / 3) for proxy in (program, naive)]
        assert imbalance[0] <= imbalance[1] + 1e-6


def by_hand(mixing: float, sampling: str = "equal") -> PredictedGroupProxy:
    """80 and 20 rows with two values: 72 of 80 and 5 of 20 are in the first group."""
    X = np.repeat([0.0, 1.0], [80, 20])[:, None]
    group = np.concatenate([np.arange(80) >= 72, np.arange(20) >= 5]).astype(int)
    return fit(X, group, mixing=mixing, sampling=sampling)


def test_mixed_labels_by_hand() -> None:
    # equal numbers keep a quarter of label 0 and all of label 1; with .5 a label is one of these by
    # chance
    proxy = by_hand(0.5)
    np.testing.assert_allclose(proxy.plan_.acceptance, [0.25, 1])
    drawn = (0.25 + 1) / 2
    accepted = [0.5 * 0.25 + 0.5 * drawn, 0.5 * 1 + 0.5 * drawn]
    np.testing.assert_allclose(proxy.acceptance([[0.0], [1.0]]), accepted)
    kept = 80 * accepted[0] + 20 * accepted[1]
    minority = 8 * accepted[0] + 15 * accepted[1]
    np.testing.assert_allclose(proxy.shares_, [1 - minority / kept, minority / kept])
    # label 0 is shown on 40 + 25 rows and label 1 on 10 + 25
    rows, tallies = proxy.relabelled(np.array([80.0, 20.0]), np.array([[72.0, 8.0], [5.0, 15.0]]))
    np.testing.assert_allclose(rows, [65, 35])
    np.testing.assert_allclose(tallies, [[36 + 19.25, 4 + 5.75], [2.5 + 19.25, 7.5 + 5.75]])
    # many tables at once
    many = proxy.relabelled(np.array([[80.0, 20.0], [8.0, 2.0]]), np.zeros((2, 2, 2)))[0]
    np.testing.assert_allclose(many, np.array([[65, 35], [6.5, 3.5]]))


@pytest.mark.parametrize("sampling", ["equal", "program"])
def test_random_labels_tell_nothing_and_keep_everyone_alike(sampling: str) -> None:
    for proxy in (
        by_hand(1.0, sampling),
        fit(*people(3), mixing=1.0, sampling=sampling, max_depth=4),
    ):
        base = proxy.base_rates_
        rows, tallies = proxy.relabelled(
            proxy.masses_, proxy.masses_[:, None] * proxy.compositions_
        )
        seen = proxy.masses_ > 0
        np.testing.assert_allclose(rows[seen], 1 / seen.sum())
        np.testing.assert_allclose(tallies[seen] / rows[seen, None], np.tile(base, (seen.sum(), 1)))
        np.testing.assert_allclose(proxy.acceptance_[seen], proxy.plan_.acceptance.mean())
        np.testing.assert_allclose(proxy.shares_, proxy.base_rates_)


def test_more_mixing_tells_less_and_balances_less() -> None:
    X, group = people(7)
    told, imbalances = [], []
    for mixing in (0.0, 0.3, 0.6, 1.0):
        proxy = fit(X, group, mixing=mixing, max_depth=4)
        rows, tallies = proxy.relabelled(
            proxy.masses_, proxy.masses_[:, None] * proxy.compositions_
        )
        seen = proxy.masses_ > 0
        told.append(float(np.abs(tallies[seen] / rows[seen, None] - proxy.base_rates_).max()))
        imbalances.append(float(np.linalg.norm(proxy.shares_ - 1 / 3)))
    assert told == sorted(told, reverse=True)
    assert told[-1] == pytest.approx(0, abs=1e-12)
    assert imbalances == pytest.approx(sorted(imbalances), abs=1e-5)
    assert imbalances[-1] > imbalances[0] + 0.05


@pytest.mark.parametrize("sampling", ["equal", "program"])
def test_mixing_is_what_redrawing_labels_does(sampling: str) -> None:
    X, group = people(1)
    proxy = fit(X, group, mixing=0.4, sampling=sampling, max_depth=2)
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(X), 200_000)
    labels = proxy.shares(X).argmax(axis=1)[drawn]
    names = np.flatnonzero(proxy.masses_ > 0)
    shown = np.where(rng.random(len(drawn)) < 0.4, rng.choice(names, len(drawn)), labels)
    of_label = np.zeros(len(proxy.masses_))
    of_label[names] = proxy.plan_.acceptance
    kept = rng.random(len(drawn)) < of_label[shown]
    np.testing.assert_allclose(
        np.bincount(group[drawn][kept]) / kept.sum(), proxy.shares_, atol=0.01
    )
    assert kept.mean() == pytest.approx(proxy.acceptance(X).mean(), abs=0.006)
    for label in names:
        assert kept[labels == label].mean() == pytest.approx(proxy.acceptance_[label], abs=0.02)
    rows, tallies = proxy.relabelled(proxy.masses_, proxy.masses_[:, None] * proxy.compositions_)
    counts = np.zeros((len(proxy.masses_), 3))
    np.add.at(counts, (shown, group[drawn]), 1 / len(drawn))
    np.testing.assert_allclose(counts, tallies, atol=0.006)
    np.testing.assert_allclose(counts.sum(axis=1), rows, atol=0.006)


def test_an_unseen_predicted_group_is_kept_by_chance_labels_only() -> None:
    # two groups are rare and never predicted
    rng = np.random.default_rng(0)
    group = rng.choice(4, 500, p=[0.48, 0.48, 0.02, 0.02])
    X = (group % 2)[:, None] + 0.2 * rng.normal(size=(500, 1))
    for mixing in (0.0, 0.3):
        proxy = fit(X, group, model="regression", mixing=mixing)
        unseen = proxy.masses_ == 0
        assert unseen.any()
        chance = mixing * proxy.plan_.acceptance.mean()
        np.testing.assert_allclose(proxy.acceptance_[unseen], chance)
        np.testing.assert_array_equal(
            proxy.compositions_[unseen], np.tile(proxy.base_rates_, (unseen.sum(), 1))
        )
        # no label is redrawn as one of these
        rows, _ = proxy.relabelled(proxy.masses_, proxy.masses_[:, None] * proxy.compositions_)
        np.testing.assert_array_equal(rows[unseen], 0)
        assert rows.sum() == pytest.approx(1)


def test_a_model_that_predicts_nobody_who_is_wanted_is_refused() -> None:
    # the last group is rare: a split in two predicts the others
    rng = np.random.default_rng(0)
    group = rng.choice(3, 500, p=[0.49, 0.49, 0.02])
    X = (group % 2)[:, None] + 0.2 * rng.normal(size=(500, 1))
    with pytest.raises(ValueError, match="target share is 0"):
        fit(
            X,
            group,
            max_depth=1,
            sampling="equal",
            target={"group": {"a": 0.0, "b": 0.0, "c": 1.0}},
        )


def test_wrong_arguments_are_named() -> None:
    X, group = people(0)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"model": "forest"}, "model must be one of tree, regression, got 'forest'"),
        ({"sampling": "all"}, "sampling must be one of program, equal"),
        ({"mixing": 1.2}, r"mixing must be in \[0, 1\]"),
        ({"max_depth": 0}, "max_depth must be a whole number"),
        ({"min_samples_leaf": 0}, "min_samples_leaf must be a whole number"),
        ({"target": {"group": {"a": 1.0}}}, "all 3 groups"),
    ]
    for arguments, said in wrong:
        with pytest.raises(ValueError, match=said):
            fit(X, group, **arguments)
    two = {"group": NAMES[group], "sex": NAMES[group % 2]}
    with pytest.raises(ValueError, match="one attribute, got group, sex"):
        PredictedGroupProxy().fit(X, sensitive_features=two)


def test_another_mixing_needs_no_other_fit() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    group = np.where(X[:, 0] + rng.normal(size=300) > 1, "a", "b")
    proxy = PredictedGroupProxy(mixing=0.0).fit(X, sensitive_features={"g": group})
    fitted = PredictedGroupProxy(mixing=0.3).fit(X, sensitive_features={"g": group})
    np.testing.assert_array_equal(remixed(proxy, 0.3).acceptance(X), fitted.acceptance(X))
    assert proxy.mixing == 0.0
    with pytest.raises(ValueError, match=r"mixing must be in \[0, 1\]"):
        remixed(proxy, 1.5)
