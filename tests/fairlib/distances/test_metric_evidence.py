"""Evidence of a learned metric: what leaks, what is removed, and nothing is predicted twice."""

from __future__ import annotations

from collections import Counter

import numpy as np

from evenhand.fairlib.distances import metric_evidence
from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.distances.metric_evidence import Choice, Evidence


def test_learning_a_metric_measures_each_leak_once(monkeypatch):
    rng = np.random.default_rng(0)
    sex = np.repeat([0, 1], 150)
    merit = rng.normal(size=300)
    proxy = 2 * sex + rng.normal(size=300)
    X = np.column_stack([sex, merit + 0.8 * sex, proxy, rng.normal(size=300)])
    y = (merit + 0.5 * rng.normal(size=300) > 0).astype(int)
    measured = Counter()
    measure = metric_evidence.attribute_leak

    def counted(rows, groups, **settings):
        measured[np.asarray(rows).tobytes(), np.asarray(groups).tobytes()] += 1
        return measure(rows, groups, **settings)

    monkeypatch.setattr(metric_evidence, "attribute_leak", counted)
    metric = LearnedMetric(sensitive={"sex": [0]}).fit(X, y, sensitive_features={"sex": sex})
    assert metric.removed_ == [2]
    assert set(measured.values()) == {1}


def people_with_a_hidden_sign():
    """A legitimate column that differs, and two whose product alone shows the sex."""
    # with other seeds chance differences of the two are adapted, and one of them goes earlier
    rng = np.random.default_rng(3)
    sex = np.repeat([0, 1], 300)
    training = 6 * sex + rng.normal(size=600)
    merit = rng.normal(size=600)
    left = rng.normal(size=600)
    right = np.where(sex == 1, 1, -1) * np.sign(left) * np.abs(rng.normal(size=600))
    X = np.column_stack([sex, training, merit, left, right])
    y = (merit + 0.5 * rng.normal(size=600) > 0).astype(int)
    return X, y, sex


def test_a_leak_is_counted_beyond_the_legitimate_columns():
    X, y, sex = people_with_a_hidden_sign()
    everybody = np.arange(len(X))
    evidence = Evidence(X, y, [sex], [2], everybody % 2 == 0)
    choice = Choice(evidence, [[2], [3], [4]], [1], [1, 2, 3, 4], seed=0, min_cell=10)
    # of any number of columns, also fewer than those that stay
    for columns in ([1, 2, 3], [1, 2]):
        assert choice.leaks(X, columns, everybody)[0].auc < 0.6
        assert choice.leaks(X, columns, everybody, beyond_legitimate=False)[0].auc > 0.9


def test_a_telling_column_goes_beside_a_legitimate_one():
    X, y, sex = people_with_a_hidden_sign()
    metric = LearnedMetric(sensitive={"sex": [0]}, legitimate=[1])
    metric.fit(X, y, sensitive_features={"sex": sex})
    assert set(metric.removed_) & {3, 4}
    assert not metric.report_.after["sex"].above_chance
