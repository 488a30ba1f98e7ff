"""Evidence of a learned metric: nothing is predicted twice."""

from __future__ import annotations

from collections import Counter

import numpy as np

from evenhand.fairlib.distances import metric_evidence
from evenhand.fairlib.distances.learned import LearnedMetric


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
