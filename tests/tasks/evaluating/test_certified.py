"""A certificate of outputs where a network reads adapted columns: reasons instead of values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from evenhand.fairlib.distances.learned import LearnedMetric
from evenhand.fairlib.methods.networks.sensei import SenSeIClassifier
from evenhand.tasks.evaluating.certified import certify_outputs
from tests.tasks.steps_of_rows import encoded


def test_a_network_on_adapted_columns_has_reasons() -> None:
    data = encoded(300)
    metric = LearnedMetric(sensitive={"sex": [0]}, feature_groups=data.groups)
    model = SenSeIClassifier(metric, hidden=(4,), n_steps=50, random_state=0)
    model.fit(data.X, data.y, sensitive_features=data.sensitive)
    stages: Any = SimpleNamespace(next=lambda: None)
    settings = {"seed": 0, "draws": 0}
    certified = certify_outputs(
        model,
        data.X[:20],
        data.y[:20],
        model.metric_,
        [0.01],
        parts=4,
        settings=settings,
        stages=stages,
    )
    assert certified.found is None
    metrics = certified.metrics()
    assert "adapted columns" in metrics["certificate.dif"].reason
    assert metrics["certificate.dif.proved"].status == "insufficient_evidence"
    assert "adapted columns" in certified.content()["proof"]["reasons"]["certificate.flips"]
