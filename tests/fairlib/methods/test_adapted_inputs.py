"""BuDRO and projected trees on adapted columns: files, proofs, and rows that the metric cannot read.

One metric is learned for all tests, which takes a second or two.
"""

import numpy as np
import pytest

from evenhand.fairlib.certificates.networks import NotProvedError
from evenhand.fairlib.certificates.trees import TreeProver
from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.methods.adapted_inputs import adapts, mean_of_log_odds
from evenhand.fairlib.methods.budro import BudroClassifier
from evenhand.fairlib.methods.preprocessed_gbdt import ProjectedGBDTClassifier


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
