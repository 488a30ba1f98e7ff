"""The penalty that was tried on FAIAS, and the rule that chooses its settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.reproductions.faias_gain import associations, dependence, least_gap, penalised
from evenhand.fairlib.methods.faias.faias_classifier import FAIASClassifier


def test_dependence_by_hand() -> None:
    """Two rows of one label in each half: the covariance is a quarter of the product of the
    differences.
    """
    outputs = torch.tensor([[0.2, 0.8], [0.1, 0.9], [0.6, 0.4], [0.5, 0.5]], dtype=torch.float64)
    column = torch.tensor([[1.0], [0.0], [-1.0], [2.0]], dtype=torch.float64)
    labels = torch.zeros(4, dtype=torch.int64)
    # even rows: (.2 - .6) * 2 / 4; odd rows: (.1 - .5) * -2 / 4; both outputs have the same, with
    # other signs
    expected = 2 * (-0.4 * 2.0 / 4) * (-0.4 * -2.0 / 4)
    assert float(dependence(outputs, labels, column)) == pytest.approx(expected)
    # within labels that have one row in each half nothing varies, nor in a half without a row
    assert float(dependence(outputs, torch.tensor([0, 0, 1, 1]), column)) == 0.0
    assert float(dependence(outputs, torch.tensor([0, 1, 0, 1]), column)) == 0.0


def test_dependence_is_the_squared_covariance_on_average() -> None:
    draws = torch.Generator().manual_seed(0)
    found = []
    for _ in range(3000):
        column = torch.randn(24, 1, generator=draws, dtype=torch.float64)
        output = 0.3 * column[:, 0] + 0.2 * torch.randn(24, generator=draws, dtype=torch.float64)
        found.append(float(dependence(output[:, None], torch.zeros(24), column)))
    # of a half's covariance (n - 1) / n is left; the square of one estimate would be a tenth larger
    mean, error = np.mean(found), np.std(found) / np.sqrt(len(found))
    assert abs(mean - (0.3 * 11 / 12) ** 2) < 4 * error
    assert error < 0.003


@pytest.mark.long
def test_a_penalised_training_tells_less_of_the_group() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 600)
    X = np.stack([group, group + 0.5 * rng.normal(size=600), rng.normal(size=600)], 1).astype(
        np.float32
    )
    y = (X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=600) > 0.5).astype(int)
    gaps = []
    for weight in (0.0, 100.0):
        model = FAIASClassifier(
            hidden=(16,),
            n_epochs=20,
            learning_rate=0.01,
            initial_probability=1.0,
            sensitivity_weight=0.0,
            validation_share=0.0,
            random_state=0,
        )
        with penalised(weight):
            p = model.fit(X, y, sensitive_features=["x0"]).predict_proba(X)[:, 1]
        gaps.append(abs(p[(group == 1) & (y == 0)].mean() - p[(group == 0) & (y == 0)].mean()))
    assert gaps[1] < 0.5 * gaps[0]


def test_the_least_gap_at_nearly_the_first_ones_accuracy() -> None:
    rule = least_gap("gap", 0.01)
    means = [
        {"accuracy": 0.8, "gap": 0.0},
        {"accuracy": 0.795, "gap": 0.2},
        {"accuracy": 0.791, "gap": 0.1},
        {"accuracy": 0.78, "gap": 0.01},
    ]
    assert rule(means) == 2
    # none is near: the most accurate one
    assert rule([{"accuracy": 0.9, "gap": 0.0}, *means[1:]]) == 1


def test_associations_are_the_largest_correlations() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3)).astype(np.float32)
    X[:, 1] = 7.0
    expected = abs(np.corrcoef(X[:, 0], X[:, 2])[0, 1])
    found = associations(X, X[:, 2:])
    assert found == pytest.approx([expected, 0.0, 1.0], abs=1e-6)
