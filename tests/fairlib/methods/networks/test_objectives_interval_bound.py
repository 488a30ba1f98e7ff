"""The bound on output distances that SenSeI and SenSR can train with: by hand, against attacks, in
use.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from evenhand.fairlib.auditor.worst_case_search import logit_distance
from evenhand.fairlib.certificates.region import Region
from evenhand.fairlib.distances import Metric, SensitiveSubspace
from evenhand.fairlib.methods.networks import (
    NeuralNetworkClassifier,
    SenSeIClassifier,
    SenSRClassifier,
)
from evenhand.fairlib.methods.networks.network_training import build_network
from evenhand.fairlib.methods.networks.objectives import IntervalBound
from tests.fairlib.small_metrics import METRICS, table

Float = NDArray[np.float64]


def test_the_bound_of_a_linear_network_by_hand() -> None:
    """Rows in [0, 1]²; the second column is free."""
    metric = SensitiveSubspace(indicators=(1,)).fit(np.array([[0.0, 0.0], [1.0, 1.0]]))
    network = nn.Sequential(nn.Linear(2, 2))
    with torch.no_grad():
        network[0].weight[:] = torch.tensor([[2.0, 3.0], [-1.0, 0.0]])
        network[0].bias[:] = 0.5
    x = torch.tensor([[0.5, 0.0], [0.95, 1.0]])
    bound = IntervalBound(metric, 0.1)(network, x, network(x))
    # first person: logits rise by 2·0.1 + 3 and 0.1 at most; second: they fall by 2·0.1 + 3, and
    # rise by 0.1
    assert bound.tolist() == pytest.approx([(3.2**2 + 0.1**2) / 2, (3.2**2 + 0.1**2) / 2])
    # without the free column the range of the feature is nearer than the radius: up by 2·0.05
    with torch.no_grad():
        network[0].weight[:, 1] = 0.0
    bound = IntervalBound(metric, 2.0)(network, x[1:], network(x[1:]))
    assert bound.tolist() == pytest.approx([((2 * 0.95) ** 2 + 0.95**2) / 2])


@METRICS
@pytest.mark.parametrize("radius", [0.0, 0.2, 2.0])
def test_no_comparable_person_is_beyond_the_bound(
    metric: Callable[[], Metric], radius: float
) -> None:
    fitted, X, random = metric(), table(0, 20), np.random.default_rng(1)
    network = build_network(6, (8, 5), 3, torch.Generator().manual_seed(2)).double()
    x = torch.from_numpy(X)
    with torch.no_grad():
        logits = network(x)
        bound = IntervalBound(fitted, radius)(network, x, logits)
        region = Region.of(fitted, X, radius)
        delta = random.normal(size=(2000, 20, 6)) * random.choice(
            [0.1, 1.0, 10.0], size=(2000, 1, 1)
        )
        points = region.points(delta, 5.0 * random.normal(size=(2000, 20, fitted.basis_.shape[1])))
        found = logit_distance(logits, network(torch.from_numpy(points))).amax(0)
    assert (found <= bound).all()
    if radius:
        assert (found > 0.05 * bound).any()


@pytest.mark.long
def test_training_with_the_bound_lowers_what_is_proved() -> None:
    """A label that the free column tells: the plain network uses it."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 3)).astype(np.float32)
    X[:, 2] = random.integers(2, size=600)
    y = (X[:, 0] + 2.0 * X[:, 2] + 0.5 * random.normal(size=600) > 1.0).astype(int)
    metric = SensitiveSubspace(indicators=(2,)).fit(X)
    given = {
        "hidden": (16,),
        "n_steps": 300,
        "n_iter_no_change": None,
        "random_state": 0,
        "learning_rate": 0.01,
    }
    x = torch.from_numpy(X)

    def proved(model: NeuralNetworkClassifier) -> float:
        with torch.no_grad():
            return float(IntervalBound(metric, 0.1)(model.network_, x, model.network_(x)).mean())

    plain = NeuralNetworkClassifier(**given).fit(X, y)
    for method in (SenSeIClassifier, SenSRClassifier):
        model = method(metric=metric, perturbation_budget=0.01, bound_weight=1.0, **given).fit(X, y)
        assert proved(model) < 0.05 * proved(plain)
        assert model.history_["output_bound"][-1] < model.history_["output_bound"][0]
        assert (model.predict(X) == y).mean() > 0.67
    without = SenSeIClassifier(metric=metric, perturbation_budget=0.01, rho=0.0, **given).fit(X, y)
    assert proved(without) == proved(plain)


def test_a_network_of_other_layers_is_refused() -> None:
    X = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    network = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
    metric = SensitiveSubspace(indicators=(1,)).fit(X)
    model = SenSeIClassifier(metric=metric, network=network, bound_weight=1.0, n_steps=5)
    with pytest.raises(ValueError, match="bound_weight needs a network of linear layers with ReLU"):
        model.fit(X, (X[:, 0] > 0).astype(int))
