"""BuDRO, projected trees and SenSeI on adapted columns: files, proofs, and rows that the metric cannot read.

One metric is learned for all tests, which takes a second or two.
"""

import numpy as np
import pytest

from evenhand.fairlib.certificates.networks import NotProvedError
from evenhand.fairlib.certificates.proof import prove
from evenhand.fairlib.certificates.trees import TreeProver
from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.methods.adapted_inputs import adapts, mean_of_log_odds
from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.networks.sensei import SenSeIClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import (
    ProjectedGBDTClassifier,
    blurred,
    blurred_ranks,
)
from evenhand.fairlib.methods.tree_rows import TreeRows


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    sex = np.repeat([0.0, 1.0], 300)
    merit = rng.normal(size=600)
    dish = rng.random(600) < 0.2 + 0.6 * sex
    X = np.column_stack([sex, merit + 2 * sex, dish, rng.normal(size=600)])
    y = (merit + dish + rng.normal(size=600) > 0.5).astype(int)
    metric = LearnedMetric(sensitive={"sex": [0]})
    return X, y, sex, metric.fit(X, y, sensitive_features={"sex": sex})


def test_budro_on_adapted_columns_decides_alike_and_loads(people, tmp_path):
    X, y, _, metric = people
    model = BudroClassifier(metric, n_steps=20, max_depth=2, n_iter_no_change=None, random_state=0)
    model.fit(X, y)
    assert model.adapts_inputs
    copies = metric.counterfactuals(X)
    same = model.predict(copies[0]) == model.predict(copies[1])
    assert same.mean() > 0.9
    model.save(tmp_path)
    loaded = BudroClassifier.load(tmp_path)
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()
    with pytest.raises(NotProvedError, match="adapted columns"):
        TreeProver(model, metric)


def test_without_readable_groups_the_metric_is_linear(people):
    X, y, sex, _ = people
    metric = LearnedMetric().fit(X[:, 1:], y, sensitive_features={"sex": sex})
    assert not adapts(metric)
    model = ProjectedGBDTClassifier(metric, n_steps=5, n_iter_no_change=None).fit(X[:, 1:], y)
    assert not model.adapts_inputs
    assert not adapts(None)


def test_reasons_of_several_draws_add_up_to_the_log_odds(people):
    X, y, _, metric = people
    assert metric.n_draws > 1
    model = ProjectedGBDTClassifier(metric, n_steps=20, n_iter_no_change=None, random_state=0)
    probabilities = model.fit(X, y).predict_proba(X)
    log_odds = np.log(probabilities[:, 1] / probabilities[:, 0])
    np.testing.assert_allclose(model.log_odds_by_column(X).sum(axis=1), log_odds, atol=1e-4)


def test_the_mean_is_one_of_log_odds():
    first = np.array([[0.5, 0.5]])
    second = np.array([[1 / 17, 16 / 17]])
    np.testing.assert_allclose(mean_of_log_odds([first, second]), [[0.2, 0.8]])
    assert mean_of_log_odds([first]) is first


def test_blur_trains_on_errors_of_adapted_numbers(people):
    X, y, _, metric = people
    settings = {"n_steps": 30, "n_iter_no_change": None, "random_state": 0}
    probabilities = {}
    for blur in (None, 0.0, 5.0):
        model = ProjectedGBDTClassifier(metric, blur=blur, **settings).fit(X, y)
        probabilities[blur] = model.predict_proba(X)[:, 1]
    # with errors of five standard deviations the merit hardly counts
    assert probabilities[5.0].std() < 0.7 * probabilities[0.0].std()
    assert (probabilities[None] != probabilities[0.0]).any()
    linear = LearnedMetric().fit(X[:, 1:], y, sensitive_features={"sex": X[:, 0]})
    with pytest.raises(ValueError, match="blur is 0.5"):
        ProjectedGBDTClassifier(linear, blur=0.5, **settings).fit(X[:, 1:], y)
    with pytest.raises(ValueError, match="blur"):
        ProjectedGBDTClassifier(metric, blur=-1.0, **settings).fit(X, y)


def test_blurred_rows_keep_labels_and_total_weight():
    data = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    rows = TreeRows(data, np.array([0, 1]), np.array([1.0, 3.0]), None, 0)
    twelve = blurred(rows, np.array([0.0, 0.5]), np.random.default_rng(0))
    assert twelve.codes.tolist() == [0, 1] * 12
    assert twelve.weights == pytest.approx(np.tile([1 / 12, 3 / 12], 12))
    assert (twelve.data[:, 0] == np.tile([1.0, 3.0], 12)).all()
    assert ((twelve.data[:, 1] >= 2.0) & (twelve.data[:, 1] <= 4.0)).all()


def test_blurred_ranks_keep_a_skewed_distribution():
    values = np.exp(2 * np.random.default_rng(1).normal(size=400)).astype(np.float32)
    copies = blurred_ranks(values, 0.3, 4, np.random.default_rng(0))
    assert copies.shape == (1600,)
    assert values.min() <= copies.min() < copies.max() <= values.max()
    assert np.median(copies) == pytest.approx(np.median(values), rel=0.2)
    # of normal scores: the logarithms move by .3 of their deviation, 2
    moved = np.log(copies) - np.log(np.tile(values, 4))
    assert moved.std() == pytest.approx(0.6, rel=0.1)
    assert blurred_ranks(values, 0.0, 4, np.random.default_rng(0)) == pytest.approx(
        np.tile(values, 4)
    )
    # whole numbers with many people stay whole but at the limits between them
    whole = np.repeat([0.0, 1.0, 5.0], 200).astype(np.float32)
    mapped = blurred_ranks(whole, 0.3, 4, np.random.default_rng(0))
    assert np.isin(mapped, whole).mean() > 0.98


def test_sensei_on_adapted_columns_decides_alike_and_loads(people, tmp_path):
    X, y, _, metric = people
    model = SenSeIClassifier(metric, hidden=(16,), n_steps=300, random_state=0).fit(X, y)
    assert model.adapts_inputs
    assert len(model.network_inputs(X)) == metric.n_draws > 1
    copies = metric.counterfactuals(X)
    assert (model.predict(copies[0]) == model.predict(copies[1])).mean() > 0.9
    model.save(tmp_path)
    loaded = SenSeIClassifier.load(tmp_path, hidden=(16,))
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()
    proof = prove(model, X[:5], metric, budget=0.01)
    assert "adapted columns" in proof.reasons["certificate.dif"]


def test_sensei_pairs_adapted_copies(people):
    X, y, _, metric = people
    settings = {"hidden": (8,), "n_steps": 50, "random_state": 0}
    copies = metric.counterfactuals(X)
    model = SenSeIClassifier(metric, pair_weight=1.0, **settings)
    model.fit(X, y, counterfactuals=copies)
    # their adapted columns differ only by the draws of a category
    assert 0 <= model.history_["paired_distance"][-1] < 0.5


def test_a_metric_without_readable_groups_leaves_sensei_linear(people):
    X, y, sex, _ = people
    metric = LearnedMetric().fit(X[:, 1:], y, sensitive_features={"sex": sex})
    model = SenSeIClassifier(metric, hidden=(8,), n_steps=50, random_state=0).fit(X[:, 1:], y)
    assert not model.adapts_inputs
    assert (model.network_inputs(X[:, 1:])[0] == X[:, 1:].astype(np.float32)).all()
